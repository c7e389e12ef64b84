// SPDX-License-Identifier: Apache-2.0
// Pinned host memory in physical pages of our own, which can stand behind addresses of the device as well: in place of
// cuMemHostAlloc, whose memory has no handle. Each piece has addresses of its own, through which the host and our
// copies reach it; its pages may be mapped a second time elsewhere.
//
// cuMemMap takes handles whole, so a handle is one page. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

class MappableHost {
 public:
  // What the driver says of itself: DeviceFacts::host_map_node and page_bytes, where can_map_host.
  MappableHost(const Driver& driver, int device, int node, Bytes page_bytes)
      : driver_(&driver), device_(device), node_(node), page_bytes_(page_bytes) {}
  // Gives everything back.
  ~MappableHost();
  MappableHost(const MappableHost&) = delete;
  MappableHost& operator=(const MappableHost&) = delete;

  Bytes page_bytes() const { return page_bytes_; }

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
  // Each step as far as the driver goes; true when all of it has gone back.
  bool dismantle(DeviceAddress at, Piece* piece) const;
  void dismantle_rest();
  Pieces::const_iterator piece_at(const void* at) const;

  const Driver* driver_;
  const int device_;
  const int node_;
  const Bytes page_bytes_;
  mutable std::mutex mutex_;
  Pieces pieces_;  // by address
  Pieces rest_;    // of which the driver has not taken all back yet
};

}  // namespace thermocline
