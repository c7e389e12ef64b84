// SPDX-License-Identifier: Apache-2.0
// Pinned host memory in physical pages that the library creates itself, so that they can also be mapped at device
// addresses. It replaces cuMemHostAlloc, whose memory has no handle. Each piece has addresses of its own, which the
// host and the library's copies use; its pages may be mapped a second time elsewhere.
//
// cuMemMap maps a handle as a whole, so each page has its own handle. No documentation states that copies to and from
// such memory work as they do with other pinned memory, so the first piece is tested before it is used. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "allocator/lock_levels.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/probes.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

class MappableHost {
 public:
  // `node` and `page_bytes`: DeviceFacts::host_map_node and page_bytes, for a device with can_map_host. `readable`:
  // host memory holds bytes (a simulated device may do without).
  MappableHost(const Driver& driver, int device, int node, Bytes page_bytes, bool readable)
      : driver_(&driver), device_(device), node_(node), page_bytes_(page_bytes), readable_(readable) {}
  // Returns all memory to the driver.
  ~MappableHost();
  MappableHost(const MappableHost&) = delete;
  MappableHost& operator=(const MappableHost&) = delete;

  Bytes page_bytes() const { return page_bytes_; }

  // The stream on which take() tests the first piece before it returns it; without a stream it is not tested. `failed`,
  // unless null, is called if copies do not work with such memory.
  void try_on(StreamHandle stream, void (*failed)() = nullptr) {
    stream_ = stream;
    proven_ = false;
    failed_ = failed;
  }

  // These driver functions wait for work in flight. Pieces that have been taken stay until the destructor; if mapping
  // waits, no more are taken.
  void mapping_waits(WaitingCalls calls) { waiting_calls_ = calls; }

  // `bytes` must be whole pages. On failure nothing has changed.
  Status take(Bytes bytes, void** out);
  // Returns a piece as it was taken. False, and nothing has changed: `at` is no piece, or the driver does not unmap it,
  // or would wait.
  bool give(void* at);
  bool owns(const void* at) const;

  // Appends the pages of [at, at + bytes), which must be whole pages inside one piece; false when they are not.
  bool pages_of(const void* at, Bytes bytes, std::vector<PageHandle>* out) const;

 private:
  struct Piece {
    Bytes bytes = 0;
    std::uint64_t mapped = 0;  // how many of its pages, from the first, are mapped
    std::vector<PageHandle> pages;
  };
  using Pieces = std::map<std::uint64_t, Piece>;

  Status fill(DeviceAddress at, Piece* piece) const;
  // Copies to the device and back within the first page. not_supported if the bytes read back differ. `passed` is set
  // to false if a copy may still be running.
  Status prove(DeviceAddress at, bool* passed) const;
  // Undoes each step as far as the driver allows; true when everything has been released.
  bool dismantle(DeviceAddress at, Piece* piece) const;
  void dismantle_rest() THERMOCLINE_REQUIRES(mutex_);
  Pieces::const_iterator piece_at(const void* at) const THERMOCLINE_REQUIRES(mutex_);

  const Driver* driver_;
  const int device_;
  const int node_;
  const Bytes page_bytes_;
  const bool readable_;
  StreamHandle stream_{};
  void (*failed_)() = nullptr;
  std::atomic<bool> proven_{true};
  std::atomic<WaitingCalls> waiting_calls_{WaitingCalls::kNone};
  mutable Mutex mutex_{"mappable host memory", lock_level::kMappableHost};
  Pieces pieces_ THERMOCLINE_GUARDED_BY(mutex_);  // by address
  Pieces rest_ THERMOCLINE_GUARDED_BY(mutex_);    // pieces that the driver has not completely taken back yet
  // By copies that could not be waited for: released in the destructor, when it has completed.
  Pieces in_use_ THERMOCLINE_GUARDED_BY(mutex_);
};

}  // namespace thermocline
