// SPDX-License-Identifier: Apache-2.0
// Pinned host memory in physical pages of our own, which can stand behind addresses of the device as well: in place of
// cuMemHostAlloc, whose memory has no handle. Each piece has addresses of its own, through which the host and our
// copies reach it; its pages may be mapped a second time elsewhere.
//
// cuMemMap takes handles whole, so a handle is one page. That copies to and from such memory work as they do with other
// pinned memory no documentation says in so many words, so the first piece is tried before anybody relies on it.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "allocator/lock_levels.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

class MappableHost {
 public:
  // What the driver says of itself: DeviceFacts::host_map_node and page_bytes, where can_map_host. `readable`: host
  // memory has bytes (a simulated device may do without).
  MappableHost(const Driver& driver, int device, int node, Bytes page_bytes, bool readable)
      : driver_(&driver), device_(device), node_(node), page_bytes_(page_bytes), readable_(readable) {}
  // Gives everything back.
  ~MappableHost();
  MappableHost(const MappableHost&) = delete;
  MappableHost& operator=(const MappableHost&) = delete;

  Bytes page_bytes() const { return page_bytes_; }

  // The stream on which the first piece is tried, before take() answers it; without one it is not tried.
  void try_on(StreamHandle stream) {
    stream_ = stream;
    proven_ = false;
  }

  // `bytes`: whole pages. On failure nothing has changed.
  Status take(Bytes bytes, void** out);
  // A piece as it was taken; false when it is none, or the driver does not unmap it: then it is as it was.
  bool give(void* at);
  bool owns(const void* at) const;

  // Appends the pages of [at, at + bytes), whole pages inside one piece; false when they are not.
  bool pages_of(const void* at, Bytes bytes, std::vector<PageHandle>* out) const;

 private:
  struct Piece {
    Bytes bytes = 0;
    std::uint64_t mapped = 0;  // of its pages, the first ones
    std::vector<PageHandle> pages;
  };
  using Pieces = std::map<std::uint64_t, Piece>;

  Status fill(DeviceAddress at, Piece* piece) const;
  // Copies there and back within the first page: not_supported where other bytes come back. False in `passed`: a copy
  // may still be under way.
  Status prove(DeviceAddress at, bool* passed) const;
  // Each step as far as the driver goes; true when all of it has gone back.
  bool dismantle(DeviceAddress at, Piece* piece) const;
  void dismantle_rest();
  Pieces::const_iterator piece_at(const void* at) const;

  const Driver* driver_;
  const int device_;
  const int node_;
  const Bytes page_bytes_;
  const bool readable_;
  StreamHandle stream_{};
  std::atomic<bool> proven_{true};
  mutable Mutex mutex_{"mappable host memory", lock_level::kMappableHost};
  Pieces pieces_;  // by address
  Pieces rest_;    // of which the driver has not taken all back yet
  Pieces in_use_;  // by copies that could not be waited for: given back at the end, when everything has been
};

}  // namespace thermocline
