// SPDX-License-Identifier: Apache-2.0
// The output of `doctor` about other processes on the device, and about assumptions about the driver.
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

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

// The simulated device as this machine's driver.
std::vector<std::string> simulated(const std::string& switches) {
  return {"LD_LIBRARY_PATH=" SIMULATOR_FOLDER, "THERMOCLINE_SIMULATE_DEVICE=reference",
          "THERMOCLINE_SIMULATE_DRIVER=" + switches};
}

// The result of doctor --gpu for an assumption.
std::string seen(const json& device, const std::string& assumption) {
  for (const json& answer : device["answers"]) {
    if (answer["id"] == assumption) return answer["seen"];
  }
  return "not in the answers";
}

TEST_F(Doctor, ChecksTheAssumptionsOnTheDevice) {
  const json devices = json::parse(run({"doctor", "--gpu", "--json"}, simulated("")).out)["gpu"];
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_GE(devices[0]["answers"].size(), 15U);
  for (const json& answer : devices[0]["answers"]) EXPECT_EQ(answer["seen"], "holds") << answer["id"];
}

TEST_F(Doctor, SaysWhichAssumptionIsFalse) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"virtual_memory=off", "virtual_memory"},
                                                                  {"alias=off", "alias"},
                                                                  {"alias=apart", "alias"},
                                                                  {"remap=forgets", "remap"},
                                                                  {"access=one", "access_runs"},
                                                                  {"unmap=one", "unmap_runs"},
                                                                  {"address_bits=36", "reservation"},
                                                                  {"param_info=off", "param_info"},
                                                                  {"version=12.0", "param_info"},
                                                                  {"map=waits", "mapping_waits"},
                                                                  {"unmap=waits", "mapping_waits"},
                                                                  {"stream_flags=off", "stream_flags"},
                                                                  {"capture_mode=off", "capture_mode"}};
  for (const auto& [switches, assumption] : cases) {
    const json devices = json::parse(run({"doctor", "--gpu", "--json"}, simulated(switches)).out)["gpu"];
    ASSERT_EQ(devices.size(), 1U) << switches;
    for (const json& answer : devices[0]["answers"]) {
      EXPECT_EQ(answer["seen"] == "fails", answer["id"] == assumption) << switches << ": " << answer["id"];
    }
  }
  const json devices = json::parse(run({"doctor", "--gpu", "--json"}, simulated("host_mapping=off")).out)["gpu"];
  EXPECT_EQ(seen(devices[0], "host_memory"), "not tried");
}

TEST_F(Doctor, WritesNothing) {
  for (const char* const name : {"home", "temporary"}) std::filesystem::create_directories(folder_ / name);
  std::vector<std::string> environment = simulated("alias=off");
  environment.insert(environment.end(), {"HOME=" + path("home"), "TMPDIR=" + path("temporary")});
  EXPECT_EQ(run({"doctor", "--gpu"}, environment).status, 0);
  for (const char* const name : {"home", "temporary"}) EXPECT_TRUE(std::filesystem::is_empty(folder_ / name)) << name;
}

// A child process checks the devices, so that defects of the driver do not stop doctor.
TEST_F(Doctor, OutlastsADriverThatHangsOrCrashes) {
  const std::pair<const char*, const char*> cases[] = {{"hang", "no answer within 8 seconds"},
                                                       {"crash", "ended by signal 6"}};
  for (const auto& [defect, line] : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const ProcessResult result = run({"doctor", "--gpu"}, {"LD_LIBRARY_PATH=" DRIVER_WITHOUT_DEVICE_FOLDER,
                                                           std::string("NO_DEVICE_INIT=") + defect});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << defect;
    EXPECT_EQ(result.status, 4) << result.err;
    EXPECT_NE(result.out.find(line), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace thermocline::test
