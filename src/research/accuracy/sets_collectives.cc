// Collectives that a flow-level simulator played through.
#include <fmt/format.h>

#include "accuracy/sets.h"
#include "accuracy/simulated.h"
#include "base/error.h"

namespace nest::accuracy {
namespace {

std::string network_of(const Simulated& row) {
  if (row.torus) return "torus";
  return row.fabric->has_rails() ? "pods with a port per device" : "trees";
}

void add(const doc::Value& value, Set& set) {
  ++set.rows;
  const auto row = read_simulated(value);
  if (!row) {
    const Fields fields(&value);
    // Rows that mix different groups describe them in words.
    set.leave_out("row", fields.text("topology").value_or("unreadable"),
                  fields.value("kind") ? "several jobs at once" : "row is incomplete");
    return;
  }
  const std::string source = row->topology.empty() ? network_of(*row) : row->topology;
  const std::string id =
      fmt::format("{}{} {} of {}, {} at once, {:.0f} bytes", row->kind.empty() ? "" : row->kind + ": ", row->collective,
                  row->algorithm, row->members, row->groups, row->bytes);
  const auto predicted = predict_s(*row);
  if (!predicted) {
    set.leave_out(id, source, "an algorithm or a layout of groups that nest does not price");
    return;
  }
  set.readings.push_back({id, source, {*predicted, row->seconds}, "", false, true, 0, ""});
}

}  // namespace

Set collectives(const std::filesystem::path& folder) {
  Set set{"collectives", "Simulated collectives: time", "s", 0, {}, {}};
  const auto text = read_text(folder / "collectives" / "simgrid.json");
  if (!text) return set;
  try {
    const Document document = doc::parse_json("simgrid.json", *text);
    const Fields root(&document.root());
    for (const char* list : {"rows", "mixed"}) {
      const doc::Value* rows = root.value(list);
      if (!rows || !rows->as_array()) continue;
      for (const doc::Value& row : *rows->as_array()) add(row, set);
    }
  } catch (const InputError&) {
    set.leave_out("simgrid.json", "simgrid.json", "file cannot be read as JSON");
  }
  return set;
}

}  // namespace nest::accuracy
