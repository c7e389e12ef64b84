// SPDX-License-Identifier: Apache-2.0
// Reads little-endian fields from bytes that may be damaged: every access is checked against the span, and no alignment
// is assumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace simulator {

using ByteSpan = std::span<const std::byte>;

template <typename T>
std::optional<T> read_at(ByteSpan data, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > data.size() || data.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, data.data() + offset, sizeof(T));
  return value;
}

inline std::optional<ByteSpan> slice(ByteSpan data, std::uint64_t offset, std::uint64_t bytes) {
  if (offset > data.size() || data.size() - offset < bytes) return std::nullopt;
  return data.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

// The string at `offset` up to its NUL; nothing if it does not end inside the span.
inline std::optional<std::string_view> text_at(ByteSpan data, std::uint64_t offset) {
  if (offset >= data.size()) return std::nullopt;
  const char* begin = reinterpret_cast<const char*>(data.data()) + offset;
  const void* end = std::memchr(begin, 0, data.size() - static_cast<std::size_t>(offset));
  if (end == nullptr) return std::nullopt;
  return std::string_view(begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin));
}

}  // namespace simulator
