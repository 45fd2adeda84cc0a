#include "calibrate/predict.h"

namespace nest::calibrate {

double predict_burst(const BurstModel& model, const Measurement& row) {
  const Protocol protocol{.queued = row.queued, .repetitions = row.repetitions};
  switch (row.kind) {
    case MeasuredKind::gemm:
    case MeasuredKind::gemm_fp8:
    case MeasuredKind::gemm_grouped: return model.gemm(row.gemm, protocol);
    case MeasuredKind::rowwise: return model.rowwise(row.rowwise, protocol);
    case MeasuredKind::attention_forward:
    case MeasuredKind::attention_backward:
    case MeasuredKind::flash2_forward:
    case MeasuredKind::flash2_backward: return model.attention(row.attention, protocol);
    case MeasuredKind::layer_forward:
    case MeasuredKind::small_layer_forward: return model.block_forward(row.block, protocol);
    case MeasuredKind::layer_both:
    case MeasuredKind::small_layer_both: return model.block_both(row.block, protocol);
    case MeasuredKind::host_forward: return model.host_forward(row.block);
    case MeasuredKind::host_both: return model.host_both(row.block);
  }
  return 0;
}

}  // namespace nest::calibrate
