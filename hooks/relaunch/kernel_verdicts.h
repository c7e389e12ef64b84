// SPDX-License-Identifier: Apache-2.0
// What became of the launches of each kernel where contents may be recomputed, and why those that may not run again may
// not: for the statistics at the end of a run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/relaunch/kernel_arguments.h"
#include "hooks/relaunch/rerun_refusal.h"
#include "hooks/relaunch/uniform.h"
#include "offload/kernel_trial.h"

namespace thermocline {

struct EngineStatistics;

// Whether a launch may run again, or why it is not vouched for or may not run again.
enum class LaunchVerdict : std::uint8_t {
  kMayRunAgain,
  kOtherCode,    // its PTX is not known, or does not show all accesses
  kNotProven,    // its results are not proven to depend on what it reads alone
  kOtherLayout,  // other parameters than its PTX has, or all of them in one block (`extra`)
  kSpecial,      // with attributes, cooperative, of clusters
  kOtherShape,   // a shape or sizes that the proof is not of
  kExchange,     // its threads exchange values, in an order that is not proven
  kOtherMemory,  // memory that is not the library's, or that holds pointers
  kAliased,      // what it writes is given to it twice, or may be read by a pointer to the buffer behind
  kByAddress,    // it may compute with addresses
  kOutside,      // it writes past its buffer or from the middle of one, or reads before one
  kMayWait,      // for others, in a loop
};
inline constexpr int kLaunchVerdicts = 12;

// The first launch with a shape or sizes that the proof is not of.
struct OtherShape {
  LaunchShape shape;
  // Through which it does not store as proven, counted from 1, of so many; 0: it is not one alone.
  std::uint32_t parameter = 0, parameters = 0;
};

struct KernelVerdict {
  std::string name;                                     // as the driver returns it
  RerunRefusal refused;                                 // none: it is proven, and each launch is looked at
  std::array<std::uint64_t, kLaunchVerdicts> launches;  // by LaunchVerdict
  std::uint64_t reruns = 0;                             // times that it ran again
  // Of its results (offload/kernel_trial.h): equal in rehearsals, equal when it ran again in use, different in either.
  std::uint64_t rehearsed = 0, verified = 0, mismatched = 0;
  KernelTrial::State state = KernelTrial::State::kOnTrial;
  std::optional<OtherShape> other_shape{};
  RerunRefusal unknown{};  // none: how it accesses its arguments is known from its code
  std::vector<KernelArgument> arguments{};

  // Of the same code, loaded once more: the worse state counts.
  void add(const KernelVerdict& other);
  std::uint64_t all_launches() const;
  std::uint64_t reruns_allowed() const { return launches[static_cast<int>(LaunchVerdict::kMayRunAgain)]; }
  // Of the verdict that most of the refused launches have; "": all may run again.
  std::string why_not() const;
};

// For people: a line for each kernel, those with most launches first, and at most `most` of them; "": there are none.
std::string kernel_verdicts_text(std::vector<KernelVerdict> verdicts, std::size_t most);
// For a JSON object: `"kernels": [...]`.
std::string kernel_verdicts_json(std::vector<KernelVerdict> verdicts);

// For the table of observers.
void add_rerun_counts(EngineStatistics* statistics);

}  // namespace thermocline
