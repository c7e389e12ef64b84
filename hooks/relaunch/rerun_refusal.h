// SPDX-License-Identifier: Apache-2.0
// Why a kernel may not run again, as far as its code tells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline {

struct RerunRefusal {
  enum class Why : std::uint8_t {
    kNone,
    // Its accesses are not known.
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
    // They are, and its results may depend on something else than what it reads.
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
  // The instruction or register, in the kernel's text or a constant; "": it is not one alone.
  std::string_view what;

  explicit operator bool() const { return why != Why::kNone; }
  // "it reads a clock: %clock64".
  std::string text() const;
};

// One sentence without an end; "" of kNone.
const char* text_of(RerunRefusal::Why why);

}  // namespace thermocline
