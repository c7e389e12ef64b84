// SPDX-License-Identifier: Apache-2.0
// Probes whether mapping calls return while other work is in flight (Mechanism::kMappingInFlight). A wait shows only
// while there is such work, so a stream of the probe's own is blocked by a value meanwhile.
#pragma once

#include "driver/probes.h"

namespace thermocline {

struct MappingInFlight {
  Finding finding = Finding::kNotTried;
  WaitingCalls waiting = WaitingCalls::kNone;
  const char* call = nullptr;  // the first that waits
};

// Call it while no other stream is blocked by anything that the calling thread would have to release. Takes about a
// millisecond, or up to a tenth of a second if a call waits; creates a thread, which has ended when it returns.
// `annotate`: as for probe_mapping.
MappingInFlight probe_mapping_in_flight(const Driver& driver, const DeviceFacts& facts, bool annotate = false);

}  // namespace thermocline
