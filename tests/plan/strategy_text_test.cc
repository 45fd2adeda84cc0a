#include "plan/strategy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "test_support/refusal.h"

namespace nest::plan {
namespace {

std::string message_of(std::string_view text) {
  return test::refusal_of([&] { parse_strategy(text); });
}

TEST(StrategyText, ReadsWhatPeopleWrite) {
  const StrategyRequest r = parse_strategy("tp=8, pp=4,vpp=3,mbs=2,sp=1,recompute=selective,zero=1,zero_degree=8");
  EXPECT_EQ(r.strategy.split.tp, 8);
  EXPECT_TRUE(r.strategy.split.sp);
  EXPECT_EQ(r.strategy.pp, 4);
  EXPECT_EQ(r.strategy.virtual_stages, 3);
  EXPECT_EQ(r.strategy.schedule, Schedule::interleaved);
  EXPECT_EQ(r.strategy.micro_batch, 2);
  EXPECT_EQ(r.recompute, Recompute::selective);
  EXPECT_EQ(r.zero, 1);
  EXPECT_EQ(r.zero_degree, 8);
  EXPECT_FALSE(r.dp_given);
  EXPECT_FALSE(r.inner_given);
  EXPECT_TRUE(parse_strategy("dp_inner=1").inner_given);
  EXPECT_TRUE(parse_strategy("sp").strategy.split.sp);
  EXPECT_EQ(parse_strategy("").strategy, Strategy{});
}

TEST(StrategyText, ReadsWhatIsPrinted) {
  for (const char* written :
       {"tp=8,sp,pp=4,vpp=2,dp=16,mbs=1", "tp=2,sp,cp=4,cp_comm=a2a,dp=4", "pp=4,schedule=zbv", "tp = 8 , pp = 2",
        "pp=4,vpp=2,defer_head=0", "tp=4,sp,ep=8,etp=1,dp=16,mbs=2", "pp=2,offload=core_attn+attn_proj"}) {
    const Strategy strategy = parse_strategy(written).strategy;
    const std::string printed = strategy_text(strategy);
    EXPECT_EQ(parse_strategy(printed).strategy, strategy) << printed;
    std::string commas = printed;
    std::replace(commas.begin(), commas.end(), ' ', ',');
    EXPECT_EQ(parse_strategy(commas).strategy, strategy) << commas;
  }
  EXPECT_EQ(parse_strategy("tp=8 sp pp=4 zero=2 recompute=full").recompute, Recompute::full);
  EXPECT_EQ(parse_strategy("tp=8 sp pp=4 zero=2 recompute=full").zero, 2);
}

TEST(StrategyText, ReplicasOfExpertsFollowFromTheRest) {
  StrategyRequest right = parse_strategy("tp=4 sp ep=8 etp=1 dp=16 edp=8 mbs=1");  // 4 x 16 / 8
  EXPECT_NO_THROW(fill_devices(right, 64));
  StrategyRequest wrong = parse_strategy("tp=4 sp ep=8 etp=1 dp=16 edp=4 mbs=1");
  EXPECT_THAT(test::refusal_of([&] { fill_devices(wrong, 64); }), ::testing::HasSubstr("edp=4 contradicts"));
}

TEST(StrategyText, OfAWholePlanSaysWhatAllStagesDo) {
  Plan plan;
  plan.strategy = parse_strategy("tp=2,pp=2,dp=4").strategy;
  plan.strategy.dp_inner = 4;
  plan.stages.resize(2);
  for (StagePlan& stage : plan.stages) {
    stage.zero = 1;
    stage.zero_degree = 4;
    stage.recompute = Recompute::full;
  }
  EXPECT_EQ(strategy_text(plan), "tp=2 pp=2 dp=4 mbs=1 zero=1 recompute=full");
  for (StagePlan& stage : plan.stages) stage.zero_degree = 2;
  EXPECT_EQ(strategy_text(plan), "tp=2 pp=2 dp=4 mbs=1 zero=1 zero_degree=2 recompute=full");
  plan.stages[1].recompute = Recompute::none;
  plan.stages[1].zero = 0;
  plan.strategy.dp_inner = 1;
  EXPECT_EQ(strategy_text(plan), "tp=2 pp=2 dp=4 mbs=1 dp_inner=1");
}

TEST(StrategyText, ExplainsMistakes) {
  EXPECT_THAT(message_of("tpp=8"), ::testing::HasSubstr("`tpp` is not known"));
  EXPECT_THAT(message_of("recomptue=full"), ::testing::HasSubstr("did you mean `recompute`?"));
  EXPECT_EQ(message_of("tp=eight"), "--strategy: tp: found `eight`; expected a whole number in 1 … 16777216");
  EXPECT_THAT(message_of("tp=0"), ::testing::HasSubstr("tp: found `0`"));
  EXPECT_THAT(message_of("recompute=some"),
              ::testing::HasSubstr("expected none, selective, full, modules such as moe_act+layernorm, "));
  EXPECT_THAT(message_of("tp=2,tp=4"), ::testing::HasSubstr("tp is given twice"));
  EXPECT_THAT(message_of("schedule=1f1b,vpp=2"), ::testing::HasSubstr("vpp=2 contradicts schedule=1f1b"));
  EXPECT_THAT(message_of("sp=maybe"), ::testing::HasSubstr("expected 0 or 1"));
}

TEST(StrategyText, FillsDevices) {
  StrategyRequest r = parse_strategy("tp=8,pp=3");
  fill_devices(r, 100);
  EXPECT_EQ(r.strategy.dp, 4);
  EXPECT_THROW(fill_devices(r, 16), InputError);
  StrategyRequest given = parse_strategy("tp=2,dp=5");
  EXPECT_THROW(fill_devices(given, 8), InputError);
}

TEST(StrategyText, PrintsWithoutWhatIsOne) {
  EXPECT_EQ(strategy_text(parse_strategy("tp=8,sp=1,pp=4,vpp=2,dp=16").strategy), "tp=8 sp pp=4 vpp=2 dp=16 mbs=1");
  EXPECT_EQ(strategy_text(parse_strategy("pp=4,vpp=2,group=8").strategy), "pp=4 vpp=2 group=8 mbs=1");
  // As many as stages is what it is anyway.
  EXPECT_EQ(parse_strategy("pp=4,vpp=2,group=4").strategy, parse_strategy("pp=4,vpp=2").strategy);
  EXPECT_THAT(message_of("group=0"), ::testing::HasSubstr("group: found `0`; expected a whole number in 1"));
}

}  // namespace
}  // namespace nest::plan
