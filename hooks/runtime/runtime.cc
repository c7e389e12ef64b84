// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/host_ledger.h"
#include "config/load.h"
#include "config/trusted_file.h"
#include "driver/check.h"
#include "driver/page_size.h"
#include "driver/probes.h"
#include "driver/undisturbed.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/real_table.h"
#include "hooks/interpose/symbols.h"
#include "hooks/operands/layouts.h"
#include "hooks/runtime/all_devices.h"
#include "hooks/runtime/caching_heaps.h"
#include "hooks/runtime/counters.h"
#include "hooks/runtime/device_lease.h"
#include "hooks/runtime/engine_observer.h"
#include "hooks/runtime/mapping_waits.h"
#include "hooks/runtime/mechanisms.h"
#include "hooks/runtime/movement_log.h"
#include "hooks/runtime/refusals.h"
#include "hooks/runtime/spill.h"
#include "hooks/runtime/statistics.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {
namespace {

std::optional<CUdevice> device_of_current_context() {
  CUdevice device = 0;
  if (real<Function::cuCtxGetDevice>(&device) != CUDA_SUCCESS || device < 0) return std::nullopt;
  return device;
}

// Returns 0, which means the whole device, if the driver does not report the free memory.
Bytes free_to_take(const Driver& driver, const DeviceFacts& facts) {
  Bytes free = 0;
  Bytes total = 0;
  // A budget of 0 would mean the whole device.
  return driver.memory_info(&free, &total).ok() ? std::max(default_budget(free, facts.total_memory), kDefaultPageBytes)
                                                : 0;
}

// While an engine is destroyed, a broken invariant must not throw, and nobody relies on that engine any more.
thread_local bool taking_down = false;

void on_broken_invariant(const char* file, int line, const char* condition, const char* sentence) {
  log_line(LogLevel::kError, "%s:%d: this does not hold: %s (%s)", file, line, sentence, condition);
  if (taking_down) return;
  Runtime::get().declare_broken();
  throw BrokenInvariant();
}

void tell_budget(const Settings& settings, Bytes budget, Bytes device_bytes) {
  if (settings.budget.is_percent() && budget != 0) {
    THERMOCLINE_LOG_ONCE(LogLevel::kInfo, "budget %s = %s of the device's %s", human_bytes(budget).c_str(),
                         settings.budget.text().c_str(), human_bytes(device_bytes).c_str());
  }
  if (budget > device_bytes) {
    THERMOCLINE_LOG_ONCE(LogLevel::kWarning, "the budget of %s is more than the device has; it gets %s",
                         human_bytes(budget).c_str(), human_bytes(device_bytes).c_str());
  }
}

void allow_pageable_memory(EngineOptions* options) {
  options->may_use_pageable = true;
  options->pinning_refused = [](Bytes pinned) {
    log_line(
        LogLevel::kWarning,
        "the driver pins no more than %s of host memory (ulimit -l, or what the machine has): further host copies are "
        "in pageable memory, which is slower",
        human_bytes(pinned).c_str());
  };
}

}  // namespace

class Runtime::State {
 public:
  State();

  // Held while an engine is created or destroyed; never held while waiting for the program's work.
  Mutex mutex{"runtime", lock_level::kRuntime};
  // Shared by threads that use several engines at once; locked exclusively, with nothing else held, for a moment between
  // the unpublishing of an engine and its destruction. Waits are forgiven, because such an operation has to find all its
  // engines to its end: the end of a context waits for it, as the driver's own does.
  SharedMutex in_use{"engines in use", lock_level::kEnginesInUse, LockLevel::Waits::kForgiven};
  // Devices whose memory is left to the driver, and the subset of these for which strict is set.
  std::atomic<std::uint64_t> left_alone{0}, refused{0};
  std::atomic<StatsForm> stats_form{StatsForm::kOff};
  std::atomic<Advertise> advertise{Advertise::kBudget};
  std::atomic<bool> wants_audit{false};
  std::atomic<bool> wants_full_fallback{false};
  std::atomic<bool> shareable{false};
  std::atomic<bool> has_run{false};
  std::atomic<bool> refuses{false};
  // The largest memory of a device with an engine.
  std::atomic<Bytes> largest_device_bytes{0};
  bool settings_loaded THERMOCLINE_GUARDED_BY(mutex) = false;
  Settings settings THERMOCLINE_GUARDED_BY(mutex);
  std::unique_ptr<HostLedger> ledger THERMOCLINE_GUARDED_BY(mutex);  // of processes; lives as long as this one
  // By device: the sum over its engines that have ended.
  std::map<CUdevice, EngineStatistics> finished THERMOCLINE_GUARDED_BY(mutex);
  AuditStatistics audited THERMOCLINE_GUARDED_BY(mutex);  // of these engines
  // Removed from `engines` but not finished: their contexts are being waited for.
  std::vector<const ActiveEngine*> ending THERMOCLINE_GUARDED_BY(mutex);

  bool is_ending(CUcontext context) const THERMOCLINE_REQUIRES(mutex);
  bool leaves_alone(CUdevice device) const {
    return static_cast<std::size_t>(device) < EngineSet::kMost && (left_alone.load() >> device & 1) != 0;
  }
  // Visits engines that are published, and those that are ending.
  template <class Visit>
  void for_each_unfinished(Visit visit) const THERMOCLINE_REQUIRES(mutex) {
    if (const EngineSet* const there = engines_.load()) {
      for (const ActiveEngine* one : *there) visit(*one);
    }
    for (const ActiveEngine* one : ending) visit(*one);
  }

  // False: `read` returned nothing for an engine, or `read_heap` for a heap.
  template <class Read, class ReadHeap>
  bool sum_up(EngineStatistics* out, Read read, ReadHeap read_heap) THERMOCLINE_REQUIRES(mutex);

  void load() THERMOCLINE_REQUIRES(mutex);
  bool may_use(const LoadedSettings& loaded) THERMOCLINE_REQUIRES(mutex);
  bool share_host_limit(EngineOptions* options) THERMOCLINE_REQUIRES(mutex);
  bool is_usable(const Driver& driver, DeviceFacts* facts) THERMOCLINE_REQUIRES(mutex);
  void begin_without_mapping(const DeviceFacts& facts) THERMOCLINE_REQUIRES(mutex);
  std::unique_ptr<Engine> make_engine(DeviceFacts* facts) THERMOCLINE_REQUIRES(mutex);
  void stand_aside(const char* why, std::optional<CUdevice> device = std::nullopt) THERMOCLINE_REQUIRES(mutex);
  const ActiveEngine* publish(Engine* engine, CUcontext context, CUdevice device) THERMOCLINE_REQUIRES(mutex);
  void unpublish(const ActiveEngine& one) THERMOCLINE_REQUIRES(mutex);
  void note_end_of(const ActiveEngine& one) THERMOCLINE_REQUIRES(mutex);
  void take_down(const ActiveEngine& one);
};

Runtime::State::State() {
  pthread_atfork([]() THERMOCLINE_NOT_ANALYSED { state().mutex.lock(); },
                 []() THERMOCLINE_NOT_ANALYSED { state().mutex.unlock(); },
                 []() THERMOCLINE_NOT_ANALYSED {
                   // CUDA does not survive a fork, and the thread that held the engine's lock does not exist in the
                   // child. A library that has not begun in the parent may begin in the child.
                   State& child = state();
                   const bool has_begun = mode_.load() != Mode::kDormant || any_caching_heap();
                   if (has_begun) mode_.store(Mode::kPassThrough);
                   engines_.store(nullptr);
                   child.ending.clear();
                   child.has_run.store(false);
                   static_cast<void>(child.ledger.release());
                   abandon_leases();
                   notify(&EngineObserver::forked);
                   child.mutex.unlock();
                 });
}

Runtime::State& Runtime::state() { return process_lifetime<State>(); }

constinit Runtime Runtime::only_;

Mutex& Runtime::lifetimes() { return state().mutex; }
SharedMutex& Runtime::in_use() { return state().in_use; }

// `device`: only that device is concerned; others may have engines.
void Runtime::State::stand_aside(const char* why, std::optional<CUdevice> device) {
  const EngineSet* const others = engines_.load();
  if (device.has_value() && others != nullptr && static_cast<std::size_t>(*device) < EngineSet::kMost) {
    left_alone.fetch_or(std::uint64_t{1} << *device);
    if (settings.strict) refused.fetch_or(std::uint64_t{1} << *device);
    log_line(settings.strict ? LogLevel::kError : LogLevel::kWarning, "device %d: %s; %s", *device, why,
             settings.strict ? "allocations fail there, because strict is set" : "its memory is left to the driver");
    return;
  }
  mode_.store(Mode::kPassThrough);
  refuses.store(settings.strict);
  log_line(settings.strict ? LogLevel::kError : LogLevel::kWarning, "%s; %s", why,
           settings.strict ? "allocations fail, because strict is set" : "the program runs without the library");
}

bool Runtime::State::may_use(const LoadedSettings& loaded) {
  const LogLevel level = settings.strict ? LogLevel::kError : LogLevel::kWarning;
  for (const Problem& problem : loaded.problems) log_line(level, "%s", problem.text().c_str());
  for (const Problem& note : loaded.notes) log_line(LogLevel::kWarning, "note: %s", note.text().c_str());
  return loaded.problems.empty() || !settings.strict;
}

void Runtime::State::load() {
  if (settings_loaded) return;
  settings_loaded = true;
  if (variable_of_process("THERMOCLINE_TEST_LOCKS") != nullptr) locks_are_checked.store(true);
  const LoadedSettings loaded = load_settings(Surroundings::of_process());
  settings = loaded.settings;
  stats_form.store(settings.stats);
  advertise.store(settings.advertise);
  wants_audit.store(settings.audit);
  wants_full_fallback.store(settings.host_fallback == HostFallback::kFull);
  shareable.store(settings.shareable);
  set_log_level(settings.log_level);
  notify(&EngineObserver::settings_loaded, settings);
  if (!may_use(loaded)) stand_aside("a setting is wrong");
  set_check_handler(&on_broken_invariant);
}

// False: the limit cannot be enforced, and the settings demand that the program ends rather than run without it.
bool Runtime::State::share_host_limit(EngineOptions* options) {
  share_host_limit_of_devices(options);
  const Bytes limit = settings.host_limit_shared.resolve(host_memory_bytes());
  if (limit == 0) return true;
  std::string why;
  const char* const group = variable_of_process(kHostGroupVariable);
  if (ledger == nullptr) {
    // file-hierarchy(7): created at login, accessible to the user only.
    const std::string folder_of_user = "/run/user/" + std::to_string(geteuid());
    ledger = HostLedger::open(kHostLedgerFolder, limit, &why, group == nullptr ? "" : group, folder_of_user);
  }
  if (options->host_ledger = ledger.get(); ledger != nullptr) return true;
  if (settings.strict) {
    stand_aside(("host_limit_shared can not be kept: " + why).c_str());
    return false;
  }
  log_line(LogLevel::kWarning, "host_limit_shared can not be kept: %s; the program runs without this limit",
           why.c_str());
  return true;
}

// On such a device, buffers are the driver's own allocations.
void Runtime::State::begin_without_mapping(const DeviceFacts& facts) {
  count(Counter::kUnmappableDevices);
  if (settings.strict || static_cast<std::size_t>(facts.device) >= EngineSet::kMost) {
    stand_aside("the device has no virtual memory management", facts.device);
    return;
  }
  left_alone.fetch_or(std::uint64_t{1} << facts.device);
  largest_device_bytes.store(std::max(largest_device_bytes.load(), facts.total_memory));
  begin_caching_heap(facts, settings);
}

// Reads the facts of the current context's device. False: there can be no engine.
bool Runtime::State::is_usable(const Driver& driver, DeviceFacts* facts) {
  if (!driver.facts(facts).ok()) {
    stand_aside("the device does not say what it can do", device_of_current_context());
    return false;
  }
  if (!facts->has_virtual_memory) {
    begin_without_mapping(*facts);
    return false;
  }
  // An unknown stream may be blocked, and a new engine maps memory at once.
  if (!mapping_was_found_to_wait()) return true;
  stand_aside("the driver waits for streams when it maps memory or unmaps it, and the program may have blocked some",
              facts->device);
  return false;
}

std::unique_ptr<Engine> Runtime::State::make_engine(DeviceFacts* facts) {
  const DriverTable* table = real_table();
  if (table == nullptr) {
    stand_aside("the driver lacks functions that the library needs");
    return nullptr;
  }
  const Driver driver(*table);
  if (!is_usable(driver, facts)) return nullptr;
  std::unique_ptr<Engine> engine;
  layouts().set_rules(settings.operators);
  EngineOptions options = engine_options(settings, facts->device, facts->total_memory, host_memory_bytes());
  if (options.budget_bytes == 0 && !settings.audit) options.budget_bytes = free_to_take(driver, *facts);
  if (settings.strict) {
    if (const char* const missing = missing_capability(options, *facts); missing != nullptr) {
      stand_aside(missing, facts->device);
      return nullptr;
    }
  }
  limit_to_what_is_seen(&options);
  annotate_mapping_probe(options.annotate);
  const Findings findings = probe_mapping(driver, *facts, options.annotate);
  const char* lacks = nullptr;
  if (const bool can = do_without(findings, &options, &lacks);
      !can || (settings.strict && counted(Counter::kMissingMechanisms) > 0)) {
    stand_aside(can ? "the driver does not do all that the library relies on" : lacks, facts->device);
    return nullptr;
  }
  if (!share_host_limit(&options)) return nullptr;
  std::string lacks_file;
  std::shared_ptr<SpillFile> spill_file = open_spill_file(settings, &options, &lacks_file);
  if (!lacks_file.empty()) {
    stand_aside(lacks_file.c_str());
    return nullptr;
  }
  if (!share_device(settings, *facts, &options)) {
    stand_aside("budget = \"shared\" can not be kept", facts->device);
    return nullptr;
  }
  options.waits_without_lock = true;
  options.movements = movement_log();
  notify(&EngineObserver::engine_options, &options);
  allow_pageable_memory(&options);
  options.without_host_memory = [] { do_without(Mechanism::kHostMemory); };
  if (settings.debug == DebugMode::kGuard) options.redzone_bytes = kRedzoneBytes;
  if (options.host_fallback == HostFallback::kFull && !(facts->can_map_host && options.may_alias)) {
    THERMOCLINE_LOG_ONCE(
        LogLevel::kWarning,
        "host_fallback = \"full\" is not available on this device: accesses that the library does not see may "
        "fail");
  }
  if (Status status = Engine::create(Driver(*table, steps_for(findings, facts->page_bytes)), options, &engine,
                                     std::move(spill_file));
      !status.ok()) {
    end_lease(facts->device);
    stand_aside("the driver refused what the library needs to begin", facts->device);
    return nullptr;
  }
  largest_device_bytes.store(std::max(largest_device_bytes.load(), facts->total_memory));
  tell_budget(settings, options.budget_bytes, facts->total_memory);
  return engine;
}

// Small, and never freed: other threads may be reading it when its context ends.
const ActiveEngine* Runtime::State::publish(Engine* engine, CUcontext context, CUdevice device) {
  const auto* made = new ActiveEngine{engine, context, device, {engine->range_begin(), engine->range_bytes()}};
  const EngineSet* before = engines_.load();
  const EngineSet* now = new EngineSet(before == nullptr ? EngineSet().with(*made) : before->with(*made));
  mode_.store(Mode::kActive);
  engines_.store(now, std::memory_order_release);
  return made;
}

void Runtime::State::unpublish(const ActiveEngine& one) {
  const EngineSet left = engines_.load()->without(one);
  engines_.store(left.empty() ? nullptr : new EngineSet(left), std::memory_order_release);
  if (left.empty() && mode_.load() == Mode::kActive) mode_.store(Mode::kDormant);
}

const ActiveEngine* Runtime::activate(CUcontext context) {
  State& all = state();
  const MutexLock lock(all.mutex);
  if (mode_.load() == Mode::kPassThrough || mode_.load() == Mode::kBroken) return nullptr;
  if (all.is_ending(context)) return nullptr;
  const std::optional<CUdevice> device = device_of_current_context();
  if (const EngineSet* there = engines_.load()) {
    if (const ActiveEngine* other = there->in(context)) return other;
    if (device.has_value() && there->on(*device) != nullptr) {
      count(Counter::kOtherContexts);
      THERMOCLINE_LOG_ONCE(LogLevel::kWarning,
                           "a device has more than one context; memory of all but its first is left to the driver");
      return nullptr;
    }
    // No machine has so many devices.
    if (!device.has_value() || static_cast<std::size_t>(*device) >= EngineSet::kMost) return nullptr;
  }
  if (device.has_value() && all.leaves_alone(*device)) return nullptr;
  const Inside inside;
  try {
    all.has_run.store(true);
    all.load();
    if (mode_.load() == Mode::kPassThrough) return nullptr;
    DeviceFacts facts;
    std::unique_ptr<Engine> engine = all.make_engine(&facts);
    if (engine == nullptr) return nullptr;
    engine->set_report_handler(&keep_report);
    notify(&EngineObserver::engine_begins, *engine, facts.device);
    const ActiveEngine* made = all.publish(engine.release(), context, facts.device);
    notify(&EngineObserver::engine_began, *made, all.settings);
    return made;
  } catch (...) {
    all.stand_aside("the library could not begin", device);
    return nullptr;
  }
}

constinit std::atomic<Runtime::Mode> Runtime::mode_{Mode::kDormant};
constinit std::atomic<const EngineSet*> Runtime::engines_{nullptr};

const ActiveEngine* Runtime::owner(DeviceAddress address) const noexcept {
  const EngineSet* const all = engines();
  return all == nullptr ? nullptr : all->owner(address);
}

bool Runtime::is_there(const ActiveEngine* engine) const noexcept {
  const EngineSet* const all = engines();
  return all != nullptr && all->has(engine);
}

const ActiveEngine* Runtime::in_current_context() {
  if (Inside::now()) return nullptr;
  CUcontext context = nullptr;
  return real<Function::cuCtxGetCurrent>(&context) == CUDA_SUCCESS ? in_current_context(context) : nullptr;
}

const ActiveEngine* Runtime::in_current_context(CUcontext current) {
  const Mode mode = mode_.load(std::memory_order_acquire);
  if (mode == Mode::kPassThrough || mode == Mode::kBroken || current == nullptr || Inside::now()) return nullptr;
  if (const EngineSet* const there = engines()) {
    if (const ActiveEngine* found = there->in(current)) return found;
  }
  const Undisturbed undisturbed;
  return activate(current);
}

void HeldEngines::hold() THERMOCLINE_NOT_ANALYSED {
  Runtime::in_use().lock_shared();
  holds_ = true;
  engines_ = Runtime::get().engines();
}

void HeldEngines::let_go() THERMOCLINE_NOT_ANALYSED { Runtime::in_use().unlock_shared(); }

bool Runtime::refuses() const noexcept {
  if (state().refuses.load(std::memory_order_relaxed)) return true;
  const std::uint64_t refused = state().refused.load(std::memory_order_relaxed);
  if (refused == 0) return false;
  const std::optional<CUdevice> device = device_of_current_context();
  return device.has_value() && static_cast<std::size_t>(*device) < EngineSet::kMost && (refused >> *device & 1) != 0;
}

void Runtime::declare_broken() noexcept {
  mode_.store(Mode::kBroken);
  log_line(LogLevel::kError,
           "operations on memory of the library fail from here on, since its contents can not be vouched for");
}

void Runtime::State::note_end_of(const ActiveEngine& one) {
  EngineStatistics& of_device = finished[one.device];
  of_device = merge(of_device, ended(one.engine->statistics()));
  audited = add(audited, one.engine->audit());
  notify(&EngineObserver::engine_ended, one);
  std::erase(ending, &one);
  // Under the lock, because a process must not open a device's ledger twice at a time.
  end_lease(one.device);
}

bool Runtime::State::is_ending(CUcontext context) const {
  return std::ranges::any_of(ending, [context](const ActiveEngine* one) { return one->context == context; });
}

// The context must be current, the engine in `ending`, and no lock held: the work that the context waits for may need a
// thread that has to take one first.
void Runtime::State::take_down(const ActiveEngine& one) {
  const Inside inside;
  { const WriterLock nobody(in_use); }
  taking_down = true;
  const bool waited = real<Function::cuCtxSynchronize>() == CUDA_SUCCESS;
  notify(&EngineObserver::engine_ends, one, !waited);
  if (waited) one.engine->synchronized_all();
  {
    const MutexLock lock(mutex);
    note_end_of(one);
  }
  // If the wait failed, work may still be using the memory, until the driver ends it together with the context.
  if (waited) delete one.engine;
  notify(&EngineObserver::context_ended, one.context, false);
  taking_down = false;
}

void Runtime::end_context(CUcontext context) {
  notify(&EngineObserver::context_ends, context, false);
  forget_contexts_of_streams();
  layouts().forget();
  State& all = state();
  const EngineSet* const there = engines_.load();
  if (there == nullptr) return;
  if (there->in(context) == nullptr) {
    const Inside inside;
    notify(&EngineObserver::context_ended, context, false);
    return;
  }
  if (real<Function::cuCtxPushCurrent_v2>(context) != CUDA_SUCCESS) return;
  const ActiveEngine* one = nullptr;
  {
    const MutexLock lock(all.mutex);
    const EngineSet* const now = engines_.load();
    one = now == nullptr ? nullptr : now->in(context);
    if (one != nullptr) all.unpublish(*one);
    if (mode_.load() == Mode::kBroken) one = nullptr;
    if (one != nullptr) all.ending.push_back(one);
  }
  if (one != nullptr) all.take_down(*one);
  CUcontext popped = nullptr;
  real<Function::cuCtxPopCurrent_v2>(&popped);
}

void Runtime::abandon_context(CUcontext context) {
  notify(&EngineObserver::context_ends, context, true);
  forget_contexts_of_streams();
  layouts().forget();
  State& all = state();
  const MutexLock lock(all.mutex);
  const EngineSet* const there = engines_.load();
  if (there == nullptr) return;
  if (const ActiveEngine* const ending = there->in(context)) {
    notify(&EngineObserver::engine_ends, *ending, true);
    all.note_end_of(*ending);
    all.unpublish(*ending);
  }
  const Inside inside;
  notify(&EngineObserver::context_ended, context, true);
}

template <class Read, class ReadHeap>
bool Runtime::State::sum_up(EngineStatistics* out, Read read, ReadHeap read_heap) {
  std::map<CUdevice, EngineStatistics> by_device = finished;
  bool are_all = true;
  for_each_unfinished([&](const ActiveEngine& one) {
    const std::optional<EngineStatistics> of_engine = read(*one.engine);
    are_all = are_all && of_engine.has_value();
    if (!of_engine.has_value()) return;
    EngineStatistics& of_device = by_device[one.device];
    of_device = merge(of_device, *of_engine);
  });
  for_each_caching_heap([&](DeviceHeap& of) {
    const std::optional<EngineStatistics> of_heap = read_heap(of);
    are_all = are_all && of_heap.has_value();
    if (of_heap.has_value()) by_device[of.device] = *of_heap;
  });
  if (!are_all) return false;
  bool is_first = true;
  *out = {};
  for (const auto& [device, of_device] : by_device)
    *out = std::exchange(is_first, false) ? of_device : add(*out, of_device);
  out->out_of_memory -= std::min(out->out_of_memory, forgotten_reports());
  notify(&EngineObserver::fill_in, out);
  return true;
}

bool Runtime::statistics(EngineStatistics* out) const {
  if (Inside::now()) return false;
  const GivesOutReport at_the_end;  // the caller may not be a call of the program
  State& all = state();
  const MutexLock lock(all.mutex);
  return all.sum_up(
      out, [](const Engine& engine) { return std::optional(engine.statistics()); },
      [](DeviceHeap& heap) { return std::optional(statistics_of(heap)); });
}

bool Runtime::try_statistics(EngineStatistics* out) const THERMOCLINE_NOT_ANALYSED {
  if (Inside::now()) return false;
  const GivesOutReport at_the_end;
  const std::unique_lock lock(state().mutex, std::try_to_lock);
  return lock.owns_lock() && state().sum_up(
                                 out, [](const Engine& engine) { return engine.try_statistics(); }, &try_statistics_of);
}

bool Runtime::wants_audit() const noexcept { return state().wants_audit.load(); }
bool Runtime::wants_full_fallback() const noexcept { return state().wants_full_fallback.load(); }

AuditStatistics Runtime::audit() const {
  if (Inside::now()) return {};
  State& all = state();
  const MutexLock lock(all.mutex);
  AuditStatistics sum = all.audited;
  all.for_each_unfinished([&](const ActiveEngine& one) { sum = add(sum, one.engine->audit()); });
  return sum;
}

StatsForm Runtime::stats_form() const noexcept { return state().stats_form.load(); }
Advertise Runtime::advertise() const noexcept { return state().advertise.load(std::memory_order_relaxed); }

// Without the lock, which a thread may have kept for ever at the end of the process: a device has been counted only after
// the settings were loaded for good.
std::string Runtime::budget_origin() const THERMOCLINE_NOT_ANALYSED {
  const State& all = state();
  if (!all.settings.budget.is_percent() || all.largest_device_bytes.load() == 0)
    return all.settings.budget.is_shared() ? "the last lease" : "";
  return all.settings.budget.text() + " of the device's " + human_bytes(all.largest_device_bytes.load());
}

bool Runtime::wants_shareable() {
  if (!has_run()) static_cast<void>(in_current_context());
  return state().shareable.load(std::memory_order_relaxed);
}

bool Runtime::has_run() const noexcept { return state().has_run.load(); }

bool Runtime::reset_peaks() {
  if (Inside::now()) return false;
  State& all = state();
  const MutexLock lock(all.mutex);
  for (auto& [device, of_device] : all.finished) forget_peaks(&of_device);
  all.for_each_unfinished([](const ActiveEngine& one) { one.engine->reset_peaks(); });
  reset_peaks_of_caching_heaps();
  return true;
}

}  // namespace thermocline
