// The table of a plan's dimensions: every row is read, written and limited under its name, and documented.
#include "plan/dimensions.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "plan/plan_json.h"
#include "plan/strategy_text.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

// A few values that the dimension may have.
std::vector<std::int64_t> some_values(const plan::PlanDimension& row) {
  std::vector<std::int64_t> all;
  if (row.parse != nullptr && std::string_view(row.name) == "offload") {
    for (const char* text : {"none", "qkv_linear", "core_attn+attn_proj+fused_group_mlp"}) {
      all.push_back(row.parse(text).value());
    }
    return all;
  }
  if (row.parse != nullptr) {
    for (const char* text :
         {"none", "selective", "full", "moe_act", "layernorm+mla_up_proj+mlp", "block:1", "block:12", "uniform:2"}) {
      all.push_back(row.parse(text).value());
    }
    return all;
  }
  if (row.high < 4 || row.kind == plan::DimensionKind::word) {
    for (std::int64_t value = row.low; value <= row.high; ++value) all.push_back(value);
    return all;
  }
  return {row.low + 2, 6, 1024};
}

// A plan with this value, and whatever else it then needs to be one.
Plan plan_with(const plan::PlanDimension& row, std::int64_t value) {
  Plan plan;
  plan.model.name = "m";
  plan.cluster.name = "c";
  plan.cluster.devices = 8;
  plan.run.global_batch = 8;
  plan.run.sequence = 8;
  plan.stages.resize(1);
  if (row.set_strategy != nullptr) {
    row.set_strategy(plan.strategy, value);
  } else {
    row.set_stage(plan.stages[0], value);
  }
  return plan;
}

std::int64_t value_in(const plan::PlanDimension& row, const Plan& plan) {
  return row.of_strategy != nullptr ? row.of_strategy(plan.strategy) : row.of_stage(plan.stages[0]);
}

TEST(Dimensions, NamesAreUnique) {
  std::set<std::string> names, strategy_keys, stage_keys;
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(plan::find_dimension(row.name), &row);
    for (const char* other : row.other_names) {
      if (other == nullptr) continue;
      EXPECT_TRUE(names.insert(other).second) << other;
      EXPECT_EQ(plan::find_dimension(other), &row);
    }
    EXPECT_TRUE((row.of_stage != nullptr ? stage_keys : strategy_keys).insert(row.key).second) << row.key;
    EXPECT_NE(row.of_stage == nullptr, row.of_strategy == nullptr) << row.name;
    EXPECT_EQ(row.of_stage == nullptr, row.set_stage == nullptr) << row.name;
    EXPECT_EQ(row.of_strategy == nullptr, row.set_strategy == nullptr) << row.name;
    EXPECT_LE((row.limit != nullptr) + (row.admitted != nullptr) + (row.toggle != nullptr), 1) << row.name;
  }
  EXPECT_EQ(plan::find_dimension("nonsense"), nullptr);
}

TEST(Dimensions, AreReadAsPeopleWriteThem) {
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    for (const std::int64_t value : some_values(row)) {
      std::string text = fmt::format("{}={}", row.name, plan::value_text(row, value));
      if (text == "schedule=interleaved") text += ",vpp=2";
      const plan::StrategyRequest request = plan::parse_strategy(text);
      if (row.of_strategy != nullptr) {
        EXPECT_EQ(row.of_strategy(request.strategy), value) << text;
      } else {
        StagePlan stage;
        stage.zero = request.zero.value_or(0);
        stage.zero_degree = request.zero_degree;
        stage.zero_outer = request.zero_outer;
        stage.recompute = request.recompute;
        EXPECT_EQ(row.of_stage(stage), value) << text;
      }
    }
    EXPECT_THROW(plan::parse_strategy(fmt::format("{}={}", row.name, row.high + 1)), InputError) << row.name;
    EXPECT_THROW(plan::parse_strategy(fmt::format("{}=x", row.name)), InputError) << row.name;
  }
}

TEST(Dimensions, GoThroughPlanFiles) {
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    for (const std::int64_t value : some_values(row)) {
      const Plan plan = plan_with(row, value);
      const nlohmann::ordered_json json = plan::plan_to_json(plan);
      const auto& object = row.of_stage != nullptr ? json.at("stages")[0] : json.at("strategy");
      // What is seldom there is not written where it is not.
      const bool is_written = (row.is_stage_written == nullptr || row.is_stage_written(plan.stages.front())) &&
                              (row.is_written == nullptr || row.is_written(plan.strategy));
      EXPECT_EQ(object.contains(row.key), is_written) << row.key;
      const Plan back = plan::read_plan(doc::parse_json("plan.json", json.dump()));
      EXPECT_EQ(value_in(row, back), value) << row.name;
      EXPECT_EQ(back.strategy, plan.strategy) << row.name;
    }
  }
}

TEST(Dimensions, LimitsAdmitWhatTheyName) {
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    const auto set = [&](const std::string& value) {
      plan::PlanLimits limits;
      plan::set_limit(limits, fmt::format("{}={}", row.name, value));
      return limits;
    };
    if (!row.is_limited()) {
      EXPECT_THROW(set("1"), InputError) << row.name;
      continue;
    }
    if (row.limit != nullptr) {
      const plan::PlanLimits limits = set("2..4");
      for (const std::int64_t value : {1, 2, 3, 4, 5}) {
        EXPECT_EQ((limits.*row.limit).admits(value), value >= 2 && value <= 4) << row.name << " " << value;
      }
    } else if (row.toggle != nullptr) {
      EXPECT_FALSE(set("0").*row.toggle) << row.name;
      EXPECT_TRUE(set("1").*row.toggle) << row.name;
    } else {
      for (std::int64_t value = row.low; value <= row.high; ++value) {
        plan::PlanLimits limits = set(row.kind == plan::DimensionKind::word ? row.words[static_cast<std::size_t>(value)]
                                                                            : plan::value_text(row, value));
        const std::span<bool> admitted = row.admitted(limits);
        ASSERT_EQ(admitted.size(), static_cast<std::size_t>(row.high + 1)) << row.name;
        for (std::size_t i = 0; i < admitted.size(); ++i) {
          EXPECT_EQ(admitted[i], static_cast<std::int64_t>(i) == value) << row.name << " " << i;
        }
      }
    }
  }
}

TEST(Dimensions, SetsOnTheHostAreLimitedByName) {
  constexpr OffloadSet kAttention = set_of(OffloadModule::core_attn) | set_of(OffloadModule::attn_proj);
  plan::PlanLimits limits;
  EXPECT_TRUE(limits.more_offloads);
  plan::set_limit(limits, "offload=none, core_attn+attn_proj");
  EXPECT_EQ(limits.offload, (std::array<bool, 2>{true, false}));
  EXPECT_EQ(limits.offload_only, std::vector<OffloadSet>{kAttention});
  EXPECT_FALSE(limits.more_offloads);
  plan::set_limit(limits, "offload=modules");
  EXPECT_EQ(limits.offload, (std::array<bool, 2>{false, true}));
  EXPECT_TRUE(limits.offload_only.empty());
  EXPECT_THROW(plan::set_limit(limits, "offload=core"), InputError);
  EXPECT_THROW(plan::set_limit(limits, "offload="), InputError);
  Strategy strategy;
  strategy.split.offload = kAttention;
  EXPECT_EQ(plan::strategy_text(strategy), "mbs=1 offload=core_attn+attn_proj");
}

TEST(Limits, NarrowToWhatBothAdmit) {
  const auto limits_of = [](std::initializer_list<const char*> settings) {
    plan::PlanLimits limits;
    for (const char* setting : settings) plan::set_limit(limits, setting);
    return limits;
  };
  plan::PlanLimits limits = limits_of({"tp=1,2,4", "pp=2..", "zero=0,1", "schedule=interleaved,zbv"});
  plan::narrow(limits, limits_of({"tp=2..8", "pp=..8", "zero=1,2", "mbs=4", "all_devices=1"}));
  EXPECT_FALSE(plan::is_empty(limits));
  EXPECT_THAT(limits.tp.only, testing::ElementsAre(2, 4));
  EXPECT_EQ(limits.pp.low, 2);
  EXPECT_EQ(limits.pp.high, 8);
  EXPECT_EQ(limits.zero, (std::array<bool, 4>{false, true, false, false}));
  EXPECT_TRUE(limits.micro_batch.admits(4));
  EXPECT_FALSE(limits.micro_batch.admits(2));
  EXPECT_TRUE(limits.all_devices);
  EXPECT_TRUE(limits.admits(Schedule::zbv));  // whoever names no schedule refuses none
  plan::narrow(limits, limits_of({"schedule=1f1b,zbv"}));
  EXPECT_TRUE(limits.admits(Schedule::zbv));
  EXPECT_FALSE(limits.admits(Schedule::interleaved));
  EXPECT_FALSE(limits.admits(Schedule::one_f_one_b));
  plan::PlanLimits named = limits_of({});
  plan::narrow(named, limits_of({"schedule=gpipe", "offload=core_attn"}));
  EXPECT_TRUE(named.admits(Schedule::gpipe));
  EXPECT_FALSE(named.offload[0]);
  EXPECT_EQ(named.offload_only.size(), 1U);
  EXPECT_FALSE(plan::is_empty(named));
  plan::narrow(named, limits_of({"offload=none"}));
  EXPECT_TRUE(plan::is_empty(named));
  plan::narrow(limits, limits_of({"tp=8"}));
  EXPECT_TRUE(plan::is_empty(limits));
  EXPECT_FALSE(limits.tp.admits(4));
  EXPECT_FALSE(limits.tp.admits(8));
  for (const auto& [one, other] :
       {std::pair{"zero=0", "zero=3"}, std::pair{"recompute=none", "recompute=full"}, std::pair{"pp=4..", "pp=..3"}}) {
    plan::PlanLimits both = limits_of({one});
    EXPECT_FALSE(plan::is_empty(both)) << one;
    plan::narrow(both, limits_of({other}));
    EXPECT_TRUE(plan::is_empty(both)) << one << " " << other;
  }
}

TEST(Dimensions, DocumentationListsThem) {
  std::string table =
      "| name | in plan files | what it is | values | if nobody says | `--set` |\n|---|---|---|---|---|---|\n";
  for (const plan::PlanDimension& row : plan::plan_dimensions()) {
    std::string names = fmt::format("`{}`", row.name);
    for (const char* other : row.other_names) {
      if (other != nullptr) names += fmt::format(", `{}`", other);
    }
    std::string values = fmt::format("{} … ", row.low);
    if (row.high < 100) values += fmt::format("{}", row.high);
    if (row.kind == plan::DimensionKind::flag) values = "0, 1";
    if (row.kind == plan::DimensionKind::word) values = fmt::format("`{}`", fmt::join(row.words, "`, `"));
    const char* limited = row.limit != nullptr      ? "range or list"
                          : row.admitted != nullptr ? "list"
                          : row.toggle != nullptr   ? "0 or 1"
                                                    : "";
    table += fmt::format("| {} | `{}{}` | {}: {} | {} | {} | {} |\n", names,
                         row.of_stage != nullptr ? "stages[]." : "strategy.", row.key, row.label, row.meaning, values,
                         row.otherwise, limited);
  }
  EXPECT_THAT(read_file(source_dir() / "docs/planning.md"), ::testing::HasSubstr(table));
}

}  // namespace
}  // namespace nest::test
