// SPDX-License-Identifier: Apache-2.0
// The interface through which an engine lets its caller run operations again, and the data that this needs.
#pragma once

#include <cstdint>
#include <span>

#include "driver/driver.h"
#include "driver/status.h"
#include "offload/kernel_trial.h"

namespace thermocline {

// Whether an operation depends on the former contents of an operand, and whether it changes them. An operand that is
// written in part counts as read too.
struct OperandUse {
  bool reads = false, writes = false;
  // The operand may be reached through another operand's address. So when the operation runs again the operand has to
  // be where it was: a copy elsewhere would not be found.
  bool in_place = false;
};

// Given in addition to the accesses of Engine::begin, one entry for each access; the accesses must name whole buffers,
// each once. The caller vouches that the operation accesses nothing else.
struct RelaunchInfo {
  std::uint64_t id = 0;  // the relauncher's number for this operation
  // It may run again: what it writes depends only on what it reads.
  bool may_run_again = false;
  std::span<const OperandUse> uses;
  // The trial of its kernel; outlives the engine. Null: its recomputed results need no verification.
  KernelTrial* trial = nullptr;
  // Not 0: all operations of this number are equal but for `id`. They have the same accesses, which are used in the same way.
  std::uint64_t same_as = 0;
};

// A recomputed result differed from the original.
struct RerunMismatch {
  // The kernel that is demoted: it never runs again.
  const KernelTrial* kernel = nullptr;
  // Null; or the kernel that made the result: then `kernel` made an input of it, and may have been at fault as well.
  const KernelTrial* maker = nullptr;
  Bytes bytes = 0;
  // False: the difference was found in a rehearsal, and the program has the right bits. True: in the program's buffer.
  bool in_use = false;
};

class Relauncher {
 public:
  // Number of newest operations that are remembered; older ones are never requested.
  static constexpr std::uint64_t kRemembered = std::uint64_t{1} << 17;

  virtual ~Relauncher() = default;

  // Submits the operation with this id once more, to `stream`; the memory of its i-th access is now at addresses[i].
  // Must not call the engine.
  virtual Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) = 0;
  // Called for each kernel that is demoted for a mismatch; later mismatches of that kernel are only counted. Called
  // with the engine's lock held: must not call the engine, and should return quickly.
  virtual void came_out_different(const RerunMismatch& /*mismatch*/) noexcept {}
};

}  // namespace thermocline
