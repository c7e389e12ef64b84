// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "driver/units.h"

namespace thermocline {

// The granularity of physical handles on devices since compute capability 3.0 (cuMemGetAllocationGranularity). An
// engine asks its device (DeviceFacts::page_bytes); this constant is for layouts that are computed without a device.
inline constexpr Bytes kDefaultPageBytes = 2 * kMiB;

}  // namespace thermocline
