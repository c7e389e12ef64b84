// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstring>

#include "tests/preload/programs/workload.h"

namespace program {

namespace {

std::uint64_t with(std::uint64_t digest, std::uint64_t word) { return std::rotl((digest ^ word) * 0x100000001b3u, 29); }

}  // namespace

// Words, in four chains: byte by byte it took as long as all the rest of the program.
void Digest::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::array<std::uint64_t, 4> chains{1, 2, 3, 4};
  for (; bytes >= sizeof chains; bytes -= sizeof chains) {
    for (std::uint64_t& chain : chains) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      chain = with(chain, word);
      at += sizeof word;
    }
  }
  for (; bytes > 0; --bytes) value_ = with(value_, *at++);
  for (const std::uint64_t chain : chains) value_ = with(value_, chain);
}

}  // namespace program
