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

// The part that a device with a spill file may use of a limit that so many share. It leaves the others what their copies need for
// passing through to their files; but first its own need it. A limit that is too small for any is divided.
inline Bytes limit_beside_other_files(Bytes limit, Bytes devices) {
  const Bytes least = least_host_for_spill(kUnitBytes);
  return limit < least ? limit / devices : std::max(least, limit - std::min(limit, (devices - 1) * least));
}

// The smallest limit of which a device may use `least` bytes or more, `others` being in use by other devices, each of
// which may then use as much as this one may.
inline Bytes limit_that_leaves(Bytes least, Bytes devices, Bytes others) {
  if (least * devices < least_host_for_spill(kUnitBytes)) return std::max(least * devices, least + others);
  const Bytes of_one_other = others == 0 ? 0 : least_host_for_spill(kUnitBytes);
  return std::max(least_host_for_spill(kUnitBytes), least + std::max(of_one_other, others));
}

// How many bytes may be live under both limits.
inline Bytes granted_with_file(Bytes host_limit, Bytes file_limit, Bytes largest_unit) {
  if (host_limit < least_host_for_spill(largest_unit)) return 0;
  const Bytes rest = host_limit - least_host_for_spill(largest_unit);
  return rest - rest / 8 + granted_in_file(file_limit, largest_unit);
}

}  // namespace thermocline
