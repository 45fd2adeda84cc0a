// The comparison as JSON, as a page, and as pictures. Every figure comes from the sets.
#pragma once

#include <string>
#include <vector>

#include "accuracy/summary.h"

namespace nest::accuracy {

// { "schema": "nest.accuracy/1", … }; errors are fractions. `data` says where the rows came from.
std::string to_json(const std::vector<Set>& sets, const Summary& summary, const std::string& data);

// `carried`: only the rows that ship with nest were there. `plots`: folder of the pictures as links see it; empty:
// none.
std::string to_markdown(const std::vector<Set>& sets, const Summary& summary, bool carried, const std::string& plots);

// Refused runs, runs that differ in one thing, releases and devices, and what is not expressed; part of the page.
std::string runs_sections(const Summary& summary);
// The figures of the published runs in a few lines, for the terminal.
std::string runs_text(const Summary& summary);

struct Picture {
  std::string file;  // "time.svg"
  std::string title;
  std::string text;
};

// Predicted against measured and errors per source, for every set that has enough readings.
std::vector<Picture> draw(const std::vector<Set>& sets);

}  // namespace nest::accuracy
