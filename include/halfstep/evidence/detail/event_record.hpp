#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <halfstep/numeric/bits.hpp>
#include <string>
#include <string_view>

namespace halfstep::detail {

/// The few parts of TensorFlow's event files that scalars need: records as in
/// tensorflow/tsl/lib/io/record_writer.h, messages as in tensorflow/core/util/event.proto and
/// framework/summary.proto, encoded as protocol buffers are (protobuf.dev, "Encoding").

/// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78; RFC 3720, appendix B.4 has test values.
constexpr std::array<std::uint32_t, 256> make_crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1u ? 0x82f63b78u : 0u);
    table[byte] = value;
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> crc32c_table = make_crc32c_table();

constexpr std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = ~0u;
  for (const char byte : bytes) {
    value = value >> 8 ^ crc32c_table[(value ^ static_cast<unsigned char>(byte)) & 0xffu];
  }
  return ~value;
}
static_assert(crc32c("123456789") == 0xe3069283u);

/// What records hold instead of the checksum itself, since checksums of data that hold checksums are weak.
constexpr std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t value = crc32c(bytes);
  return (value >> 15 | value << 17) + 0xa282ead8u;
}

inline void add_little_endian(std::string& to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xffu);
}

/// length (8 bytes), its checksum (4), data, its checksum (4).
inline std::string tf_record(std::string_view data) {
  std::string record;
  add_little_endian(record, data.size(), 8);
  add_little_endian(record, masked_crc32c(record), 4);
  record += data;
  add_little_endian(record, masked_crc32c(data), 4);
  return record;
}

/// A protocol-buffer message as it is put together.
class Message {
 public:
  Message& integer(unsigned field, std::int64_t value) {
    varint(field << 3 | 0u);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& number(unsigned field, double value) {
    varint(field << 3 | 1u);
    add_little_endian(bytes_, bits_of(value), 8);
    return *this;
  }
  Message& number(unsigned field, float value) {
    varint(field << 3 | 5u);
    add_little_endian(bytes_, bits_of(value), 4);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    varint(field << 3 | 2u);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7fu) | 0x80u);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// summary.proto: Summary { repeated Value value = 1; }, Value { string tag = 1; float simple_value = 2; }.
inline void add_scalar(Message& summary, std::string_view tag, float value) {
  summary.message(1, Message().text(1, tag).number(2, value));
}

/// event.proto: Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
/// }.
inline std::string scalars_event(double wall_time, std::int64_t step, const Message& summary) {
  return tf_record(Message().number(1, wall_time).integer(2, step).message(5, summary).bytes());
}
inline std::string version_event(double wall_time) {
  return tf_record(Message().number(1, wall_time).text(3, "brain.Event:2").bytes());
}

}  // namespace halfstep::detail
