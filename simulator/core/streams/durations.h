// SPDX-License-Identifier: Apache-2.0
// How long work takes on the device's time line, and which engine executes it.
//
// Kernels, sets and copies on the device share the compute engine; each direction of the link has an engine; everything
// else takes no time. A kernel whose code runs takes what the device's peak rates allow for what it executed
// (kernel_time.h). A copy from one device to another uses both links at once, at the rate of the slower direction
// (assumption: devices have no direct link), and occupies the sender's engine for copies to the host. A kernel of
// undeclared arithmetic that does not run takes the time to read and write the buffers that it names, plus the launch
// overhead; or, if
// the settings name a shortest and a longest time, a log-uniform random time between them. Where one writes host memory
// that it declares, the compute engine is busy for as long as the link is (a device could run other kernels beside).
#pragma once

#include "simulator/core/settings.h"
#include "simulator/core/streams/operation.h"
#include "simulator/core/streams/timeline.h"

namespace simulator {

// Whether the kernel's duration follows from what it executes, and so is known only after it has run.
bool is_counted(const Kernel& kernel, const Settings& settings);

struct Service {
  Engine engine = Engine::kNone;
  Time duration = 0;
};

// `external`: bytes of another device's memory that it names. A kernel, set or operator without a given time takes at
// least as long as transferring these over the link (assumption, as for copies).
Service service_of(const Work& work, const Settings& settings, Bytes external = 0);

// The time of a transfer between two devices.
Time time_between_devices(Bytes bytes, const Settings& settings);

// The additional time of the kernel if it writes the host memory that it declares.
Time time_to_write(const Kernel& kernel, const Settings& settings);

}  // namespace simulator
