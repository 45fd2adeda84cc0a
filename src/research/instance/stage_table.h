// Loads and limits of every possible stage of one graph, for the search.
//
// A stage is an interval [begin, end) of nodes. Its forward end depends on the level of its in-link only, its backward
// end on the level of its out-link only, so one table per level and direction holds them all. All are built by
// extending intervals one node at a time, which adds the times in the very order of the formula.
//
// With recomputation the backward is a composition of steps x -> max(x, hop) + time started at R instead of 0. Each
// step is non-decreasing in x, in floating point too, so its end is the larger of the end without recomputation and the
// plain sum R + time + time + …; the latter depends on no level and has a table of its own.
//
// Row `begin` holds only the intervals whose memory fits at s = 1: what a stage needs there grows with its length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index.h"
#include "instance/instance.h"

namespace nest::instance {

class StageTable {
 public:
  StageTable(const ProfileInstance& instance, const ProfileGraph& graph);

  int nodes() const { return nodes_; }
  // Largest end such that [begin, end) fits at s = 1; begin when not even one node does.
  int reach(int begin) const { return reach_[index(begin)]; }
  std::int64_t intervals() const { return static_cast<std::int64_t>(deepest_.size()); }

  // Rows of the intervals that start at `begin`, indexed by their length minus one.
  std::span<const double> forward(int level, int begin) const { return row(forward_[index(level)], begin); }
  std::span<const double> backward(int level, int begin) const { return row(backward_[index(level)], begin); }
  // R + the backward times one by one. Only with recomputation.
  std::span<const double> recomputed(int begin) const { return row(recomputed_, begin); }
  // Largest s at which the interval fits.
  std::span<const int> deepest(int begin) const { return row(deepest_, begin); }

  // Bytes of parameters of the nodes [0, end).
  std::int64_t leading_parameter_bytes(int end) const { return leading_parameters_[index(end)]; }

 private:
  static std::size_t index(int position) { return at(position); }
  std::size_t row_length(int begin) const { return index(reach(begin) - begin); }

  template <class T>
  std::span<const T> row(const std::vector<T>& table, int begin) const {
    return {table.data() + offset_[index(begin)], row_length(begin)};
  }
  template <class T>
  std::span<T> row(std::vector<T>& table, int begin) {
    return {table.data() + offset_[index(begin)], row_length(begin)};
  }

  void lay_out_rows(const ProfileInstance& instance, const ProfileGraph& graph);
  void fill_forward(const ProfileInstance& instance, const ProfileGraph& graph);
  void fill_backward(const ProfileInstance& instance, const ProfileGraph& graph);
  void fill_recomputed(const ProfileGraph& graph);

  int nodes_;
  std::vector<std::size_t> offset_;  // of each row in the tables
  std::vector<int> reach_;
  std::vector<std::int64_t> leading_parameters_;
  std::vector<std::vector<double>> forward_;   // by level
  std::vector<std::vector<double>> backward_;  // by level
  std::vector<double> recomputed_;
  std::vector<int> deepest_;
};

}  // namespace nest::instance
