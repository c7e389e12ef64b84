// SPDX-License-Identifier: Apache-2.0
// The machine's life: settings, start, reset, exit and fork.
#include "simulator/core/machine/machine.h"

#include <pthread.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "simulator/core/check.h"
#include "simulator/core/machine/machine_state.h"

namespace simulator {
namespace {

void print_stats(const Machine& machine, const Profile& profile) {
  SimulatedStatistics s{};
  s.size = sizeof s;
  machine.statistics(&s);
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::fprintf(stderr,
               "simulated device %s: time_ms=%.6f kernels=%llu h2d_bytes=%llu d2h_bytes=%llu peak_device_bytes=%llu "
               "peak_live_bytes=%llu checksum=%016llx order_hash=%016llx races=%llu\n",
               profile.name, static_cast<double>(s.last_end_ns) / 1e6, number(s.kernels), number(s.h2d_bytes),
               number(s.d2h_bytes), number(s.peak_physical_bytes), number(s.peak_live_bytes),
               number(machine.checksum()), number(s.order_hash), number(s.races));
}

// Another thread will release a lock that it holds; the code that this thread interrupted will not.
bool comes_free(std::mutex& mutex) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (mutex.try_lock()) {
      mutex.unlock();
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace

Machine::State::State(std::mutex& lock)
    : progress(
          lock, [this] { return device && device->timeline.has_unexecuted(); },
          [this] { device->timeline.run_early(); }) {}

Machine::Machine() : state_(new State(mutex_)) {
  std::atexit(at_exit);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

Machine& Machine::instance() {
  static Machine* const machine = new Machine;
  return *machine;
}

Machine::Entry::Entry(Machine& machine) : lock_(machine.mutex_), machine_(&machine) {
  machine.state_->progress.sign_of_life();
}

Machine::Entry Machine::enter() { return Entry(instance()); }

bool Machine::in_host_function() { return Executor::in_host_function(); }

// A program may end inside a host function, or in a signal handler that interrupted a call, with the lock held: then
// nothing is reported.
void Machine::at_exit() {
  Machine& machine = instance();
  if (in_host_function() || machine.state_->forked || !comes_free(machine.mutex_)) return;
  machine.state_->progress.stop();
  const std::lock_guard guard(machine.mutex_);
  if (!machine.state_->device) return;
  if (machine.device().checker) {
    const std::string left = machine.state_->leftovers == nullptr ? "" : machine.state_->leftovers(machine);
    if (!left.empty())
      std::fprintf(stderr, "simulated device: never released, by the program or a library in it: %s\n", left.c_str());
    machine.device().checker->findings().summarize();
  }
  if (machine.device().settings.stats) print_stats(machine, machine.profile());
}

void Machine::before_fork() {
  if (!in_host_function()) instance().mutex_.lock();
}

void Machine::after_fork_in_parent() {
  if (!in_host_function()) instance().mutex_.unlock();
}

void Machine::after_fork_in_child() {
  State& state = *instance().state_;
  state.progress.forked();
  state.forked = state.device != nullptr;
  if (!in_host_function()) instance().mutex_.unlock();
}

Device& Machine::device() {
  SIMULATOR_CHECK(state_->device, "the device is used after initialize()");
  return *state_->device;
}

const Device& Machine::device() const {
  SIMULATOR_CHECK(state_->device, "the device is used after initialize()");
  return *state_->device;
}

CUresult Machine::initialize() {
  if (state_->device) return error();
  Settings settings;
  std::string complaint = settings.set_from_environment();
  for (const auto& [key, value] : state_->configured) {
    if (complaint.empty()) complaint = settings.set(key, value);
  }
  if (!complaint.empty()) {
    std::fprintf(stderr, "simulated device: %s\n", complaint.c_str());
    return CUDA_ERROR_NO_DEVICE;
  }
  settings.apply_driver();
  state_->settings = settings;
  try {
    state_->device = std::make_unique<Device>(settings);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "simulated device: no address space for its page tables, 256 MiB or more (ulimit -v)\n");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

bool Machine::initialized() const { return state_->device != nullptr; }

const char* Machine::configure(const char* key, const char* value) {
  std::string& complaint = state_->complaint;
  if (key == nullptr || value == nullptr) {
    complaint = "a setting has a key and a value";
  } else if (state_->device) {
    complaint = "the device is in use; configure it before the first driver call, or after reset";
  } else {
    Settings trial;
    complaint = trial.set(key, value);
    if (complaint.empty()) state_->configured.emplace_back(key, value);
    state_->early.reset();
  }
  return complaint.empty() ? nullptr : complaint.c_str();
}

CUresult Machine::error() const {
  if (state_->forked) return CUDA_ERROR_NOT_INITIALIZED;
  return state_->device ? state_->device->executor.error() : CUDA_SUCCESS;
}

void Machine::reset() {
  if (state_->on_reset) state_->on_reset();
  state_->device.reset();
  state_->early.reset();
  state_->forked = false;
}

void Machine::set_leftovers(std::string (*leftovers)(const Machine&)) { state_->leftovers = leftovers; }

void Machine::set_on_reset(std::function<void()> on_reset) { state_->on_reset = std::move(on_reset); }

Bytes Machine::lazy_loading() const { return device().settings.lazy_loading; }
std::uint64_t Machine::kernel_steps() const { return device().settings.kernel_steps; }
unsigned Machine::cores() const {
  const unsigned set = device().settings.cores;
  return set != 0 ? set : std::max(1u, std::thread::hardware_concurrency());  // those that the process may use
}
bool Machine::mixes_kernels() const { return device().settings.made_up_kernels || device().settings.tagged; }
const Profile& Machine::profile() const { return *device().settings.profile; }
Bytes Machine::granularity() const { return device().settings.faults.granularity.value_or(profile().page_bytes.value); }

DeviceId Machine::devices() const { return device().settings.devices; }

CUresult Machine::fault(std::string_view symbol) { return device().faults.on_call(symbol); }

const FaultPlan& Machine::fault_plan() const {
  if (state_->device) return device().settings.faults;
  // Programs ask for the driver's version before they initialize it. Errors in the fault plan are reported at
  // initialization.
  if (!state_->early) {
    state_->early.emplace().set_from_environment();
    for (const auto& [key, value] : state_->configured) state_->early->set(key, value);
    state_->early->apply_driver();
  }
  return state_->early->faults;
}

const DriverSwitches& Machine::driver() const { return device().settings.driver; }

bool Machine::tagged() const { return device().settings.tagged; }

Time Machine::now() const { return state_->device ? device().clock.now() : 0; }

void Machine::charge(Cost cost, std::uint64_t count) {
  const HostCosts& host = profile().host;
  const auto mapping = [this](Time usual) {
    const double factor = device().settings.faults.mapping;
    return factor == 1 ? usual : Time{std::llround(static_cast<double>(usual) * factor)};
  };
  const auto each = [&]() -> Time {
    switch (cost) {
      case Cost::kLaunch:
        return host.launch.value;
      case Cost::kCopy:
        return host.copy.value;
      case Cost::kStreamCall:
        return host.stream_call.value;
      case Cost::kMap:
        return mapping(host.map.value);
      case Cost::kSetAccess:
        return mapping(host.set_access.value);
      case Cost::kSetAccessNext:
        return mapping(host.set_access_next.value);
      case Cost::kUnmap:
        return mapping(host.unmap.value);
      case Cost::kUnmapNext:
        return mapping(host.unmap_next.value);
    }
    return Time{0};
  }();
  device().clock.spend(each * static_cast<Time>(count));
}

void Machine::validate() const {
  device().timeline.validate();
  device().addresses.validate();
  device().buffers.validate();
  if (device().checker) device().checker->validate();
}

std::uint64_t Machine::checksum() const { return state_->device ? device().executor.checksum() : 0; }
std::uint64_t Machine::order_hash() const { return state_->device ? device().timeline.order_hash() : 0; }
Time Machine::device_now() const { return state_->device ? device().timeline.last_end() : 0; }

void Machine::statistics(SimulatedStatistics* out) const {
  SimulatedStatistics s{};
  if (state_->device) {
    const Device& d = device();
    s = d.executor.counts();
    s.host_ns = d.clock.now();
    s.compute_busy_ns = d.timeline.busy(Engine::kCompute);
    s.h2d_busy_ns = d.timeline.busy(Engine::kToDevice);
    s.d2h_busy_ns = d.timeline.busy(Engine::kToHost);
    s.creates = d.physical.creates();
    s.maps = d.maps;
    s.unmaps = d.unmaps;
    s.set_accesses = d.set_accesses;
    s.reserves = d.reserves;
    s.physical_bytes = d.physical.used();
    s.peak_physical_bytes = d.physical.peak();
    s.live_bytes = d.buffers.live();
    s.peak_live_bytes = d.buffers.peak();
    s.pinned_bytes = d.host.pinned();
    s.peak_pinned_bytes = d.host.peak();
    s.operations = d.timeline.completed_count();
    s.faults = d.faults.count();
    s.order_hash = d.timeline.order_hash();
    s.races = d.checker ? d.checker->findings().count() : 0;
  }
  s.size = std::min(out->size, sizeof s);
  std::copy_n(reinterpret_cast<const std::byte*>(&s), s.size, reinterpret_cast<std::byte*>(out));
}

}  // namespace simulator
