// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_cuda/setups.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "tests/fuzz_cuda/random.h"

namespace model {

std::vector<std::string> Setup::arguments(const std::string& program) const {
  std::vector<std::string> list = {program};
  const auto add = [&](const char* flag, std::uint64_t value) {
    list.emplace_back(flag);
    list.push_back(std::to_string(value));
  };
  add("--programs", programs);
  add("--first", first);
  add("--operations", operations);
  add("--threads", threads);
  add("--repeat", repeat);
  add("--live", live / threads);
  add("--held", held / threads);
  add("--largest", largest);
  if (unseen) add("--unseen", 1);
  if (sleeps) add("--sleeps", 1);
  if (simulated_ms != 0) add("--simulated-ms", simulated_ms);
  return list;
}

std::vector<std::string> Setup::environment(const std::string& library, const std::string& simulator_folder) const {
  std::vector<std::string> list = {
      "LD_LIBRARY_PATH=" + simulator_folder,
      "THERMOCLINE_SIMULATE_DEVICE=reference",
      "THERMOCLINE_SIMULATE_CHECK=1",
      "THERMOCLINE_SIMULATE_STATS=1",
      "ASAN_OPTIONS=verify_asan_link_order=0:handle_segv=0:detect_leaks=0",
      "TSAN_OPTIONS=handle_segv=0",
      "NVTX_INJECTION64_PATH=" + simulator_folder + "/libcuda.so.1",
      "THERMOCLINE_NVTX=true",
  };
  // The program's kernels run on the host; those of digests have code alone.
  list.push_back(std::string("THERMOCLINE_SIMULATE_KERNELS=") + (digests ? "real" : "made-up"));
  if (order != 0) list.push_back("THERMOCLINE_SIMULATE_SEED=" + std::to_string(order));
  if (devices > 1) list.push_back("THERMOCLINE_SIMULATE_DEVICES=" + std::to_string(devices));
  if (!driver.empty()) list.push_back("THERMOCLINE_SIMULATE_DRIVER=" + driver);
  if (!kernel_time.empty()) list.push_back("THERMOCLINE_SIMULATE_KERNEL_TIME=" + kernel_time);
  if (!preload) return list;
  list.push_back("LD_PRELOAD=" + library);
  list.emplace_back("THERMOCLINE_STATS=line");
  list.push_back("THERMOCLINE_POLICY=" + policy);
  list.push_back("THERMOCLINE_SAFETY=" + safety);
  list.push_back(std::string("THERMOCLINE_DIGESTS=") + (digests ? "auto" : "off"));
  list.push_back("THERMOCLINE_UPLOAD_COPIES=" + upload_copies);
  list.push_back("THERMOCLINE_HOST_FALLBACK=" + host_fallback);
  if (!budget.empty()) list.push_back("THERMOCLINE_BUDGET=" + budget);
  if (!eager) list.insert(list.end(), {"THERMOCLINE_LOW_WATER=98%", "THERMOCLINE_CLEAN_RESERVE=5%"});
  return list;
}

std::string Setup::name() const {
  return policy + ", " + safety + ", fallback " + host_fallback + ", " + budget + ", " +
         (order == 0 ? "order of time" : "adversarial order") + (eager ? ", early copies" : "") +
         (repeat > 1 ? ", repeated" : "") + (threads > 1 ? ", " + std::to_string(threads) + " threads" : "") +
         (unseen ? ", with unseen api_paths" : "") + (devices > 1 ? ", " + std::to_string(devices) + " devices" : "") +
         (digests ? ", digests, upload copies " + upload_copies : "") + (sleeps ? ", sleeps" : "") +
         (driver.empty() ? "" : ", driver " + driver);
}

namespace {

// Programs that fit have to work under the first of these. Left out: queue=2 and pools=off, under which the programs do
// not run by themselves either (they block streams with work behind them, and create pools).
constexpr const char* kDrivers[] = {
    "queue=100", "queue=0", "queue=10", "lazy_load=4MiB", "alias=off", "alias=apart", "access=one", "unmap=one",
    "alias=off,access=one,unmap=one", "handle_bytes=64KiB", "host_free=returns", "host_mapping=off", "address_bits=36",
    "batch=off", "stream_flags=off",
    // Nothing is evicted, or the library stands aside.
    "param_info=off", "version=11.8", "version=12.0", "virtual_memory=off", "remap=forgets",
    // Programs may be refused.
    "map=waits", "unmap=waits", "handles=60", "pinned=64MiB", "granularity=4MiB", "capture_mode=off"};

bool any_in(const std::string& text, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(parts, [&](const char* part) { return text.find(part) != std::string::npos; });
}

}  // namespace

std::span<const char* const> driver_switches() { return kDrivers; }

void Setup::use_driver(std::string switches) {
  if (any_in(switches, {"alias=", "host_mapping=off", "remap=", "virtual_memory=off", "=waits"})) unseen = false;
  if (any_in(switches, {"param_info=off", "version=", "virtual_memory=off", "remap="})) budget.clear();
  // A launch in a second context is refused where its parameters can not be read.
  may_refuse =
      any_in(switches, {"=waits", "handles=", "pinned=", "granularity=", "capture_mode=", "param_info=", "version="});
  driver = std::move(switches);
}

bool is_clear_refusal(int status, const std::string& err) {
  const auto says = [&](const char* text) { return err.find(text) != std::string::npos; };
  if (says("simulated device: race: ")) return false;
  // Memory of a second context is the driver's, and so is its refusal; that of memory that the program pins itself, too.
  if (status == kRefused) {
    return says("thermocline: out of memory: ") || says("is left to the driver") ||
           (says("thermocline: the driver pins no more than ") && says("cuMemHost"));
  }
  // Refused launches, and captures that the library invalidates where a thread cannot set its capture mode. The model
  // names results of calls that it expects otherwise, too.
  return (status == 2 && says("thermocline: a launch in another context is refused: ")) ||
         (says("(capture_mode)") && says("CAPTURE_")) || (says("(capture_mode)") && says("what may be refused: "));
}

Setup setup_of(std::uint64_t seed) {
  Random random(seed ^ 0x5e7);
  Setup setup;
  setup.first = seed * 1'000'000;
  setup.operations = 500 + random.below(1000);
  setup.policy = random.one_in(3) ? "reactive" : "learned";
  setup.repeat = random.one_in(2) ? 1 : 4 + random.below(4);
  setup.order = random.one_in(4) ? 0 : seed;
  setup.threads = random.one_in(5) ? 2 + random.below(2) : 1;
  // Each thread has tables, graphs and mappings of its own, and one kernel may need all of them at once.
  setup.budget = std::to_string((setup.threads > 1 ? 60 : 52) * setup.threads + random.below(3) * 4) + "MiB";
  setup.live = setup.threads * (72 << 20);
  setup.held = setup.threads * (4 << 20);
  setup.eager = random.one_in(8);
  setup.kernel_time = "5-100000";
  constexpr const char* kNets[] = {"off", "auto", "full"};
  setup.host_fallback = kNets[random.below(3)];
  setup.unseen = setup.host_fallback == "full";
  if (!setup.unseen && random.one_in(3)) setup.safety = "trusting";
  if (random.one_in(4)) setup.devices = 2;
  if (random.one_in(2)) setup.use_driver(kDrivers[random.below(std::size(kDrivers))]);
  setup.digests = !setup.unseen && random.one_in(2);
  setup.sleeps = setup.driver.empty() && random.one_in(3);
  constexpr const char* kUploads[] = {"auto", "all", "off", "all"};
  setup.upload_copies = kUploads[random.below(std::size(kUploads))];
  return setup;
}

}  // namespace model
