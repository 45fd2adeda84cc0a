#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/layout.h"
#include "base/units.h"
#include "report/model_report.h"
#include "report/table.h"

namespace nest::report {
namespace {

// The default view shows this many operators of the repeated block and sums up the rest, so that it stays one screen.
constexpr std::size_t kOperatorsShown = 12;

std::string bytes_text(double bytes) { return format_bytes(std::llround(bytes)); }

// A share in percent without the sign, for columns titled "%".
std::string share_text(double part, double whole) {
  return whole > 0 && part > 0 ? fmt::format("{:.1f}", 100 * part / whole) : std::string();
}

std::string flops_text(double flops) { return flops > 0 ? format_flops(flops) : "-"; }

std::string heading(const Style& style, std::string_view text) { return style.paint(Ink::strong, text) + '\n'; }

std::string attention_words(const model::Attention& attention) {
  if (attention.heads == 0) return "no attention";
  if (attention.latent) {
    return fmt::format("{} heads over latents of {}", attention.heads, format_integer(attention.latent->kv_rank));
  }
  const std::string keys = attention.kv_heads == attention.heads
                               ? std::string()
                               : fmt::format(" ({} for keys and values)", attention.kv_heads);
  return fmt::format("{} heads of {}{}", attention.heads, attention.head_dim, keys);
}

std::string mixer_words(const model::Block& block) {
  if (!block.state) return attention_words(block.attention);
  const std::string state =
      fmt::format("{} with {} channels", to_string(block.state->kind), format_integer(block.state->inner()));
  return block.attends() ? fmt::format("{} beside {}", attention_words(block.attention), state) : state;
}

std::string feed_forward_words(const model::FeedForward& feed_forward) {
  return fmt::format("{}{} {}", feed_forward.gated ? "gated " : "", to_string(feed_forward.activation),
                     format_integer(feed_forward.width));
}

std::string architecture_words(const model::Architecture& architecture, int main_kind) {
  const model::Tower& tower = architecture.towers.back();
  const model::Block& block =
      tower.kinds[static_cast<std::size_t>(std::clamp(main_kind, 0, static_cast<int>(tower.kinds.size()) - 1))];
  std::string words = fmt::format("hidden {}, {}", format_integer(architecture.hidden), mixer_words(block));
  if (block.feeds()) words += ", ";
  if (block.mixture) {
    const model::Mixture& mixture = *block.mixture;
    words +=
        fmt::format("{} of {} experts with {}", mixture.top_k, mixture.experts, feed_forward_words(mixture.expert));
    if (mixture.shared) words += fmt::format(" and a shared one of {}", format_integer(mixture.shared->width));
  } else if (block.feed_forward) {
    words += fmt::format("feed-forward {}", feed_forward_words(*block.feed_forward));
  }
  const bool placed = architecture.position != model::PositionKind::none;
  words += fmt::format(", {}, {} positions, vocabulary {}{}, made for sequences up to {}", to_string(block.norm),
                       placed ? to_string(architecture.position) : "no", format_integer(architecture.vocabulary),
                       architecture.tied_embeddings ? " (tied)" : "", format_integer(architecture.max_positions));
  return words;
}

// Kind in the last tower of the block that occurs most often in it.
int most_frequent_block(const model::Tower& tower) {
  int best = 0;
  std::ptrdiff_t most = 0;
  for (int kind = 0; kind < static_cast<int>(tower.kinds.size()); ++kind) {
    const std::ptrdiff_t count = std::count(tower.blocks.begin(), tower.blocks.end(), kind);
    if (count > most) {
      most = count;
      best = kind;
    }
  }
  return best;
}

// What a graph says about itself.
std::string traced_words(const ModelFacts& facts) {
  const model::Architecture& architecture = facts.model.architecture;
  std::vector<std::string> words = {"read from an operator graph"};
  if (architecture.hidden > 0) words.push_back(fmt::format("hidden {}", format_integer(architecture.hidden)));
  for (const model::Operator& op : facts.kinds[main_block(facts)].layer->operators) {
    if (op.kind != model::OperatorKind::attention) continue;
    const model::AttentionShape& a = op.attention;
    words.push_back(fmt::format(
        "{} heads of {}{}{}", a.heads.size, a.qk_dim,
        a.kv_heads.size == a.heads.size ? std::string() : fmt::format(" ({} for keys and values)", a.kv_heads.size),
        a.flash ? "" : ", scores written out"));
    break;
  }
  if (architecture.vocabulary > 0) {
    words.push_back(fmt::format("vocabulary {}{}", format_integer(architecture.vocabulary),
                                architecture.tied_embeddings ? " (tied)" : ""));
  }
  words.push_back(architecture.default_sequence > 1
                      ? fmt::format("traced with sequences of {}", format_integer(architecture.default_sequence))
                      : "without a sequence");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string headline(const ModelFacts& facts) {
  const model::ParameterCount& count = facts.parameters;
  const std::string active = count.active == count.total
                                 ? std::string()
                                 : fmt::format(" ({} active)", format_count(static_cast<double>(count.active)));
  return fmt::format("{}: {} parameters{}, {} to train a token", facts.title,
                     format_count(static_cast<double>(count.total)), active,
                     format_flops(facts.flops_per_token.training));
}

std::string parameter_table(const ModelFacts& facts, const Style& style) {
  constexpr std::size_t kBar = 30;
  std::vector<std::pair<std::string, std::int64_t>> kinds(facts.parameters.by_kind.begin(),
                                                          facts.parameters.by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({{"parameters", Align::left, true}, {""}, {"%"}, {"", Align::left, false, Ink::accent}});
  const auto total = static_cast<double>(facts.parameters.total);
  for (const auto& [name, parameters] : kinds) {
    const double share = static_cast<double>(parameters) / total;
    table.add({name, format_integer(parameters), fmt::format("{:.1f}", 100 * share), bar(share, kBar)});
  }
  if (kinds.size() > 1) table.add({"total", format_integer(facts.parameters.total)});
  return table.render(style);
}

std::string layer_table(const ModelFacts& facts, const Style& style) {
  Table table(
      {{"layer", Align::left, true}, {"params"}, {"weights"}, {"forward"}, {"keeps all"}, {"selective"}, {"full"}});
  for (const LayerFacts& about : facts.kinds) {
    const std::string count = about.count == 1 ? std::string() : fmt::format("{} x ", about.count);
    table.add({count + about.layer->name, format_count(static_cast<double>(about.parameters)),
               format_bytes(about.weights_bytes()), flops_text(about.local.flops_forward()),
               bytes_text(about.local.saved.none), bytes_text(about.local.saved.selective),
               bytes_text(about.local.saved.full)});
  }
  const ModelTotals totals = add_up(facts);
  table.add({"total", format_count(static_cast<double>(facts.parameters.total)), format_bytes(totals.weights_bytes),
             flops_text(totals.flops_forward), bytes_text(totals.saved.none), bytes_text(totals.saved.selective),
             bytes_text(totals.saved.full)});
  return table.render(style);
}

// Heads that one device computes.
std::int64_t local_heads(const model::AttentionShape& shape, const Split& split) {
  return shape.heads.axis == model::Axis::heads ? shape.heads.size / split.tp : shape.heads.size;
}

std::string shape_words(const split::LocalOperator& op, const Split& split) {
  const std::string rows = format_integer(std::llround(op.m));
  switch (op.kind) {
    case model::OperatorKind::matmul:
      return fmt::format("{} x {} x {}", rows, format_integer(op.k), format_integer(op.n));
    case model::OperatorKind::grouped_matmul:
      return fmt::format("{} x {} x {} in {}", rows, format_integer(op.k), format_integer(op.n), op.groups);
    case model::OperatorKind::attention: {
      const model::AttentionShape& shape = op.source->attention;
      const std::string window = shape.window > 0 ? fmt::format(", window {}", format_integer(shape.window)) : "";
      return fmt::format("{} heads of {}{}", local_heads(shape, split), shape.qk_dim, window);
    }
    default: return fmt::format("({})", to_string(op.kind));
  }
}

std::string operator_table(const split::LocalLayer& local, const Split& split, const Style& style,
                           std::size_t at_most) {
  Table table(
      {{"operator", Align::left, true}, {"rows x k x columns", Align::left}, {"forward"}, {"%"}, {"moves"}, {"%"}});
  const double flops = local.flops_forward();
  double bytes = 0;
  for (const split::LocalOperator& op : local.operators) bytes += op.bytes_forward;

  // Keep the operators that weigh most, in their order of execution.
  std::vector<std::size_t> order(local.operators.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto weight = [&](std::size_t i) {
    const split::LocalOperator& op = local.operators[i];
    return (flops > 0 ? op.flops_forward / flops : 0) + (bytes > 0 ? op.bytes_forward / bytes : 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  const std::size_t shown = order.size() <= at_most ? order.size() : at_most - 1;
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown));

  double rest_flops = 0;
  double rest_bytes = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const split::LocalOperator& op = local.operators[order[i]];
    if (i >= shown) {
      rest_flops += op.flops_forward;
      rest_bytes += op.bytes_forward;
      continue;
    }
    table.add({op.source->name, shape_words(op, split), flops_text(op.flops_forward),
               share_text(op.flops_forward, flops), bytes_text(op.bytes_forward), share_text(op.bytes_forward, bytes)});
  }
  if (shown < order.size()) {
    table.add({fmt::format("{} smaller ones", order.size() - shown), "", flops_text(rest_flops),
               share_text(rest_flops, flops), bytes_text(rest_bytes), share_text(rest_bytes, bytes)});
  }
  return table.render(style);
}

// Collectives of the same kind, group and size in one row.
std::string collective_table(const split::LocalLayer& local, const Style& style) {
  using Key = std::tuple<split::Group, split::CollectiveKind, std::int64_t, double>;
  struct Sum {
    int forward = 0;
    int backward = 0;
    std::vector<std::string> tensors;
  };
  std::map<Key, Sum> sums;
  for (const split::LayerCollective& each : local.collectives) {
    Sum& sum = sums[{each.group, each.kind, each.ranks, each.bytes}];
    ++(each.phase == split::Phase::forward ? sum.forward : sum.backward);
    if (std::find(sum.tensors.begin(), sum.tensors.end(), each.tensor) == sum.tensors.end()) {
      sum.tensors.push_back(each.tensor);
    }
  }
  Table table({{"collective", Align::left},
               {"group", Align::left},
               {"bytes"},
               {"forward"},
               {"backward"},
               {"of", Align::left, true}});
  for (const auto& [key, sum] : sums) {
    const auto& [group, kind, ranks, bytes] = key;
    std::string tensors;
    for (const std::string& tensor : sum.tensors) tensors += (tensors.empty() ? "" : ", ") + tensor;
    const auto times = [](int count) { return count == 0 ? std::string("-") : fmt::format("{} x", count); };
    table.add({to_string(kind), fmt::format("{} {}", to_string(group), ranks), bytes_text(bytes), times(sum.forward),
               times(sum.backward), tensors});
  }
  return table.render(style);
}

std::string saved_table(const split::LocalLayer& local, const Style& style) {
  Table table({{"kept for backward", Align::left, true}, {"bytes"}, {"%"}, {"selective", Align::left}});
  for (const split::SavedTensor& tensor : local.saved_tensors) {
    table.add({tensor.name, bytes_text(tensor.bytes),
               tensor.only_selective ? std::string() : share_text(tensor.bytes, local.saved.none),
               tensor.only_selective ? "kept only then"
               : tensor.selective    ? "kept"
                                     : "recomputed"});
  }
  return table.render(style);
}

std::string run_words(const ModelFacts& facts) {
  const ModelQuestion& asked = facts.question;
  const Split& split = asked.split;
  std::string words =
      fmt::format("On one device, {} x {} tokens, bf16, {} stack, {} attention", asked.shape.micro_batch,
                  format_integer(asked.shape.sequence), to_string(asked.implementation.stack),
                  asked.implementation.flash_attention ? "flash" : "unfused");
  if (asked.implementation.dropout) words += ", dropout";
  if (split.tp > 1) words += fmt::format(", tensor {}{}", split.tp, split.sp ? " + sequence" : "");
  if (split.cp > 1) words += fmt::format(", context {}", split.cp);
  if (split.ep > 1) words += fmt::format(", expert {}", split.ep);
  if (split.expert_tp() != split.tp) words += fmt::format(", experts' tensor {}", split.expert_tp());
  if (asked.recompute != Recompute::none) words += fmt::format(", {} recomputation", to_string(asked.recompute));
  return words;
}

std::string flops_words(const ModelFacts& facts) {
  const TokenFlops& flops = facts.flops_per_token;
  const double forward = flops.forward;
  std::string words = fmt::format("FLOPs of a token at sequence {}: forward {}, backward {}",
                                  format_integer(facts.question.shape.sequence), format_flops(forward),
                                  format_flops(flops.training - forward));
  if (facts.question.recompute != Recompute::none) {
    words +=
        fmt::format("; {} with {} recomputation", format_flops(flops.executed), to_string(facts.question.recompute));
  }
  return words;
}

std::string cut_words(const ModelFacts& facts) {
  if (facts.cut_bytes.empty()) return {};
  const auto [least, most] = std::minmax_element(facts.cut_bytes.begin(), facts.cut_bytes.end());
  const std::string size =
      *least == *most ? bytes_text(*most) : fmt::format("{} to {}", bytes_text(*least), bytes_text(*most));
  return wrap_after("", fmt::format("A pipeline cut sends {} per micro-batch forward, and as much backward.", size)) +
         '\n';
}

std::string layer_sections(const LayerFacts& about, const Split& split, const Style& style, bool everything) {
  std::string text = '\n' + heading(style, fmt::format("Operators of {}", about.layer->name));
  text += operator_table(about.local, split, style, everything ? about.local.operators.size() : kOperatorsShown);
  if (!about.local.collectives.empty()) text += '\n' + collective_table(about.local, style);
  if (everything && !about.local.saved_tensors.empty()) text += '\n' + saved_table(about.local, style);
  return text;
}

}  // namespace

std::string model_text(const ModelFacts& facts, const Style& style, bool all_operators) {
  const model::Architecture& architecture = facts.model.architecture;
  std::string text = style.paint(Ink::strong, wrap_after("", headline(facts))) + "\n\n";
  text += wrap_after("  ", describe_layers(facts)) + '\n';
  text += wrap_after("  ", facts.model.traced
                               ? traced_words(facts)
                               : architecture_words(architecture, most_frequent_block(architecture.towers.back()))) +
          '\n';
  text += wrap_after("  ", flops_words(facts)) + "\n\n";
  text += parameter_table(facts, style) + '\n';
  text += heading(style, wrap_after("", run_words(facts)));
  text += layer_table(facts, style);
  if (all_operators) {
    for (const LayerFacts& about : facts.kinds) text += layer_sections(about, facts.question.split, style, true);
  } else {
    text += layer_sections(facts.kinds[main_block(facts)], facts.question.split, style, false);
  }
  text += '\n' + cut_words(facts);
  for (const std::string& note : facts.model.notes) text += wrap_after("Note: ", note) + '\n';
  return text;
}

}  // namespace nest::report
