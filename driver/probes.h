// SPDX-License-Identifier: Apache-2.0
// Probes of the driver's mapping functions where the documentation is silent or ambiguous (assumptions.h). They run
// when an engine is created, in its context, with one page, one event and kCallsOfProbes calls; programs that never
// allocate do not pay for them.
//
// The caller switches off a mechanism that fails (docs/driver_assumptions.md lists the fallbacks). A mechanism that
// could not be probed because the device is full counts as working: the probe has shown nothing against it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/driver.h"

namespace thermocline {

enum class Mechanism : std::uint8_t {
  kEvents,           // a recorded event that was waited for is reported as complete
  kRemap,            // a handle keeps its contents while it is not mapped
  kAlias,            // two mappings of a handle show the same memory
  kAccessRuns,       // one call sets access for several adjacent mappings
  kUnmapRuns,        // one call unmaps several adjacent mappings
  kCaptureMode,      // a thread can set its capture mode
  kHostMemory,       // mapped host memory: copies reach it, and the host reads them
  kMappingInFlight,  // mapping calls return while other work is in flight
  kCount
};

// Driver calls of probe_mapping when nothing fails; a test checks it.
inline constexpr int kCallsOfProbes = 32;

// Mapping calls that return only when work in flight has completed (mapping_waits.h).
enum class WaitingCalls : std::uint8_t {
  kNone,
  kUnmap,  // cuMemUnmap
  kAll,    // cuMemMap or cuMemSetAccess, and perhaps cuMemUnmap
};

enum class Finding : std::uint8_t { kNotTried, kWorks, kFails };

class Findings {
 public:
  Finding of(Mechanism mechanism) const { return findings_[static_cast<std::size_t>(mechanism)]; }
  bool fails(Mechanism mechanism) const { return of(mechanism) == Finding::kFails; }
  void set(Mechanism mechanism, Finding finding) { findings_[static_cast<std::size_t>(mechanism)] = finding; }
  void set(Mechanism mechanism, bool works) { set(mechanism, works ? Finding::kWorks : Finding::kFails); }

 private:
  std::array<Finding, static_cast<std::size_t>(Mechanism::kCount)> findings_{};
};

// For messages; `without`: what the library does if the mechanism fails.
struct MechanismText {
  Mechanism mechanism;
  const char* name;
  const char* what;
  const char* without;
};
std::span<const MechanismText> mechanism_texts();

// Probes all mechanisms but kHostMemory and kMappingInFlight (mapping_waits.h) on the device of the current context;
// none if it has no virtual memory management. `annotate`: tell tools (NVTX) that no buffer lies at these addresses.
Findings probe_mapping(const Driver& driver, const DeviceFacts& facts, bool annotate = false);
// Probes kHostMemory. Apart, because host pages are slow to create; engines try the first host page that they create.
void probe_host_memory(const Driver& driver, const DeviceFacts& facts, Findings* findings);

// The steps that work around kAccessRuns and kUnmapRuns if they fail.
MappingSteps steps_for(const Findings& findings, Bytes page_bytes);

}  // namespace thermocline
