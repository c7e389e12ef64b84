// SPDX-License-Identifier: Apache-2.0
// The interface through which the engine has its caller run operations again, and the information it needs for that.
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
  // It may be reached by way of another operand's address. So whoever runs the operation again has to have it where it was:
  // a copy elsewhere would not be found.
  bool in_place = false;
};

// Given in addition to the accesses of Engine::begin, one entry for each; these must name whole buffers, each once. The
// caller vouches that the operation accesses nothing else.
struct RelaunchInfo {
  std::uint64_t id = 0;  // by which the relauncher knows this operation
  // It may run again: what it writes depends only on what it reads.
  bool may_run_again = false;
  std::span<const OperandUse> uses;
  // Of its kernel; outlives the engine. Null: what it makes again need not be verified.
  KernelTrial* trial = nullptr;
};

// What was made again was not what had been there.
struct RerunMismatch {
  // It never runs again.
  const KernelTrial* kernel = nullptr;
  // Null, or the kernel that made it: then `kernel` made what this one read, and may have been at fault as well.
  const KernelTrial* maker = nullptr;
  Bytes bytes = 0;
  // False: in a rehearsal, and the program has the right bits. True: in the program's buffer.
  bool in_use = false;
};

class Relauncher {
 public:
  // Number of newest operations that are remembered; older ones are never requested.
  static constexpr std::uint64_t kRemembered = std::uint64_t{1} << 17;

  virtual ~Relauncher() = default;

  // Submits the operation with this id once more, to `stream`; what its i-th access named is at addresses[i] now. Must
  // not call the engine.
  virtual Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) = 0;
  // Told of each kernel that is demoted for it; what else came of that kernel is counted. Called with the engine's lock:
  // must not call the engine, and should not do anything that takes time.
  virtual void came_out_different(const RerunMismatch& /*mismatch*/) noexcept {}
};

}  // namespace thermocline
