// SPDX-License-Identifier: Apache-2.0
// For the statistics at the end of a run: which launches of each kernel may run again where contents may be recomputed,
// and why others may not.
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
  kOtherCode,    // its PTX is not known, or does not show all of its accesses
  kNotProven,    // it is not proven that its results depend only on what it reads
  kOtherLayout,  // its parameters differ from its PTX's, or are passed in one block (`extra`)
  kSpecial,      // with attributes, cooperative, or with clusters
  kOtherShape,   // a shape or sizes that the proof does not cover
  kExchange,     // its threads exchange values in an order that is not proven
  kOtherMemory,  // it accesses memory that is not the library's, or that holds pointers
  kAliased,      // its output is given to it twice, or may be read through a pointer to the buffer after it
  kByAddress,    // it may compute with addresses
  kOutside,      // it writes beyond its buffer or not from its beginning, or reads before one
  kMayWait,      // it may wait for others, in a loop
};
inline constexpr int kLaunchVerdicts = 12;

// The first launch with a shape or sizes that the proof does not cover.
struct OtherShape {
  LaunchShape shape;
  // The parameter (from 1, of `parameters`) whose stores are not as proven; 0: no single parameter.
  std::uint32_t parameter = 0, parameters = 0;
};

struct KernelVerdict {
  std::string name;                                     // as the driver returns it
  RerunRefusal refused;                                 // none: it is proven, and each launch is examined
  std::array<std::uint64_t, kLaunchVerdicts> launches;  // by LaunchVerdict
  std::uint64_t reruns = 0;                             // times that it ran again
  // Numbers of results (offload/kernel_trial.h): equal in rehearsals, equal in reruns in use, different in either.
  std::uint64_t rehearsed = 0, verified = 0, mismatched = 0;
  KernelTrial::State state = KernelTrial::State::kOnTrial;
  std::optional<OtherShape> other_shape{};
  RerunRefusal unknown{};  // none: its code shows how it accesses its arguments
  std::vector<KernelArgument> arguments{};

  // Adds the verdict of the same code, loaded once more: the worse state counts.
  void add(const KernelVerdict& other);
  std::uint64_t all_launches() const;
  std::uint64_t reruns_allowed() const { return launches[static_cast<int>(LaunchVerdict::kMayRunAgain)]; }
  // The reason of most of its refused launches; "": all launches may run again.
  std::string why_not() const;
};

// For display: a line for each kernel, those with most launches first, at most `most` lines; "": there are no kernels.
std::string kernel_verdicts_text(std::vector<KernelVerdict> verdicts, std::size_t most);
// A member of a JSON object: `"kernels": [...]`.
std::string kernel_verdicts_json(std::vector<KernelVerdict> verdicts);

// For the table of observers.
void add_rerun_counts(EngineStatistics* statistics);

}  // namespace thermocline
