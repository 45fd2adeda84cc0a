#include "groups/grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"

namespace nest::groups {

const char* to_string(RankOrder order) { return order == RankOrder::stages_last ? "tp-cp-ep-dp-pp" : "tp-cp-ep-pp-dp"; }

GridSizes sizes_of(const Strategy& strategy) {
  const Split& split = strategy.split;
  return {split.tp, split.cp, strategy.dp, strategy.pp, split.expert_tp(), split.ep};
}

std::string refuse(const GridSizes& sizes, RankOrder order, std::int64_t instances) {
  for (const auto& [name, value] : {std::pair{"tp", sizes.tp},
                                    {"cp", sizes.cp},
                                    {"dp", sizes.dp},
                                    {"pp", sizes.pp},
                                    {"etp", sizes.etp},
                                    {"ep", sizes.ep},
                                    {"instances", instances}}) {
    if (value < 1) return fmt::format("{}={} is out of range; it is at least 1", name, value);
  }
  const std::int64_t stage = checked_product({sizes.tp, sizes.cp, sizes.dp});
  const std::int64_t experts = checked_product({sizes.etp, sizes.ep});
  if (stage % experts != 0) {
    return fmt::format("etp·ep = {}·{} does not divide the {} ranks of a stage (tp·cp·dp)", sizes.etp, sizes.ep, stage);
  }
  if (order == RankOrder::replicas_last && sizes.pp > 1 && experts != sizes.tp * sizes.cp) {
    return fmt::format("the order {} needs the same pipelines in both grids, etp·ep = {} equal to tp·cp = {}",
                       to_string(order), experts, sizes.tp * sizes.cp);
  }
  for (const auto& [name, size] : {std::pair{"dp·cp", sizes.dp * sizes.cp}, {"edp", stage / experts}}) {
    if (size % instances != 0) {
      return fmt::format("{} instances of the optimizer do not divide {} = {}", instances, name, size);
    }
  }
  return {};
}

Grid::Grid(const GridSizes& sizes)
    : stages_(sizes.pp),
      ranks_(sizes.tp * sizes.cp * sizes.dp),
      attention_ranks_(sizes.tp * sizes.cp),
      attention_{{{Axis::tensor, sizes.tp}, {Axis::context, sizes.cp}, {Axis::data, sizes.dp}}},
      experts_{{{Axis::expert_tensor, sizes.etp},
                {Axis::expert, sizes.ep},
                {Axis::expert_data, ranks_ / (sizes.etp * sizes.ep)}}} {}

Grid::Grid(const Strategy& strategy)
    : stages_(strategy.pp),
      ranks_(strategy.dp * strategy.split.replica_devices()),
      attention_ranks_(strategy.split.replica_devices()) {
  const Split& split = strategy.split;
  const std::int64_t team = split.team(), teams = strategy.dp / team;
  attention_ = {{{Axis::tensor, split.tp}, {Axis::context, split.cp}, {Axis::data, team}, {Axis::data, teams}}};
  experts_ = {{{Axis::expert_tensor, split.expert_tp()},
               {Axis::expert, split.ep},
               {Axis::expert_data, split.team_devices() / split.expert_devices()},
               {Axis::expert_data, teams}}};
}

bool Grid::varies(Kind kind, Axis axis) {
  switch (kind) {
    case Kind::tensor: return axis == Axis::tensor;
    case Kind::context: return axis == Axis::context;
    case Kind::data: return axis == Axis::data;
    case Kind::dense: return axis == Axis::context || axis == Axis::data;
    case Kind::expert: return axis == Axis::expert;
    case Kind::tensor_expert: return axis == Axis::expert_tensor || axis == Axis::expert;
    case Kind::expert_tensor: return axis == Axis::expert_tensor;
    case Kind::expert_data: return axis == Axis::expert_data;
    case Kind::pipeline: return false;
  }
  return false;
}

const Grid::Reading& Grid::reading_of(Kind kind) const {
  switch (kind) {
    case Kind::expert:
    case Kind::tensor_expert:
    case Kind::expert_tensor:
    case Kind::expert_data: return experts_;
    default: return attention_;
  }
}

std::int64_t Grid::size(Kind kind) const {
  if (kind == Kind::pipeline) return stages_;
  std::int64_t size = 1;
  for (const Digit& digit : reading_of(kind)) size *= varies(kind, digit.axis) ? digit.count : 1;
  return size;
}

std::vector<Stride> Grid::members(Kind kind) const {
  std::vector<Stride> axes;
  std::int64_t stride = 1;
  Axis last = Axis::tensor;
  for (const Digit& digit : reading_of(kind)) {
    if (varies(kind, digit.axis)) {
      const bool continues = !axes.empty() && axes.back().stride * axes.back().count == stride;
      if (continues && digit.axis != last) {
        axes.back().count *= digit.count;
      } else if (digit.count > 1) {
        axes.push_back({stride, digit.count});
      }
      last = digit.axis;  // of a digit of one value too: the next one of its axis does not join what is before both
    }
    stride *= digit.count;
  }
  return axes;
}

std::vector<Stride> Grid::siblings(Kind kind) const {
  std::vector<Stride> axes;
  std::int64_t stride = 1;
  for (const Digit& digit : reading_of(kind)) {
    if (digit.count > 1 && !varies(kind, digit.axis)) axes.push_back({stride, digit.count});
    stride *= digit.count;
  }
  return axes;
}

Coordinates Grid::coordinates(const StageRank& place) const {
  const auto value = [&](const Reading& reading, Axis axis) {
    std::int64_t found = 0, weight = 1, rest = place.rank;
    for (const Digit& digit : reading) {
      if (digit.axis == axis) {
        found += rest % digit.count * weight;
        weight *= digit.count;
      }
      rest /= digit.count;
    }
    return found;
  };
  return {value(attention_, Axis::tensor),
          value(attention_, Axis::context),
          value(attention_, Axis::data),
          value(experts_, Axis::expert_tensor),
          value(experts_, Axis::expert),
          value(experts_, Axis::expert_data),
          place.stage};
}

std::int64_t Grid::rank_of(RankOrder order, const StageRank& place) const {
  if (order == RankOrder::stages_last) return place.rank + ranks_ * place.stage;
  const std::int64_t inside = place.rank % attention_ranks_, data = place.rank / attention_ranks_;
  return inside + attention_ranks_ * (place.stage + stages_ * data);
}

StageRank Grid::place_of(RankOrder order, std::int64_t rank) const {
  if (order == RankOrder::stages_last) return {rank / ranks_, rank % ranks_};
  const std::int64_t inside = rank % attention_ranks_, rest = rank / attention_ranks_;
  return {rest % stages_, inside + attention_ranks_ * (rest / stages_)};
}

std::vector<std::int64_t> Grid::group_of(Kind kind, RankOrder order, std::int64_t rank) const {
  const StageRank place = place_of(order, rank);
  std::vector<std::int64_t> found;
  if (kind == Kind::pipeline) {
    for (std::int64_t stage = 0; stage < stages_; ++stage) found.push_back(rank_of(order, {stage, place.rank}));
    return found;
  }
  const std::vector<Stride> axes = members(kind);
  std::int64_t first = place.rank;
  for (const Stride& axis : axes) first -= place.rank / axis.stride % axis.count * axis.stride;
  const auto all = list_groups({first, axes, {}});
  for (const std::int64_t member : all.front()) found.push_back(rank_of(order, {place.stage, member}));
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace nest::groups
