// SPDX-License-Identifier: Apache-2.0
// A tool that listens to NVTX (compute-sanitizer) is told of the memory in which launches are rehearsed, as of the
// program's buffers: kernels access it.
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "tests/offload/verification_fixture.h"

namespace thermocline {
namespace {

struct Annotations {
  std::map<std::uint64_t, std::uint64_t> bytes;  // of what is there
  std::set<std::uint64_t> ever;
};

// The lines of tests/driver/nvtx_tool.cc.
Annotations read_annotations() {
  void* const tool = dlopen(std::getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(tool, nullptr) << "NVTX loaded the tool";
  Annotations all;
  if (tool == nullptr) return all;
  std::istringstream log(reinterpret_cast<const char* (*)()>(dlsym(tool, "nvtx_tool_log"))());
  std::string line;
  while (std::getline(log, line)) {
    std::istringstream words(line);
    std::string what;
    std::uint64_t at = 0, bytes = 0;
    words >> what;
    if (what != "add" && what != "remove") continue;
    words >> at >> bytes;
    if (what == "add") {
      EXPECT_TRUE(all.bytes.emplace(at, bytes).second) << at;
      all.ever.insert(at);
    } else {
      EXPECT_EQ(all.bytes.erase(at), 1u) << at;
    }
  }
  return all;
}

class ScratchAnnotations : public VerificationTest {};

TEST_F(ScratchAnnotations, ToolsAreToldOfScratchMemoryWhileItIsUsed) {
  start(Safety::kStrict, 24 * kDefaultPageBytes, nullptr, true);
  promote();
  ASSERT_EQ(ran_into_.size(), KernelTrial::kEqualRehearsals);
  const Annotations after = read_annotations();
  for (const DeviceAddress into : ran_into_) EXPECT_TRUE(after.ever.contains(into.value)) << into.value;
  EXPECT_EQ(after.bytes.size(), 3u) << "what is left is the program's";
  for (const DeviceAddress own : {from_, to_, other_}) EXPECT_TRUE(after.bytes.contains(own.value));
}

}  // namespace
}  // namespace thermocline
