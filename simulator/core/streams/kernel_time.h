// SPDX-License-Identifier: Apache-2.0
// The duration of a kernel, given what it executed: the roofline of the device's profile. The longest of
//   - arithmetic, at the peak rate of its kind (32 bits, 64 bits, products of matrices),
//   - instructions, as many lanes as the schedulers of a multiprocessor issue in a cycle,
//   - bytes of device memory, at its bandwidth: what was accessed, but no more than the pages that were reached, each once
//     for reads and once for writes, as if the caches kept everything,
//   - bytes of pinned host memory, and of other devices, at the link's rate,
// plus the launch. A grid whose blocks do not fill the device's multiprocessors and schedulers evenly gets a part of
// the rates of arithmetic and instructions; the lanes missing in a block's last warp are lost. No latencies, conflicts,
// divergence or load queues: a real kernel takes longer (docs/simulated_device.md, "How long a kernel takes").
#pragma once

#include "simulator/core/settings.h"
#include "simulator/core/streams/operation.h"

namespace simulator {

Time time_of(const Kernel& kernel, const KernelCounts& counts, const Settings& settings);

}  // namespace simulator
