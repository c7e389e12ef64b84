// SPDX-License-Identifier: Apache-2.0
// A digest of memory, to check for equal bits: FNV-1a with 64 bits (Fowler, Noll, Vo; offset basis and prime as
// published).
#pragma once

#include <cstddef>
#include <cstdint>

namespace examples {

class Digest {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* byte = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ byte[i]) * 0x100000001b3u;
  }

  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace examples
