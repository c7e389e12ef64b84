// SPDX-License-Identifier: Apache-2.0
// Time slices for processes that together thrash: each of them is active, lacks memory, and spends most of its time
// waiting for its own copies. Then they take turns, and the one that has the slice has the memory of all of them.
// Decides who has it, and when to begin: pure functions of what the processes have written to the ledger. Each process
// calls them and changes only its own record, so nobody has to obey another.
//
// - A process takes part while it is marked, is active, and looks at the ledger. One that is stopped or killed does not
//   look any more: it loses its slice, and the others do not wait for it.
// - Of two that have taken a slice at the same time, only the one that began earlier has it.
// - Those that take part begin in the order in which they had their last slice. So each waits at most for one slice of
//   each of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "offload/sharing/lease_policy.h"

namespace thermocline {

// The part of a process's record that is about slices. Times are of CLOCK_MONOTONIC, in nanoseconds.
struct SliceRecord {
  std::uint64_t looked_ns = 0;        // when it last looked at the ledger; 0: it takes no slices
  std::uint64_t marked_until_ns = 0;  // it has been found to thrash; slices help until then
  std::uint64_t begun_ns = 0;         // its latest slice
  std::uint64_t until_ns = 0;
  std::uint64_t measured_ns = 0;  // when what follows was measured
  // The part of the time in which its operations ran, and in which the link was busy for it, while it took no slices.
  std::uint32_t computed_permille = 0, copied_permille = 0;
  friend bool operator==(const SliceRecord&, const SliceRecord&) = default;
};

struct SliceSharer {
  bool is_active = false;
  unsigned weight = 1;
  SliceRecord record{};
};

// A process that has not looked for this long is taken to be stopped.
inline constexpr std::uint64_t kStoppedNs = 250'000'000;

bool takes_part(const SliceSharer& sharer, std::uint64_t now_ns);
// The processes take turns: at least two take part.
bool any_slices(std::span<const SliceSharer> all, std::uint64_t now_ns);
// The process that may use the device now. Between two slices it is the one that had the last one. Empty: there are no
// slices, or nobody has had one yet.
std::optional<std::size_t> slice_holder(std::span<const SliceSharer> all, std::uint64_t now_ns);
// There are slices, nobody's lasts, and it is the turn of `self`.
bool may_begin_slice(std::span<const SliceSharer> all, std::uint64_t now_ns, std::size_t self);

// While a process waits for its slice, it counts as idle where memory is divided (`sharers`: the same processes).
void rest_out_of_turn(std::span<const SliceSharer> all, std::uint64_t now_ns, std::span<Sharer> sharers);

// Whether `self` thrashes together with others, as far as is known: each of them copies for longer than it computes,
// the link is busy for most of the time with all of their copies, and the device computes for a part that slices
// exceed. `*computed_permille` is that part.
bool thrashes_with_others(std::span<const SliceSharer> all, std::uint64_t now_ns, std::size_t self,
                          std::uint32_t* computed_permille);

}  // namespace thermocline
