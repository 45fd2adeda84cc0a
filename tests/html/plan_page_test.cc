#include "html/plan_page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "base/units.h"
#include "html/network_use.h"
#include "html/plan_sections.h"
#include "html/style.h"
#include "model/count.h"
#include "model/presets.h"
#include "nest/interval.h"
#include "plan/strategy_text.h"
#include "report/nearest_runs.h"
#include "xml.h"

namespace nest::html {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::string model = "llama3-8b";
  std::string cluster = "dgx-h100";
  std::int64_t devices = 8;
  std::string strategy = "tp=2,sp=1,dp=4,mbs=1";
  std::int64_t batch = 64;
};

struct Priced {
  cost::Job job;
  report::PlanReport report;

  PlanPage page() const {
    PlanPage page;
    page.report = &report;
    page.job = &job;
    page.command = {"/usr/bin/nest", "eval", "--model", "it's"};
    page.version = "1.2.3";
    return page;
  }
  test::Element parsed() const { return test::parse_page(plan_page(page()).str()); }
};

Priced price(const Case& wanted) {
  Priced priced;
  Run run;
  run.global_batch = wanted.batch;
  run.sequence = 4096;
  priced.job =
      cost::make_job(model::find_model_preset(wanted.model).value(), run, cost::find_stack("megatron-core").value(),
                     cluster::find_cluster(wanted.cluster, wanted.devices).value());
  plan::StrategyRequest request = plan::parse_strategy(wanted.strategy);
  plan::fill_devices(request, wanted.devices);
  const Strategy& strategy = request.strategy;
  const auto stages = cost::even_stages(priced.job, strategy, request.recompute, request.zero.value_or(1));
  EXPECT_EQ(cost::refuse_strategy(priced.job, strategy, stages), "");
  report::PlanReport& report = priced.report;
  report.plan = cost::evaluate(priced.job, strategy, stages);
  report.model = priced.job.model;
  report.plan.model = {wanted.model, wanted.model, "llama", model::count_parameters(priced.job.model).total,
                       doc::parse_json("config.json", "{\"a\": 1}")};
  report.plan.cluster = {wanted.cluster, "h100", wanted.devices, doc::parse_yaml("c", "name: x\n")};
  return priced;
}

std::vector<Case> cases() {
  return {{},
          {"llama3-70b", "dgx-h100", 128, "tp=8,sp=1,pp=4,vpp=5,mbs=1", 128},
          {"llama3-70b", "h100-spine-leaf", 1024, "tp=8,sp=1,pp=16,dp=7,dp_inner=1,mbs=1", 896},
          {"mixtral-8x7b", "dgx-h100", 64, "tp=2,sp=1,ep=4,pp=2,mbs=1,dp_inner=4", 64},
          {"llama3-8b", "tpuv4-torus", 512, "tp=4,pp=4,mbs=1,recompute=full", 512},
          {"gpt3-175b", "dgx-a100", 16, "tp=8,pp=2,mbs=1", 64},  // does not fit
          {"llama3-405b", "dgx-h100", 16384, "tp=8,sp=1,pp=16,vpp=4,mbs=1", 2048},
          {"llama3-405b", "dgx-h100", 131072, "tp=8,sp=1,pp=126,dp=128,dp_inner=1,mbs=1", 4096}};
}

class Pages : public ::testing::TestWithParam<Case> {};

// Headings go down one step at a time, ids are there once, and every reference leads somewhere.
void expect_navigable(const test::Element& root) {
  int level = 0;
  std::set<std::string> ids;
  std::vector<std::string> references;
  test::visit(root, [&](const test::Element& element) {
    if (element.name.size() == 2 && element.name[0] == 'h' && element.name[1] >= '1' && element.name[1] <= '6') {
      EXPECT_LE(element.name[1] - '0', level + 1) << element.text;
      level = element.name[1] - '0';
    }
    const std::string id = element.attribute("id");
    EXPECT_TRUE(id.empty() || ids.insert(id).second) << id;
    if (const std::string href = element.attribute("href"); href.starts_with("#")) references.push_back(href.substr(1));
    if (const std::string by = element.attribute("aria-labelledby"); !by.empty()) references.push_back(by);
  });
  for (const std::string& reference : references) EXPECT_EQ(ids.count(reference), 1U) << reference;
}

// Drawings are described or left out for those who do not see them; tables have headings; what scrolls has focus.
void expect_accessible(const test::Element& element, bool hidden) {
  hidden = hidden || element.attribute("aria-hidden") == "true" || element.attribute("role") == "img";
  EXPECT_TRUE(element.attribute("role") != "img" || !element.attribute("aria-label").empty());
  EXPECT_TRUE(element.name != "svg" || hidden);
  if (element.name == "table") {
    for (const test::Element* cell : test::find_all(element, "th")) EXPECT_NE(cell->attribute("scope"), "");
    EXPECT_FALSE(test::find_all(element, "th").empty());
  }
  if (element.attribute("role") == "region") {
    EXPECT_EQ(element.attribute("tabindex"), "0");
    EXPECT_NE(element.attribute("aria-label"), "");
  }
  for (const test::Element& child : element.children) expect_accessible(child, hidden);
}

TEST_P(Pages, AreSound) {
  const Priced priced = price(GetParam());
  const std::string text = plan_page(priced.page()).str();
  EXPECT_LT(text.size(), 500'000U);
  const test::Element root = test::parse_page(text);
  expect_navigable(root);
  expect_accessible(root, false);
  EXPECT_EQ(test::find_all(root, "h1").size(), 1U);
  EXPECT_EQ(test::find_all(root, "main").size(), 1U);
  EXPECT_TRUE(test::find_all(root, "script").empty());
  std::size_t elements = 0;
  test::visit(root, [&](const test::Element&) { ++elements; });
  EXPECT_LT(elements, 12000U);  // most of them cells of tables, one row per stage
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf,")));
}

TEST_P(Pages, SayWhatThePlanSays) {
  const Priced priced = price(GetParam());
  const test::Element root = priced.parsed();
  const auto& stages = priced.report.plan.stages;
  const auto memory = test::table_cells(root, "memory-table");
  ASSERT_EQ(memory.size(), stages.size() + 1);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageMemory& m = stages[s].memory;
    const std::vector<std::string>& row = memory[s + 1];
    EXPECT_EQ(row[0], std::to_string(s));
    EXPECT_EQ(row[1], report::layers_label(priced.report.model, stages[s].first, stages[s].last));
    const std::vector<std::int64_t> parts = {m.weights, m.gradients, m.optimizer, m.activations};
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_EQ(row[2 + i], fmt::format("{:.1f}", static_cast<double>(parts[i]) / 0x1p30));
    EXPECT_EQ(row[9], gibibytes(m.total));
    EXPECT_EQ(row[10], gibibytes(priced.report.plan.stages[s].memory.needed));
  }
  const Prediction& p = priced.report.plan.prediction;
  if (!priced.report.plan.fits) {
    EXPECT_EQ(test::find_id(root, "schedule"), nullptr);
    EXPECT_THAT(test::find_all(root, "header").at(0)->text, HasSubstr("does not fit"));
    return;
  }
  const std::string& header = test::find_all(root, "header").at(0)->text;
  EXPECT_THAT(header, HasSubstr(format_duration(p.iteration_s)));
  EXPECT_THAT(header, HasSubstr("per step, " + sureness(p.spread)));
  EXPECT_THAT(header, HasSubstr("risk of running out of memory"));
  const auto nearest = test::table_cells(root, "nearest-table");
  ASSERT_EQ(nearest.size(), 4U);
  EXPECT_THAT(nearest[1][0], HasSubstr(report::nearest_runs(priced.report).front().run.id));
  const auto times = test::table_cells(root, "stage-times");
  ASSERT_EQ(times.size(), stages.size() + 1);
  for (std::size_t s = 0; s < stages.size(); ++s)
    EXPECT_EQ(times[s + 1][7], fmt::format("{:.2f}", 1e3 * stages[s].time.total));
  double sum = 0;
  const auto breakdown = test::table_cells(root, "time-table");
  for (std::size_t i = 1; i + 1 < breakdown.size(); ++i) sum += std::stod(breakdown[i][1]);
  EXPECT_NEAR(sum, p.iteration_s, 1e-3 * static_cast<double>(breakdown.size()));
  EXPECT_EQ(breakdown.back()[1], fmt::format("{:.3f}", p.iteration_s));
  EXPECT_EQ(breakdown[1][1], fmt::format("{:.3f}", p.breakdown_s.compute));
}

INSTANTIATE_TEST_SUITE_P(Plans, Pages, ::testing::ValuesIn(cases()),
                         [](const auto& plan) { return fmt::format("n{}", plan.index); });

TEST(PlanPage, HostileNamesStayText) {
  const std::string evil = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>";
  Priced priced = price({"llama3-8b", "dgx-h100", 16, "tp=2,sp=1,pp=2,dp=4,mbs=1", 64});
  priced.report.plan.model.title = evil;
  priced.report.plan.model.name = evil + std::string(1 << 20, 'x');
  priced.report.plan.model.config =
      doc::parse_json("config.json", "{\"</pre></code></details><script>\": \"" + std::string("]]>--><!--") + "\"}");
  priced.report.plan.cluster.name = evil;
  priced.report.plan.cluster.device = evil;
  priced.report.plan.run.stack = "\xff\x01" + evil;
  priced.job.cluster.levels[0].name = evil;
  priced.job.cluster.levels[1].name = evil;
  priced.job.cluster.node_names = {evil, evil};
  priced.report.plan.assumptions.push_back(evil);
  PlanPage page = priced.page();
  page.command = {"nest", evil, "--model", "\n"};
  page.why_not = {{evil, WhyOutcome::slower, 0.5, priced.report.plan, evil}};
  page.next_best = {priced.report.plan};
  const std::string text = plan_page(page).str();
  EXPECT_LT(text.size(), 500'000U);
  const test::Element root = test::parse_page(text);
  EXPECT_TRUE(test::find_all(root, "script").empty());
  EXPECT_TRUE(test::find_all(root, "img").empty());
  test::visit(root, [](const test::Element& element) {
    for (const auto& [key, value] : element.attributes) EXPECT_FALSE(key.starts_with("on")) << key << value;
  });
  // Whatever got through would be neither loaded nor run.
  const test::Element& policy = *test::find_all(root, "meta").at(1);
  EXPECT_EQ(policy.attribute("http-equiv"), "Content-Security-Policy");
  EXPECT_THAT(policy.attribute("content"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy.attribute("content"), Not(HasSubstr("script-src")));
  EXPECT_THAT(test::find_all(root, "h1").at(0)->text, HasSubstr("<script>alert(1)</script>"));
}

TEST(PlanPage, ShowsAlternativesAndTheCommand) {
  const Priced priced = price({});
  PlanPage page = priced.page();
  Plan other = priced.report.plan;
  other.strategy = Strategy{};
  other.strategy.split.tp = 4;
  other.prediction.iteration_s = 55.9;
  page.why_not = {{"tensor 4", WhyOutcome::slower, 0.064, other, "pipeline bubble +3 s"},
                  {"pipeline 2", WhyOutcome::no_plan, 0, {}, ""},
                  {"pipeline 8", WhyOutcome::unknown, 1e-4, other, "not searched to the end"}};
  const test::Element root = test::parse_page(plan_page(page).str());
  const auto rows = test::table_cells(root, "why-table");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1][0], "tensor 4" + plan::strategy_text(other.strategy));
  EXPECT_EQ(rows[1][1], "+6.4 %");
  EXPECT_EQ(rows[1][2], "55.9 s");
  EXPECT_EQ(rows[2][1], "does not fit");
  EXPECT_THAT(test::find_id(root, "inputs")->text, HasSubstr("nest eval --model 'it'\\''s'"));
}

TEST(PlanPage, LongInputsAreShortened) {
  Priced priced = price({});
  std::string long_text = "{";
  for (int i = 0; i < 200'000; ++i) long_text += fmt::format("\"k{}\": {},\n", i, i);
  priced.report.plan.model.config = doc::parse_json("config.json", long_text + "\"z\": 1}");
  const std::string text = plan_page(priced.page()).str();
  EXPECT_LT(text.size(), 200'000U);
  EXPECT_THAT(text, HasSubstr("The first "));
}

TEST(PlanPage, IsTheSameEveryTime) {
  const Priced priced = price({"mixtral-8x7b", "dgx-h100", 64, "tp=2,sp=1,ep=4,pp=2,mbs=1,dp_inner=4", 64});
  EXPECT_EQ(plan_page(priced.page()).str(), plan_page(priced.page()).str());
}

TEST(Style, HasNothingToEscape) {
  EXPECT_THAT(style_sheet(), Not(HasSubstr("<")));
  EXPECT_THAT(style_sheet(), Not(HasSubstr("&")));
  EXPECT_THAT(style_sheet(), HasSubstr("prefers-color-scheme:dark"));
}

const Traffic& traffic_of(const NetworkUse& use, TrafficKind kind) {
  for (const Traffic& traffic : use.traffic) {
    if (traffic.kind == kind) return traffic;
  }
  throw std::runtime_error("no such traffic");
}

TEST(NetworkUse, GradientsOfReplicas) {
  // ZeRO 1 over 8 devices of a node: gradients of 4 bytes scattered, weights of 2 gathered.
  const Priced priced = price({"llama3-8b", "dgx-h100", 8, "dp=8,mbs=1,recompute=full", 64});
  const NetworkUse use = network_use(priced.job, priced.report.plan.strategy, priced.report.plan);
  const auto parameters = static_cast<double>(priced.report.plan.model.parameters);
  const Traffic& gradients = traffic_of(use, TrafficKind::gradients);
  EXPECT_EQ(gradients.ranks, 8);
  EXPECT_EQ(gradients.reach, "inside a node");
  EXPECT_NEAR(gradients.sent_bytes, parameters * 6 * 7 / 8, 0.002 * gradients.sent_bytes);  // a padded vocabulary
  EXPECT_NEAR(gradients.link_bytes[0], 8 * gradients.sent_bytes, 1);
  EXPECT_DOUBLE_EQ(gradients.waited_s, priced.report.plan.prediction.breakdown_s.grad_sync);
  EXPECT_EQ(use.traffic.size(), 1U);
}

TEST(NetworkUse, MessagesBetweenStages) {
  // Two stages on two nodes, tp 8 with sp: every device sends 1/8 of 4096 x 4096 x 2 bytes each way per micro-batch.
  const Priced priced = price({"llama3-8b", "dgx-h100", 16, "tp=8,sp=1,pp=2,mbs=1", 64});
  const NetworkUse use = network_use(priced.job, priced.report.plan.strategy, priced.report.plan);
  const Traffic& messages = traffic_of(use, TrafficKind::pipeline);
  const double bytes = 64.0 * 4096 * 4096 * 2 / 8;
  EXPECT_DOUBLE_EQ(messages.sent_bytes, bytes);
  EXPECT_DOUBLE_EQ(messages.link_bytes[0], 0);           // by rail, not by the node's switch
  EXPECT_DOUBLE_EQ(messages.link_bytes[1], 16 * bytes);  // 8 pairs, both ways
  EXPECT_EQ(messages.reach, "inside a unit");
}

TEST(NetworkUse, TensorParallelism) {
  // sp: a block gathers 3 and scatters 2 ... counted from the split layer itself; here only what must hold: it stays in
  // the node, every device sends the same, and nothing hides more than there is.
  const Priced priced = price({"llama3-70b", "dgx-h100", 32, "tp=8,sp=1,pp=4,mbs=1,recompute=full", 32});
  const NetworkUse use = network_use(priced.job, priced.report.plan.strategy, priced.report.plan);
  const Traffic& tensor = traffic_of(use, TrafficKind::tensor);
  EXPECT_EQ(tensor.reach, "inside a node");
  EXPECT_DOUBLE_EQ(tensor.link_bytes[1], 0);
  EXPECT_GT(tensor.link_bytes[0], 24 * tensor.sent_bytes);
  EXPECT_LE(tensor.link_bytes[0], 32 * tensor.sent_bytes * 1.0001);
  EXPECT_GE(tensor.exchange_s * 1.0001, tensor.waited_s);
}

}  // namespace
}  // namespace nest::html
