// SPDX-License-Identifier: Apache-2.0
// How much may be live under a limit of pinned host memory. Under a host fallback copies lie in whole pages side by
// side, between which something may be left that no part fits into: an eighth of the limit, and no less than a part, is
// not granted.
#pragma once

#include <algorithm>

#include "driver/units.h"
#include "offload/residency/part_size.h"

namespace thermocline {

inline Bytes granted_under(Bytes host_limit, bool has_net) {
  return has_net ? host_limit - std::min(host_limit, std::max(host_limit / 8, kPartBytes)) : host_limit;
}

// The least limit that grants so much.
inline Bytes limit_that_grants(Bytes live, bool has_net) {
  return has_net ? std::max(live + kPartBytes, (live * 8 + 6) / 7) : live;
}

}  // namespace thermocline
