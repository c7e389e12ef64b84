// SPDX-License-Identifier: Apache-2.0
// Takes digests of device memory by a kernel of ours, in a stream of its own, and copies to the host what does not have
// a digest that it had before.
//
// Nothing is loaded before the first one is wanted. Then the kernels are tested, on pinned memory of ours, so that no
// memory of the program is accessed by code that does not do what it should; until that has come out right, and for
// good where it does not, no digest is taken and whoever asks does without. A digest counts only where every block of
// its launch has written its record, with the ticket of that launch: the host looks, and so does the kernel that
// copies.
//
// The host never waits for a digest, and need not know it: where it does not yet, the kernel that copies is given the
// records instead. The stream is in order, so a slot of records whose launch is known to have passed can be used again
// although a later launch reads it: its next owner comes behind that one.
//
// Contract: whoever has asked keeps the memory mapped, unchanged and in place until `use` has passed. Guarded by the
// engine's lock.
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

// A digest that somebody has asked for. It stays where it is until it is known or released.
struct TakenDigest {
  // kFailed: it was launched, and nothing came of it.
  enum class State : std::uint8_t { kNone, kPending, kKnown, kFailed };
  State state = State::kNone;
  // kKnown, and taken to compare it with another one: whether they differed.
  enum class Outcome : std::uint8_t { kNotCompared, kEqual, kChanged };
  Outcome outcome = Outcome::kNotCompared;
  Digest value;  // kKnown
  Use use;       // of the memory, by our kernels

  bool is_known_or_coming() const { return state == State::kPending || state == State::kKnown; }
};

struct DigestStatistics {
  std::uint64_t taken = 0;
  Bytes bytes = 0;
  std::uint64_t failed = 0;  // asked for in vain: the driver refused, or all records were in use
};

class Digests {
 public:
  // How many may be on their way: each is 8 KiB of pinned memory.
  static constexpr std::size_t kFew = 32, kMany = 256;
  // `wanted` false: none is ever taken. `annotate`: tools are told what the kernels access (driver/nvtx_range.h).
  Digests(const Driver& driver, StreamClock& clock, bool wanted, bool annotate, std::size_t most_at_once = kFew)
      : driver_(driver),
        clock_(clock),
        annotate_(annotate),
        most_at_once_(most_at_once),
        state_(wanted ? State::kClosed : State::kOff) {}
  ~Digests();
  Digests(const Digests&) = delete;
  Digests& operator=(const Digests&) = delete;

  // False for good where the driver can not load the kernels, or they came out wrong.
  bool on() const { return state_ != State::kOff; }
  // The kernels are loaded, and have come out right. Loads them.
  bool is_ready();
  // Of `range`, behind these uses. False: none is on its way, and `out` is as before. Never blocks, but for the time
  // that the driver takes to load the kernels.
  bool take(AddressRange range, const UseSet& behind, const UseSet& and_behind, TakenDigest* out);
  // Copies `range` to `host`, behind these uses, unless its digest is *copied, that of what is at `host`. Behind
  // copied->use the copy is current and *copied its digest, whatever the outcome. False: there is no copy on its way,
  // and *copied is kNone. `submitted` gets what has been submitted in either case. Never blocks.
  bool copy_if_changed(AddressRange range, void* host, const UseSet& behind, const UseSet& and_behind,
                       TakenDigest* copied, UseSet* submitted);
  // Tells those that have passed to whoever asked; never blocks.
  void poll();
  // Nobody wants it any more.
  void release(TakenDigest* taken);
  // Of the calls of copy_if_changed that returned true, those whose outcome is known and has not been asked for, the
  // oldest: kNotCompared when there is none.
  TakenDigest::Outcome next_outcome();

  // Whether `taken`, which is pending, is somebody's whom poll() tells.
  bool is_on_its_way(const TakenDigest& taken) const { return launch_of(taken) != nullptr; }
  // How many calls that returned true next_outcome() has yet to tell of. Checks the slots.
  std::size_t validate() const;

  // Why it is off though it was wanted; empty: it is not.
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
  Status launch(FunctionHandle function, unsigned blocks, std::span<const std::uint64_t> parameters, AddressRange range,
                void* host);
  Status submit(AddressRange range, TakenDigest* out);
  Status submit_copy(AddressRange range, void* host, const TakenDigest& fresh, const TakenDigest& copied);
  Status wait_for(const UseSet& behind, const UseSet& and_behind);
  const Launch* launch_of(const TakenDigest& taken) const;
  Use advance();
  void collect(const Launch& launch);

  const Driver& driver_;
  StreamClock& clock_;
  const bool annotate_;
  const std::size_t most_at_once_;
  State state_;
  std::string why_off_;
  // A device that is full refuses loads one after the other: so the next one waits for some operations of the program,
  // more and more each time.
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
