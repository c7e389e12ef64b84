// SPDX-License-Identifier: Apache-2.0
// Remembers who allocated and who freed each buffer: all live buffers, and the most recently freed ones whose addresses
// have not been reused. Not thread-safe.
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
  bool guarded = false;  // guard bytes have been written behind it

  DeviceAddress end() const { return address + bytes; }
};

class BufferRecords {
 public:
  static constexpr std::size_t kMostGone = 4096;

  void add(DeviceAddress address, Bytes bytes, const CallSite& site, bool guarded);
  // Records that the live buffer that begins there is freed; false when there is none.
  bool remove(DeviceAddress address, const CallSite& site);
  // The live buffer that contains the address; null when there is none.
  const BufferRecord* live(DeviceAddress address) const { return containing(live_, address); }
  const BufferRecord* gone(DeviceAddress address) const { return containing(gone_, address); }
  // Whether a live buffer ends at this address, or begins shortly behind it (Heap::meant_by).
  bool is_beside_live(DeviceAddress address) const;
  // Removes all records in this range of addresses.
  void forget(std::uint64_t begin, Bytes bytes);

 private:
  using Map = std::map<std::uint64_t, BufferRecord>;
  static const BufferRecord* containing(const Map& map, DeviceAddress address);

  Map live_, gone_;
  std::deque<std::uint64_t> order_;  // keys of gone_, oldest first; may include keys no longer in gone_
};

}  // namespace thermocline
