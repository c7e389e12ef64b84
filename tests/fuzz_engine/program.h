// SPDX-License-Identifier: Apache-2.0
// A random program as data: operations that each make sense whatever became of the ones before (what names a buffer or
// stream that is not there is skipped), so that any of them can be dropped and what is left is still a program.
//
// Swarm testing (Groce, Zhang, Eide, Chen, Regehr: Swarm Testing, ISSTA 2012): each seed leaves out a random subset of
// the kinds of operations, since some defects show only where something else does not happen.
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
  kUnknown,   // the same, where the engine is told nothing
  kAbandon,   // prepared, and never submitted
  kDownload,  // into pinned memory of the program
  kUpload,    // from there
  kPin,
  kTrim,
  kExternal,  // the program takes memory of its own and says so
  kSteal,     // somebody else takes memory of the device
  kGiveBack,  // the oldest of these two
  kWait,      // the host waits for a stream
  kWaitAll,   // for all
  kQuery,     // the host looks, so the device may come further
  kOpenStream,
  kCloseStream,
  kDrop,  // what can be recomputed is dropped
};
inline constexpr std::size_t kKinds = 18;
const char* name_of(Kind kind);

// How the engine hears of an operand.
enum class Told : std::uint8_t { kBase, kInterior, kEnd, kRange, kRangeUnknown };

inline constexpr std::uint32_t kSlots = 96;
inline constexpr std::uint32_t kMostStreams = 20;  // ever opened by one program
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
  bool names_stream = false;  // of allocations and frees; of waits: the engine is told what had been submitted before
  bool completes = false;     // of operations: the host waits for it before it commits
  Bytes bytes = 0;
  std::uint32_t staging = 0;
  std::uint64_t token = 0;  // what the engine is told of the kind of work
  std::uint64_t nanoseconds = 0;
  std::uint32_t operands = 0;
  std::array<Operand, 4> operand{};
};

// What a program runs under.
struct Setup {
  std::uint64_t seed = 0;
  Bytes budget = 0;
  Bytes memory = 0;  // of the device
  Bytes host_limit = 0;
  const PolicyEntry* policy = kReactivePolicy;
  Safety safety = Safety::kStrict;
  HostFallback host_fallback = HostFallback::kOff;
  bool soft_limit = false;
  std::optional<std::uint64_t> order;
  bool recompute = false;
  std::uint64_t fault_one_in = 0;  // calls of the library; 0: none fails
};

// With a full host fallback nobody has to tell the engine of an access, as long as there is host memory for all that is
// away.
inline bool may_hide_accesses(const Setup& setup) {
  return setup.host_fallback == HostFallback::kFull && setup.safety == Safety::kStrict && setup.policy != kNoPolicy &&
         setup.host_limit == 0 && setup.fault_one_in == 0;
}

struct Program {
  Setup setup;
  std::vector<Step> steps;
};

// Same seed, same program.
Program make_program(std::uint64_t seed, std::size_t steps, bool faults);
std::string describe(const Setup& setup);
std::string describe(const Step& step);

}  // namespace thermocline::fuzz_engine
