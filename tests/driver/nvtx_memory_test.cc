// SPDX-License-Identifier: Apache-2.0
// NVTX loads its tool once per process, so each program has one test: with a tool, and without.
#include "driver/nvtx_memory.h"

#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(NvtxMemory, AToolHearsOfTheReservationAndEveryBuffer) {
  const char* const path = std::getenv("NVTX_INJECTION64_PATH");
  {
    NvtxMemory memory("pool", DeviceAddress{0x10000}, 0x8000);
    memory.add(DeviceAddress{0x10200}, 100);
    memory.add(DeviceAddress{0x10400}, 300);
    memory.remove(DeviceAddress{0x10200});
  }
  if (path == nullptr) return;  // without a tool nothing must happen
  void* const tool = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr) << "NVTX loaded the tool";
  const auto log = reinterpret_cast<const char* (*)()>(dlsym(tool, "nvtx_tool_log"));
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(std::string(log()),
            "heap pool 65536 32768\n"
            "add 66048 100\n"
            "add 66560 300\n"
            "remove 66048 0\n"
            "end 77 0\n");
}

}  // namespace
}  // namespace thermocline
