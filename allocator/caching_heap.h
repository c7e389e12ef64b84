// SPDX-License-Identifier: Apache-2.0
// Device memory if the driver has no mapping functions: each buffer is a driver allocation of its own, a block. A freed
// block is cached until its exact size is requested again, or until its room is needed.
//
// Bookkeeping only: between the calls of this class the caller calls the driver, which may wait. So bytes are counted
// from before they are requested from the driver until after they are returned to it:
//
//   taken = live + waited for + cached + reserved (being requested) + leaving (being returned)
//
// and, if there is a budget, never above it. Nothing is evicted: requests that do not fit are refused. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "allocator/size_class.h"
#include "driver/units.h"

namespace thermocline {

class CachingHeap {
 public:
  // Buffers are allocated in multiples of this, and count as such (cuMemAlloc aligns to at least 256; observed).
  static constexpr Bytes kGranule = 512;
  static Bytes counted(Bytes bytes) { return bytes <= ~Bytes{0} - kGranule ? round_up(bytes, kGranule) : bytes; }

  enum class State : std::uint8_t {
    kUnknown,  // no block begins there
    kLive,
    kWaited,  // freed, but work in flight may use it: not to be used again yet
    kCached,
  };
  struct Block {
    Bytes bytes = 0;            // as the program asked for them
    std::uint64_t context = 0;  // the context in which the driver made it, and with which it ends
    bool is_external = false;   // memory of the driver that counts against the budget: never cached
    bool is_shared = false;     // others may use or know it: never cached
    State state = State::kLive;
  };
  // A block that is being returned to the driver.
  struct Leaving {
    DeviceAddress at;
    Block block;
  };

  // 0: no budget.
  explicit CachingHeap(Bytes budget) : budget_(budget) {}

  // A cached block of exactly that size, which is live again.
  std::optional<DeviceAddress> reuse(Bytes bytes, std::uint64_t context);

  enum class Reserved : std::uint8_t {
    kYes,     // allocated() or unreserve() must follow
    kNotYet,  // `surplus` must be returned first; if it is empty, what other threads are returning
    kNo,      // larger than the budget without any cached memory
  };
  Reserved reserve(Bytes bytes, std::vector<Leaving>* surplus);
  // The driver has refused the reserved bytes.
  void unreserve(Bytes bytes);
  // The driver has made `block`.
  void allocated(DeviceAddress at, const Block& block);
  // A request was refused in the end.
  void count_refusal() { ++out_of_memory_; }

  State state_of(DeviceAddress at) const;
  // `at`: the address of a live block.
  Block block_at(DeviceAddress at) const { return blocks_.at(at); }
  // Marks the block that contains the address as shared; no effect if there is none.
  void share(DeviceAddress at);

  // A live block is freed: either wait_began, then cache or wait_failed, or take_out, then left or put_back.
  void wait_began(DeviceAddress at);
  void wait_failed(DeviceAddress at);
  void cache(DeviceAddress at);
  Leaving take_out(DeviceAddress at);
  void put_back(const Leaving& block);
  void left(const Leaving& block);
  // All cached blocks have to be returned.
  std::vector<Leaving> empty_cache();

  // The context and all its memory have ended, or are about to: nobody uses them any more.
  void end_of_context(std::uint64_t context);

  struct Statistics {
    Bytes live_bytes = 0, peak_live_bytes = 0;      // as the program asked for them, external memory included
    Bytes block_bytes = 0, external_bytes = 0;      // live, rounded as they are counted
    Bytes cached_bytes = 0;                         // waited for, or cached
    Bytes device_bytes = 0, peak_device_bytes = 0;  // allocated from the driver
    Bytes allocated_bytes = 0;                      // in total; minus the live bytes: freed
    Bytes created_bytes = 0, destroyed_bytes = 0;   // blocks allocated from and returned to the driver, not external
    Bytes largest_allocation_bytes = 0;
    std::uint64_t live_buffers = 0, peak_live_buffers = 0;
    std::uint64_t allocations = 0, creates = 0, out_of_memory = 0;  // buffers; of these made by the driver; refusals
    std::array<SizeClass, SizeClass::kCount> size_classes;          // of live buffers
  };
  Statistics statistics() const;
  void reset_peaks();
  Bytes budget() const { return budget_; }
  Bytes cached_bytes() const { return cached_bytes_; }
  // How often memory has been returned to the driver.
  std::uint64_t returns() const { return returns_; }
  bool is_any_leaving() const { return leaving_bytes_ > 0; }

  // Recomputes every sum and every index from the blocks.
  void validate() const;

 private:
  using Blocks = std::map<DeviceAddress, Block>;

  Bytes device_bytes() const { return live_counted_ + cached_bytes_ + leaving_bytes_; }
  Bytes taken() const { return device_bytes() + reserved_bytes_; }
  void becomes_live(const Block& block);
  void is_live_no_more(const Block& block);
  void forget(Blocks::iterator block);
  Blocks::iterator live(DeviceAddress at);
  Leaving uncache(Blocks::iterator block);

  const Bytes budget_;
  Blocks blocks_;                                      // live, waited for and cached
  std::set<std::pair<Bytes, DeviceAddress>> by_size_;  // the cached ones
  // Counted bytes: of live blocks; of those waited for or cached; being requested and being returned.
  Bytes live_counted_ = 0, cached_bytes_ = 0, reserved_bytes_ = 0, leaving_bytes_ = 0;
  Bytes leaving_external_bytes_ = 0;  // part of leaving_bytes_
  std::uint64_t returns_ = 0, out_of_memory_ = 0;
  // Values that are not sums of the above.
  Statistics counts_;
};

}  // namespace thermocline
