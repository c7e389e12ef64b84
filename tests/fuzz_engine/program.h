// SPDX-License-Identifier: Apache-2.0
// A random program as data: its operations are valid whatever the operations before them did (an operation on a buffer
// or stream that does not exist is skipped), so any of them can be removed and the rest is still a program.
//
// Swarm testing (Groce, Zhang, Eide, Chen, Regehr: Swarm Testing, ISSTA 2012): each seed leaves out a random subset of
// the kinds of operations, since some defects appear only if something else does not happen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver/units.h"
#include "offload/engine/engine.h"

namespace thermocline::fuzz_engine {

enum class Kind : std::uint8_t {
  kAllocate,
  kFree,
  kOperate,   // one operator on up to four buffers
  kUnknown,   // the same, but the engine is not told the accesses
  kAbandon,   // prepared, and never submitted
  kDownload,  // to pinned memory of the program
  kUpload,    // from there
  kPin,
  kTrim,
  kExternal,  // external memory, which the engine is told about
  kSteal,     // another process takes device memory
  kGiveBack,  // releases the oldest of these two
  kWait,      // the host waits for a stream
  kWaitAll,   // the host waits for all streams
  kQuery,     // the host queries, so the device may make progress
  kOpenStream,
  kCloseStream,
  kDrop,  // recomputable contents are dropped
  kSleep,
  kWake,
};
inline constexpr std::size_t kKinds = 20;
const char* name_of(Kind kind);

// How the engine is told of an operand.
enum class Told : std::uint8_t { kBase, kInterior, kEnd, kRange, kRangeUnknown };

inline constexpr std::uint32_t kSlots = 96;
inline constexpr std::uint32_t kMostStreams = 20;  // limit for the streams ever created by one program
inline constexpr std::uint32_t kStagings = 3;
inline constexpr Bytes kStagingBytes = 8 * kMiB;
inline constexpr std::uint32_t kParts = 1024;

// A buffer, and the part [from, to) of it in units of its size over kParts.
struct Operand {
  std::uint32_t slot = 0;
  std::uint32_t from = 0, to = kParts;
  bool reads = true, writes = false;
  Told told = Told::kBase;
};

struct Step {
  Kind kind = Kind::kOperate;
  std::uint32_t stream = 0;
  bool names_stream =
      false;  // for allocations and frees; for waits: the engine is told what had been submitted before; for sleep: work in flight is waited for
  bool completes = false;  // for operations: the host waits for it before it commits
  Bytes bytes = 0;
  std::uint32_t staging = 0;
  std::uint64_t token = 0;  // identifies the kind of work to the engine
  std::uint64_t nanoseconds = 0;
  std::uint32_t operands = 0;
  std::array<Operand, 4> operand{};
};

// The conditions under which a program runs.
struct Setup {
  std::uint64_t seed = 0;
  Bytes budget = 0;
  Bytes memory = 0;      // of the device
  Bytes page_bytes = 0;  // of the engine
  Bytes host_limit = 0;
  Bytes spill_limit = 0;                 // 0: no spill file
  std::uint64_t spill_fault_one_in = 0;  // writes that fail
  const PolicyEntry* policy = kReactivePolicy;
  Safety safety = Safety::kStrict;
  HostFallback host_fallback = HostFallback::kOff;
  bool soft_limit = false;
  std::optional<std::uint64_t> order;
  bool recompute = false;
  std::uint64_t fault_one_in = 0;  // one in this many calls of the library fails; 0: none
};

// With a full host fallback the engine need not be told of accesses, as long as there is host memory for everything
// that is evicted.
inline bool may_hide_accesses(const Setup& setup) {
  return setup.host_fallback == HostFallback::kFull && setup.safety == Safety::kStrict && setup.policy != kNoPolicy &&
         setup.host_limit == 0 && setup.fault_one_in == 0;
}

struct Program {
  Setup setup;
  std::vector<Step> steps;
};

// The same seed gives the same program.
Program make_program(std::uint64_t seed, std::size_t steps, bool faults);
std::string describe(const Setup& setup);
std::string describe(const Step& step);

}  // namespace thermocline::fuzz_engine
