// The database: what is written is there, whoever else holds the file, and nothing else is touched.
#include "sweep/store.h"

#include <gmock/gmock.h>

#include <fstream>

#include "sweep/study.h"
#include "test_support/data.h"
#include "test_support/refusal.h"
#include "test_support/temporary_folder.h"

#ifdef NEST_SQLITE
#include <sqlite3.h>

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Study stored_study(const std::string& more = "") {
  Study study = sweep::read_study(
      doc::parse_yaml("t.yaml", "axes: {model: [llama3-8b, \"a \\\"b\\\"\"], devices: [8, 16]}" + more), "t");
  study.definition = sweep::definition_of(study, "1", {});
  return study;
}

sweep::StoredPoint stored_point(std::int64_t number) {
  sweep::StoredPoint point;
  SweepResult& r = point.result;
  r.point = number;
  r.has_plan = number % 2 == 0;
  r.outcome = r.has_plan ? SweepOutcome::plan : SweepOutcome::no_plan;
  r.reason = r.has_plan ? "" : "nothing fits";
  r.strategy = r.has_plan ? "tp=2" : "";
  r.step_s = 0.1 + static_cast<double>(number);
  r.tokens_per_s = 1.0 / 3;
  r.devices_used = 8;
  r.memory_bytes = std::int64_t{1} << 40;
  r.cost = 2.5;
  point.plan = r.has_plan ? "{\"point\": " + std::to_string(number) + "}" : "";
  point.wall_s = 1;
  return point;
}

TEST(Store, KeepsWhatItIsGiven) {
  const TemporaryFolder folder;
  const Study study = stored_study();
  {
    sweep::Store store(folder.file("a.sqlite"), sweep::Access::write);
    store.open_study(study, "1");
    store.add(study, {stored_point(2), stored_point(1)});
    store.add(study, {stored_point(2)});  // is there: stays
  }
  sweep::Store store(folder.file("a.sqlite"), sweep::Access::write);
  store.open_study(study, "1");
  EXPECT_THAT(store.point_numbers("t"), ElementsAre(1, 2));
  const std::vector<SweepResult> results = store.results("t");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].outcome, SweepOutcome::no_plan);
  EXPECT_EQ(results[0].reason, "nothing fits");
  EXPECT_FALSE(results[0].has_plan);
  EXPECT_FALSE(results[0].cost);
  EXPECT_EQ(results[1].step_s, 2.1);
  EXPECT_EQ(results[1].tokens_per_s, 1.0 / 3);
  EXPECT_EQ(results[1].memory_bytes, std::int64_t{1} << 40);
  EXPECT_EQ(results[1].cost, 2.5);
  EXPECT_EQ(store.plan("t", 2), "{\"point\": 2}");
  EXPECT_EQ(store.plan("t", 1), "");
}

TEST(Store, RefusesWhatIsNotItsOwn) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& name, sweep::Access access = sweep::Access::write) {
    return refusal_of([&] { sweep::Store(folder.file(name), access).open_study(stored_study(), "1"); });
  };
  std::ofstream(folder.file("text")) << std::string(5000, 'x');
  EXPECT_THAT(open("text"), HasSubstr("is no SQLite database"));
  EXPECT_EQ(read_file(folder.file("text")), std::string(5000, 'x'));
  sqlite3* other = nullptr;
  sqlite3_open(folder.file("other").c_str(), &other);
  sqlite3_exec(other, "CREATE TABLE t(x)", nullptr, nullptr, nullptr);
  sqlite3_close(other);
  const std::string before = read_file(folder.file("other"));
  EXPECT_THAT(open("other"), HasSubstr("is a database, but not one of nest sweep"));
  EXPECT_EQ(read_file(folder.file("other")), before);
  EXPECT_THAT(open("no/such"), HasSubstr("cannot be opened"));
  EXPECT_THAT(open("no", sweep::Access::read), HasSubstr("there is no such file"));
  EXPECT_THAT(open("."), HasSubstr("is no file"));
  EXPECT_EQ(open("mine"), "accepted");
  const std::string another = refusal_of(
      [&] { sweep::Store(folder.file("mine"), sweep::Access::write).open_study(stored_study("\nseq: 2048"), "1"); });
  EXPECT_THAT(another, HasSubstr("holds another study of the name t: its fixed values are others (seq)"));
}

TEST(Store, OneWriterAtATime) {
  const TemporaryFolder folder;
  const Study study = stored_study();
  sweep::Store first(folder.file("a.sqlite"), sweep::Access::write);
  first.open_study(study, "1");
  EXPECT_THAT(refusal_of([&] { sweep::Store(folder.file("a.sqlite"), sweep::Access::write); }),
              HasSubstr("another nest sweep is writing it"));
  // Others may read meanwhile, and reading does not free the lock.
  EXPECT_EQ(sweep::Store(folder.file("a.sqlite"), sweep::Access::read).studies().size(), 1U);
  EXPECT_THAT(refusal_of([&] { sweep::Store(folder.file("a.sqlite"), sweep::Access::write); }),
              HasSubstr("another nest sweep is writing it"));
  first.add(study, {stored_point(0)});
  EXPECT_THAT(first.point_numbers("t"), ElementsAre(0));
}

TEST(Store, MergesEqualsAndRefusesOthers) {
  const TemporaryFolder folder;
  const Study study = stored_study();
  const auto fill = [&](const std::string& name, const std::vector<sweep::StoredPoint>& points) {
    sweep::Store store(folder.file(name), sweep::Access::write);
    store.open_study(study, "1");
    store.add(study, points);
  };
  fill("a", {stored_point(0), stored_point(1)});
  fill("b", {stored_point(1), stored_point(2)});
  sweep::StoredPoint wrong = stored_point(2);
  wrong.result.step_s *= 1 + 1e-15;
  fill("c", {wrong});
  sweep::Store all(folder.file("all"), sweep::Access::write);
  EXPECT_EQ(all.merge(folder.file("a"), "t"), 0);
  EXPECT_EQ(all.merge(folder.file("b"), "t"), 1);
  EXPECT_THAT(refusal_of([&] { all.merge(folder.file("c"), "t"); }), HasSubstr("point 2 of the study t is another"));
  EXPECT_THAT(all.point_numbers("t"), ElementsAre(0, 1, 2));
  EXPECT_EQ(all.results("t")[2].step_s, 2.1);
  EXPECT_EQ(all.plan("t", 2), "{\"point\": 2}");
}

}  // namespace
}  // namespace nest::test

#endif
