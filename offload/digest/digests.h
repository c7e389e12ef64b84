// SPDX-License-Identifier: Apache-2.0
// Takes digests of device memory by a kernel of ours, in streams of its own, and tells them to those who asked once
// they are there.
//
// Nothing is loaded before the first one is wanted. Then the kernel digests a known pattern first, in pinned memory of
// ours, so that no memory of the program is read by code that does not do what it should; until that has come out
// right, and for good where it does not, no digest is taken and whoever asks does without. A digest counts only where
// every block of its launch has written its record, with the ticket of that launch.
//
// Contract: whoever has asked keeps the memory mapped, unchanged and in place until `use` has passed. Guarded by the
// engine's lock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "allocator/stream_clock.h"
#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/owned.h"
#include "offload/access.h"
#include "offload/digest/digest.h"
#include "offload/digest/digest_code.h"

namespace thermocline {

// A digest that somebody has asked for. It stays where it is until it is known or released.
struct TakenDigest {
  // kFailed: it was launched, and nothing came of it.
  enum class State : std::uint8_t { kNone, kPending, kKnown, kFailed };
  State state = State::kNone;
  Digest value;  // kKnown
  Use use;       // of the memory, by the kernel

  bool is_known_or_coming() const { return state == State::kPending || state == State::kKnown; }
};

struct DigestStatistics {
  std::uint64_t taken = 0;
  Bytes bytes = 0;
  std::uint64_t failed = 0;  // asked for in vain: the driver refused, or all records were in use
};

class Digests {
 public:
  // Each lane is in order; one does not wait for the other.
  enum Lane : std::size_t { kCopies, kChecks };

  // `wanted` false: none is ever taken. `annotate`: tools are told what the kernel reads (driver/nvtx_range.h).
  Digests(const Driver& driver, StreamClock& clock, bool wanted, bool annotate)
      : driver_(driver), clock_(clock), annotate_(annotate), state_(wanted ? State::kClosed : State::kOff) {}
  ~Digests();
  Digests(const Digests&) = delete;
  Digests& operator=(const Digests&) = delete;

  // False for good where the driver can not load the kernel, or it came out wrong.
  bool on() const { return state_ != State::kOff; }
  // Of `range`, behind these uses. False: none is on its way, and `out` is as before. Never blocks, but for the time
  // that the driver takes to load the kernel.
  bool take(Lane lane, AddressRange range, const UseSet& behind, const UseSet& and_behind, TakenDigest* out);
  // Tells those that have passed to whoever asked; never blocks.
  void poll();
  // Nobody wants it any more.
  void release(TakenDigest* taken);

  // Why it is off though it was wanted; empty: it is not.
  const std::string& why_off() const { return why_off_; }
  const DigestStatistics& statistics() const { return statistics_; }

 private:
  enum class State : std::uint8_t { kClosed, kTesting, kReady, kOff };
  using Slot = std::array<DigestRecord, kMostDigestBlocks>;

  struct Launch {
    TakenDigest* owner;
    std::size_t slot;
    std::uint64_t ticket;
    Bytes bytes;
    unsigned blocks;
  };
  struct Stream {
    StreamOwner owner;
    StreamIndex index{};
    std::deque<Launch> pending;  // in order of submission
    std::deque<Use> uses;        // of these
  };

  void open();
  Status load();
  void turn_off(const std::string& why);
  Status submit(Stream& stream, DeviceAddress at, Bytes bytes, TakenDigest* out);
  void collect(const Launch& launch);
  std::byte* pattern();

  const Driver& driver_;
  StreamClock& clock_;
  const bool annotate_;
  State state_;
  std::string why_off_;
  ModuleOwner module_;
  FunctionHandle function_{};
  HostMemoryOwner memory_;  // the slots, then the pattern
  Slot* slots_ = nullptr;
  std::vector<std::size_t> free_slots_;
  std::array<Stream, 2> streams_;
  TakenDigest test_;
  std::uint64_t newest_ticket_ = 0;
  DigestStatistics statistics_;
};

}  // namespace thermocline
