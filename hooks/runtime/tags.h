// SPDX-License-Identifier: Apache-2.0
// Names that a program gives to its buffers: "weights", "layer 3" (thermocline_tag). Recordings have them, and a sleep
// may be for one of them. They are numbered from 1, in the order in which they first appear, and never forgotten.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

// The number of that tag, a new one if needed; 0 for "".
std::uint64_t number_of_tag(std::string_view text);
// 0: nobody has used that tag.
std::uint64_t find_tag(std::string_view text);
// The tag with that number, which is between 1 and tags().
const std::string& text_of_tag(std::uint64_t number);
std::uint64_t tags();

// The tag of what the calling thread allocates; 0: none.
void tag_thread(std::uint64_t number);
std::uint64_t tag_of_thread();

namespace detail {
extern constinit std::atomic<bool> any_tag;
}
// False: there has never been a tag.
inline bool any_tag() { return detail::any_tag.load(std::memory_order_relaxed); }

}  // namespace thermocline
