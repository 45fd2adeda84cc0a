#include "cluster/lattice_layout.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"

namespace nest::cluster {
namespace {

struct Axis {
  std::int64_t stride = 1;
  std::int64_t count = 1;
  bool of_members = false;
  std::int64_t members_below = 1;  // product of the member counts of the axes inside this one
  std::int64_t groups_below = 1;   // the same of the siblings
};

// A number whose digits are followed from the outermost axis inwards, as long as they are those of the groups looked
// at.
struct Cut {
  std::int64_t at = 0;
  bool live = false;

  static Cut after(std::int64_t position) { return {position, position > 0}; }

  std::int64_t digit(const Axis& axis) const { return std::min(at / axis.stride, axis.count); }
  void enter(const Axis& axis, std::int64_t digit) {
    at -= digit * axis.stride;
    live = digit < axis.count && at > 0;
  }
};

// Groups that agree in their outer digits.
struct Class {
  Cut begin, end;                // of the unit
  Cut starts_begin, starts_end;  // of the first members that make a group fit into the unit around it
  bool starts_late = true;       // not before starts_begin
  bool starts_early = false;     // before starts_end
  std::int64_t members = 0;      // that each has in the unit, as far as decided
  std::int64_t groups = 1;

  bool decided() const { return !begin.live && !end.live && !starts_begin.live && !starts_end.live; }
  bool absent() const { return !begin.live && !end.live && members == 0; }
};

// What groups have in one unit.
struct UnitCount {
  std::int64_t groups = 0;    // with members here
  std::int64_t crossing = 0;  // of them, those with members elsewhere
  std::int64_t fitting = 0;   // of them, those inside the unit around this one, where that was asked for
  std::int64_t fewest = 0;    // members of a crossing group; their number where none crosses
  std::int64_t most = 0;
  std::int64_t worst = 0;  // members of the group that is cut most evenly
};

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Remembers some of the keys it has seen; a key that was forgotten only costs work.
class Seen {
 public:
  bool insert(std::uint64_t key) {
    std::uint64_t& slot = slots_[(key * 0x9E3779B97F4A7C15U) >> 57U];
    if (slot == key) return false;
    slot = key;
    return true;
  }

 private:
  std::array<std::uint64_t, 128> slots_{};  // no key is 0
};

class Lattice {
 public:
  Lattice(std::span<const Stride> members, std::span<const Stride> siblings) {
    auto member = members.begin();
    auto sibling = siblings.begin();
    while (member != members.end() || sibling != siblings.end()) {
      const bool of_members =
          sibling == siblings.end() || (member != members.end() && member->stride < sibling->stride);
      const Stride& next = of_members ? *member++ : *sibling++;
      NEST_CHECK(axes_ < kLatticeAxes, "too many axes in one group");
      axis_[axes_++] = {next.stride, next.count, of_members, members_, groups_};
      (of_members ? members_ : groups_) *= next.count;
      reach_ += next.stride * (next.count - 1);
      if (of_members) span_ += next.stride * (next.count - 1);
    }
  }

  std::int64_t members() const { return members_; }
  std::int64_t groups() const { return groups_; }
  std::int64_t reach() const { return reach_; }                                     // offset of the last device
  std::int64_t span() const { return span_; }                                       // of a group's last member
  std::int64_t period() const { return axes_ == 0 ? 1 : axis_[axes_ - 1].stride; }  // that the pattern repeats with

  // Equal for intervals in which count() finds the same: those that are alike but for whole steps of an axis, where
  // they lie within one step of all axes further out.
  std::uint64_t signature(Interval unit) const {
    for (std::size_t a = axes_; a-- > 0;) {
      const Axis& axis = axis_[a];
      if (unit.end > axis.stride * axis.count) return key(2 * a, unit.begin, unit.end);  // reaches into a gap
      const std::int64_t step = unit.begin / axis.stride * axis.stride;
      unit.begin -= step;
      unit.end -= step;
      if (unit.end > axis.stride) return key(2 * a + 1, unit.begin, unit.end);
    }
    return key(2 * kLatticeAxes, unit.begin, unit.end);
  }

  // The same for leaving(), of units that lie among the groups' devices and are divided alike.
  std::uint64_t border_signature(Interval around) const {
    const std::int64_t step = around.begin / period() * period();
    return key(2 * kLatticeAxes + 1, around.begin - step, around.end - step);
  }

  // Members of the first group below an offset.
  std::int64_t first_group_below(std::int64_t offset) const {
    Cut cut = Cut::after(offset);
    std::int64_t below = 0;
    for (std::size_t a = axes_; a-- > 0 && cut.live;) {
      if (!axis_[a].of_members) continue;
      const std::int64_t digit = cut.digit(axis_[a]);
      below += digit * axis_[a].members_below;
      cut.enter(axis_[a], digit);
    }
    return below + (cut.live ? 1 : 0);
  }

  // Offsets relative to the first device.
  UnitCount count(Interval unit) const {
    Class all;
    all.begin = Cut::after(unit.begin);
    all.end = Cut::after(unit.end);
    UnitCount found = empty();
    descend(axes_, all, found);
    return found;
  }

  // Groups with members in `unit` that reach beyond `around`.
  std::int64_t leaving(Interval unit, Interval around) const {
    Class all;
    all.begin = Cut::after(unit.begin);
    all.end = Cut::after(unit.end);
    all.starts_begin = Cut::after(around.begin);
    all.starts_late = !all.starts_begin.live;
    all.starts_end = Cut::after(around.end - span_);
    UnitCount found = empty();
    descend(axes_, all, found);
    return found.groups - found.fitting;
  }

 private:
  static std::uint64_t key(std::size_t kind, std::int64_t begin, std::int64_t end) {
    static_assert(kMaxDevices <= std::int64_t{1} << 24U, "two offsets and a kind fit into 64 bits");
    return ((static_cast<std::uint64_t>(kind) << 52U) | (static_cast<std::uint64_t>(begin) << 26U) |
            static_cast<std::uint64_t>(end)) +
           1;
  }

  UnitCount empty() const {
    UnitCount found;
    found.fewest = found.worst = members_;
    return found;
  }

  // Cuts that are still followed at the innermost axis lie behind the last digit: positions count below them.
  void add(const Class& groups, UnitCount& found) const {
    const std::int64_t here = groups.members + (groups.end.live ? 1 : 0) - (groups.begin.live ? 1 : 0);
    if (here == 0) return;
    const bool late = groups.starts_late && !groups.starts_begin.live;
    const bool early = groups.starts_early || groups.starts_end.live;
    found.groups += groups.groups;
    if (late && early) found.fitting += groups.groups;
    found.most = std::max(found.most, here);
    if (here == members_) return;
    found.crossing += groups.groups;
    found.fewest = std::min(found.fewest, here);
    const std::int64_t even = std::min(here, members_ - here);
    const std::int64_t so_far = std::min(found.worst, members_ - found.worst);
    if (even > so_far || (even == so_far && here > found.worst)) found.worst = here;
  }

  void descend(std::size_t axes, Class groups, UnitCount& found) const {
    while (axes > 0) {
      if (groups.absent()) return;
      const Axis& axis = axis_[--axes];
      if (groups.decided()) {
        groups.groups *= axis.of_members ? axis.groups_below : axis.groups_below * axis.count;
        break;
      }
      if (!axis.of_members) {
        split(axes, groups, found);
        return;
      }
      groups.members += pass(axis, groups.end) - pass(axis, groups.begin);
    }
    add(groups, found);
  }

  // Members below the cut in whole steps of a member axis.
  static std::int64_t pass(const Axis& axis, Cut& cut) {
    if (!cut.live) return 0;
    const std::int64_t digit = cut.digit(axis);
    cut.enter(axis, digit);
    return digit * axis.members_below;
  }

  // Groups part where their digit of a sibling axis passes that of a cut.
  void split(std::size_t a, const Class& groups, UnitCount& found) const {
    const Axis& axis = axis_[a];
    std::array<std::int64_t, 4> digits{};
    std::size_t cuts = 0;
    for (const Cut* cut : {&groups.begin, &groups.end, &groups.starts_begin, &groups.starts_end}) {
      if (!cut->live) continue;
      const std::int64_t digit = cut->digit(axis);
      std::size_t at = cuts++;
      for (; at > 0 && digits[at - 1] > digit; --at) digits[at] = digits[at - 1];
      digits[at] = digit;
    }
    std::int64_t next = 0;
    for (std::size_t i = 0; i < cuts; ++i) {
      const std::int64_t digit = digits[i];
      if (digit < next) continue;
      if (digit > next) descend(a, part(axis, groups, next, digit - next), found);
      if (digit < axis.count) descend(a, part(axis, groups, digit, 1), found);
      next = digit + 1;
    }
    if (next < axis.count) descend(a, part(axis, groups, next, axis.count - next), found);
  }

  // The groups with `width` digits from `digit`, among which no cut lies but perhaps at the first.
  static Class part(const Axis& axis, const Class& groups, std::int64_t digit, std::int64_t width) {
    Class made = groups;
    made.groups *= width;
    if (follow(axis, made.begin, digit)) made.members -= axis.members_below;
    if (follow(axis, made.end, digit)) made.members += axis.members_below;
    if (made.starts_begin.live) {
      const bool below = follow(axis, made.starts_begin, digit);
      made.starts_late = !below && !made.starts_begin.live;
    }
    if (made.starts_end.live) made.starts_early = follow(axis, made.starts_end, digit);
    return made;
  }

  // Keeps a cut alive where it has this digit; else true where the digit lies below it.
  static bool follow(const Axis& axis, Cut& cut, std::int64_t digit) {
    if (!cut.live) return false;
    const std::int64_t own = cut.digit(axis);
    if (own == digit && own < axis.count) {
      cut.enter(axis, own);
    } else {
      cut.live = false;
    }
    return digit < own;
  }

  std::array<Axis, kLatticeAxes> axis_{};
  std::size_t axes_ = 0;
  std::int64_t members_ = 1;
  std::int64_t groups_ = 1;
  std::int64_t reach_ = 0;
  std::int64_t span_ = 0;
};

// Fills a layout level by level.
class LatticeLayout {
 public:
  LatticeLayout(const Fabric& fabric, std::int64_t first, const Lattice& lattice)
      : fabric_(fabric), first_(first), end_(first + lattice.reach() + 1), lattice_(lattice) {}

  GroupLayout layout() {
    const std::int64_t members = lattice_.members();
    layout_.members = members;
    layout_.most[0] = layout_.inside[0] = layout_.head[0] = layout_.fewest[0] = layout_.groups_inside[0] = 1;
    for (std::size_t l = 1; l < fabric_.levels; ++l) count_level(l);
    for (std::size_t l = 0; l < fabric_.levels; ++l) {
      layout_.ring_exits[l] = 1;
      if (l > 0 && layout_.sharing[l][l] > 0) layout_.top = l;
    }
    for (std::size_t above = 0; above <= layout_.top && members > 1; ++above) layout_.sharing[0][above] = 1;
    for (std::size_t l = 1; l < layout_.top; ++l) {
      for (std::size_t above = l + 1; above <= layout_.top; ++above) count_climbing(l, above);
    }
    layout_.alike = lattice_.groups() == 1 || (layout_.fewest == layout_.inside && layout_.most == layout_.inside);
    if (fabric_.has_rails()) {
      const std::size_t r = fabric_.rail_level;
      layout_.lane_period = layout_.fewest[r] == layout_.inside[r] ? layout_.inside[r] : fabric_.unit[r];
    }
    return layout_;
  }

 private:
  Interval clipped(Interval devices) const {
    return {std::max(devices.begin, first_) - first_, std::min(devices.end, end_) - first_};
  }

  // Calls visit(interval) for the units of a stretch that hold devices of the groups: all of them, or the first, the last
  // and as many between as it takes until the pattern of groups and units repeats.
  template <class Visit>
  void visit_units(const UnitStretch& stretch, bool repeats, Visit visit) const {
    const std::int64_t stretch_end = stretch.first_device + stretch.size * stretch.units;
    if (stretch_end <= first_ || stretch.first_device >= end_) return;
    const std::int64_t low = std::max<std::int64_t>(0, (first_ - stretch.first_device) / stretch.size);
    const std::int64_t high = std::min(stretch.units, (end_ - 1 - stretch.first_device) / stretch.size + 1) - 1;
    const std::int64_t period = lattice_.period();
    const std::int64_t different = repeats ? period / std::gcd(period, stretch.size) : stretch.units;
    const auto visit_one = [&](std::int64_t index) {
      const std::int64_t begin = stretch.first_device + index * stretch.size;
      visit(Interval{begin, begin + stretch.size});
    };
    const std::int64_t last = std::min(high, low + different);
    for (std::int64_t index = low; index <= last; ++index) visit_one(index);
    if (last < high) visit_one(high);
  }

  void count_level(std::size_t l) {
    const std::int64_t members = lattice_.members();
    std::int64_t worst = members;
    layout_.fewest[l] = members;
    Seen seen;
    for (const UnitStretch& stretch : fabric_.stretches[l]) {
      visit_units(stretch, true, [&](Interval devices) {
        const Interval unit = clipped(devices);
        if (!seen.insert(lattice_.signature(unit))) return;
        const UnitCount found = lattice_.count(unit);
        layout_.groups_inside[l] = std::max(layout_.groups_inside[l], found.groups);
        layout_.sharing[l][l] = std::max(layout_.sharing[l][l], found.crossing);
        layout_.most[l] = std::max(layout_.most[l], found.most);
        layout_.fewest[l] = std::min(layout_.fewest[l], found.fewest);
        const std::int64_t even = std::min(found.worst, members - found.worst);
        const std::int64_t so_far = std::min(worst, members - worst);
        if (even > so_far || (even == so_far && found.worst > worst)) worst = found.worst;
      });
    }
    layout_.inside[l] = worst;
    const std::int64_t unit_end = fabric_.unit_at(l, first_).end;
    layout_.head[l] = lattice_.groups() > 1 ? worst : lattice_.first_group_below(unit_end - first_);
  }

  // Groups on one level-l uplink that reach beyond the level-`above` unit around it.
  void count_climbing(std::size_t l, std::size_t above) {
    std::int64_t& most = layout_.sharing[l][above];
    if (lattice_.span() >= fabric_.unit[above]) {
      most = layout_.groups_inside[l];  // no group fits into any of those units
      return;
    }
    // No unit has more; usually one of the first has as many, and the search ends there.
    const std::int64_t limit =
        std::min({layout_.groups_inside[l], layout_.sharing[l][above - 1], layout_.sharing[above][above]});
    const std::int64_t span = lattice_.span();
    const bool repeats = fabric_.stretches[l].size() == 1;
    Seen seen_begin;
    Seen seen_end;
    for (const UnitStretch& stretch : fabric_.stretches[above]) {
      visit_units(stretch, repeats, [&](Interval around) {
        if (most >= limit) return;
        // A group that reaches over a border has its members within `span` of it.
        if (around.begin > first_ && !(repeats && is_known(l, around, around.begin, seen_begin))) {
          most = std::max(most, leaving(l, {around.begin, around.begin + span}, around, limit));
        }
        if (around.end < end_ && !(repeats && is_known(l, around, around.end, seen_end))) {
          most = std::max(most, leaving(l, {around.end - span, around.end}, around, limit));
        }
      });
    }
  }

  // Whether a border that is like this one, with level-l units of one size beside it, was looked at before. Where the
  // borders of `around` are far apart, only the groups and units beside this one count.
  bool is_known(std::size_t l, Interval around, std::int64_t border, Seen& seen) const {
    const std::int64_t margin = lattice_.span() + fabric_.unit[l];
    if (around.end - around.begin > 2 * margin) {
      const Interval beside{border - margin - first_, border + margin - first_};
      return beside.begin >= 0 && beside.end <= end_ - first_ && !seen.insert(lattice_.signature(beside));
    }
    return around.begin > first_ && around.end < end_ && !seen.insert(lattice_.border_signature(clipped(around)));
  }

  // The most groups that one of the level-l units in part of `around` shares with what lies outside `around`; more than
  // `limit` is not looked for.
  std::int64_t leaving(std::size_t l, Interval part, Interval around, std::int64_t limit) const {
    std::int64_t most = 0;
    const std::int64_t begin = std::max({part.begin, around.begin, first_});
    const std::int64_t end = std::min({part.end, around.end, end_});
    for (std::int64_t at = begin; at < end && most < limit;) {
      const UnitSpan unit = fabric_.unit_at(l, at);
      const Interval devices{unit.begin, unit.end};
      most = std::max(most, lattice_.leaving(clipped(devices), {around.begin - first_, around.end - first_}));
      at = unit.end;
    }
    return most;
  }

  const Fabric& fabric_;
  std::int64_t first_;
  std::int64_t end_;
  const Lattice& lattice_;
  GroupLayout layout_;
};

}  // namespace

GroupLayout lattice_layout(const Fabric& fabric, std::int64_t first, std::span<const Stride> members,
                           std::span<const Stride> siblings) {
  const Lattice lattice(members, siblings);
  return LatticeLayout(fabric, first, lattice).layout();
}

}  // namespace nest::cluster
