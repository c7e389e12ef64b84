// SPDX-License-Identifier: Apache-2.0
// The program sleeps, or wakes, if the library is there and programs are to sleep. While a stream captures a graph the
// library refuses.
#include <dlfcn.h>

#include "include/thermocline/thermocline.h"
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

using Call = thermocline_result (*)(thermocline_sleep_report*);

void call(World& world, const char* name) {
  if (world.options.sleeps == 0) return;
  const auto found = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) return;
  thermocline_sleep_report report{};
  report.size = sizeof report;
  const thermocline_result result = found(&report);
  if (result == THERMOCLINE_NOT_READY || result == THERMOCLINE_NOT_ACTIVE) return;
  CHECK_CUDA(static_cast<CUresult>(result));
  const std::uint64_t told =
      report.pinned_bytes + report.external_bytes + report.in_use_bytes + report.no_host_bytes + report.other_bytes;
  CHECK_CUDA(told == report.device_bytes ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

void sleep(World& world) { call(world, "thermocline_sleep"); }
void wake(World& world) { call(world, "thermocline_wake"); }

const Registered<Step> one({{"sleep", 1}, sleep});
const Registered<Step> two({{"wake", 1}, wake});
}  // namespace
