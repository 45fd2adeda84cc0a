// The cluster with every stage on its devices.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/units.h"
#include "html/colour.h"
#include "html/device_map.h"
#include "html/plan_sections.h"
#include "html/tile_art.h"
#include "report/cluster_report.h"

namespace nest::html {
namespace {

constexpr std::int64_t kSpelledOut = 64;      // devices: each is labelled with all it does
constexpr std::size_t kNamedTiles = 64;       // tiles that are drawn with their name
constexpr std::size_t kCaptionedUnits = 160;  // units of an overview with the replicas they hold
constexpr std::size_t kKindsInFull = 3;
constexpr std::size_t kMostStripes = 96;        // of one unit in an overview
constexpr std::size_t kAllStripes = 1500;       // of all kinds of units together
constexpr std::int64_t kDevicesOfKinds = 1200;  // drawn one by one, of all kinds of units together

std::string range_text(std::int64_t first, std::int64_t last) {
  return first == last ? format_integer(first) : format_integer(first) + "–" + format_integer(last);
}

class ClusterDrawing {
 public:
  explicit ClusterDrawing(const PlanView& view)
      : view_(view),
        strategy_(view.strategy),
        ranks_(strategy_),
        cluster_(view.job.cluster),
        map_(make_device_map(cluster_)),
        art_(strategy_, cluster_, map_.columns) {}

  Markup run() {
    Markup out;
    out.element("p", lead(), {{"class", "lead"}});
    if (strategy_.pp > 1) out.add(stage_key());
    out.add(idle_pattern());
    if (map_.overview == 0) {
      out.add(everything());
    } else {
      out.add(overview());
    }
    out.add(details("Every stage's devices as a table", stage_table()));
    return out;
  }

 private:
  std::int64_t idle() const { return cluster_.devices - strategy_.devices_used(); }

  std::string lead() const {
    const Strategy& s = strategy_;
    std::string text =
        fmt::format("{} devices: {}. ", format_integer(cluster_.devices), report::cluster_shape(cluster_));
    const std::int64_t a = s.split.replica_devices();
    if (s.pp > 1) {
      text += fmt::format("One replica of the model is {} devices: {} stages of {}. ", format_integer(s.pp * a), s.pp,
                          format_integer(a));
      if (s.dp > 1 && s.dp_inner == 1) {
        text +=
            fmt::format("Its stages stand next to each other; {} replicas follow one another. ", format_integer(s.dp));
      } else if (s.dp > 1 && s.dp_inner == s.dp) {
        text += fmt::format("All {} replicas of a stage stand next to each other. ", format_integer(s.dp));
      } else if (s.dp > 1) {
        text += fmt::format("{} replicas of a stage stand next to each other, {} such pipelines follow one another. ",
                            format_integer(s.dp_inner), format_integer(s.dp / s.dp_inner));
      }
    } else {
      text += a == 1 ? fmt::format("Each of {} devices holds the whole model. ", format_integer(s.dp))
                     : fmt::format("One replica of the model is {} devices; there are {}. ", format_integer(a),
                                   format_integer(s.dp));
    }
    text += idle() == 0 ? "No device is idle." : fmt::format("{} devices stay idle.", format_integer(idle()));
    return text;
  }

  // The colours, with numbers as long as there is room for them.
  Markup stage_key() const {
    const std::int64_t p = strategy_.pp;
    const std::int64_t every = p > 99 ? (p + 19) / 20 : (p + 31) / 32;
    Markup key;
    key.open("div", {{"class", "stages"}});
    key.element("span", "stage", {{"class", "muted"}});
    key.open("svg", {{"class", "ramp"},
                     {"role", "img"},
                     {"aria-label", fmt::format("Colours of stages 0 to {}, dark to light", p - 1)}});
    const double width = 1 / static_cast<double>(p);
    for (std::int64_t s = 0; s < p; ++s) {
      const StagePlan& stage = view_.plan.stages[static_cast<std::size_t>(s)];
      key.open("rect", {{"x", percentage(static_cast<double>(s) * width)},
                        {"width", percentage(width)},
                        {"height", "100%"},
                        {"fill", to_hex(stage_colour(s, p))}});
      key.element("title", fmt::format("stage {}: {}", s, report::layers_label(view_.report.model, stage)));
      key.close();
    }
    for (std::int64_t s = 0; s < p; s += every) {
      key.element("text", std::to_string(s),
                  {{"x", percentage((static_cast<double>(s) + 0.5) * width)},
                   {"y", "13"},
                   {"class", "c"},
                   {"fill", to_hex(ink_on(stage_colour(s, p)))}});
    }
    return key.close().close();
  }

  std::string tile_name(std::size_t tile) const {
    // The innermost switches are the nodes that have names, unless their trays are.
    const bool nodes = cluster_.node_level == 0 && cluster::devices_per_tray(cluster_) == 0;
    if (nodes && tile < cluster_.node_names.size()) return clip(cluster_.node_names[tile], kLongestName);
    return fmt::format("{} {}", map_.tiers[0].name, tile);
  }

  Markup tiles(std::size_t first, std::size_t count, double cell, bool named) {
    Markup out;
    const Tier& tier = map_.tiers[0];
    out.open("div", {{"class", "tiles"}});
    for (std::size_t tile = first; tile < first + count; ++tile) {
      out.open("div", {{"class", "tile"}});
      if (cluster_.devices <= kSpelledOut) {
        out.add(art_.large_tile(tier.begin(tile), tier.end(tile)));
      } else {
        const Size size = art_.tile_size(tier.end(tile) - tier.begin(tile), cell);
        out.open("svg",
                 {{"width", coordinate(size.width)}, {"height", coordinate(size.height)}, {"aria-hidden", "true"}});
        draw_tile(out, tile, cell);
        out.close();
      }
      if (named) out.element("span", tile_name(tile), {{"class", "cap"}});
      out.close();
    }
    return out.close();
  }

  // The first tile of a kind is drawn; those that look the same refer to it.
  void draw_tile(Markup& out, std::size_t tile, double cell) {
    if (tile_kinds_.kind_of.empty()) tile_kinds_ = find_kinds(ranks_, map_.tiers[0]);
    const std::size_t kind = tile_kinds_.kind_of[tile];
    const std::string id = fmt::format("t{}", kind);
    if (!drawn_.insert(kind).second) {
      out.empty("use", {{"href", "#" + id}});
      return;
    }
    const Tier& tier = map_.tiers[0];
    out.open("g", {{"id", id}}).add(art_.tile(tier.begin(tile), tier.end(tile), cell)).close();
  }

  // Boxes in boxes: the units of tier t among begin … end-1, down to tier `until`, whose content is drawn by `draw`.
  template <class Draw>
  void nested(Markup& out, std::size_t t, std::size_t until, std::int64_t begin, std::int64_t end,
              const Draw& draw) const {
    while (t > until && map_.tiers[t].within(begin, end).second <= 1) --t;
    if (t <= until) {
      const auto [first, count] = map_.tiers[until].within(begin, end);
      draw(out, first, count);
      return;
    }
    const auto [first, count] = map_.tiers[t].within(begin, end);
    out.open("div", {{"class", "boxes"}});
    for (std::size_t unit = first; unit < first + count; ++unit) {
      out.open("div", {{"class", "box"}});
      std::string name = fmt::format("{} {}", map_.tiers[t].name, unit);
      const std::string replicas = replicas_in(map_.tiers[t].begin(unit), map_.tiers[t].end(unit));
      if (replicas.empty()) name += " · idle";
      if (!replicas.empty() && replicas != range_text(0, strategy_.dp - 1)) name += " · replicas " + replicas;
      out.element("span", name, {{"class", "cap"}});
      nested(out, t - 1, until, map_.tiers[t].begin(unit), map_.tiers[t].end(unit), draw);
      out.close();
    }
    out.close();
  }

  Markup everything() {
    const double cell = cluster_.devices <= 512 ? 16 : 12;
    const bool named = map_.tiers[0].count() <= kNamedTiles;
    Markup out;
    out.open("figure");
    out.open("div", {{"class", "map"}, {"role", "img"}, {"aria-label", lead()}});
    nested(out, map_.tiers.size() - 1, 0, 0, cluster_.devices,
           [&](Markup& into, std::size_t first, std::size_t count) { into.add(tiles(first, count, cell, named)); });
    out.close();
    out.element("figcaption", caption());
    return out.close();
  }

  std::string caption() const {
    std::string text = fmt::format("Every square is a device, every group of squares a {}. ", map_.tiers[0].name);
    if (cluster_.devices <= kSpelledOut) {
      std::string marks;
      if (strategy_.pp > 1) marks += "r: replica";
      const auto add = [&](std::int64_t degree, const char* mark) {
        if (degree > 1) marks += (marks.empty() ? "" : ", ") + std::string(mark);
      };
      add(strategy_.split.tp, "t: tensor rank");
      add(strategy_.split.cp, "c: context rank");
      add(strategy_.split.ep, "e: expert rank");
      if (!marks.empty()) text += marks + ". ";
    } else if (strategy_.pp > 1) {
      text += "Numbers are stages. ";
    }
    if (idle() > 0) text += "Hatched: idle.";
    return text;
  }

  static bool lettered(const UnitKinds& kinds) { return kinds.examples.size() > 1 && kinds.examples.size() <= 26; }
  static std::string kind_letter(std::size_t kind) { return std::string(1, static_cast<char>('A' + kind)); }

  // Replicas that a unit holds, as text; empty for an idle one.
  std::string replicas_in(std::int64_t begin, std::int64_t end) const {
    std::int64_t low = strategy_.dp, high = -1;
    for (const DeviceRun& run : stage_runs(ranks_, begin, end)) {
      if (run.stage < 0) continue;
      const std::int64_t replica = ranks_.place_of(run.begin)->replica;
      low = std::min(low, replica);
      high = std::max(high, replica);
    }
    return high < 0 ? std::string() : range_text(low, high);
  }

  // Few units are drawn larger.
  Size unit_size() const {
    const std::size_t units = map_.tiers[map_.overview].count();
    if (units > kCaptionedUnits) return {28, 12};
    return {units <= 16 ? 160.0 : units <= 32 ? 100.0 : 64.0, 20};
  }

  // The first unit of a kind is drawn; those that look the same refer to it.
  void draw_unit(Markup& out, std::size_t unit, const UnitKinds& kinds, std::int64_t full) {
    const Tier& tier = map_.tiers[map_.overview];
    const bool caption = tier.count() <= kCaptionedUnits;
    const std::size_t kind = kinds.kind_of[unit];
    const std::string replicas = replicas_in(tier.begin(unit), tier.end(unit));
    const Size size = unit_size();
    const std::string id = fmt::format("u{}", kind);
    out.open("div", {{"class", "tile"}});
    out.open("svg", {{"width", coordinate(size.width)}, {"height", coordinate(size.height)}, {"aria-hidden", "true"}});
    if (caption) {
      out.element("title",
                  fmt::format("{} {}: {} devices{}", tier.name, unit, format_integer(tier.end(unit) - tier.begin(unit)),
                              replicas.empty() ? ", idle" : ", replicas " + replicas));
    }
    if (kinds.examples[kind] == unit) {
      const std::size_t stripes = std::max<std::size_t>(2, std::min(kMostStripes, kAllStripes / kinds.examples.size()));
      out.open("g", {{"id", id}}).add(art_.strip(tier.begin(unit), tier.end(unit), full, stripes, size)).close();
    } else {
      out.empty("use", {{"href", "#" + id}});
    }
    out.close();
    if (caption) {
      std::string text = replicas.empty() ? "idle" : strategy_.dp > 1 ? replicas : std::string();
      if (lettered(kinds)) text = kind_letter(kind) + (text.empty() ? "" : " · ") + text;
      out.element("span", text, {{"class", "cap"}});
    }
    out.close();
  }

  Markup overview() {
    const Tier& tier = map_.tiers[map_.overview];
    const UnitKinds kinds = find_kinds(ranks_, tier);
    const std::int64_t full = tier.largest();
    Markup out;
    out.open("figure");
    out.open("div", {{"class", "map"}, {"role", "img"}, {"aria-label", lead()}});
    nested(out, map_.tiers.size() - 1, map_.overview, 0, cluster_.devices,
           [&](Markup& into, std::size_t first, std::size_t count) {
             into.open("div", {{"class", tier.count() <= kCaptionedUnits ? "tiles" : "tiles many"}});
             for (std::size_t unit = first; unit < first + count; ++unit) draw_unit(into, unit, kinds, full);
             into.close();
           });
    out.close();
    out.element("figcaption", overview_caption(tier, kinds));
    out.close();
    return out.add(unit_details(tier, kinds));
  }

  std::string overview_caption(const Tier& tier, const UnitKinds& kinds) const {
    std::string text = fmt::format("Every strip is {}{}: its devices from left to right{}. ", tier.made_up ? "" : "a ",
                                   tier.name, strategy_.pp > 1 ? ", coloured by stage" : "");
    if (tier.count() <= kCaptionedUnits && strategy_.dp > 1) text += "Below it, the replicas that it holds. ";
    text +=
        kinds.examples.size() == 1
            ? fmt::format("All {} look alike.", format_integer(static_cast<std::int64_t>(tier.count())))
            : fmt::format("They come in {} kinds.", format_integer(static_cast<std::int64_t>(kinds.examples.size())));
    if (idle() > 0) text += " Hatched: idle.";
    return text;
  }

  // One unit of the most frequent kinds, device by device.
  Markup unit_details(const Tier& tier, const UnitKinds& kinds) {
    std::vector<std::size_t> order;
    for (std::size_t kind = 0; kind < kinds.examples.size(); ++kind) {
      const std::size_t unit = kinds.examples[kind];
      if (!replicas_in(tier.begin(unit), tier.end(unit)).empty()) order.push_back(kind);  // idle ones show nothing
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return kinds.counts[a] > kinds.counts[b]; });
    order.resize(std::min(order.size(), kKindsInFull));
    std::sort(order.begin(), order.end());
    const auto affordable = static_cast<std::size_t>(
        std::max<std::int64_t>(1, kDevicesOfKinds / static_cast<std::int64_t>(order.size()) / map_.largest_tile));
    Markup out;
    for (const std::size_t kind : order) {
      const std::size_t unit = kinds.examples[kind];
      const auto [first, all] = map_.tiers[0].within(tier.begin(unit), tier.end(unit));
      const std::size_t count = std::min({all, kMostTilesOfUnit, affordable});
      std::string heading = tier.made_up ? fmt::format("{} from {} on", tier.name, tile_name(first))
                                         : fmt::format("{} {}", tier.name, unit);
      const std::string label =
          fmt::format("{}: {} devices in {}", heading, format_integer(tier.end(unit) - tier.begin(unit)),
                      count_of(static_cast<std::int64_t>(all), map_.tiers[0].name));
      if (!heading.empty() && heading[0] >= 'a' && heading[0] <= 'z') {
        heading[0] = static_cast<char>(heading[0] - 'a' + 'A');
      }
      if (lettered(kinds)) heading.insert(0, kind_letter(kind) + ": ");
      heading += kinds.counts[kind] == 1 ? std::string(", the only one of its kind")
                                         : fmt::format(", like {} other{}", format_integer(kinds.counts[kind] - 1),
                                                       kinds.counts[kind] == 2 ? "" : "s");
      out.element("h3", heading);
      out.open("figure").open("div", {{"class", "map"}, {"role", "img"}, {"aria-label", label}});
      out.add(tiles(first, count, map_.largest_tile <= 16 ? 15 : 12, count <= kNamedTiles));
      out.close();
      out.element("figcaption", tile_caption(tier.end(unit) - tier.begin(unit), count, all)).close();
    }
    return out;
  }

  std::string tile_caption(std::int64_t devices, std::size_t drawn, std::size_t all) const {
    std::string text = fmt::format("Every square is a device, every group of squares a {}. ", map_.tiers[0].name);
    if (strategy_.pp > 1) text += "Numbers are stages. ";
    const std::int64_t a = strategy_.split.replica_devices();
    if (strategy_.pp == 1 && a > 1 && a < devices) text += "A gap separates replicas. ";
    if (drawn < all) text += fmt::format("The first {} of {} are drawn.", drawn, all);
    return text;
  }

  Markup stage_table() const {
    HtmlTable table("Stages and their devices",
                    {{"stage"},
                     {"layers", false},
                     {"devices of replica 0"},
                     {fmt::format("{} of replica 0", map_.tiers[0].name)},
                     {"devices in all"}},
                    "placement-table");
    const std::int64_t a = strategy_.split.replica_devices();
    const Tier& tier = map_.tiers[0];
    const auto tile_of = [&](std::int64_t device) {
      return std::upper_bound(tier.starts.begin(), tier.starts.end(), device) - tier.starts.begin() - 1;
    };
    for (std::int64_t s = 0; s < strategy_.pp; ++s) {
      const StagePlan& stage = view_.plan.stages[static_cast<std::size_t>(s)];
      const std::int64_t first = ranks_.device_of(groups::Place{s, 0, 0});
      table.add({std::to_string(s), report::layers_label(view_.report.model, stage), range_text(first, first + a - 1),
                 range_text(tile_of(first), tile_of(first + a - 1)), format_integer(a * strategy_.dp)});
    }
    Markup out = table.markup();
    if (strategy_.dp > 1) {
      out.element("p",
                  fmt::format("Rank q of stage s of replica (o, i) sits on device o · {} + (s · {} + i) · {} + q, with "
                              "i below {} and o below {}.",
                              ranks_.pitch(), strategy_.dp_inner, a, strategy_.dp_inner, ranks_.pipelines()),
                  {{"class", "muted"}});
    }
    return out;
  }

  const PlanView& view_;
  const Strategy& strategy_;
  groups::RankGroups ranks_;
  const cluster::Cluster& cluster_;
  DeviceMap map_;
  TileArt art_;
  UnitKinds tile_kinds_;
  std::set<std::size_t> drawn_;
};

}  // namespace

Markup cluster_section(const PlanView& view) { return ClusterDrawing(view).run(); }

}  // namespace nest::html
