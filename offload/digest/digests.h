// SPDX-License-Identifier: Apache-2.0
// Computes digests of device memory with our own kernel, in a stream of its own. Copies memory to the host if its
// digest differs from an earlier one.
//
// Nothing is loaded before the first digest is wanted. Then the kernels are tested on our own pinned memory,
// so that code that does not work never accesses the program's memory. Until the test has passed, and for
// good if it fails, no digest is taken and callers do without. A digest counts only if every block of its
// launch has written its record with the ticket of that launch. Both the host and the kernel that copies
// check this.
//
// The host never waits for a digest, and need not know it: if it is not known yet, the copying kernel reads the records
// instead. The stream runs in order. So a slot of records is reused once its launch has completed, even if a later
// launch still reads it: the slot's next launch runs after that one.
//
// Contract: the caller keeps the memory mapped, unchanged and in place until `use` has passed. Guarded by the engine's
// lock.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
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

// A digest that was requested. The caller must not move this object until the digest is known or released.
struct TakenDigest {
  // kFailed: the kernel was launched, but gave no digest.
  enum class State : std::uint8_t { kNone, kPending, kKnown, kFailed };
  State state = State::kNone;
  // Set with kKnown, if the digest was taken for a comparison: whether the two digests differed.
  enum class Outcome : std::uint8_t { kNotCompared, kEqual, kChanged };
  Outcome outcome = Outcome::kNotCompared;
  Digest value;  // kKnown
  Use use;       // of the memory, by our kernels

  bool is_known_or_coming() const { return state == State::kPending || state == State::kKnown; }
};

struct DigestStatistics {
  std::uint64_t taken = 0;
  Bytes bytes = 0;
  std::uint64_t failed = 0;  // failed requests: the driver refused, or all records were in use
};

class Digests {
 public:
  // The most launches in flight. Each needs 8 KiB of pinned memory.
  static constexpr std::size_t kFew = 32, kMany = 256;
  struct Uses {
    bool wanted;    // false: no digest is ever taken
    bool tested;    // false: memory has no bytes, so the kernels cannot be tested: they are the simulated device's own
    bool annotate;  // tools are told what the kernels access (driver/nvtx_range.h)
  };
  Digests(const Driver& driver, StreamClock& clock, Uses uses, std::size_t most_at_once = kFew)
      : driver_(driver),
        clock_(clock),
        uses_(uses),
        most_at_once_(most_at_once),
        state_(uses.wanted ? State::kClosed : State::kOff) {}
  ~Digests();
  Digests(const Digests&) = delete;
  Digests& operator=(const Digests&) = delete;

  // False for good if the driver cannot load the kernels, or if they failed the test.
  bool on() const { return state_ != State::kOff; }
  // Loads the kernels if needed. True: they are loaded and have passed the test.
  bool is_ready();
  // Takes a digest of `range` after these uses. False: no digest is in flight, and `out` is unchanged. Never blocks,
  // except for the time in which the driver loads the kernels.
  bool take(AddressRange range, const UseSet& behind, const UseSet& and_behind, TakenDigest* out);
  // Copies `range` to `host` after these uses, unless its digest equals *copied, the digest of what is at `host`. After
  // copied->use the host copy is current and *copied is its digest, whatever the outcome. False: no copy is in flight,
  // and *copied is kNone. `submitted` gets the submitted work in either case. Never blocks.
  bool copy_if_changed(AddressRange range, void* host, const UseSet& behind, const UseSet& and_behind,
                       TakenDigest* copied, UseSet* submitted);
  // Writes the results of completed launches to their callers' TakenDigests. Never blocks.
  void poll();
  // The caller does not need the digest any more.
  void release(TakenDigest* taken);
  // Returns the oldest known outcome, not returned before, of a copy_if_changed() that returned true. kNotCompared:
  // there is none.
  TakenDigest::Outcome next_outcome();

  // Whether `taken`, which is pending, belongs to a launch in flight, so that poll() will complete it.
  bool is_on_its_way(const TakenDigest& taken) const { return launch_of(taken) != nullptr; }
  // Returns how many copies (copy_if_changed() true) next_outcome() has yet to report. Checks the slots.
  std::size_t validate() const;

  // Why it is off although it was wanted. Empty: it is on, or was not wanted.
  const std::string& why_off() const { return why_off_; }
  const DigestStatistics& statistics() const { return statistics_; }

 private:
  enum class State : std::uint8_t { kClosed, kTesting, kReady, kOff };
  struct Slot {
    DigestRecord records[kMostDigestBlocks];
    CopyVerdict verdict;
  };
  struct Launch {
    TakenDigest* owner;
    std::size_t slot;
    std::uint64_t ticket;
    Bytes bytes;
    unsigned blocks;
    bool compares;
    Use use;
  };

  void open();
  Status load();
  void turn_off(const std::string& why);
  Status begin_test();
  bool test_came_out_right() const;
  struct Shape {
    unsigned blocks, threads;
  };
  Status launch(FunctionHandle function, Shape shape, std::span<const std::uint64_t> parameters, AddressRange range,
                void* host);
  Status submit(AddressRange range, TakenDigest* out);
  Status submit_copy(AddressRange range, void* host, const TakenDigest& fresh, const TakenDigest& copied);
  Status wait_for(const UseSet& behind, const UseSet& and_behind);
  const Launch* launch_of(const TakenDigest& taken) const;
  Use advance();
  void collect(const Launch& launch);

  const Driver& driver_;
  StreamClock& clock_;
  const Uses uses_;
  const std::size_t most_at_once_;
  State state_;
  std::string why_off_;
  // A device that is full refuses one load after the other. So after each failed load the next attempt waits for a
  // growing number of operations of the program.
  static constexpr unsigned kMostLoads = 16;
  static constexpr Ordinal kFirstGap = 2, kLargestGap = 1024;
  unsigned failed_loads_ = 0;
  Ordinal load_gap_ = kFirstGap, load_again_at_ = 0;
  ModuleOwner module_;
  FunctionHandle digest_{}, copy_{};
  StreamOwner stream_;
  StreamIndex index_{};
  HostMemoryOwner memory_;  // the slots, then what the test needs
  Slot* slots_ = nullptr;
  std::vector<std::size_t> free_slots_;
  std::deque<Launch> pending_;  // in order of submission
  std::deque<TakenDigest::Outcome> outcomes_;
  struct Test;
  Test* test_ = nullptr;  // in memory_
  TakenDigest tested_[3];
  std::uint64_t newest_ticket_ = 0;
  DigestStatistics statistics_;
};

}  // namespace thermocline
