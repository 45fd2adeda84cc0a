// What the memory of stages needs to know of a model's layers, for one split and micro-batch size: every kind of layer
// looked at once. Internal to memory*.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "cost/job.h"
#include "cost/layer_price.h"
#include "cost/memory_parts.h"
#include "plan/plan.h"

namespace nest::cost {

struct KindMemory {
  LayerPrice price;
  bool block = false;
  bool head = false;
  bool experts = false;
  double element_bytes = 2;
  double stream_bytes = 0;
  double whole_bytes = 0;
  double head_parameters = 0;
  double feed_forward_parameters = 0;
  double embedding_parameters = 0;
  double plain_parameters = 0;  // dense ones that are no weights of a product in the job's precision
  double frozen_plain = 0;      // the same of those that are not trained
  double rest_parameters = 0;   // dense ones that are no matrices of blocks (cost/muon.h)
  double rotary_bytes = 0;
  double encoder_bytes = 0;
  std::vector<std::size_t> shapes;  // of its linears, as indices of MemoryKinds::shape_elements
  struct Tied {
    std::size_t weight;  // the same number in every layer that shares it
    std::int64_t elements;
    bool frozen;
  };
  std::vector<Tied> tied;
};

class MemoryKinds {
 public:
  MemoryKinds(const Job& job, const Split& split, std::int64_t micro_batch, Treatments treatments);

  const Treatments& treatments() const { return treatments_; }

  const KindMemory& of_layer(int layer) const { return kinds_[at(job_->model.layers[at(layer)])]; }
  // One buffer per distinct shape of the linears of a stage.
  double weight_buffers(const StagePlan& stage, double element_bytes) const;
  // Elements of tied weights that an earlier layer holds: trained, and not.
  double shared_parameters() const { return shared_; }
  double shared_frozen() const { return shared_frozen_; }
  std::size_t tied_weights() const { return tied_weights_; }
  double logits() const { return logits_; }  // of one micro-batch

 private:
  const Job* job_;
  Treatments treatments_;
  std::vector<KindMemory> kinds_;
  std::vector<double> shape_elements_;
  std::size_t tied_weights_ = 0;
  double logits_ = 0;
  double shared_ = 0, shared_frozen_ = 0;
};

}  // namespace nest::cost
