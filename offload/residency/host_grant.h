// SPDX-License-Identifier: Apache-2.0
// How many bytes may be live under a limit of pinned host memory. With a host fallback, copies take whole pages side by
// side, and gaps may remain between them into which no unit fits. So an eighth of the limit, and no less than one unit,
// is not granted.
#pragma once

#include <algorithm>

#include "driver/units.h"
#include "offload/residency/unit_size.h"

namespace thermocline {

inline Bytes granted_under(Bytes host_limit, bool has_host_fallback) {
  return has_host_fallback ? host_limit - std::min(host_limit, std::max(host_limit / 8, kUnitBytes)) : host_limit;
}

// The smallest limit that grants that many bytes.
inline Bytes limit_that_grants(Bytes live, bool has_host_fallback) {
  return has_host_fallback ? std::max(live + kUnitBytes, (live * 8 + 6) / 7) : live;
}

// With a spill file, copies also pass through host memory on their way to the device and back. That needs room for one
// unit in each direction, and for the gaps between them. With less than that nothing is granted.
inline constexpr Bytes kUnitsInPassing = 3;

inline Bytes least_host_for_spill(Bytes largest_unit) { return kUnitsInPassing * largest_unit; }

// The part of the live bytes that may have to be in the file. An eighth of the rest of the host limit is reserved.
inline Bytes needed_in_file(Bytes live, Bytes host_limit, Bytes largest_unit) {
  const Bytes rest = host_limit - std::min(host_limit, least_host_for_spill(largest_unit));
  return live - std::min(live, rest - rest / 8);
}

// How many bytes may be in the file: ranges of different sizes leave gaps of an eighth, and no less than one unit.
inline Bytes granted_in_file(Bytes file_limit, Bytes largest_unit) {
  return file_limit - std::min(file_limit, std::max(file_limit / 8, largest_unit));
}
inline Bytes file_limit_that_grants(Bytes in_file, Bytes largest_unit) {
  return in_file == 0 ? 0 : std::max(in_file + largest_unit, (in_file * 8 + 6) / 7);
}

// How many bytes may be live under both limits.
inline Bytes granted_with_file(Bytes host_limit, Bytes file_limit, Bytes largest_unit) {
  if (host_limit < least_host_for_spill(largest_unit)) return 0;
  const Bytes rest = host_limit - least_host_for_spill(largest_unit);
  return rest - rest / 8 + granted_in_file(file_limit, largest_unit);
}

}  // namespace thermocline
