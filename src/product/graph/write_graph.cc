#include <fmt/format.h>

#include "base/text.h"
#include "graph/read_graph.h"

namespace nest::graph {
namespace {

// JSON text. Only what differs from its default is written.
class Writer {
 public:
  std::string take() { return std::move(text_); }

  void raw(std::string_view text) { text_ += text; }
  void quoted(std::string_view text) {
    text_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20) {
        text_ += fmt::format("\\u{:04x}", byte);
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  void key(std::string_view name) {
    quoted(name);
    text_ += ':';
  }
  void number(double value) { text_ += fmt::format("{}", value); }

  template <class List, class Each>
  void list(const List& values, Each each) {
    text_ += '[';
    bool first = true;
    for (const auto& value : values) {
      if (!first) text_ += ',';
      first = false;
      each(value);
    }
    text_ += ']';
  }
  template <class List>
  void integers(std::string_view name, const List& values) {
    key(name);
    list(values, [&](std::int64_t value) { text_ += std::to_string(value); });
  }

 private:
  std::string text_;
};

void write_attributes(Writer& out, const RawAttributes& a) {
  bool first = true;
  const auto entry = [&](const char* name, bool given, auto write) {
    if (!given) return;
    if (!first) out.raw(",");
    first = false;
    out.key(name);
    write();
  };
  const auto flag = [&](const char* name, bool value, bool otherwise) {
    entry(name, value != otherwise, [&] { out.raw(value ? "true" : "false"); });
  };
  const auto count = [&](const char* name, std::int64_t value, std::int64_t otherwise) {
    entry(name, value != otherwise, [&] { out.raw(std::to_string(value)); });
  };
  const auto word = [&](const char* name, const std::string& value) {
    entry(name, !value.empty(), [&] { out.quoted(value); });
  };
  const auto sizes = [&](const char* name, const std::vector<std::int64_t>& value) {
    entry(name, !value.empty(), [&] { out.list(value, [&](std::int64_t each) { out.raw(std::to_string(each)); }); });
  };
  out.raw("{");
  flag("transposed", a.transposed, false);
  flag("transpose_a", a.transpose_a, false);
  flag("transpose_b", a.transpose_b, false);
  flag("causal", a.causal, false);
  flag("flash", a.flash, true);
  count("heads", a.heads, 0);
  count("kv_heads", a.kv_heads, 0);
  count("groups", a.groups, 1);
  sizes("kernel", a.kernel);
  sizes("stride", a.stride);
  word("kind", a.kind);
  count("experts", a.experts, 0);
  count("top_k", a.top_k, 0);
  count("ffn", a.ffn, 0);
  flag("gated", a.gated, false);
  word("activation", a.activation);
  out.raw("}");
}

void write_operator(Writer& out, const RawOperator& op) {
  out.raw("{");
  out.key("name");
  out.quoted(op.name);
  out.raw(",");
  out.key("op");
  out.quoted(to_string(op.op));
  out.raw(",");
  out.key("module");
  out.quoted(op.module);
  for (const auto& [name, indices] :
       {std::pair{"inputs", &op.inputs}, std::pair{"outputs", &op.outputs}, std::pair{"weights", &op.weights}}) {
    out.raw(",");
    out.integers(name, *indices);
  }
  if (op.saves) {
    out.raw(",");
    out.integers("saves", *op.saves);
  }
  out.raw(",");
  out.key("attributes");
  write_attributes(out, op.attributes);
  out.raw("}");
}

}  // namespace

Document write_graph(const RawGraph& graph) {
  Writer out;
  const auto words = [&](const char* name, const std::vector<std::string>& list) {
    out.raw(",");
    out.key(name);
    out.list(list, [&](const std::string& each) { out.quoted(each); });
  };
  out.raw(fmt::format("{{\"schema\":\"{}\",\"name\":", kGraphSchema));
  out.quoted(graph.name);
  out.raw(",\"source\":{\"tool\":");
  out.quoted(graph.tool);
  out.raw(",\"class\":");
  out.quoted(graph.module_class);
  out.raw(fmt::format("}},\"batch\":{},\"sequence\":{},\"tensors\":", graph.batch, graph.sequence));
  out.list(graph.tensors, [&](const RawTensor& tensor) {
    out.raw("{\"name\":");
    out.quoted(tensor.name);
    out.raw(",\"shape\":");
    out.list(tensor.shape, [&](const Dimension& d) {
      out.raw("[");
      out.number(d.coefficient);
      out.raw(fmt::format(",{},{}]", d.batch, d.sequence));
    });
    out.raw(fmt::format(",\"dtype\":\"{}\"}}", to_string(tensor.type)));
  });
  out.raw(",\"weights\":");
  out.list(graph.weights, [&](const RawWeight& weight) {
    out.raw("{\"name\":");
    out.quoted(weight.name);
    out.raw(",");
    out.integers("shape", weight.shape);
    out.raw(fmt::format(",\"dtype\":\"{}\",\"trainable\":{}}}", to_string(weight.type), weight.trainable));
  });
  out.raw(",\"operators\":");
  out.list(graph.operators, [&](const RawOperator& op) { write_operator(out, op); });
  out.raw(",");
  out.integers("inputs", graph.inputs);
  out.raw(",");
  out.integers("outputs", graph.outputs);
  if (!graph.layers.empty()) words("layers", graph.layers);
  if (!graph.splits.empty()) {
    out.raw(",\"splits\":{");
    bool first = true;
    for (const auto& [path, way] : graph.splits) {
      if (!first) out.raw(",");
      first = false;
      out.key(path);
      out.quoted(way);
    }
    out.raw("}");
  }
  words("warnings", graph.warnings);
  out.raw("}");
  return doc::parse_json(graph.name, out.take());
}

}  // namespace nest::graph
