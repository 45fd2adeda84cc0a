// JSON Schemas (draft 2020-12) of what nest reads and writes, compiled in. Those of files that people write (cluster,
// device, stack, graph, profile, plan) are closed: a key that is not in them is refused by the reader too. Those of
// answers (show.model, compare, …) are open: later versions may say more.
#pragma once

#include <string>
#include <vector>

namespace nest {

// "plan" is the schema of nest.plan/3, "show.model" that of nest.show.model/1; sorted.
std::vector<std::string> schema_names();

// The schema's text, JSON. References between schemas are relative: "cluster.schema.json" is schema_text("cluster").
// Throws InputError for a name that is none.
std::string schema_text(const std::string& name);

// Its title, for lists.
std::string schema_title(const std::string& name);

}  // namespace nest
