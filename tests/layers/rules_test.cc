// SPDX-License-Identifier: Apache-2.0
// Tests the rules on made-up files: each rule must be violated by the file that violates it, and by no other.
#include "tests/layers/rules.h"

#include <gtest/gtest.h>

#include <set>

namespace layers {
namespace {

bool exists(const std::string& path) {
  static const std::set<std::string> files = {"allocator/heap.h", "allocator/detail.h", "driver/driver.h",
                                              "include/thermocline/thermocline.h"};
  return files.contains(path);
}

std::size_t broken(const std::string& path, const std::string& text) {
  return check_includes({path, text}, exists).size();
}

TEST(Layers, LowerLayerMayBeIncluded) {
  EXPECT_EQ(broken("offload/engine/engine.cc", "#include \"allocator/heap.h\"\n#include \"driver/driver.h\"\n"), 0U);
  EXPECT_EQ(broken("hooks/launch.cc", "#include \"config/settings.h\"\n"), 0U);
  EXPECT_EQ(broken("tool/main.cc", "#include \"trace/reader.h\"\n#include \"simulator/profile.h\"\n"), 0U);
}

TEST(Layers, HigherLayerMayNotBeIncluded) {
  EXPECT_EQ(broken("allocator/heap.cc", "#include \"offload/engine/engine.h\"\n"), 1U);
  EXPECT_EQ(broken("driver/driver.cc", "#include <allocator/heap.h>\n"), 1U);
  EXPECT_EQ(broken("offload/engine/engine.cc", "#include \"config/settings.h\"\n"), 1U);
  EXPECT_EQ(broken("trace/reader.cc", "#include \"tool/main.h\"\n"), 1U);
  EXPECT_EQ(broken("tool/main.cc", "#include \"integrations/pytorch/allocator.h\"\n"), 1U);
}

TEST(Layers, FoldersInsideALayerAreOrderedToo) {
  EXPECT_EQ(broken("offload/policy/learned.cc", "#include \"offload/planning/planner.h\"\n"), 0U);
  EXPECT_EQ(broken("offload/policy/learned.cc", "#include \"offload/access.h\"\n"), 0U);
  EXPECT_EQ(broken("offload/planning/planner.cc", "#include \"offload/policy/learned.h\"\n"), 1U);
  EXPECT_EQ(broken("offload/access.h", "#include \"offload/planning/planner.h\"\n"), 1U);
  EXPECT_EQ(broken("offload/policy/learned.cc", "#include \"offload/unknown/thing.h\"\n"), 1U);
  EXPECT_EQ(broken("telemetry/live_page.cc", "#include \"offload/engine/engine.h\"\n"), 0U);
  EXPECT_EQ(broken("hooks/runtime/runtime.cc", "#include \"hooks/submit/submit.h\"\n"), 1U);
  EXPECT_EQ(broken("hooks/submit/submit.cc", "#include \"hooks/runtime/runtime.h\"\n"), 0U);
  EXPECT_EQ(broken("simulator/core/memory/contents.h", "#include \"simulator/core/streams/operation.h\"\n"), 1U);
  EXPECT_EQ(broken("simulator/core/streams/operation.h", "#include \"simulator/core/memory/buffers.h\"\n"), 0U);
  EXPECT_EQ(broken("simulator/core/types.h", "#include \"simulator/core/memory/buffers.h\"\n"), 1U);
  EXPECT_EQ(broken("simulator/core/machine/device.h", "#include \"simulator/faults/faults.h\"\n"), 0U);
  EXPECT_EQ(broken("simulator/check/shadow.cc", "#include \"simulator/core/check.h\"\n"), 0U);
  EXPECT_EQ(broken("simulator/check/shadow.cc", "#include \"simulator/core/settings.h\"\n"), 1U);
  EXPECT_EQ(broken("simulator/core/settings.cc", "#include \"simulator/cuda/state.h\"\n"), 1U);
  EXPECT_EQ(broken("simulator/cudart/session.cc", "#include \"simulator/cuda/state.h\"\n"), 1U);
  EXPECT_EQ(broken("simulator/profile.cc", "#include \"simulator/core/settings.h\"\n"), 1U);
}

TEST(Layers, ViolationNamesFileAndLine) {
  const auto violations =
      check_includes({"allocator/heap.cc", "// text\n\n  #  include \"offload/engine/engine.h\" // why\n"}, exists);
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(
      describe(violations),
      "allocator/heap.cc:3: allocator/ must not include offload/, which is not below it (offload/engine/engine.h)\n");
}

TEST(Layers, PublicHeaderIsForAllAndIncludesNothing) {
  EXPECT_EQ(broken("driver/driver.cc", "#include \"thermocline/thermocline.h\"\n"), 0U);
  EXPECT_EQ(broken("hooks/api.cc", "#include \"include/thermocline/thermocline.h\"\n"), 0U);
  EXPECT_EQ(broken("include/thermocline/thermocline.h", "#include <stdint.h>\n"), 0U);
  EXPECT_EQ(broken("include/thermocline/thermocline.h", "#include \"driver/units.h\"\n"), 1U);
}

TEST(Layers, SimulatorStandsAlone) {
  EXPECT_EQ(broken("simulator/queue.cc", "#include \"simulator/profile.h\"\n"), 0U);
  EXPECT_EQ(broken("simulator/queue.cc", "#include \"driver/units.h\"\n"), 1U);
  EXPECT_EQ(broken("simulator/queue.cc", "#include \"thermocline/thermocline.h\"\n"), 1U);
  EXPECT_EQ(broken("hooks/launch.cc", "#include \"simulator/control.h\"\n"), 1U);
  EXPECT_EQ(broken("trace/replay.cc", "#include \"simulator/control.h\"\n"), 0U);
  EXPECT_EQ(broken("trace/replay.cc", "#include \"simulator/queue.h\"\n"), 1U);
  EXPECT_EQ(broken("tests/offload/engine_test.cc", "#include \"simulator/queue.h\"\n"), 1U);
  EXPECT_EQ(broken("tests/simulator/queue_test.cc", "#include \"simulator/queue.h\"\n"), 0U);
}

TEST(Layers, PathsAreWrittenFromTheRoot) {
  EXPECT_EQ(broken("allocator/heap.cc", "#include \"detail.h\"\n"), 1U);
  EXPECT_EQ(broken("allocator/heap.cc", "#include \"../offload/engine.h\"\n"), 1U);
  EXPECT_EQ(broken("allocator/heap.cc", "#include \"allocator/detail.h\"\n#include <vector>\n"), 0U);
}

TEST(Layers, IncludesInCommentsDoNotCount) {
  EXPECT_EQ(broken("allocator/heap.cc",
                   "// #include \"offload/engine/engine.h\"\n/*\n#include \"offload/engine/engine.h\"\n*/\n"),
            0U);
}

TEST(Layers, OnlyThreeFoldersNameTheDriver) {
  const std::string call = "int f() { return cuMemCreate(0); }\n";
  EXPECT_EQ(check_driver_names({"offload/engine/engine.cc", call}).size(), 1U);
  EXPECT_EQ(check_driver_names({"tests/allocator/heap_test.cc", call}).size(), 1U);
  EXPECT_EQ(check_driver_names({"trace/replay.cc", call}).size(), 1U);
  for (const char* path : {"driver/table.cc", "hooks/memory.cc", "simulator/memory.cc", "tests/hooks/dlsym_test.cc",
                           "tests/allocator/fake_driver.cc"}) {
    EXPECT_TRUE(check_driver_names({path, call}).empty()) << path;
  }
  EXPECT_EQ(broken("offload/engine/engine.cc", "#include <cuda.h>\n"), 1U);
  EXPECT_EQ(broken("driver/table.cc", "#include <cuda.h>\n"), 0U);
}

TEST(Layers, DriverNamesInCommentsAndTextAreAllowed) {
  EXPECT_TRUE(check_driver_names(
                  {"offload/engine/engine.cc", "// cuMemMap\nauto s = \"cuMemMap\"; int cuda = 0; int focusMode;\n"})
                  .empty());
  EXPECT_TRUE(check_driver_names(
                  {"offload/engine/engine.cc", "auto s = R\"x(\" cuMemMap )\" )x\"; char c = '\"'; int n = 1'000;\n"})
                  .empty());
  EXPECT_EQ(
      check_driver_names({"offload/engine/engine.cc", "char c = '\"'; auto f = cuMemMap; auto s = \"\\\"\"; // \"\n"})
          .size(),
      1U);
}

TEST(Layers, WhatHasOnePlaceIsFoundElsewhere) {
  const auto violations = [](const char* path, const char* text) { return check_single_places({path, text}).size(); };
  for (const char* text :
       {"std::mutex m;\n", "mutable std::shared_mutex m;\n", "std::unique_lock<std::mutex> lock;\n",
        "if (options.policy == kLearnedPolicy) {}\n", "return kNoPolicy != policy;\n",
        "if (std::string_view(settings.policy->name) != \"learned\") {}\n", "static auto* const all = new All;\n",
        "static std::set<int>* all = new std::set<int>;\n", "static T* const only = [] { return new T; }();\n"}) {
    EXPECT_EQ(violations("hooks/runtime/a.cc", text), 1U) << text;
    EXPECT_EQ(violations("tests/hooks/a.cc", text), 0U) << text;
  }
  EXPECT_EQ(violations("driver/locks.h", "std::shared_mutex mutex_;\n"), 0U);
  EXPECT_EQ(violations("offload/policies.h", "static_assert(kNoPolicy != nullptr);\n"), 0U);
  EXPECT_EQ(
      violations("tool/a.cc", "// std::mutex\nMutex m{}; settings->policy = kLearnedPolicy; static const A* a = &b;\n"),
      0U);
}

TEST(Layers, ObjectsThatLiveAsLongAsTheProcessAreFound) {
  const std::string text =
      "A& a() { return process_lifetime<A>(); }  // process_lifetime<Comment>()\n"
      "auto& b() { return process_lifetime<std::array<Shard, kShards>>(); }\n";
  EXPECT_EQ(process_lifetimes({"hooks/entry/a.cc", text}),
            (std::vector<std::string>{"entry/a.cc: A", "entry/a.cc: std::array<Shard, kShards>"}));
}

TEST(Layers, LongFilesAreFound) {
  EXPECT_TRUE(check_length({"hooks/a.cc", std::string(kMostLines, '\n')}).empty());
  EXPECT_EQ(check_length({"hooks/a.cc", std::string(kMostLines + 1, '\n')}).size(), 1U);
}

}  // namespace
}  // namespace layers
