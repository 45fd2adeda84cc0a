// Documents with some of their keys changed.
#include "sweep/variant.h"

#include <gmock/gmock.h>

#include "cluster/cluster.h"
#include "cost/stack.h"
#include "load/catalogue.h"
#include "nest/job.h"
#include "nest/show.h"
#include "sweep/point.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;

sweep::Change change(const std::string& path, const std::string& text) { return {path, {text, std::nullopt, false}}; }
sweep::Change change(const std::string& path, double number) {
  return {path, {std::to_string(static_cast<std::int64_t>(number)), number, true}};
}

cluster::Cluster read(const Input& input) {
  return cluster::read_cluster(doc::parse_yaml(input.name, *input.text), "x");
}

TEST(Variant, LevelsOfAClusterByNameAndNumber) {
  const cluster::Cluster before = *cluster::find_cluster("dgx-h100");
  const cluster::Cluster after = read(sweep::changed_cluster(
      "dgx-h100", {change("unit.bandwidth", "100GB/s"), change("1.group", 16), change("pod.oversubscription", 4)}, {}));
  EXPECT_EQ(after.levels[0].group, 16);
  EXPECT_EQ(after.levels[1].bandwidth_bytes_per_s, 100e9);
  EXPECT_EQ(after.levels[1].efficiency, before.levels[1].efficiency);
  EXPECT_EQ(after.levels[2].oversubscription, 4);
  EXPECT_EQ(after.device.memory_bytes, before.device.memory_bytes);
  EXPECT_EQ(after.name, "dgx-h100+unit.bandwidth=100GB/s+1.group=16+pod.oversubscription=4");
}

TEST(Variant, DevicesKeepWhatIsNotChanged) {
  const cluster::Cluster before = *cluster::find_cluster("dgx-h100");
  const cluster::Cluster after =
      read(sweep::changed_cluster("dgx-h100", {}, {change("memory", "141GiB"), change("peak.bf16", "2PFLOPS")}));
  EXPECT_EQ(after.device.memory_bytes, std::int64_t{141} << 30);
  EXPECT_EQ(after.device.peak(Precision::bf16), 2e15);
  EXPECT_EQ(after.device.peak(Precision::fp8), before.device.peak(Precision::fp8));
  EXPECT_EQ(after.device.efficiency, before.device.efficiency);
  EXPECT_EQ(after.device.name, "h100+memory=141GiB+peak.bf16=2PFLOPS");
}

TEST(Variant, DomainsOfRacksMayGrow) {
  for (const char* name : {"gb200-nvl72", "dgx-b200"}) {
    const cluster::Cluster after = read(sweep::changed_cluster(name, {change("1.group", 144)}, {}));
    EXPECT_EQ(after.levels[0].group, 144) << name;
    EXPECT_EQ(cluster::resized(after, 576).devices, 576) << name;
  }
}

TEST(Variant, ModelsByTheirOwnWordsForExperts) {
  for (const auto& [name, key] : {std::pair{"mixtral-8x7b", "num_local_experts"},
                                  {"deepseek-v3", "n_routed_experts"},
                                  {"qwen3-30b-a3b", "num_experts"}}) {
    const Input input = sweep::changed_model(name, {change("experts", 32)});
    EXPECT_THAT(*input.text, HasSubstr(std::string("\"") + key + "\": 32")) << name;
    EXPECT_EQ(load::load_model(input).architecture.document.empty(), false);
  }
  // Of Mixtral's 46.7 B, twice the experts are 45.1 B more: 32 layers x 8 experts x 3 x 4,096 x 14,336, and the router.
  Question question;
  question.model = sweep::changed_model("mixtral-8x7b", {change("experts", 16)});
  question.devices = 64;
  const std::int64_t more = 32LL * (8LL * 3 * 4096 * 14336 + 8LL * 4096);
  ShowOptions options;
  const Shown shown = show(question.model, options);
  EXPECT_THAT(to_json(shown), HasSubstr("\"total\": " + std::to_string(46702792704 + more)));
}

TEST(Variant, StacksChange) {
  const Input input = sweep::changed_stack("megatron-core", {{"memory_margin", {"0.1", 0.1, true}}});
  EXPECT_EQ(cost::read_stack(doc::parse_yaml(input.name, *input.text), "x").name, "megatron-core+memory_margin=0.1");
}

TEST(Variant, SaysWhatCannotBeChanged) {
  const auto cluster = [](const char* name, const sweep::Change& one) {
    return refusal_of([&] { read(sweep::changed_cluster(name, {one}, {})); });
  };
  const auto device = [](const sweep::Change& one) {
    return refusal_of([&] { read(sweep::changed_cluster("dgx-h100", {}, {one})); });
  };
  const auto model = [](const char* name, const sweep::Change& one) {
    return refusal_of([&] { load::load_model(sweep::changed_model(name, {one})); });
  };
  EXPECT_THAT(cluster("dgx-h100", change("spine.bandwidth", "1GB/s")),
              HasSubstr("dgx-h100 has no level or key `spine`; its levels are node, unit and pod"));
  EXPECT_THAT(cluster("dgx-h100", change("4.bandwidth", "1GB/s")), HasSubstr("has no level or key `4`"));
  EXPECT_THAT(cluster("dgx-h100", change("unit.bandwith", "1GB/s")), HasSubstr("bandwith"));
  EXPECT_THAT(cluster("dgx-h100", change("unit.bandwidth", "fast")), HasSubstr("fast"));
  EXPECT_THAT(cluster("dgx-h1000", change("unit.bandwidth", "1GB/s")), HasSubstr("dgx-h1000"));
  EXPECT_THAT(device(change("memori", "1GiB")), HasSubstr("memori"));
  EXPECT_THAT(device(change("paek.bf16", "1PFLOPS")), HasSubstr("there is no `paek`"));
  EXPECT_THAT(model("llama3-8b", change("experts", 8)), HasSubstr("experts: Llama 3 8B has none"));
  EXPECT_THAT(model("llama3-8b", change("num_hiden_layers", 8)), HasSubstr("did you mean `num_hidden_layers`?"));
  EXPECT_THAT(refusal_of([] { sweep::changed_stack(Input(), {change("memory_margin", "0.1")}); }),
              HasSubstr("which stack?"));
}

}  // namespace
}  // namespace nest::test
