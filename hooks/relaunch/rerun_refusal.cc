// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/rerun_refusal.h"

namespace thermocline {

namespace {

using Why = RerunRefusal::Why;

// Texts about the places that a kernel stores to.
const char* text_of_stores(Why why) {
  switch (why) {
    case Why::kScatters:
      return "it stores to places that are not linear in the thread's number, scattered or taken apart by / and %";
    case Why::kUnlikePlaces:
      return "a thread stores to several places that are not in a row, as in an unrolled loop over a row, or in nested "
             "loops";
    case Why::kLeavesPlacesOut:
      return "the places that it stores to are not side by side from its buffer's begin on";
    case Why::kOnePlace:
      return "its threads store to the same place";
    case Why::kStoresNothing:
      return "it stores nothing";
    case Why::kReadsOthers:
      return "it reads from what it writes to, at other places than the thread's own";
    case Why::kNotOnEveryPath:
      return "it does not store on every path";
    case Why::kUnknownBound:
      return "it stores up to a bound that is not followed";
    default:
      return "";
  }
}

}  // namespace

const char* text_of(RerunRefusal::Why why) {
  switch (why) {
    case Why::kNone:
      return "";
    case Why::kNotSeen:
      return "its code was not seen when it was loaded";
    case Why::kNoPtx:
      return "it has no PTX, or machine code that was not made from it";
    case Why::kCalls:
      return "it calls a function";
    case Why::kNotParsed:
      return "its PTX has something that is not understood";
    case Why::kOtherTexts:
      return "its PTX differs from one architecture to another";
    case Why::kUnknownInstruction:
      return "an instruction that is not followed";
    case Why::kFollowsPointers:
      return "it follows pointers that it finds in memory";
    case Why::kKeepsPointers:
      return "it takes pointers from shared or local memory, as where it picks one of an array by number";
    case Why::kUnknownAddress:
      return "it computes an address that is not followed";
    case Why::kParameterAddress:
      return "the address of a parameter is taken";
    case Why::kTooManyParameters:
      return "too many parameters";
    case Why::kAtomics:
      return "it has atomic operations";
    case Why::kSharedOrLocal:
      return "it uses shared or local memory";
    case Why::kThreadsExchange:
      return "its threads exchange values";
    case Why::kVolatile:
      return "it has volatile accesses";
    case Why::kVariables:
      return "it uses variables of the module";
    case Why::kClock:
      return "it reads a clock";
    case Why::kSpecialRegister:
      return "it reads a special register";
    case Why::kOtherInstruction:
      return "an instruction of another kind";
    case Why::kSeveralParameters:
      return "an address comes from several parameters";
    case Why::kUnwrittenRegister:
      return "it reads a register that was not written";
    default:
      return text_of_stores(why);
  }
}

std::string RerunRefusal::text() const {
  std::string text = text_of(why);
  if (!what.empty()) text.append(": ").append(what);
  return text;
}

}  // namespace thermocline
