// What nest knows about models, devices, clusters and software stacks, before anything is planned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nest/input.h"
#include "nest/style.h"

namespace nest {

struct ShowOptions {
  std::optional<std::int64_t> devices = {};  // of a cluster; the rest is for models
  // Of one device and one micro-batch.
  std::optional<std::int64_t> seq = {};          // tokens; what the model was trained with
  std::optional<std::int64_t> micro_batch = {};  // sequences; 1
  std::optional<std::string> kernels = {};       // whose: megatron, plain, huggingface, torchtitan
  std::optional<std::string> attention = {};     // flash, or unfused: scores are written to memory
  std::optional<std::string> recompute = {};     // none, selective, full
  bool dropout = false;
  std::optional<std::int64_t> tp = {}, cp = {}, ep = {}, etp = {};
  bool sp = false;
  bool operators = false;  // text: every operator, collective and kept tensor of every layer
};

struct ShownThing;  // internal

class Shown {
 public:
  explicit Shown(std::shared_ptr<const ShownThing> thing) : thing_(std::move(thing)) {}
  const ShownThing& thing() const { return *thing_; }

 private:
  std::shared_ptr<const ShownThing> thing_;
};

// A model, a device or a cluster; "models", "devices", "clusters" or "stacks" for a list; all lists for nothing. Throws
// InputError with the closest names when it is none of them, and for options that mean nothing for it.
Shown show(const Input& what, const ShowOptions& options = {});

std::string to_text(const Shown& shown, const Style& style = Style());
std::string to_json(const Shown& shown);  // nest.show…/1

// "models", "devices", …
std::vector<std::string> list_names();

// A preset of any kind.
struct KnownName {
  std::string name;
  std::string kind;  // "model", "device", "cluster"
};

// All presets, in the order in which they are listed.
std::vector<KnownName> known_names();

// Software stacks that ship.
std::vector<std::string> stack_names();

// The words of an option's value.
std::vector<std::string> kernel_words();
std::vector<std::string> attention_words();

}  // namespace nest
