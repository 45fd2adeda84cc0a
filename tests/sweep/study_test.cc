// What a study file says, and what it may not say.
#include "sweep/study.h"

#include <gmock/gmock.h>

#include <set>

#include "nest/search.h"
#include "sweep/point.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Study study_of(const std::string& text) { return sweep::read_study(doc::parse_yaml("s.yaml", text), "s"); }

std::string study_refusal(const std::string& text) {
  return refusal_of([&] { study_of(text); });
}

std::vector<std::string> texts(const SweepAxis& axis) {
  std::vector<std::string> list;
  for (const SweepValue& value : axis.values) list.push_back(value.text);
  return list;
}

TEST(Study, AxesAreListsRangesAndSingleValues) {
  const Study study = study_of(R"(
study: abc
description: a word
model: llama3-8b
axes:
  devices: {from: 8, to: 100, times: 2}
  batch: {from: 16, to: 64, step: 16}
  cluster.spine.bandwidth: [50GB/s, 400Gbps]
  precision: fp8
)");
  EXPECT_EQ(study.name, "abc");
  ASSERT_EQ(study.axes.size(), 4U);
  EXPECT_THAT(texts(study.axes[0]), ElementsAre("8", "16", "32", "64"));
  EXPECT_EQ(study.axes[1].name, "global_batch");
  EXPECT_THAT(texts(study.axes[1]), ElementsAre("16", "32", "48", "64"));
  EXPECT_EQ(study.axes[2].values[0].number, 50e9);
  EXPECT_EQ(study.axes[2].values[1].number, 50e9);
  EXPECT_EQ(study.points.size(), 4U * 4U * 2U);
  // The last axis changes fastest: point 11 = ((1 * 4 + 1) * 2 + 1) * 1 + 0.
  EXPECT_THAT(study.choice(11), ElementsAre(1U, 1U, 1U, 0U));
  EXPECT_EQ(study.value(11, "devices")->text, "16");
  EXPECT_EQ(study.value(11, "model")->text, "llama3-8b");
  EXPECT_EQ(study.value(11, "seq"), nullptr);
}

TEST(Study, AxesAdvanceTogetherAndConditionsLeaveOut) {
  const Study study = study_of(R"(
max_devices: 64
axes:
  price: [2, 3, 2]
  devices: [32, 64, 128]
  cluster: [dgx-a100, dgx-h100, dgx-b200]
zip: [price, cluster]
where: [devices <= max_devices, cluster != dgx-a100, price < 3]
)");
  // Combinations are 3 pairs of price and cluster by 3 numbers of devices; the third pair and the first two remain.
  EXPECT_THAT(study.points, ElementsAre(6, 7));
  EXPECT_THAT(study.choice(7), ElementsAre(2U, 1U, 2U));
}

TEST(Study, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"model: llama3-8b", "s.yaml: axes: missing"},
      {"axes: {}", "axes: missing"},
      {"axes: {divices: [8]}", "s.yaml: axes: `divices` is nothing that a study can say; did you mean `devices`?"},
      {"modle: x\naxes: {devices: [8]}", "`modle` is nothing that a study can say; did you mean `model`?"},
      {"axes: {zzzzzz: [8]}", "cluster.LEVEL.KEY"},
      {"axes: {devices: []}", "an axis without values"},
      {"axes: {devices: [8, 8]}", "s.yaml: axes.devices: the value 8 is given twice"},
      {"axes: {devices: [0]}", "axes.devices: \"0\" is not a whole number in 1 … 16,777,216"},
      {"axes: {devices: [1.5]}", "axes.devices: \"1.5\" is not a whole number"},
      {"axes: {devices: [eight]}", "\"eight\" is not a whole number"},
      {"axes: {devices: [[8]]}", "expected a number or a word, found a list"},
      {"axes: {precision: [bf17]}", "axes.precision: \"bf17\" is not one of"},
      {"axes: {set.tp: [x]}", "tp"},
      {"axes: {set.tq: [8]}", "tq"},
      {"axes: {price: [-1]}", "\"-1\" is no positive number"},
      {"devices: 8\naxes: {devices: [8]}", "`devices` is given twice"},
      {"axes: {batch: [8], global_batch: [8]}", "`global_batch` is given twice"},
      {"devices: [8, 16]\naxes: {batch: [8]}", "several belong under `axes`"},
      {"axes: {devices: {from: 8, to: 4, times: 2}}", "from 8 to 4 holds nothing"},
      {"axes: {devices: {from: 8, to: 64}}", "`times` or `step`"},
      {"axes: {devices: {from: 1, to: 1000000000000, step: 1}}", "s.yaml: axes.devices: "},
      {"axes: {seq: {from: 1, to: 16000000, step: 1}}", "more than 1,000,000 points"},
      {"axes: {devices: {from: 1, to: 10000, step: 1}, seq: {from: 1, to: 10000, step: 1}, batch: {from: 1, to: 10000, "
       "step: 1}}",
       "s.yaml: axes: 1,000,000,000,000 points, more than 1,000,000"},
      {"axes: {devices: [8], batch: [1, 2]}\nzip: [devices, batch]", "have as many"},
      {"axes: {devices: [8], batch: [1]}\nzip: [devices, seq]", "`seq` is no axis of this study"},
      {"axes: {devices: [8], batch: [1]}\nzip: [devices, devices]", "stands here twice"},
      {"axes: {devices: [8]}\nwhere: [devices]", "compares nothing"},
      {"axes: {devices: [8]}\nwhere: [seq > 4]", "no axis or fixed value of this study: `seq`"},
      {"axes: {model: [llama3-8b]}\nwhere: [model > 4]", "compares what is no number"},
      {"axes: {devices: [8]}\nwhere: [devices > 8]", "leaves no point"},
      {"study: a b\naxes: {devices: [8]}", "`a b` names no table"},
      {"study: nest_times\naxes: {devices: [8]}", "names no table"},
      {"axes: {model: [\"-\"]}", "neither a name nor a file"},
      {"- 1", "expected an object"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_THAT(study_refusal(text), HasSubstr(wanted)) << text;
}

TEST(Study, DefinitionsTellWhatDiffers) {
  const std::string text = "model: llama3-8b\naxes: {devices: [8, 16], batch: [64]}";
  const std::vector<sweep::NamedHash> read = {{"model llama3-8b", 1}};
  const std::string one = sweep::definition_of(study_of(text), "1", read);
  EXPECT_EQ(sweep::difference(one, sweep::definition_of(study_of("description: other\n" + text), "1", read)), "");
  const auto differ = [&](const std::string& other, const std::string& version = "1",
                          std::vector<sweep::NamedHash> hashes = {{"model llama3-8b", 1}}) {
    return sweep::difference(one, sweep::definition_of(study_of(other), version, hashes));
  };
  EXPECT_EQ(differ("model: llama3-8b\naxes: {devices: [8, 32], batch: [64]}"), "its axes are others (devices)");
  EXPECT_EQ(differ("model: llama3-8b\naxes: {batch: [64], devices: [8, 16]}"), "its axes have another order");
  EXPECT_EQ(differ("model: llama3-70b\naxes: {devices: [8, 16], batch: [64]}"), "its fixed values are others (model)");
  EXPECT_EQ(differ(text, "2"), "it is of nest \"1\", this is \"2\"");
  EXPECT_EQ(differ(text, "1", {{"model llama3-8b", 2}}), "what was read has changed since (model llama3-8b)");
  EXPECT_EQ(differ(text + "\nwhere: [devices > 8]"), "`zip` or `where` are others");
  EXPECT_EQ(sweep::difference("no json", one), "what it holds cannot be read");
}

// Every key reaches the question, so that no axis is one in name only.
TEST(Study, EveryKeyCounts) {
  const Study study = study_of(R"(
axes:
  model: [llama3.2-1b]
  cluster: [dgx-a100]
  devices: [16]
  global_batch: [32]
  seq: [2048]
  encoder_seq: [512]
  mtp_layers: [1]
  freeze: [embedding]
  lora: ["rank=16,targets=q,v"]
  stack: [fsdp2]
  routing: [forced]
  precision: [fp8]
  optimizer: [sgd]
  optimizer_offload: [50]
  oom_risk: ["1%"]
  profile: [none.json]
  micro_batch: ["1,2"]
  target: [any]
  objective: [device-hours]
  offload: [never]
  judge: [formula]
  max_devices: [8]
  tie: [0]
  time_limit: [3]
  price: [2.5]
  tokens: [15T]
  set.tp: [1..4]
  set.zero: ["0,1"]
)");
  sweep::Questions questions(study);
  const sweep::PointQuestion point = questions.at(0);
  const Question& q = point.question;
  const SearchOptions& o = point.options;
  EXPECT_EQ(q.model.name, "llama3.2-1b");
  EXPECT_EQ(q.cluster.name, "dgx-a100");
  EXPECT_EQ(q.stack.name, "fsdp2");
  EXPECT_EQ(q.profile.name, "none.json");
  EXPECT_THAT((std::vector<std::int64_t>{q.devices, q.global_batch, q.seq, q.encoder_seq, q.mtp_layers,
                                         q.optimizer_offload, o.max_devices}),
              ElementsAre(16, 32, 2048, 512, 1, 50, 8));
  EXPECT_THAT((std::vector<std::string>{q.freeze, q.lora, q.routing, q.oom_risk, o.micro_batch, o.target}),
              ElementsAre("embedding", "rank=16,targets=q,v", "forced", "1%", "1,2", "any"));
  EXPECT_EQ(q.precision, Precision::fp8);
  EXPECT_EQ(q.optimizer, Optimizer::sgd);
  EXPECT_EQ(o.objective, PlanObjective::device_hours);
  EXPECT_EQ(o.offload, OffloadSearch::never);
  EXPECT_EQ(o.judge, PlanJudge::formula);
  EXPECT_EQ(o.tie_percent, 0);
  EXPECT_EQ(o.time_limit_s, 3);
  EXPECT_THAT(o.set, ElementsAre("tp=1..4", "zero=0,1"));
  EXPECT_EQ(point.price, 2.5);
  EXPECT_EQ(point.tokens, 15e12);
}

TEST(Study, PointsThatDifferInPriceShareASearch) {
  const Study study = study_of("axes: {price: [1, 2], devices: [8, 16], tokens: [1T, 2T]}");
  // Numbers are price * 4 + devices * 2 + tokens.
  EXPECT_THAT(sweep::group_points(study), ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
}

}  // namespace
}  // namespace nest::test
