#include "calibrate/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/layout.h"
#include "calibrate/calibration.h"
#include "calibrate/device_yaml.h"
#include "calibrate/predict.h"
#include "test_support/data.h"

namespace nest::calibrate {
namespace {

using C = BurstConstant;

const cluster::Device& h200() {
  static const cluster::Device device = *cluster::find_device("h200");
  return device;
}

Measurements shipped() {
  return read_measurements(test::read_json(test::source_dir() / "data/measurements/h200.json"));
}

const KindError& of(const std::vector<KindError>& errors, MeasuredKind kind) {
  for (const KindError& error : errors) {
    if (error.kind == kind) return error;
  }
  throw std::runtime_error(std::string("no rows of kind ") + to_string(kind));
}

// Rows of the shipped file, with times that known constants produce and `noise` of scatter.
std::vector<Measurement> synthetic(const BurstConstants& truth, double noise) {
  std::vector<Measurement> rows = shipped().rows;
  const BurstModel model(h200(), truth);
  std::mt19937 random(7);
  std::normal_distribution<double> scatter(0, 1);
  for (Measurement& row : rows) row.seconds = predict_burst(model, row) * std::exp(noise * scatter(random));
  return rows;
}

TEST(Fit, RecoversKnownConstants) {
  const BurstConstants start = burst_constants(h200());
  BurstConstants truth = start;
  truth[C::memory] = 0.75;
  truth[C::gemm] = 0.7;
  truth[C::k_ramp] = 320;
  truth[C::attention_forward] = 0.5;
  truth[C::attention_backward] = 0.55;
  truth[C::rmsnorm] = 4.4;
  truth[C::grouped_memory] = 0.55;
  truth[C::gemm_fp8] = 0.6;
  truth[C::host_backward_us] = 90;
  for (const double noise : {0.0, 0.02}) {
    const BurstConstants found = fit_burst(h200(), start, synthetic(truth, noise));
    const double allowed = noise == 0 ? 0.01 : 0.04;
    for (const C constant : {C::memory, C::gemm, C::attention_forward, C::attention_backward, C::rmsnorm,
                             C::grouped_memory, C::gemm_fp8, C::host_backward_us}) {
      EXPECT_NEAR(found[constant] / truth[constant], 1, allowed) << info(constant).name << " noise " << noise;
    }
    EXPECT_NEAR(found[C::k_ramp] / truth[C::k_ramp], 1, noise == 0 ? 0.03 : 0.3) << "noise " << noise;
  }
}

TEST(Fit, KeepsWhatNothingMeasures) {
  std::vector<Measurement> rows = shipped().rows;
  std::erase_if(rows, [](const Measurement& row) { return row.kind != MeasuredKind::gemm; });
  BurstConstants start = burst_constants(h200());
  start[C::gemm] = 0.5;
  const BurstFit fit = calibrate_burst(h200(), start, rows);
  for (const FittedConstant& constant : fit.fitted) {
    if (constant.measured) continue;
    EXPECT_EQ(constant.after, constant.before) << info(constant.constant).name;
    EXPECT_NE(constant.constant, C::gemm);
  }
  EXPECT_NEAR(fit.constants[C::gemm], 0.864, 0.02);
  EXPECT_EQ(fit.constants[C::launch_gemm_us], start[C::launch_gemm_us]);  // queued rows never wait for the host
}

TEST(Fit, IsDeterministic) {
  const std::vector<Measurement> rows = shipped().rows;
  const BurstConstants start = burst_constants(h200());
  EXPECT_EQ(fit_burst(h200(), start, rows).values, fit_burst(h200(), start, rows).values);
}

// The constants in the program are those that the shipped measurements give.
TEST(ShippedCalibration, IsReproducible) {
  const BurstFit fit = calibrate_burst(h200(), burst_constants(h200()), shipped().rows);
  for (const FittedConstant& constant : fit.fitted) {
    if (!constant.determined) continue;
    EXPECT_NEAR(constant.after / constant.before, 1, 0.02) << info(constant.constant).name;
  }
  EXPECT_LT(of(fit.after, MeasuredKind::gemm).mean, 0.035);
  EXPECT_LT(of(fit.after, MeasuredKind::gemm_fp8).mean, 0.02);
  EXPECT_LT(of(fit.after, MeasuredKind::gemm_grouped).mean, 0.04);
  EXPECT_LT(of(fit.after, MeasuredKind::rowwise).mean, 0.05);
  EXPECT_LT(of(fit.after, MeasuredKind::attention_forward).mean, 0.03);
  EXPECT_LT(of(fit.after, MeasuredKind::attention_backward).mean, 0.03);
  EXPECT_LT(of(fit.after, MeasuredKind::layer_forward).mean, 0.03);
  EXPECT_LT(of(fit.after, MeasuredKind::layer_both).mean, 0.03);
  EXPECT_LT(of(fit.unseen, MeasuredKind::layer_both).mean, 0.035);
}

// From other starting points too, where the data determine a constant well.
TEST(ShippedCalibration, DoesNotDependOnTheStart) {
  const BurstConstants start = burst_constants(h200());
  BurstConstants moved = start;
  for (std::size_t i = 0; i < kBurstConstants; ++i) moved.values[i] *= i % 2 == 0 ? 0.85 : 1.15;
  const BurstFit fit = calibrate_burst(h200(), moved, shipped().rows);
  int checked = 0;
  for (const FittedConstant& constant : fit.fitted) {
    if (constant.sensitivity < 0.01 || !constant.measured) continue;
    EXPECT_NEAR(constant.after / start[constant.constant], 1, 0.06) << info(constant.constant).name;
    ++checked;
  }
  EXPECT_GE(checked, 12);
}

// Another H200, other people's shapes, single calls on an idle device. The device's constants come from the shipped
// file; only the launch constants, which that file cannot determine, were taken from such rows.
TEST(ShippedCalibration, PredictsOtherMeasurements) {
  NEST_REQUIRE_DATA("h200/ops.json");
  std::vector<Measurement> rows;
  for (const char* file : {"h200/ops.json", "h200/ops2.json", "h200/layers.json"}) {
    const Measurements read = read_measurements(test::read_json(test::data_dir() / file));
    rows.insert(rows.end(), read.rows.begin(), read.rows.end());
  }
  const auto errors = errors_by_kind(h200(), burst_constants(h200()), rows);
  EXPECT_LT(of(errors, MeasuredKind::gemm).mean, 0.035);
  EXPECT_LT(of(errors, MeasuredKind::gemm_fp8).mean, 0.04);
  EXPECT_LT(of(errors, MeasuredKind::gemm_grouped).mean, 0.04);
  EXPECT_LT(of(errors, MeasuredKind::rowwise).mean, 0.04);
  EXPECT_LT(of(errors, MeasuredKind::attention_forward).mean, 0.065);
  EXPECT_LT(of(errors, MeasuredKind::attention_forward).median, 0.04);
  EXPECT_LT(of(errors, MeasuredKind::attention_backward).mean, 0.075);
  EXPECT_LT(of(errors, MeasuredKind::layer_forward).mean, 0.045);
  EXPECT_LT(of(errors, MeasuredKind::layer_both).mean, 0.045);
}

TEST(DeviceYaml, ReadsBack) {
  const Document document = test::read_json(test::source_dir() / "data/measurements/h200.json");
  Calibration result = calibrate(h200(), std::span(&document, 1));
  result.after.description = "a \"quoted\": name # with marks";
  const cluster::Device read = cluster::read_device(doc::parse_yaml("mine.yaml", device_yaml(result.after)), "other");
  EXPECT_EQ(read.name, result.after.name);
  EXPECT_EQ(read.description, result.after.description);
  EXPECT_EQ(read.source, result.after.source);
  EXPECT_EQ(read.family, "hopper") << "decides which stack is assumed";
  EXPECT_EQ(read.calibrated_on(), "NVIDIA H200, torch 2.11.0+cu130, 2026-11-15");
  EXPECT_EQ(h200().calibrated_on(), "");
  EXPECT_EQ(read.memory_bytes, result.after.memory_bytes);
  EXPECT_EQ(read.multiprocessors, result.after.multiprocessors);
  EXPECT_DOUBLE_EQ(read.memory_bytes_per_s, result.after.memory_bytes_per_s);
  EXPECT_DOUBLE_EQ(read.link_bytes_per_s, result.after.link_bytes_per_s);
  for (std::size_t i = 0; i < cluster::kDevicePrecisions.size(); ++i) {
    EXPECT_NEAR(read.peak_flops_per_s[i], result.after.peak_flops_per_s[i], 1e-9 * result.after.peak_flops_per_s[i]);
  }
  ASSERT_EQ(read.efficiency.size(), result.after.efficiency.size());
  for (const auto& [name, value] : result.after.efficiency) {
    EXPECT_NEAR(read.efficiency.at(name), value, 1e-4 * value) << name;
  }
  const BurstConstants constants = burst_constants(read);
  for (std::size_t i = 0; i < kBurstConstants; ++i) {
    EXPECT_NEAR(constants.values[i], result.fit.constants.values[i], 1e-4 * result.fit.constants.values[i]);
  }
  EXPECT_NEAR(read.efficiency.at("gemm_bf16"), 0.668,
              0.001);  // mean of three sustained loops: 653.6, 659.8, 669.6 TFLOP/s
}

TEST(Report, FitsTheLine) {
  const Document document = test::read_json(test::source_dir() / "data/measurements/h200.json");
  const Calibration result = calibrate(h200(), std::span(&document, 1));
  const std::string text = calibration_text(result, Style(false));
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    EXPECT_LE(display_width(std::string_view(text).substr(begin, end - begin)), kLineWidth);
    begin = end + 1;
  }
  const report::Json json = calibration_json(result);
  EXPECT_EQ(json["schema"], "nest.calibration/1");
  EXPECT_EQ(json["constants"].size(), kBurstConstants);
}

}  // namespace
}  // namespace nest::calibrate
