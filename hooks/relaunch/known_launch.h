// SPDX-License-Identifier: Apache-2.0
// What an engine is told of an operation so that it may recompute contents (offload/relauncher.h): that it accesses
// nothing but what it names, how, and whether it may run again. Recordings are told how it accesses these.
//
// Vouched for are kernels whose PTX shows through which parameters they access memory, and copies and sets, which name
// their ranges. A kernel may run again if its results are proven to depend on nothing but what it reads
// (ptx_proof.h), and if this launch is as the proof demands.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>

#include "hooks/operands/accesses.h"
#include "hooks/operands/parameters.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "hooks/runtime/engines.h"
#include "offload/operation_info.h"
#include "offload/relauncher.h"

namespace thermocline {

// Setting recompute; off until settings were read.
inline std::atomic<bool> recompute_is_on{false};

// For copies and sets, which read and write what they name and nothing else. Null: nobody needs to know.
inline const RelaunchInfo* vouch_for_what_is_named() {
  static constexpr RelaunchInfo kNamed;
  return recompute_is_on.load(std::memory_order_relaxed) ? &kNamed : nullptr;
}

struct KernelKnowledge;

struct LaunchedKernel {
  CUfunction function = nullptr;
  const char* name = nullptr;  // null: not known
  const ParameterLayout* layout = nullptr;
  unsigned grid[3] = {}, block[3] = {};
  unsigned shared_bytes = 0;
  // Of cooperative launches, clusters and whatever else attributes ask for.
  bool is_special = false;
  KernelArguments arguments;
};

// Who asks for what is known of a launch.
enum class LaunchAskedBy : std::uint8_t {
  kEngine,     // it may have it run again
  kRecording,  // nothing is kept
};

// Kept until the operation has been submitted.
class KnownLaunch {
 public:
  // If it can be vouched for, `accesses` name whole buffers afterwards.
  KnownLaunch(const EngineSet& engines, const LaunchedKernel& kernel, LaunchAskedBy asker, AccessList* accesses);
  KnownLaunch(const KnownLaunch&) = delete;
  KnownLaunch& operator=(const KnownLaunch&) = delete;

  // Null: nothing is known.
  const RelaunchInfo* info() const { return is_vouched_for_ ? &info_ : nullptr; }
  // As OperationInfo::seen.
  std::span<const MemoryAccess> seen() const { return {seen_.data(), seen_.size()}; }

 private:
  struct Reached;
  LaunchVerdict look(const EngineSet& engines, const KernelKnowledge& known, const LaunchedKernel& kernel,
                     LaunchAskedBy asker, AccessList* accesses);

  bool is_vouched_for_ = false;
  RelaunchInfo info_;
  boost::container::small_vector<OperandUse, 16> uses_;
  boost::container::small_vector<MemoryAccess, 16> seen_;
};

// Launches so far, by verdict.
std::uint64_t launches_with(LaunchVerdict verdict);

}  // namespace thermocline
