// Our formulas against collectives simulated flow by flow, row by row and algorithm by algorithm.
#include "accuracy/simulated.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <iostream>
#include <map>

#include "test_support/data.h"

namespace nest::accuracy {
namespace {

constexpr const char* kFile = "collectives/simgrid.json";

struct SimulatedErrors {
  int rows = 0;
  double sum = 0;
  double worst = 0;
};

// Relative errors by kind of network; rows that mix jobs under their own name.
std::map<std::string, SimulatedErrors> errors_of_all_rows() {
  std::map<std::string, SimulatedErrors> found;
  const Document document = test::read_json(test::data_dir() / kFile);
  for (const char* list : {"rows", "mixed"}) {
    for (const doc::Value& value : *Fields(&document.root()).value(list)->as_array()) {
      const auto row = read_simulated(value);
      const auto predicted = row ? predict_s(*row) : std::nullopt;
      if (!predicted) continue;
      const std::string network = row->torus ? "torus" : row->fabric->has_rails() ? "pods" : "trees";
      SimulatedErrors& errors = found[row->kind.empty() ? network : row->kind];
      const double error = std::abs(*predicted / row->seconds - 1);
      ++errors.rows;
      errors.sum += error;
      errors.worst = std::max(errors.worst, error);
    }
  }
  return found;
}

TEST(SimulatedCollectives, FormulasAgreeWithSimGrid) {
  NEST_REQUIRE_DATA(kFile);
  struct Bound {
    const char* kind;
    int rows;  // at least
    double worst;
  };
  std::map<std::string, SimulatedErrors> found = errors_of_all_rows();
  for (const Bound& bound : {Bound{"trees", 940, 0.01}, Bound{"pods", 340, 0.05}, Bound{"torus", 75, 0.05},
                             Bound{"misaligned", 300, 0.10}, Bound{"multiring8", 50, 0.10}}) {
    const SimulatedErrors& errors = found[bound.kind];
    std::cout << fmt::format("  {:12} {:4} rows  max {:6.3f} %  mean {:7.4f} %\n", bound.kind, errors.rows,
                             100 * errors.worst, 100 * errors.sum / std::max(1, errors.rows));
    EXPECT_GE(errors.rows, bound.rows) << bound.kind;
    EXPECT_LE(errors.worst, bound.worst) << bound.kind;
  }
}

}  // namespace
}  // namespace nest::accuracy
