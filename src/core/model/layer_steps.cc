#include "model/layer_steps.h"

namespace nest::model {
namespace {

class StepLayer {
 public:
  StepLayer(const Architecture& arch, const Implementation& implementation, const Tower& tower,
            const std::vector<Step>& steps, std::string name)
      : steps_(steps),
        tower_(tower),
        rows_(tower.media->rows),
        b_(arch, implementation, LayerKind::norm, std::move(name), false, {stream_of(arch, tower).hidden}) {}

  // Rows of `width` elements before the first step; the projector reads the stream after the tower's last norm.
  // `before`: the tower whose output a stem reads.
  Layer build(std::int64_t width, bool projector, const Tower* before = nullptr) {
    if (before != nullptr) rows_ = before->media->rows;
    x_ = tensor(projector || before != nullptr ? "input" : "picture or sound", width);
    if (projector || before != nullptr) b_.layer().input = x_;
    if (projector && tower_.final_norm) {
      x_ = b_.norm("final norm", x_, tower_.final_norm_kind, tower_.final_norm_weight, tower_.final_norm_bias,
                   "final.norm");
      resize(x_);
    }
    for (const Step& step : steps_) add(step);
    b_.layer().output = x_;
    return b_.take();
  }

 private:
  TensorId resize(TensorId id) {
    Tensor& tensor = b_.layer().tensors[static_cast<std::size_t>(id)];
    tensor.rows = Rows::samples;
    tensor.rows_per_unit = rows_ * tower_.media->each;
    return id;
  }
  TensorId tensor(const std::string& name, std::int64_t width) { return resize(b_.tensor(name, {{width}})); }

  TensorId linear(const std::string& name, TensorId from, std::int64_t in, std::int64_t out, bool bias) {
    std::vector<Weight> weights = {matrix("media." + name, {{out}, {in}})};
    if (bias) weights.push_back(matrix("media." + name + "_bias", {{out}}));
    const std::int64_t row = row_elements(b_.layer().tensors[static_cast<std::size_t>(from)]);
    const TensorId to = b_.matmul(name, Module::other, from, {tensor(name + " out", out)}, std::move(weights));
    // A convolution, or rows that are joined before they are projected: the contraction is longer than a row.
    b_.layer().operators.back().taps = static_cast<double>(in) / static_cast<double>(row);
    return to;
  }

  void add(const Step& step) {
    if (step.rows > 0) rows_ = step.rows;
    const std::string name = step.name.empty() ? "projection" : step.name;
    switch (step.kind) {
      case StepKind::linear: x_ = linear(name, x_, step.in, step.out, step.bias); break;
      case StepKind::norm: {
        const TensorId in = x_;
        x_ = b_.norm(name, in, step.norm, step.weight, step.weight && step.norm == NormKind::layer, "media.norm");
        for (Weight& weight : b_.layer().operators.back().weights) weight.shape = {{step.in}};
        for (std::size_t id = static_cast<std::size_t>(in); id < b_.layer().tensors.size(); ++id)
          resize(static_cast<TensorId>(id));
        break;
      }
      case StepKind::activation: {
        const TensorId out = tensor(name + " out", row_elements(b_.layer().tensors[static_cast<std::size_t>(x_)]));
        b_.add_operator(OperatorKind::elementwise, name, Module::activation, {x_}, {out}, {x_});
        x_ = out;
        break;
      }
      case StepKind::gated: {
        const TensorId gate = linear(name + " gate", x_, step.in, step.width, false);
        const TensorId up = linear(name + " up", x_, step.in, step.width, false);
        const TensorId product = tensor(name + " product", step.width);
        b_.add_operator(OperatorKind::elementwise, name + " product", Module::activation, {gate, up}, {product},
                        {gate, up});
        x_ = linear(name + " down", product, step.width, step.out, false);
        break;
      }
      case StepKind::table: {
        const TensorId sum = tensor(name + " out", row_elements(b_.layer().tensors[static_cast<std::size_t>(x_)]));
        b_.add_operator(OperatorKind::add, name, Module::other, {x_}, {sum}, {});
        b_.layer().operators.back().weights = {matrix("media.positions", {{step.in}, {step.out}})};
        x_ = sum;
        break;
      }
      case StepKind::join: {
        const TensorId joined = tensor(name + " out", step.out);
        b_.add_operator(OperatorKind::copy, name, Module::other, {x_}, {joined}, {});
        x_ = joined;
        break;
      }
      case StepKind::unused: b_.layer().operators.back().weights.push_back(matrix("spare.media", {{step.in}})); break;
    }
  }

  const std::vector<Step>& steps_;
  const Tower& tower_;
  double rows_;
  LayerBuilder b_;
  TensorId x_ = -1;
};

}  // namespace

Stream stream_of(const Architecture& arch, const Tower& tower) {
  const std::int64_t hidden = tower.hidden > 0 ? tower.hidden : arch.hidden;
  return tower.media ? Stream{hidden, tower.media->rows, tower.media->each} : Stream{hidden};
}

Layer build_stem(const Architecture& arch, const Implementation& implementation, const Tower& tower) {
  const std::vector<Step>& steps = tower.media->stem;
  StepLayer layer(arch, implementation, tower, steps, tower.name + " stem");
  if (!tower.media->follows) return layer.build(steps.front().in, false);
  const Tower& before = *(&tower - 1);  // towers stand in a row
  return layer.build(before.hidden, false, &before);
}

Layer build_projector(const Architecture& arch, const Implementation& implementation, const Tower& tower) {
  return StepLayer(arch, implementation, tower, tower.media->projector, tower.name + " projector")
      .build(stream_of(arch, tower).hidden, true);
}

}  // namespace nest::model
