// SPDX-License-Identifier: Apache-2.0
// How an operation names the memory that it accesses.
#pragma once

#include <cstdint>
#include <type_traits>

#include "driver/units.h"

namespace thermocline {

// How an operation accesses memory, as far as its caller knows. A kernel's parameters do not say, so it may be unknown.
enum class Access { kUnknown, kRead, kWrite };

// An address that an operation was given, or a range that a copy names. bytes 0: only the address is known, and it
// means the buffer that contains it. An address one past the end of a buffer means both that buffer and the one that
// begins there.
struct MemoryAccess {
  DeviceAddress address;
  Bytes bytes = 0;
  Access access = Access::kUnknown;
  // 1: the operation was not given this address. Its caller found it in memory that the operation may read. Else 0. As
  // wide as it may be, so that equal accesses are equal bytes.
  std::uint32_t found = 0;
};
static_assert(std::has_unique_object_representations_v<MemoryAccess>);

struct AddressRange {
  DeviceAddress at;
  Bytes bytes = 0;

  DeviceAddress end() const { return at + bytes; }
};

// Eight bytes that a copy has written to memory and that may be an address of the engine's memory.
struct HeldWord {
  DeviceAddress at;
  std::uint64_t value = 0;
};

}  // namespace thermocline
