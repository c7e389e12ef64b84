// SPDX-License-Identifier: Apache-2.0
// What work costs on the device's time line and which engine serves it.
//
// Kernels, sets and copies on the device share the compute engine; each direction of the link has an engine; everything
// else takes no time. A copy from one device to another crosses both links at once, at the rate of the slower direction
// (assumed: devices without a link of their own between them), and takes the sender's engine to the host. A kernel
// whose arithmetic nobody declares takes the time to read and write the buffers that it names, plus the launch; or,
// where the settings name a shortest and a longest time, one between them, log-uniform.
#pragma once

#include "simulator/core/settings.h"
#include "simulator/core/streams/operation.h"
#include "simulator/core/streams/timeline.h"

namespace simulator {

struct Service {
  Engine engine = Engine::kNone;
  Time duration = 0;
};

// `external`: how many bytes of another device's memory it names. A kernel, set or operator whose time nobody has said
// is no faster than these come over the link (assumed, as for copies).
Service service_of(const Work& work, const Settings& settings, Bytes external = 0);

}  // namespace simulator
