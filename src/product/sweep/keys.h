// What a study may say: the words of `nest plan`, and changes of the documents behind them.
//
//   model, cluster, devices, global_batch (batch), seq (sequence), precision, stack, …     as the options of that name
//   set.tp, set.zero, …                    what the search may choose: --set tp=…
//   cluster.LEVEL.KEY, cluster.KEY         of the cluster's file; a level by its name, or by its number from 1, innermost
//   device.KEY                             of the device's file: device.memory (memory), device.peak.bf16
//   model.KEY                              of the model's config.json; experts: whatever that family calls them
//   stack.KEY                              of the stack's file
//   domain                                 cluster.1.group: devices whose links are the fastest
//   price, tokens                          of a device-hour, to train on: they change no plan
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nest/sweep.h"

namespace nest::sweep {

enum class KeyKind : std::uint8_t { input, integer, number, count, text, word, limit, change };

struct Key {
  std::string name;
  KeyKind kind = KeyKind::text;
  bool of_answer = false;  // price, tokens: known after the plan
  bool of_task = false;    // says what is trained: points that differ in it are not compared
};

// The key that is meant by a word, under its own name. Throws InputError that starts with `where`.
Key find_key(std::string_view word, const std::string& where);

// Throws InputError that starts with `where` unless the key may have that value.
void check_value(const Key& key, const SweepValue& value, const std::string& where);

// What the text of a value stands for, where that is a quantity.
std::optional<double> number_of(const Key& key, std::string_view text);

}  // namespace nest::sweep
