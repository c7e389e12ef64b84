// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/fallbacks.h"

#include <gtest/gtest.h>

#include "hooks/interpose/symbols.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

TEST(Fallbacks, FunctionsOfANewerDriverAreNotKnown) {
  // Hooked; called; passed; passed only in a later version; from another header.
  for (const char* known :
       {"cuMemAlloc", "cuCtxGetCurrent", "cuEventRecord", "cuCtxCreate", "cuGLGetDevices",
        "cuGraphInstantiateWithFlags", "cuSubgridCreate", "cuSubgridWorkerGridCreate", "cuSubgridWorksetCreate"}) {
    EXPECT_TRUE(knows_base(known)) << known;
  }
  for (const char* unknown :
       {"cuMemAllocTomorrow", "cuMem", "EventRecord", "cuEventRecordW", "cuSubgridTomorrow", ""}) {
    EXPECT_FALSE(knows_base(unknown)) << unknown;
  }
}

TEST(Fallbacks, UnknownFunctionsAreCountedAndNamedOnce) {
  EXPECT_EQ(unknown_functions(), "");
  count_unknown_function("cuTomorrow");
  count_unknown_function("cuAfternoon");
  count_unknown_function("cuTomorrow");
  EXPECT_EQ(unknown_functions(), "cuAfternoon, cuTomorrow");
  EXPECT_EQ(counted(Counter::kUnknownFunctions), 2u);
  for (char c = 'a'; c <= 'p'; ++c) count_unknown_function(std::string("cu") + c);
  EXPECT_EQ(counted(Counter::kUnknownFunctions), 18u);
  EXPECT_TRUE(unknown_functions().ends_with(" and 2 more")) << unknown_functions();
}

TEST(Fallbacks, AreSaidOnceEachAtTheEnd) {
  EXPECT_EQ(fallbacks_text({}), "");
  EngineStatistics statistics;
  statistics.captured_operations = 2;
  statistics.untracked_uploads = 3;
  EXPECT_EQ(fallbacks_text(statistics),
            "fallbacks: 3 copies of graphs not searched for addresses: what was copied is read when it matters");
  statistics.untracked_uploads = statistics.over_budget_operations = 1;
  EXPECT_EQ(fallbacks_text(statistics),
            "fallbacks: 1 copy of a graph not searched for addresses: what was copied is read when it matters; "
            "1 operation let in beyond the budget, too large for it");
  count(Counter::kUnknownLaunches);
  add_fallbacks(&statistics);
  EXPECT_EQ(statistics.unknown_launches, counted(Counter::kUnknownLaunches));
  EXPECT_EQ(statistics.captured_operations, counted(Counter::kCapturedOperations));
}

}  // namespace
}  // namespace thermocline
