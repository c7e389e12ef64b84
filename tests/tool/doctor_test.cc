// SPDX-License-Identifier: Apache-2.0
// What `doctor` says about other processes on the device.
#include <nlohmann/json.hpp>

#include "tests/tool/command_fixture.h"

namespace thermocline::test {
namespace {

using nlohmann::json;

class Doctor : public Command {};

TEST_F(Doctor, SaysWhoSharesTheDevice) {
  std::filesystem::create_directories(folder_ / "mps");
  const std::vector<std::string> alone = {"CUDA_MPS_PIPE_DIRECTORY=" + path("mps"), "CUDA_VISIBLE_DEVICES=0"};
  const json none = json::parse(run({"doctor", "--json"}, alone).out);
  EXPECT_EQ(none["mps"]["control_daemon"], false);
  EXPECT_EQ(none["mig"]["visible"], false);
  write("mps/nvidia-cuda-mps-control.pid", "1\n");
  const std::vector<std::string> shared = {"CUDA_MPS_PIPE_DIRECTORY=" + path("mps"),
                                           "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
                                           "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G", "CUDA_VISIBLE_DEVICES=MIG-0123"};
  const json out = json::parse(run({"doctor", "--json"}, shared).out);
  EXPECT_EQ(out["mps"]["control_daemon"], true);
  EXPECT_EQ(out["mps"]["active_thread_percentage"], "50");
  EXPECT_EQ(out["mps"]["pinned_device_mem_limit"], "0=2G");
  EXPECT_EQ(out["mig"]["visible"], true);
  const std::string text = run({"doctor"}, shared).out;
  EXPECT_NE(text.find("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is '0=2G'"), std::string::npos) << text;
  EXPECT_NE(text.find("CUDA_VISIBLE_DEVICES names an instance"), std::string::npos) << text;
}

}  // namespace
}  // namespace thermocline::test
