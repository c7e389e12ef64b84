// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace thermocline {

// The small buffers behind which a byte is left unused. Then an address one past the end of one is not the beginning of
// another one, and it is clear which of the two a kernel is given. That costs a granule for buffers that fill theirs, and
// so it costs a page where fewer of them, together with others, fit in it.
enum class KeepApart : std::uint8_t {
  kNone,
  kWhereCheap,  // buffers of up to 32 KiB, and those of which two or three fit in a page as well without the byte as with it
  kMost,  // all but those of which fewer fit in a page with the byte than without it, and less than seven in eight
};

}  // namespace thermocline
