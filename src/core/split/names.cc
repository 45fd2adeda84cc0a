#include "split/local_layer.h"

namespace nest::split {

const char* to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all-reduce";
    case CollectiveKind::all_gather: return "all-gather";
    case CollectiveKind::reduce_scatter: return "reduce-scatter";
    case CollectiveKind::all_to_all: return "all-to-all";
    case CollectiveKind::ring_exchange: return "ring exchange";
  }
  return "?";
}

const char* to_string(Group group) {
  switch (group) {
    case Group::tensor: return "tensor";
    case Group::context: return "context";
    case Group::expert: return "expert";
    case Group::expert_tensor: return "expert tensor";
  }
  return "?";
}

}  // namespace nest::split
