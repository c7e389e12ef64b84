// SPDX-License-Identifier: Apache-2.0
// What of the driver's mapping is tried before anything relies on it: where the documentation is silent, or has been
// read otherwise (assumptions.h). One page, one event and some thirty calls, a millisecond or less, in the context in
// which an engine begins; a program that never allocates pays nothing.
//
// What fails is switched off by whoever asked (docs/driver_assumptions.md says what is done without it). What could not
// be tried, because the device had no room, counts as working: it is what the program would have met without us.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/driver.h"

namespace thermocline {

enum class Mechanism : std::uint8_t {
  kEvents,      // an event that was recorded and waited for has passed, and is said to have
  kRemap,       // what was written stays with the handle while no address leads to it
  kAlias,       // a handle behind two addresses shows one memory
  kAccessRuns,  // one call gives access to several mappings that lie side by side
  kUnmapRuns,   // one call unmaps them
  kHostMemory,  // memory of the host, mapped: copies go there and back, and the host reads them
  kCount
};

// Of probe_mapping, where nothing fails; a test holds it to that.
inline constexpr int kCallsOfProbes = 32;

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

// For people; `without` is what is done where it fails.
struct MechanismText {
  Mechanism mechanism;
  const char* name;
  const char* what;
  const char* without;
};
std::span<const MechanismText> mechanism_texts();

// All but kHostMemory, of the device of the current context; nothing where it has no virtual memory management.
// `annotate`: tools are told that these addresses are nobody's buffer.
Findings probe_mapping(const Driver& driver, const DeviceFacts& facts, bool annotate = false);
// kHostMemory alone: pages on the host take long to create, and who needs them tries the first one that it takes.
void probe_host_memory(const Driver& driver, const DeviceFacts& facts, Findings* findings);

// What the driver is asked from then on, so that what failed is done without.
MappingSteps steps_for(const Findings& findings, Bytes page_bytes);

}  // namespace thermocline
