// Every model type of transformers that the measurements hold: families that nest knows have the right number of
// parameters, all others are refused with the way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "base/error.h"
#include "config_support.h"
#include "test_support/data.h"

namespace nest::model {
namespace {

// Parameters from the decoder's embedding on, for classes that leave the encoder out.
std::int64_t decoder_parameters(const Model& model) {
  Model decoder = model;
  const auto first = std::find_if(decoder.layers.begin(), decoder.layers.end(), [&](int kind) {
    return model.kinds[static_cast<std::size_t>(kind)].kind == LayerKind::embedding;
  });
  decoder.layers.erase(decoder.layers.begin(), first);
  return count_parameters(decoder).total;
}

// The least number of types of the measurements that are known by themselves.
constexpr int kKnownTypes = 113;

TEST(AllTypes, AreExactOrRefusedWithTheWayOut) {
  NEST_REQUIRE_DATA("h200/all_types.json");
  const Document document = test::read_json(test::data_dir() / "h200/all_types.json");
  ASSERT_TRUE(document.root().as_array());
  const auto families = supported_families();
  const std::set<std::string> known(families.begin(), families.end());
  int native = 0, rows = 0;
  for (const doc::Value& entry : *document.root().as_array()) {
    const doc::Object& row = *entry.as_object();
    const std::string& type = *row.find("type")->as_string();
    const std::string& kind = *row.find("kind")->as_string();
    SCOPED_TRACE(kind + " " + type);
    ++rows;
    const Document config{document.source, *row.find("config")};
    std::string refusal;
    try {
      const Model model = build_model(read_config(config, type));
      const bool decoder_alone = type == "whisper" && kind == "causal";
      const std::int64_t count = decoder_alone ? decoder_parameters(model) : count_parameters(model).total;
      EXPECT_EQ(count, *row.find("params")->as_integer()) << count - *row.find("params")->as_integer();
      ++native;
    } catch (const InputError& error) {
      refusal = error.what();
    }
    if (!refusal.empty()) {
      EXPECT_FALSE(known.contains(type)) << refusal;
      EXPECT_THAT(refusal, testing::HasSubstr("python -m nest.trace config.json -o graph.json"));
    }
  }
  std::cout << native << " of " << rows << " types are known by themselves\n";
  EXPECT_GE(native, kKnownTypes);
}

}  // namespace
}  // namespace nest::model
