// SPDX-License-Identifier: Apache-2.0
// Why a kernel may not run again, according to its code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

struct RerunRefusal {
  enum class Why : std::uint8_t {
    kNone,
    // Its accesses are unknown.
    kNotSeen,
    kNoPtx,
    kCalls,
    kNotParsed,
    kOtherTexts,
    kUnknownInstruction,
    kFollowsPointers,
    kKeepsPointers,
    kUnknownAddress,
    kParameterAddress,
    kTooManyParameters,
    // Its accesses are known, but its results may depend on something other than what it reads.
    kAtomics,
    kSharedOrLocal,
    kThreadsExchange,
    kVolatile,
    kVariables,
    kClock,
    kSpecialRegister,
    kOtherInstruction,
    kSeveralParameters,
    kUnwrittenRegister,
    kScatters,
    kUnlikePlaces,
    kLeavesPlacesOut,
    kOnePlace,
    kStoresNothing,
    kReadsOthers,
    kNotOnEveryPath,
    kUnknownBound,
  };

  Why why = Why::kNone;
  // The instruction or register, a view into the kernel's text or a constant; "": not a single one.
  std::string_view what;

  explicit operator bool() const { return why != Why::kNone; }
  // "it reads a clock: %clock64".
  std::string text() const;
};

// One sentence without a full stop; "" for kNone.
const char* text_of(RerunRefusal::Why why);

}  // namespace thermocline
