// Protocol Buffers on the wire, as far as writing needs it: a message is a sequence of fields, each a tag
// (field number * 8 + wire type) and a value; integers are varints, seven bits per byte, lowest first; texts, messages
// and packed lists are preceded by their length. Fields with their default value are left out by whoever writes
// them, as proto3 does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nest::exporter {

class ProtobufWriter {
 public:
  // uint32, uint64, bool and enums; int32 and int64 where they are not negative.
  void integer(std::uint32_t field, std::uint64_t value);
  void text(std::uint32_t field, std::string_view value);
  void message(std::uint32_t field, const ProtobufWriter& value) { text(field, value.bytes_); }
  // Nothing for an empty list.
  void packed(std::uint32_t field, std::span<const std::uint64_t> values);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A message of a file that holds many: its length as a varint, then itself.
void append_delimited(std::string& file, const ProtobufWriter& message);

}  // namespace nest::exporter
