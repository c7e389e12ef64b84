// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "allocator/host_ledger.h"
#include "config/load.h"
#include "driver/check.h"
#include "driver/undisturbed.h"
#include "hooks/dynamic_linker.h"
#include "hooks/fallbacks.h"
#include "hooks/layouts.h"
#include "hooks/live_statistics.h"
#include "hooks/misuse.h"
#include "hooks/real_table.h"
#include "hooks/recorder.h"
#include "hooks/refusals.h"
#include "hooks/statistics.h"
#include "hooks/submit.h"
#include "hooks/symbols.h"

namespace thermocline {
namespace {

enum class Mode {
  kDormant,  // nothing of ours exists; the next context that asks gets an engine
  kActive,
  kPassThrough,  // something could not be had: as if we were not there
  kBroken,       // see runtime.h
};

std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Counter::kCount)> counters{};

MisuseWatch watch_of(DebugMode mode) {
  return mode == DebugMode::kGuard   ? MisuseWatch::kGuard
         : mode == DebugMode::kTrack ? MisuseWatch::kTrack
                                     : MisuseWatch::kOff;
}

// While an engine is taken down nothing may be thrown, and nobody relies on it any more.
thread_local bool taking_down = false;

void on_broken_invariant(const char* file, int line, const char* condition, const char* sentence) {
  log_line("%s:%d: this does not hold: %s (%s)", file, line, sentence, condition);
  if (taking_down) return;
  Runtime::get().declare_broken();
  throw BrokenInvariant();
}

}  // namespace

class Runtime::State {
 public:
  // Guards everything but the atomics. Held while an engine is made or taken down; nobody waits for a program's work
  // under it.
  std::mutex mutex;
  std::atomic<Mode> mode{Mode::kDormant};
  std::atomic<const ActiveEngine*> active{nullptr};
  std::atomic<bool> wants_statistics{false};
  std::atomic<bool> wants_audit{false};
  std::atomic<bool> shareable{false};
  std::atomic<bool> has_run{false};
  std::atomic<bool> refuses{false};
  bool settings_loaded = false;
  Settings settings;
  std::unique_ptr<HostLedger> ledger;  // of the limit that processes share; as long as the process
  EngineStatistics finished;           // of engines that are gone
  AuditStatistics audited;             // of the last of these that has looked at a kernel

  void load();
  bool may_use(const LoadedSettings& loaded);
  bool share_host_limit(EngineOptions* options);
  std::unique_ptr<Engine> make_engine(DeviceFacts* facts);
  void stand_aside(const char* why);
  void take_down();
};

// Never destroyed: hooks are called until the very end of the process.
Runtime::State& Runtime::state() {
  static auto* const all = [] {
    auto* made = new State;
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] {
                     // CUDA does not survive a fork, and whoever held the engine's lock does not exist here. What has
                     // not begun in the parent may begin in the child.
                     State& child = state();
                     if (child.mode.load() != Mode::kDormant) child.mode.store(Mode::kPassThrough);
                     child.active.store(nullptr);
                     child.has_run.store(false);
                     static_cast<void>(child.ledger.release());
                     Recorder::abandon();
                     child.mutex.unlock();
                   });
    return made;
  }();
  return *all;
}

Runtime& Runtime::get() {
  static constinit Runtime runtime;
  return runtime;
}

void Runtime::State::stand_aside(const char* why) {
  mode.store(Mode::kPassThrough);
  refuses.store(settings.strict);
  log_line("%s; %s", why,
           settings.strict ? "allocations fail, because strict is set" : "the program runs without the library");
}

bool Runtime::State::may_use(const LoadedSettings& loaded) {
  for (const Problem& problem : loaded.problems) log_line("%s", problem.text().c_str());
  return loaded.problems.empty() || !settings.strict;
}

void Runtime::State::load() {
  if (settings_loaded) return;
  settings_loaded = true;
  const LoadedSettings loaded = load_settings(Surroundings::of_process());
  settings = loaded.settings;
  wants_statistics.store(settings.stats);
  wants_audit.store(settings.audit);
  shareable.store(settings.shareable);
  if (settings.log_level == LogLevel::kQuiet) silence_log();
  watch_misuse(watch_of(settings.debug));
  if (!may_use(loaded)) stand_aside("a setting is wrong");
  set_check_handler(&on_broken_invariant);
}

// False: the limit can not be kept, and the program is to end sooner than to run without it.
bool Runtime::State::share_host_limit(EngineOptions* options) {
  const Bytes limit = settings.host_limit_shared.resolve(host_memory_bytes());
  if (limit == 0) return true;
  std::string why;
  const char* const group = std::getenv(kHostGroupVariable);
  if (ledger == nullptr) ledger = HostLedger::open(kHostLedgerFolder, limit, &why, group == nullptr ? "" : group);
  options->host_ledger = ledger.get();
  if (ledger != nullptr) return true;
  if (settings.strict) {
    stand_aside(("host_limit_shared can not be kept: " + why).c_str());
    return false;
  }
  log_line("host_limit_shared can not be kept: %s; the program runs without this limit", why.c_str());
  return true;
}

std::unique_ptr<Engine> Runtime::State::make_engine(DeviceFacts* facts) {
  const DriverTable* table = real_table();
  if (table == nullptr) {
    stand_aside("the driver lacks functions that the library needs");
    return nullptr;
  }
  const Driver driver(*table);
  if (Status status = driver.facts(facts); !status.ok()) {
    stand_aside("the device does not say what it can do");
    return nullptr;
  }
  if (!facts->has_virtual_memory) {
    stand_aside("the device has no virtual memory management");
    return nullptr;
  }
  std::unique_ptr<Engine> engine;
  layouts().set_rules(settings.operators);
  EngineOptions options = engine_options(settings, facts->device, facts->total_memory, host_memory_bytes());
  if (!sees_operations()) options.policy = Policy::kNone;
  if (!share_host_limit(&options)) return nullptr;
  if (settings.debug == DebugMode::kGuard) options.redzone_bytes = kRedzoneBytes;
  if (options.safety_net == SafetyNet::kFull && !facts->can_map_host) {
    THERMOCLINE_LOG_ONCE("safety_net = \"full\": the device can not map memory of the host; there is no net");
  }
  if (Status status = Engine::create(driver, options, &engine); !status.ok()) {
    stand_aside("the driver refused what the library needs to begin");
    return nullptr;
  }
  return engine;
}

const ActiveEngine* Runtime::activate(CUcontext context) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (const ActiveEngine* other = all.active.load()) return other;
  if (all.mode.load() != Mode::kDormant) return nullptr;
  const Inside inside;
  try {
    all.has_run.store(true);
    all.load();
    if (all.mode.load() != Mode::kDormant) return nullptr;
    DeviceFacts facts;
    std::unique_ptr<Engine> engine = all.make_engine(&facts);
    if (engine == nullptr) return nullptr;
    engine->set_report_handler(&keep_report);
    // Small, and never freed: other threads may be reading it whenever its context ends.
    const auto* made = new ActiveEngine{engine.release(), context, facts.device};
    if (any_capture()) made->engine->recording(true);
    Recorder::begin(Driver(*real_table()));
    all.mode.store(Mode::kActive);
    all.active.store(made, std::memory_order_release);
    if (all.settings.publish) show_statistics();
    return made;
  } catch (...) {
    all.stand_aside("the library could not begin");
    return nullptr;
  }
}

const ActiveEngine* Runtime::active() const noexcept { return state().active.load(std::memory_order_acquire); }

const ActiveEngine* Runtime::in_current_context() {
  const State& all = state();
  const Mode mode = all.mode.load(std::memory_order_acquire);
  if (mode == Mode::kPassThrough || mode == Mode::kBroken || Inside::now()) return nullptr;
  CUcontext context = nullptr;
  if (real<Function::cuCtxGetCurrent>(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  const ActiveEngine* found = active();
  if (found == nullptr) {
    const Undisturbed undisturbed;
    found = activate(context);
  }
  if (found == nullptr || found->context == context) return found;
  count(Counter::kOtherContexts);
  THERMOCLINE_LOG_ONCE("more than one context is in use; memory of all but the first is left to the driver");
  return nullptr;
}

// Whoever asks the dynamic linker for the driver's functions asks the first dlsym there is.
bool sees_operations() {
  static const bool sees = next_dlsym()(RTLD_DEFAULT, "dlsym") == reinterpret_cast<void*>(&dlsym);
  return sees;
}

bool Runtime::broken() const noexcept { return state().mode.load(std::memory_order_acquire) == Mode::kBroken; }
bool Runtime::refuses() const noexcept { return state().refuses.load(std::memory_order_relaxed); }

void Runtime::declare_broken() noexcept {
  state().mode.store(Mode::kBroken);
  log_line("operations on memory of the library fail from here on, since its contents can not be vouched for");
}

// The context is current, and the lock is held.
void Runtime::State::take_down() {
  const ActiveEngine* ending = active.load();
  active.store(nullptr);
  if (mode.load() == Mode::kActive) mode.store(Mode::kDormant);
  if (mode.load() == Mode::kBroken) return;
  const Inside inside;
  taking_down = true;
  real<Function::cuCtxSynchronize>();
  Recorder::end(false);
  ending->engine->synchronized_all();
  finished = merge(finished, ended(ending->engine->statistics()));
  if (const AuditStatistics audit = ending->engine->audit(); audit.launches > 0) audited = audit;
  delete ending->engine;
  if (watches_misuse()) forget_buffers();
  taking_down = false;
}

void Runtime::end_context(CUcontext context) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const ActiveEngine* ending = all.active.load();
  if (ending == nullptr || ending->context != context) return;
  if (real<Function::cuCtxPushCurrent_v2>(context) != CUDA_SUCCESS) return;
  all.take_down();
  CUcontext popped = nullptr;
  real<Function::cuCtxPopCurrent_v2>(&popped);
}

void Runtime::end_device(CUdevice device) {
  const ActiveEngine* ending = active();
  if (ending != nullptr && ending->device == device) end_context(ending->context);
}

void Runtime::abandon_device(CUdevice device) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const ActiveEngine* ending = all.active.load();
  if (ending == nullptr || ending->device != device) return;
  Recorder::end(true);
  all.finished = merge(all.finished, ended(ending->engine->statistics()));
  if (const AuditStatistics audit = ending->engine->audit(); audit.launches > 0) all.audited = audit;
  all.active.store(nullptr);
  if (watches_misuse()) forget_buffers();
  if (all.mode.load() == Mode::kActive) all.mode.store(Mode::kDormant);
}

bool Runtime::statistics(EngineStatistics* out) const {
  if (Inside::now()) return false;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const ActiveEngine* current = all.active.load();
  *out = current == nullptr ? all.finished : merge(all.finished, current->engine->statistics());
  add_fallbacks(out);
  return true;
}

bool Runtime::wants_audit() const noexcept { return state().wants_audit.load(); }

AuditStatistics Runtime::audit() const {
  if (Inside::now()) return {};
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const ActiveEngine* current = all.active.load();
  if (current == nullptr) return all.audited;
  const AuditStatistics now = current->engine->audit();
  return now.launches > 0 ? now : all.audited;
}

bool Runtime::wants_statistics() const noexcept { return state().wants_statistics.load(); }

bool Runtime::wants_shareable() {
  if (!has_run()) static_cast<void>(in_current_context());
  return state().shareable.load(std::memory_order_relaxed);
}

bool Runtime::has_run() const noexcept { return state().has_run.load(); }

bool Runtime::reset_peaks() {
  if (Inside::now()) return false;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  forget_peaks(&all.finished);
  if (const ActiveEngine* current = all.active.load()) current->engine->reset_peaks();
  return true;
}

void count(Counter counter) noexcept {
  counters[static_cast<std::size_t>(counter)].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t counted(Counter counter) noexcept {
  return counters[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
}

}  // namespace thermocline
