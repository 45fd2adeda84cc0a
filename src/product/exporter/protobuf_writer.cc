#include "exporter/protobuf_writer.h"

namespace nest::exporter {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kLengthDelimited = 2 };

void append_varint(std::string& bytes, std::uint64_t value) {
  constexpr std::uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7) bytes.push_back(static_cast<char>((value & (kMore - 1)) | kMore));
  bytes.push_back(static_cast<char>(value));
}

void append_tag(std::string& bytes, std::uint32_t field, WireType type) { append_varint(bytes, field << 3 | type); }

}  // namespace

void ProtobufWriter::integer(std::uint32_t field, std::uint64_t value) {
  append_tag(bytes_, field, kVarint);
  append_varint(bytes_, value);
}

void ProtobufWriter::text(std::uint32_t field, std::string_view value) {
  append_tag(bytes_, field, kLengthDelimited);
  append_varint(bytes_, value.size());
  bytes_ += value;
}

void ProtobufWriter::packed(std::uint32_t field, std::span<const std::uint64_t> values) {
  if (values.empty()) return;
  std::string list;
  for (const std::uint64_t value : values) append_varint(list, value);
  text(field, list);
}

void append_delimited(std::string& file, const ProtobufWriter& message) {
  append_varint(file, message.bytes().size());
  file += message.bytes();
}

}  // namespace nest::exporter
