// nest schema: the formats of files and answers, for programs.
#include "nest/schema.h"

#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "nest/text.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "print the JSON Schema of a file or an answer\n"
    "For editors that complete and check cluster files, and for programs that read what nest writes. The name is that "
    "of the key `schema` without nest. and version: plan for nest.plan/3. Without a name: all of them.";

constexpr const char* kExamples =
    "  nest schema                              all of them\n"
    "  nest schema plan > plan.schema.json\n"
    "  nest schema cluster                      what a cluster file may say";

std::string list_text() {
  std::string text;
  for (const std::string& name : schema_names()) text += fmt::format("  {:<16}{}\n", name, schema_title(name));
  return text;
}

std::string list_json() {
  std::string rows;
  for (const std::string& name : schema_names()) {
    rows += fmt::format("{}\n    {{\"name\": {}, \"title\": {}}}", rows.empty() ? "" : ",", json_string(name),
                        json_string(schema_title(name)));
  }
  return fmt::format("{{\n  \"schema\": \"nest.schemas/1\",\n  \"schemas\": [{}\n  ]\n}}\n", rows);
}

}  // namespace

Command add_schema(CLI::App& program) {
  CLI::App* app = program.add_subcommand("schema", kDescription);
  app->footer(kExamples);
  const auto name = std::make_shared<std::string>();
  app->add_option("NAME", *name, "of a schema; without it they are listed")->group("Arguments");
  return {app,
          [name](Session& session) {
            if (!name->empty()) {
              session.out = schema_text(*name);
            } else {
              session.out = session.json ? list_json() : list_text();
            }
            return kExitOk;
          },
          schema_names};
}

}  // namespace nest::app
