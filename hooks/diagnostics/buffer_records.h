// SPDX-License-Identifier: Apache-2.0
// Who allocated and who freed what, as far as it is remembered: all live buffers, and the last that were freed where no
// other buffer has been since. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "driver/units.h"
#include "hooks/diagnostics/call_site.h"

namespace thermocline {

struct BufferRecord {
  DeviceAddress address;
  Bytes bytes = 0;
  CallSite allocated;
  std::optional<CallSite> freed;

  DeviceAddress end() const { return address + bytes; }
};

class BufferRecords {
 public:
  static constexpr std::size_t kMostGone = 4096;

  void add(DeviceAddress address, Bytes bytes, const CallSite& site);
  // The live buffer that begins there is freed; false when there is none.
  bool remove(DeviceAddress address, const CallSite& site);
  // What contains the address; null when there is nothing.
  const BufferRecord* live(DeviceAddress address) const { return containing(live_, address); }
  const BufferRecord* gone(DeviceAddress address) const { return containing(gone_, address); }
  // A live buffer ends there.
  bool ends_live(DeviceAddress address) const;
  // All that stands in these addresses.
  void forget(std::uint64_t begin, Bytes bytes);

 private:
  using Map = std::map<std::uint64_t, BufferRecord>;
  static const BufferRecord* containing(const Map& map, DeviceAddress address);

  Map live_, gone_;
  std::deque<std::uint64_t> order_;  // of gone_, oldest first; may name some that are there no more
};

}  // namespace thermocline
