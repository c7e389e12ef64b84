// SPDX-License-Identifier: Apache-2.0
// Pinned host memory for copies of evicted buffers. A private jemalloc arena cuts it into size classes; its extent
// hooks take extents out of large registrations (host_steps.h). What a class would round up by more than a
// thirty-second is an extent of its own, since pinned memory is taken whether it is accessed or not. The limit is
// exact: it counts the bytes taken from the driver.
//
// A call may be made from any thread; jemalloc locks. The driver must be able to allocate host memory on the calling
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "allocator/mappable_host.h"
#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

class HostLedger;

class HostPool {
 public:
  // limit 0: none. Steps are about `step_bytes`, less where the limit is near, more for larger requests.
  // `node`: of the machine's memory, where it should lie; -1: anywhere. `ledger`: of a limit that processes share,
  // which outlives the pool; null: there is none. `mappable`: where steps come from, that device addresses can lead to.
  static Status create(const Driver& driver, Bytes limit, Bytes step_bytes, std::unique_ptr<HostPool>* out,
                       int node = -1, HostLedger* ledger = nullptr, std::unique_ptr<MappableHost> mappable = nullptr);
  // The stream on which mappable memory is tried before it is used (MappableHost::try_on).
  void try_mappable_on(StreamHandle stream);
  // Everything must have been freed, and no copy may be using it.
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // Aligned to 64 bytes at least. Null when the limit or the driver refuses; then nothing has changed.
  void* allocate(Bytes bytes);
  // The same in whole pages that device addresses can lead to; null, too, where there are none such.
  void* allocate_pages(Bytes bytes);
  // Appends these pages, for [at, at + bytes) of what allocate_pages gave; false for other memory.
  bool pages_of(const void* at, Bytes bytes, std::vector<PageHandle>* out) const;
  void free(void* at);
  // Gives unused steps back to the driver, the largest first, but for `keep` bytes of them. The driver may wait for the
  // device; others are served meanwhile.
  void trim(Bytes keep = 0);
  // Other processes that share the limit leave so much to this one, taken or not: it stands until the next claim.
  // False: it is not to be had, and the last claim stands.
  bool claim(Bytes bytes);

  Bytes limit() const;
  // What callers hold, rounded as it was handed out.
  Bytes live_bytes() const;
  Bytes peak_live_bytes() const;
  // What is taken from the driver.
  Bytes pinned_bytes() const;
  Bytes peak_pinned_bytes() const;
  // All that was ever taken from the driver.
  Bytes taken_bytes() const;
  void reset_peaks();

  void validate() const;

 private:
  class State;
  explicit HostPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thermocline
