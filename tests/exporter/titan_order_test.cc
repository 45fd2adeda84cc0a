// Orders that torchtitan reads from a file, against the rules of PyTorch's runtime, and configurations that name them.
#include "exporter/titan_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "export_support.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"
#include "exporter/torchtitan.h"
#include "launch/setup.h"
#include "launch/titan_schedules.h"
#include "schedule/rules.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;

struct TitanAction {
  int position = 0;
  char pass = 'F';
  int micro_batch = 0;
};
using TitanOrders = std::vector<std::vector<TitanAction>>;

TitanOrders read_titan_orders(const std::string& text) {
  static const std::regex action("([0-9]+)([FIWB])([0-9]+)");
  TitanOrders orders;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<TitanAction>& order = orders.emplace_back();
    std::istringstream words(line);
    for (std::string word; std::getline(words, word, ',');) {
      std::smatch match;
      if (!std::regex_match(word, match, action)) {
        ADD_FAILURE() << word;
        continue;
      }
      order.push_back({std::stoi(match[1]), match[2].str()[0], std::stoi(match[3])});
    }
  }
  return orders;
}

// _validate_schedule: every chunk on one rank; F before I before W, each once for every micro-batch, or B for both.
void check_titan_counts(const TitanOrders& orders, int positions, int micro_batches) {
  std::map<int, std::size_t> rank_of;
  std::set<std::tuple<int, char, int>> done;
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    for (const auto& [position, pass, i] : orders[rank]) {
      EXPECT_EQ(rank_of.try_emplace(position, rank).first->second, rank) << position;
      EXPECT_TRUE(pass == 'F' || done.contains({position, 'F', i}));
      EXPECT_TRUE(pass != 'W' || done.contains({position, 'I', i}));
      EXPECT_TRUE(done.insert({position, pass, i}).second);
    }
  }
  for (int position = 0; position < positions; ++position) {
    for (int i = 0; i < micro_batches; ++i) {
      EXPECT_TRUE(done.contains({position, 'F', i}));
      EXPECT_NE(done.contains({position, 'B', i}),
                done.contains({position, 'I', i}) && done.contains({position, 'W', i}));
    }
  }
}

// _add_send_recv: some rank can always go on.
void check_titan_progress(const TitanOrders& orders, int positions) {
  std::set<std::tuple<int, char, int>> done;
  std::vector<std::size_t> next(orders.size(), 0);
  const auto is_ready = [&](const TitanAction& action) {
    if (action.pass == 'F')
      return action.position == 0 || done.contains({action.position - 1, 'F', action.micro_batch});
    if (action.pass == 'W' || action.position + 1 == positions) return true;
    return done.contains({action.position + 1, 'I', action.micro_batch}) ||
           done.contains({action.position + 1, 'B', action.micro_batch});
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < orders.size(); ++rank) {
      while (next[rank] < orders[rank].size() && is_ready(orders[rank][next[rank]])) {
        const TitanAction& action = orders[rank][next[rank]++];
        done.insert({action.position, action.pass, action.micro_batch});
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < orders.size(); ++rank) EXPECT_EQ(next[rank], orders[rank].size()) << rank;
}

Strategy titan_strategy(Schedule schedule, std::int64_t stages) {
  Strategy s;
  s.pp = stages;
  s.schedule = schedule;
  s.virtual_stages = schedule::rule_of(schedule).is_v() ? 2 : 1;
  return s;
}

// The first stage computes both gradients in a row, the second lets one W wait.
TEST(TitanOrder, ByHand) {
  EXPECT_EQ(exporter::titan_order(titan_strategy(Schedule::zb_h1, 2), 2),
            "0F0,0F1,0I0,0W0,0I1,0W1\n"
            "1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST(TitanOrder, IsOneThatPyTorchRuns) {
  for (const launch::TitanSchedule& file : launch::kTitanFiles) {
    for (const std::int64_t stages : {2, 3, 4, 8}) {
      for (const std::int64_t m : {1, 2, 5, 8, 24}) {
        SCOPED_TRACE(testing::Message() << to_string(file.kind) << " p " << stages << " m " << m);
        const Strategy s = titan_strategy(file.kind, stages);
        const TitanOrders orders = read_titan_orders(exporter::titan_order(s, m));
        ASSERT_EQ(orders.size(), static_cast<std::size_t>(stages));
        const auto positions = static_cast<int>(stages * s.virtual_stages);
        check_titan_counts(orders, positions, static_cast<int>(m));
        check_titan_progress(orders, positions);
      }
    }
  }
}

// Which parts a rank holds follows from the name beside the file, and must be what the orders say.
TEST(TitanOrder, NameAndFileAgree) {
  for (const launch::TitanSchedule& file : launch::kTitanFiles) {
    const launch::TitanSchedule* const named = launch::titan_schedule(file.name);
    ASSERT_NE(named, nullptr);
    EXPECT_EQ(schedule::rule_of(named->kind).is_v(), schedule::rule_of(file.kind).is_v());
    EXPECT_EQ(launch::titan_schedule(file.kind), nullptr);
  }
}

TEST(TitanOrder, ComesBack) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096, "torchtitan-graph");
  for (const launch::TitanSchedule& file : launch::kTitanFiles) {
    Strategy s = titan_strategy(file.kind, 4);
    s.dp = s.dp_inner = 16;
    const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 2);
    const exporter::TorchtitanExport done = exporter::export_torchtitan({job, s, stages});
    const std::string name = std::string(to_string(file.kind)) + ".csv";
    EXPECT_THAT(done.toml, HasSubstr("pipeline_parallel_schedule_csv = \"" + name + "\"\n"));
    EXPECT_THAT(done.notes, ::testing::Contains(HasSubstr(name)));
    const launch::LaunchSetup setup = launch::read_launch("titan.toml", done.toml, {}, "", nullptr);
    EXPECT_EQ(launch::lay_out(setup, job).strategy, s) << done.toml;
    // A file of somebody else's, and a name that lays the model out otherwise.
    std::string other = done.toml;
    other.replace(other.find(name), name.size(), "mine.csv");
    EXPECT_THROW(launch::read_launch("titan.toml", other, {}, "", nullptr), InputError);
    other = done.toml;
    const std::string quoted = "\"" + std::string(file.name) + "\"";
    other.replace(other.find(quoted), quoted.size(), "\"DualPipeV\"");
    EXPECT_THROW(launch::read_launch("titan.toml", other, {}, "", nullptr), InputError);
  }
}

// A dense layer, then experts: folded, the dense one is on the rank that holds the head, and runs of layers cannot say so.
// Listed chunks can.
TEST(TitanOrder, FoldsLayersOfSeveralKinds) {
  const cost::Job job = export_job("deepseek-v2-lite", 32, 64, 4096, "torchtitan-graph");
  Strategy s = titan_strategy(Schedule::v_half, 4);
  s.dp = s.dp_inner = 8;
  const std::vector<StagePlan> runs = cost::even_stages(job, s, Recompute::none, 2);
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, runs),
              ::testing::ElementsAre(HasSubstr("layers of several kinds")));
  const std::optional<std::vector<StagePlan>> folded = exporter::folded_stages(job, s, runs);
  ASSERT_TRUE(folded.has_value());
  EXPECT_EQ(cost::refuse_strategy(job, s, *folded), "");
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, *folded), ::testing::IsEmpty());
  EXPECT_EQ(exporter::v_blocks(job.model, *folded), exporter::v_blocks(job.model, runs));
  const exporter::TorchtitanExport done = exporter::export_torchtitan({job, s, *folded});
  const launch::LaunchSetup setup = launch::read_launch("titan.toml", done.toml, {}, "", nullptr);
  const launch::LaunchedPlan back = launch::lay_out(setup, job);
  EXPECT_EQ(back.strategy, s);
  for (std::size_t i = 0; i < back.stages.size(); ++i) EXPECT_EQ(back.stages[i].chunks.size(), 2U);
  // Nothing to fold without a V, or where chunks are listed.
  EXPECT_FALSE(exporter::folded_stages(job, s, *folded).has_value());
  EXPECT_FALSE(exporter::folded_stages(job, titan_strategy(Schedule::zb_h1, 4), runs).has_value());
}

}  // namespace
}  // namespace nest::test
