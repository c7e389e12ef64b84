// SPDX-License-Identifier: Apache-2.0
// The program sleeps, or wakes, with all of its memory or with what has a tag, if the library is there and programs are
// to sleep. While a stream captures a graph the library refuses.
#include <dlfcn.h>

#include "include/thermocline/thermocline.h"
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

constexpr const char* kTags[] = {"weights", "kv"};

bool is_left(thermocline_result result) {
  return result == THERMOCLINE_NOT_READY || result == THERMOCLINE_NOT_ACTIVE || result == THERMOCLINE_NOT_FOUND;
}

template <class Call, class... Arguments>
bool call(World& world, const char* name, Arguments... arguments) {
  if (world.options.sleeps == 0) return false;
  const auto found = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) return false;
  const thermocline_result result = found(arguments...);
  if (is_left(result)) return false;
  // Under a full host fallback everything leaves together.
  if (result == THERMOCLINE_NOT_SUPPORTED && world.options.unseen != 0) return false;
  CHECK_CUDA(static_cast<CUresult>(result));
  return true;
}

void sleep(World& world) {
  thermocline_sleep_report report{};
  report.size = sizeof report;
  const bool slept = world.random.one_in(2)
                         ? call<decltype(&thermocline_sleep)>(world, "thermocline_sleep", &report)
                         : call<decltype(&thermocline_sleep_tag)>(world, "thermocline_sleep_tag",
                                                                  kTags[world.random.below(2)], &report);
  if (!slept) return;
  const std::uint64_t told = report.pinned_bytes + report.external_bytes + report.in_use_bytes + report.no_host_bytes +
                             report.other_bytes + report.untagged_bytes;
  if (told != report.device_bytes) world.fail("what stays does not add up", told, report.device_bytes);
}

void wake(World& world) {
  thermocline_sleep_report report{};
  report.size = sizeof report;
  if (world.random.one_in(2)) {
    call<decltype(&thermocline_wake)>(world, "thermocline_wake", &report);
  } else {
    call<decltype(&thermocline_wake_tag)>(world, "thermocline_wake_tag", kTags[world.random.below(2)], &report);
  }
}

// A tag for memory that is not the library's is refused.
void tag(World& world) {
  if (world.options.sleeps == 0 || world.buffers().empty()) return;
  const CUdeviceptr address = world.any().address;
  const char* const name = world.random.one_in(4) ? "" : kTags[world.random.below(2)];
  const auto found = reinterpret_cast<decltype(&thermocline_tag_buffer)>(dlsym(RTLD_DEFAULT, "thermocline_tag_buffer"));
  if (found != nullptr) static_cast<void>(found(address, name));
}

const Registered<Step> one({{"sleep", 1}, sleep});
const Registered<Step> two({{"wake", 1}, wake});
const Registered<Step> three({{"tag", 2}, tag});
}  // namespace
