// SPDX-License-Identifier: Apache-2.0
// Pinned host memory for the copies of evicted buffers. A private jemalloc arena cuts it into size classes; the arena's
// extent hooks take extents out of large registrations (host_steps.h). If a size class would round up by more than
// 1/32, the allocation is an extent of its own, because pinned memory is taken whether or not it is accessed. The limit
// is exact: it counts the bytes taken from the driver.
//
// Thread-safe; jemalloc locks. The driver must be able to allocate host memory on the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/host_account.h"
#include "allocator/mappable_host.h"
#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

class HostPool {
 public:
  // `limit` 0: no limit. Registrations are about `step_bytes` each, smaller near the limit, larger for larger requests.
  // `node`: the NUMA node where the memory should be; -1: any. `shared`: limits that others
  // share. `mappable`: the source of memory that can be mapped at device addresses.
  static Status create(const Driver& driver, Bytes limit, Bytes step_bytes, std::unique_ptr<HostPool>* out,
                       int node = -1, SharedHostLimits shared = {}, std::unique_ptr<MappableHost> mappable = nullptr);
  // Mappable memory is tested on this stream before it is used (MappableHost::try_on).
  void try_mappable_on(StreamHandle stream, void (*failed)() = nullptr);
  // See MappableHost.
  void mapping_waits(WaitingCalls calls);
  // All allocations must have been freed, and no copy may still be using them.
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // Aligned to at least 64 bytes. Null when the limit or the driver refuses; then nothing has changed.
  void* allocate(Bytes bytes);
  // Memory of whole 4 KiB, aligned to 4 KiB, as unbuffered access to files needs it.
  void* allocate_whole(Bytes bytes);
  // Memory in whole pages that can be mapped at device addresses; null also if such memory is not available.
  void* allocate_pages(Bytes bytes);
  // Pageable memory of whole 4 KiB: what is free of it, or more, if the driver refused the last request for pinned
  // memory although the limit allows it; else null. Copies to and from it make the host wait for everything before them in their stream.
  void* allocate_pageable(Bytes bytes);
  // Appends the pages of [at, at + bytes), which must lie in memory from allocate_pages; false for other memory.
  bool pages_of(const void* at, Bytes bytes, std::vector<PageHandle>* out) const;
  void free(void* at);
  // Returns unused registrations to the driver, the largest first, except for `keep` bytes of them. The driver may wait
  // for the device; other threads are served meanwhile.
  void trim(Bytes keep = 0);
  // Until the driver has back what other threads are returning at the moment.
  void await_leaving();
  // Unused registrations of other sizes may cause refusals (HostSteps). With `later` the caller makes way for them
  // without holding a lock, and asks again. For callers that all hold the same lock.
  bool trim_later(bool later);
  bool wants_trim() const;
  // Refusals to callers that did not ask again are no reason to trim.
  void forget_refusals();
  bool make_way();
  // While an object of this class lives, unused registrations are returned at once.
  class TrimsInPlace {
   public:
    explicit TrimsInPlace(HostPool& pool) : pool_(pool), before_(pool.trim_later(false)) {}
    ~TrimsInPlace() { pool_.trim_later(before_); }
    TrimsInPlace(const TrimsInPlace&) = delete;
    TrimsInPlace& operator=(const TrimsInPlace&) = delete;

   private:
    HostPool& pool_;
    const bool before_;
  };
  // Reserves `bytes` of the shared limits for this pool, whether or not they are allocated; valid until the next
  // claim. False: the limit does not allow it, and the last claim stays valid.
  bool claim(Bytes bytes);

  Bytes limit() const;
  // Bytes that callers hold, rounded as they were handed out.
  Bytes live_bytes() const;
  Bytes peak_live_bytes() const;
  // Bytes that are taken now, from the driver or as pageable memory.
  Bytes taken_bytes() const;
  Bytes peak_taken_bytes() const;
  // The part of it that is pageable, because the driver refused to pin it.
  Bytes pageable_bytes() const;
  Bytes peak_pageable_bytes() const;
  // Pinned bytes of all pools of the process that share a limit.
  Bytes pinned_by_all() const;
  // Bytes ever taken, in total.
  Bytes ever_taken_bytes() const;
  void reset_peaks();

  void validate() const;

 private:
  class State;
  explicit HostPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline
