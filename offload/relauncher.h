// SPDX-License-Identifier: Apache-2.0
// What the engine has to know, and asks of its caller, to run an operation again.
#pragma once

#include <cstdint>
#include <span>

#include "driver/driver.h"
#include "driver/status.h"

namespace thermocline {

// Whether an operation depends on what was in an operand's memory before, and whether it changes it. What is written in
// part is read as well.
struct OperandUse {
  bool reads = false, writes = false;
};

// Beside the accesses of Engine::begin, one for each, which name whole buffers, each once. Whoever gives it vouches
// that the operation accesses nothing else.
struct RelaunchInfo {
  std::uint64_t id = 0;  // of this operation; the relauncher knows it by that
  // It may run again: what it writes depends on what it reads, and on nothing else.
  bool may_run_again = false;
  std::span<const OperandUse> uses;
};

class Relauncher {
 public:
  // So many operations are remembered, the newest; older ones are never asked for.
  static constexpr std::uint64_t kRemembered = std::uint64_t{1} << 17;

  virtual ~Relauncher() = default;

  // Submits to `stream` what was submitted as operation `id`, once more; what was its i-th access lies at addresses[i]
  // now. It must not call the engine.
  virtual Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) = 0;
};

}  // namespace thermocline
