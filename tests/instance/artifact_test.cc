// The artifact's own evaluation instances, where they are at hand: our optimum against the one computed independently.
#include <gtest/gtest.h>

#include <algorithm>

#include "doc/reader.h"
#include "instance/planner.h"
#include "instance/read.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

struct Expected {
  std::string name;
  bool fits;
  double iteration_s = 0;
  instance::ProfilePlan plan;
};

std::vector<Expected> read_expected() {
  // The file is a list; readers want an object around it.
  const std::string text = read_file(data_dir() / "artifact" / "expected.json");
  doc::Reader root(doc::parse_json("expected.json", "{\"instances\":" + text + "}"));
  std::vector<Expected> list;
  for (doc::Reader& entry : root.objects("instances")) {
    Expected expected{entry.text("instance"), entry.has("optimum"), 0, {}};
    if (expected.fits) {
      doc::Reader optimum = entry.object("optimum");
      expected.iteration_s = optimum.number("iteration", {0, 1e30});
      expected.plan.width = optimum.integer("tp", {1, 1e6});
      expected.plan.replicas = optimum.integer("dp", {1, 1e6});
      int begin = 0;
      const std::vector<std::int64_t> lengths = optimum.maybe_integers("layers_per_stage", {1, 1e6}, 4096).value();
      for (const std::int64_t length : lengths) {
        expected.plan.cuts.push_back(begin);
        begin += static_cast<int>(length);
      }
    }
    list.push_back(expected);
  }
  return list;
}

instance::ProfileInstance read_instance(const std::string& name) {
  return instance::read_profile_instance(read_json(data_dir() / "artifact" / "instances" / (name + ".json")));
}

TEST(Artifact, OptimaAreReached) {
  NEST_REQUIRE_DATA("artifact/expected.json");
  const std::vector<Expected> list = read_expected();
  EXPECT_GE(list.size(), 30U);
  for (const Expected& expected : list) {
    SCOPED_TRACE(expected.name);
    const instance::ProfileAnswer answer = instance::plan_profile_instance(read_instance(expected.name));
    ASSERT_EQ(answer.solution.plan.has_value(), expected.fits);
    if (!expected.fits) continue;
    EXPECT_NEAR(answer.solution.objective_s, expected.iteration_s, 1e-9 * expected.iteration_s);
    EXPECT_EQ(answer.solution.lower_bound_s, answer.solution.objective_s);
  }
}

TEST(Artifact, GivenPlansArePricedAsGiven) {
  NEST_REQUIRE_DATA("artifact/expected.json");
  for (const Expected& expected : read_expected()) {
    if (!expected.fits) continue;
    SCOPED_TRACE(expected.name);
    const instance::ProfileEvaluation evaluation =
        instance::evaluate_profile_plan(read_instance(expected.name), expected.plan);
    ASSERT_TRUE(evaluation.valid()) << instance::describe(evaluation.violations.front());
    EXPECT_NEAR(evaluation.objective_s, expected.iteration_s, 1e-9 * expected.iteration_s);
  }
}

}  // namespace
}  // namespace nest::test
