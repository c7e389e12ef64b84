// SPDX-License-Identifier: Apache-2.0
// The facts about an operation that an engine needs to recompute contents (offload/relauncher.h): that it accesses only
// what it names, how it accesses that, and whether it may run again. Recordings get the accesses, too.
//
// The library vouches for copies and sets, which name their ranges, and for kernels whose PTX shows through which
// parameters they access memory. A kernel may run again if its results are proven to depend only on what it reads
// (ptx_proof.h), and if this launch satisfies the conditions of the proof.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>

#include "hooks/operands/accesses.h"
#include "hooks/operands/parameters.h"
#include "hooks/relaunch/kernel_verdicts.h"
#include "hooks/runtime/engines.h"
#include "offload/operation_info.h"
#include "offload/relauncher.h"

namespace thermocline {

// Whether setting recompute is on; false until the settings were read.
inline std::atomic<bool> recompute_is_on{false};

// For copies and sets, which read and write only what they name. Null: nobody needs to know.
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
  // A cooperative launch, one with clusters, or with any other special attribute.
  bool is_special = false;
  KernelArguments arguments;
};

class ExaminedLaunch;

// The recipient of the facts about a launch.
enum class LaunchAskedBy : std::uint8_t {
  kEngine,     // the engine may have it run again
  kRecording,  // nothing is kept
};

// Must live until the operation has been submitted.
class KnownLaunch {
 public:
  // If the library vouches for the launch, `accesses` name whole buffers afterwards. `kind`: OperationInfo::kind.
  KnownLaunch(const EngineSet& engines, const LaunchedKernel& kernel, std::uint64_t kind, LaunchAskedBy asker,
              AccessList* accesses);
  KnownLaunch(const KnownLaunch&) = delete;
  KnownLaunch& operator=(const KnownLaunch&) = delete;

  // Null: nothing is known.
  const RelaunchInfo* info() const { return is_vouched_for_ ? &info_ : nullptr; }
  // See OperationInfo::seen.
  std::span<const MemoryAccess> seen() const;

 private:
  struct Reached;
  bool came_before(const EngineSet& engines, const LaunchedKernel& kernel, std::uint64_t code, std::uint64_t key,
                   AccessList* accesses);
  LaunchVerdict look(const EngineSet& engines, const KernelKnowledge& known, const LaunchedKernel& kernel,
                     LaunchAskedBy asker, AccessList* accesses, Reached* reached);
  void keep(const EngineSet& engines, const LaunchedKernel& kernel, std::uint64_t code, std::uint64_t key,
            LaunchVerdict verdict, const KernelKnowledge& known, const Reached& reached, const AccessList& accesses);

  bool is_vouched_for_ = false;
  std::shared_ptr<const ExaminedLaunch> examined_;  // has `uses` and `seen`; null: the launch was examined now
  RelaunchInfo info_;
  boost::container::small_vector<OperandUse, 16> uses_;
  boost::container::small_vector<MemoryAccess, 16> seen_;
};

// Launches so far, by verdict.
std::uint64_t launches_with(LaunchVerdict verdict);

}  // namespace thermocline
