#include "graph/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "base/bits.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "graph/lists.h"

namespace nest::graph {
namespace {

constexpr int kMostLayers = 256;
constexpr double kInnerShare = 0.6;   // of a module's work in numbered parts, from which on it is divided
constexpr double kLargeShare = 0.08;  // of the model's work, from which on a stretch is cut
constexpr double kPieceShare = 0.04;
constexpr int kShortestPeriod = 3;
constexpr int kMostLevels = 16;    // of numbered modules in numbered modules
constexpr int kFewWeighted = 6;    // operators with weights that are not worth cutting apart
constexpr double kByteWork = 100;  // FLOPs that moving a byte stands for

bool numbered(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Segmenter {
 public:
  explicit Segmenter(const Flow& flow) : flow_(flow), count_(static_cast<int>(flow.nodes.size())) {
    for (const Node& node : flow.nodes) {
      work_.push_back(work_of(node));
      total_ += work_.back();
      marks_.push_back(mark_of(node));
    }
    count_crossing();
  }

  std::vector<Segment> run() {
    if (count_ == 0) return {};
    if (!flow_.graph->layers.empty()) {
      annotated();
    } else {
      divide(0, count_ - 1, 0, 0);
    }
    merge_weightless();
    split_long();
    merge_weightless();
    limit();
    return std::move(segments_);
  }

 private:
  double work_of(const Node& node) const {
    double bytes = 0, flops = 0;
    for (const int in : node.inputs) bytes += flow_.bytes(in);
    for (const int out : node.outputs) bytes += flow_.bytes(out);
    const bool product =
        node.op == RawOp::linear || node.op == RawOp::conv || node.op == RawOp::moe || node.op == RawOp::expert_matmul;
    for (const int w : node.weights) {
      double elements = 1;
      const auto& shape = flow_.graph->weights[at(w)].shape;
      for (const std::int64_t size : shape) elements *= real(size);
      bytes += node.op == RawOp::embedding ? 0 : 2 * elements;
      if (!product || shape.size() < 2 || node.outputs.empty()) continue;
      double out = 0;
      for (const int each : node.outputs) out += flow_.elements(each);
      flops += 2 * out * elements / real(shape.front());
    }
    if (node.op == RawOp::attention && !node.outputs.empty()) {
      const model::Length& keys = node.attention.keys;
      flops +=
          4 * flow_.elements(node.outputs.front()) * keys.size * (keys.per_sequence ? real(flow_.graph->sequence) : 1);
    }
    return flops + kByteWork * bytes;
  }

  // Equal for nodes that do the same work.
  std::uint64_t mark_of(const Node& node) const {
    std::uint64_t mark = static_cast<std::uint64_t>(node.op) + 1;
    const auto mix = [&](std::uint64_t value) {
      mark = (mark ^ (value + 0x9e3779b97f4a7c15ULL + (mark << 6U))) * 0x100000001b3ULL;
    };
    for (const int w : node.weights) {
      for (const std::int64_t size : flow_.graph->weights[at(w)].shape) mix(static_cast<std::uint64_t>(size));
    }
    for (const int out : node.outputs) {
      const Dimension size = flow_.size(out);
      mix(bits_of(std::round(size.coefficient * 1024)));
      mix(static_cast<std::uint64_t>(size.batch) * 16 + static_cast<std::uint64_t>(size.sequence));
    }
    mix(node.inputs.size());
    return mark;
  }

  // crossing_[c]: bytes that nodes before c make and nodes from c on read.
  void count_crossing() {
    crossing_.assign(at(count_) + 1, 0);
    std::vector<int> last(flow_.tensors.size(), -1);
    for (int n = 0; n < count_; ++n) {
      for (const int in : flow_.nodes[at(n)].inputs) last[at(in)] = n;
    }
    std::vector<double> change(at(count_) + 2, 0);
    for (int n = 0; n < count_; ++n) {
      for (const int out : flow_.nodes[at(n)].outputs) {
        if (last[at(out)] <= n) continue;
        change[at(n) + 1] += flow_.bytes(out);
        change[at(last[at(out)]) + 1] -= flow_.bytes(out);
      }
    }
    double sum = 0;
    for (int c = 0; c <= count_; ++c) crossing_[at(c)] = sum += change[at(c)];
  }

  bool has_weights(const Segment& segment) const {
    for (int n = segment.first; n <= segment.last; ++n) {
      if (!flow_.nodes[at(n)].weights.empty()) return true;
    }
    return false;
  }

  int products_in(int first, int last) const {
    int count = 0;
    for (int n = first; n <= last; ++n) {
      const RawOp op = flow_.nodes[at(n)].op;
      count += op == RawOp::linear || op == RawOp::conv || op == RawOp::attention || op == RawOp::matmul ||
                       op == RawOp::expert_matmul || op == RawOp::moe || op == RawOp::embedding
                   ? 1
                   : 0;
    }
    return count;
  }

  int weighted(int first, int last) const {
    int count = 0;
    for (int n = first; n <= last; ++n) count += flow_.nodes[at(n)].weights.empty() ? 0 : 1;
    return count;
  }

  double work(int first, int last) const {
    double sum = 0;
    for (int n = first; n <= last; ++n) sum += work_[at(n)];
    return sum;
  }

  void annotated() {
    const auto& layers = flow_.graph->layers;
    std::map<std::string_view, int> first;  // per path: where it is listed first
    for (std::size_t i = 0; i < layers.size(); ++i) first.try_emplace(layers[i], static_cast<int>(i));
    const auto inside = [&](const std::string& module) -> int {
      int best = -1;
      for (std::size_t end = 0; end <= module.size(); ++end) {
        if (end < module.size() && module[end] != '.') continue;
        const auto found = first.find(std::string_view(module).substr(0, end));
        if (found != first.end() && (best < 0 || found->second < best)) best = found->second;
      }
      return best;
    };
    std::vector<bool> found(layers.size(), false);
    int before = -2;
    for (int n = 0; n < count_; ++n) {
      const int layer = inside(flow_.nodes[at(n)].module);
      if (layer >= 0) found[at(layer)] = true;
      if (layer == before) {
        segments_.back().last = n;
      } else {
        segments_.push_back({n, n, layer >= 0 ? layers[at(layer)] : "", layer >= 0});
      }
      before = layer;
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!found[i])
        throw InputError(fmt::format("{}: layers[{}]: no operator belongs to module \"{}\"", flow_.graph->origin(), i,
                                     clip(layers[i], 60)));
    }
  }

  // The module path up to its first number from component `depth` on, and how many components that are; or empty.
  static std::pair<std::string, int> numbered_part(const std::string& module, int depth) {
    int component = 0;
    std::size_t begin = 0;
    while (begin <= module.size() && !module.empty()) {
      const std::size_t end = std::min(module.find('.', begin), module.size());
      if (component >= depth && numbered(std::string_view(module).substr(begin, end - begin))) {
        return {module.substr(0, end), component + 1};
      }
      ++component;
      begin = end + 1;
    }
    return {{}, 0};
  }

  struct Run {
    int first, last;
    std::string part;
    int depth;
  };

  std::vector<Run> runs_of(int first, int last, int depth) const {
    std::vector<Run> runs;
    for (int n = first; n <= last; ++n) {
      auto [part, next] = numbered_part(flow_.nodes[at(n)].module, depth);
      if (!runs.empty() && runs.back().part == part) {
        runs.back().last = n;
      } else {
        runs.push_back({n, n, std::move(part), next});
      }
    }
    // Work of the loop around the layers (x = x + layer(x)) belongs to the layer before.
    std::vector<Run> joined;
    for (Run& run : runs) {
      const bool loose = run.part.empty() && !joined.empty() && !joined.back().part.empty() && run.last < last &&
                         !has_weights({run.first, run.last, {}, false});
      const bool again = !joined.empty() && !run.part.empty() && joined.back().part == run.part;
      if (loose || again) {
        joined.back().last = run.last;
      } else {
        joined.push_back(std::move(run));
      }
    }
    return joined;
  }

  std::uint64_t mark_of_range(int first, int last) const {
    auto mark = static_cast<std::uint64_t>(last - first);
    for (int n = first; n <= last; ++n) mark = mark * 0x100000001b3ULL ^ marks_[at(n)];
    return mark;
  }

  void divide(int first, int last, int depth, int level) {
    const std::vector<Run> runs = runs_of(first, last, depth);
    std::map<std::uint64_t, int> alike;
    for (const Run& run : runs) {
      if (!run.part.empty()) ++alike[mark_of_range(run.first, run.last)];
    }
    for (const Run& run : runs) {
      if (run.part.empty()) {
        segments_.push_back({run.first, run.last, {}, false});
        continue;
      }
      const bool single = alike[mark_of_range(run.first, run.last)] == 1;
      if (single && level < kMostLevels && mostly_numbered(run)) {
        divide(run.first, run.last, run.depth, level + 1);
      } else {
        segments_.push_back({run.first, run.last, run.part, true});
      }
    }
  }

  bool mostly_numbered(const Run& run) const {
    double inner = 0;
    int parts = 0, products = 0;
    for (const Run& each : runs_of(run.first, run.last, run.depth)) {
      if (each.part.empty()) continue;
      inner += work(each.first, each.last);
      products += products_in(each.first, each.last);
      ++parts;
    }
    // Numbers of single operators (nn.Sequential) are no layers.
    return parts >= 2 && products >= 2 * parts && inner > kInnerShare * work(run.first, run.last);
  }

  // A stretch without weights joins what comes before it, or what follows where nothing does.
  void merge_weightless() {
    std::vector<Segment> kept;
    for (Segment& segment : segments_) {
      const bool slight = segment.repeated && products_in(segment.first, segment.last) == 0;
      if (!kept.empty() && (slight || !has_weights(segment))) {
        kept.back().last = segment.last;
      } else if (!kept.empty() && kept.size() == 1 && !has_weights(kept.front())) {
        segment.first = kept.front().first;
        kept.front() = std::move(segment);
      } else {
        kept.push_back(std::move(segment));
      }
    }
    segments_ = std::move(kept);
  }

  void split_long() {
    std::map<std::pair<int, bool>, int> alike;  // per length
    for (const Segment& segment : segments_) ++alike[{segment.last - segment.first, segment.repeated}];
    std::vector<Segment> kept;
    for (Segment& segment : segments_) {
      const double share = work(segment.first, segment.last) / total_;
      const int same = alike[{segment.last - segment.first, segment.repeated}];
      if (share < 2 * kLargeShare || (segment.repeated && same > 1) || !flow_.graph->layers.empty() ||
          weighted(segment.first, segment.last) < kFewWeighted) {
        kept.push_back(std::move(segment));
        continue;
      }
      split_periodic(segment, kept);
    }
    segments_ = std::move(kept);
  }

  struct Period {
    int start = 0, length = 0, times = 0;
  };

  Period find_period(int first, int last) const {
    const int n = last - first + 1;
    Period best;
    double covered = 0;
    const int longest = std::min({n / 2, 2000, static_cast<int>(50'000'000 / std::max(1, n))});
    for (int p = kShortestPeriod; p <= longest; ++p) {
      int run = 0;
      for (int i = last; i >= first; --i) {
        run = i + p <= last && marks_[at(i)] == marks_[at(i + p)] ? run + 1 : 0;
        if (run < p) continue;
        const int times = run / p + 1;
        const double work_here = real(times) * p;
        // A multiple of a period covers no more than the period itself.
        if (work_here > covered * 1.001) {
          covered = work_here;
          best = {i, p, times};
        }
      }
    }
    // From the first operator that the next period repeats.
    while (best.times >= 2 && best.start > first &&
           marks_[at(best.start - 1)] == marks_[at(best.start - 1 + best.length)]) {
      --best.start;
    }
    if (best.times < 2 || work(best.start, best.start + best.length * best.times - 1) < 0.5 * work(first, last))
      return {};
    return best;
  }

  void split_periodic(const Segment& segment, std::vector<Segment>& kept) const {
    Period period = find_period(segment.first, segment.last);
    if (period.times < 2) {
      // A numbered module is a layer, unless it runs again and again (shared layers).
      if (segment.repeated) {
        kept.push_back(segment);
      } else {
        cut_where_narrow(segment, kept);
      }
      return;
    }
    // Begin where the least crosses; what this leaves over at the end may be less than a period.
    int start = period.start;
    for (int o = 1; o < period.length; ++o) {
      if (crossing_[at(period.start + o)] < crossing_[at(start)] * 0.999) start = period.start + o;
    }
    int stop = start;
    if (start > segment.first) kept.push_back({segment.first, start - 1, {}, false});
    const auto repeats = [&](int from) {
      if (from + period.length - 1 > segment.last) return false;
      return std::equal(marks_.begin() + from, marks_.begin() + from + period.length, marks_.begin() + start);
    };
    while (repeats(stop)) {
      kept.push_back({stop, stop + period.length - 1, segment.prefix, true});
      stop += period.length;
    }
    if (stop <= segment.last) kept.push_back({stop, segment.last, {}, false});
  }

  // Pieces of about equal work, cut where few bytes cross.
  void cut_where_narrow(const Segment& segment, std::vector<Segment>& kept) const {
    const double piece = std::max(kPieceShare * total_, work(segment.first, segment.last) / 32);
    int first = segment.first;
    double sum = 0;
    int best = -1;
    for (int n = segment.first; n < segment.last; ++n) {
      sum += work_[at(n)];
      if (sum > 0.5 * piece && (best < 0 || crossing_[at(n) + 1] <= crossing_[at(best) + 1])) best = n;
      if (sum > 1.5 * piece && best >= 0) {
        kept.push_back({first, best, {}, false});
        first = best + 1;
        sum = work(first, n);
        best = -1;
      }
    }
    kept.push_back({first, segment.last, {}, false});
  }

  void limit() {
    while (static_cast<int>(segments_.size()) > kMostLayers) {
      std::vector<Segment> half;
      for (std::size_t i = 0; i < segments_.size(); ++i) {
        if (i > 1 && i % 2 == 0 && i + 1 < segments_.size()) {
          half.back().last = segments_[i].last;
        } else {
          half.push_back(segments_[i]);
        }
      }
      segments_ = std::move(half);
    }
  }

  const Flow& flow_;
  int count_;
  std::vector<double> work_;
  double total_ = 0;
  std::vector<std::uint64_t> marks_;
  std::vector<double> crossing_;
  std::vector<Segment> segments_;
};

}  // namespace

std::vector<Segment> find_segments(const Flow& flow) { return Segmenter(flow).run(); }

}  // namespace nest::graph
