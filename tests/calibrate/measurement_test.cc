#include "calibrate/measurement.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "calibrate/calibration.h"
#include "test_support/refusal.h"

namespace nest::calibrate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Measurements read(const std::string& text) { return read_measurements(doc::parse_json("mine.json", text)); }

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { read(text); });
}

TEST(Measurements, ReadsEveryKind) {
  const Measurements file = read(R"({"schema": "nest.measurements/1", "date": "2026-11-15", "device": {"name": "X"},
    "software": {"torch": "2.11"}, "protocol": {"timing": "queued", "repetitions": 12}, "entries": [
    {"kind": "gemm", "m": 1, "n": 2, "k": 3, "s": 1e-5, "host_s": 2e-5},
    {"kind": "gemm_grouped", "experts": 8, "rows": 16, "n": 2, "k": 3, "s": 1e-5},
    {"kind": "memop", "op": "rmsnorm", "rows": 4, "h": 8, "s": 1e-5},
    {"kind": "sdpa", "b": 1, "heads": 2, "kv": 2, "seq": 3, "hd": 4, "causal": false, "fwd": 1e-5, "bwd": 2e-5},
    {"kind": "sdpa_backend", "backend": "FLASH_ATTENTION", "b": 1, "heads": 2, "seq": 3, "hd": 4, "fwd": 1e-5, "bwd": 2e-5},
    {"kind": "layer", "model": "mine", "tp": 2, "seq": 64, "mbs": 3, "h": 4096, "heads": 32, "kv": 1, "ffn": 128,
     "gated": true, "causal": true, "fwd": 1e-3, "fwd_bwd": 3e-3, "host_fwd": 1e-4},
    {"kind": "sustained_gemm", "last_tflops": 650.0}, {"kind": "something_new", "x": 1}]})");
  ASSERT_EQ(file.rows.size(), 10u);
  EXPECT_EQ(file.left_out, 1u);
  EXPECT_EQ(file.device, "X");
  EXPECT_EQ(file.rows[0].gemm.k, 3);
  EXPECT_TRUE(file.rows[0].queued);
  EXPECT_EQ(file.rows[0].repetitions, 12);
  EXPECT_EQ(file.rows[1].gemm.groups, 8);
  EXPECT_FALSE(file.rows[3].attention.causal);
  EXPECT_TRUE(file.rows[4].attention.backward);
  EXPECT_TRUE(file.rows[5].attention.flash2 && file.rows[5].attention.causal);
  EXPECT_EQ(file.rows[7].block.heads, 16);
  EXPECT_EQ(file.rows[7].block.kv_heads, 1);
  EXPECT_EQ(file.rows[7].block.ffn, 64);
  EXPECT_EQ(file.rows[9].kind, MeasuredKind::host_forward);
  EXPECT_EQ(file.sustained_flops_per_s, std::vector<double>{650e12});
}

TEST(Measurements, ReadsPlainListsAndNamedModels) {
  const Measurements file = read(R"([{"kind": "device", "name": "Y"},
    {"kind": "layer", "model": "llama3_8b", "tp": 4, "seq": 2048, "mbs": 1, "fwd": 1e-3, "fwd_bwd": 3e-3}])");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_FALSE(file.rows[0].queued);
  EXPECT_EQ(file.rows[0].block.heads, 8);
  EXPECT_EQ(file.rows[0].block.kv_heads, 2);
  EXPECT_EQ(file.rows[0].block.ffn, 3584);
  EXPECT_EQ(file.device, "Y");
}

TEST(Measurements, RefusalsNameFileKeyAndValue) {
  EXPECT_THAT(refusal(R"({"schema": "nest.plan/1", "entries": []})"),
              AllOf(HasSubstr("mine.json"), HasSubstr("schema"), HasSubstr("nest.plan/1")));
  EXPECT_THAT(refusal(R"({"entries": []})"), HasSubstr("schema"));
  EXPECT_THAT(
      refusal(R"({"schema": "nest.measurements/1", "entries": [{"kind": "gemm", "m": 1, "n": 2, "k": -3, "s": 1}]})"),
      AllOf(HasSubstr("mine.json"), HasSubstr("entries[0].k"), HasSubstr("-3")));
  EXPECT_THAT(refusal(R"([{"kind": "gemm", "m": 1, "n": 2, "k": 3, "s": "fast"}])"),
              AllOf(HasSubstr("mine.json"), HasSubstr("s"), HasSubstr("fast")));
  EXPECT_THAT(refusal(R"([{"kind": "gemm", "m": 1, "n": 2, "k": 3}])"), HasSubstr("s"));
  EXPECT_THAT(
      refusal(R"([{"kind": "layer", "model": "llama3-8b", "tp": 3, "seq": 1, "mbs": 1, "fwd": 1, "fwd_bwd": 1}])"),
      AllOf(HasSubstr("tp"), HasSubstr("32 heads")));
  EXPECT_THAT(refusal(R"({"schema": "nest.measurements/1", "protocol": {"timing": "guessed"}, "entries": []})"),
              AllOf(HasSubstr("protocol.timing"), HasSubstr("guessed"), HasSubstr("queued")));
}

TEST(Calibrate, RefusesWhatItCannotUse) {
  const cluster::Device h200 = *cluster::find_device("h200");
  const std::vector<Document> empty = {doc::parse_json("empty.json", "[]")};
  EXPECT_THROW(calibrate(h200, empty), InputError);
  cluster::Device none = h200;
  none.multiprocessors = 0;
  const std::vector<Document> one = {
      doc::parse_json("one.json", R"([{"kind": "gemm", "m": 1, "n": 2, "k": 3, "s": 1}])")};
  EXPECT_THROW(calibrate(none, one), InputError);
}

}  // namespace
}  // namespace nest::calibrate
