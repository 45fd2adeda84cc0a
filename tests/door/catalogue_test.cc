// What nest knows, imports and calibrations, asked through the front door alone.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "nest/error.h"
#include "nest/import.h"
#include "nest/instance.h"
#include "nest/show.h"

namespace nest {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

template <class Call>
InputError refused(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error;
  }
  return InputError("nothing was refused");
}

constexpr const char* kConfig =
    R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
        "num_attention_heads": 8, "vocab_size": 32000})";

TEST(Show, ListsAndThings) {
  EXPECT_THAT(list_names(), Contains("stacks"));
  const json models = json::parse(to_json(show("models")));
  EXPECT_EQ(models.at("schema"), "nest.show.models/1");
  EXPECT_GT(models.at("models").size(), 20U);
  EXPECT_THAT(to_text(show("dgx-h100", {.devices = 64})), HasSubstr("64 x NVIDIA H100"));
  EXPECT_EQ(json::parse(to_json(show("llama3-8b"))).at("parameters").at("total"), 8030261248);
}

TEST(Show, TextInMemoryIsNeverLookedUp) {
  // 2 V h + L (4 h^2 + 3 h f + 2 h) + h
  const std::int64_t expected = 2 * 32000 * 1024 + 4 * (4 * 1024 * 1024 + 3 * 1024 * 2816 + 2 * 1024) + 1024;
  for (const char* name : {"config.json", "llama3-8b", "nowhere/x.json"}) {
    const json shown = json::parse(to_json(show(Input::memory(name, kConfig), {.seq = 1024})));
    EXPECT_EQ(shown.at("parameters").at("total"), expected) << name;
  }
  EXPECT_THAT(refused([] { show(Input::memory("mine.json", "{")); }).what(), StartsWith("mine.json"));
}

TEST(Show, OptionsAreRefusedByTheirNames) {
  const InputError for_models = refused([] { show("h100", {.micro_batch = 2}); });
  EXPECT_STREQ(for_models.what(), "micro_batch: is for models only");
  EXPECT_EQ(flag_options(for_models.marked()), "--micro-batch: is for models only");
  EXPECT_THAT(refused([] { show("llama3-8b", {.kernels = "megatorn"}); }).what(),
              HasSubstr("kernels: \"megatorn\" is not one of megatron, plain, huggingface or torchtitan"));
  EXPECT_THAT(refused([] { show("llama3-8b", {.tp = 0}); }).what(),
              HasSubstr("tp: \"0\" is not a whole number in 1 … 65,536"));
  EXPECT_THAT(refused([] { show("lama3-8b"); }).what(), HasSubstr("did you mean `llama3-8b`"));
}

TEST(Import, SaysWhatIsMissingThenMakesAFile) {
  ImportQuestion question;
  question.files = {Input::memory("topology.conf", "SwitchName=leaf1 Nodes=n[1-4]\n")};
  const ClusterImport asked = import_cluster(question);
  ASSERT_EQ(asked.missing.size(), 3U);
  EXPECT_EQ(asked.missing[2].option, "bandwidth");
  EXPECT_EQ(asked.missing[2].prefix, "leaf=");
  question.device = "h100";
  question.devices_per_node = {"8"};
  question.bandwidth = {"leaf=400Gbps"};
  const ClusterImport imported = import_cluster(question);
  EXPECT_TRUE(imported.missing.empty());
  EXPECT_EQ(json::parse(to_json(show(Input::memory("mine.yaml", imported.yaml)))).at("devices"), 32);
  EXPECT_THAT(to_text(imported), HasSubstr("50.0 GB/s, links of one node into its leaf; given"));
  question.bandwidth = {"laef=1GB/s"};
  EXPECT_THAT(refused([&] { import_cluster(question); }).what(), StartsWith("bandwidth: there is no level `laef`"));
}

TEST(Instance, ThatIsNoneIsRefused) {
  EXPECT_THAT(refused([] { plan_instance(Input::memory("profile.json", "[]")); }).what(), StartsWith("profile.json"));
}

}  // namespace
}  // namespace nest
