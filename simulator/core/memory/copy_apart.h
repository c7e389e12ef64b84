// SPDX-License-Identifier: Apache-2.0
// Copies whole buffers, at an acceptable cost under sanitizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simulator {

// memcpy. The thread sanitizer checks each word that memcpy copies, which took half of a program's time under it. So
// long copies here show it only the first word of each page: code that accesses a buffer while a copy may run accesses
// more of it than that.
inline void copy_apart(void* to, const void* from, std::size_t bytes) {
#ifdef __SANITIZE_THREAD__
  constexpr std::size_t kSystemPage = 4096;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (; bytes > kSystemPage; bytes -= kSystemPage) {
    std::memcpy(target, source, sizeof(std::uint64_t));
    target += sizeof(std::uint64_t);
    source += sizeof(std::uint64_t);
    std::size_t unseen = kSystemPage - sizeof(std::uint64_t);
    asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(unseen) : : "memory");
  }
  to = target;
  from = source;
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace simulator
