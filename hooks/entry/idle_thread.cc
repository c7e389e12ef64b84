// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/idle_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <thread>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/guarded.h"
#include "hooks/runtime/runtime.h"
#include "hooks/submit/submit.h"
#include "offload/planning/background.h"

namespace thermocline {
namespace {

// How long the end of the process waits for a check in progress. If the check takes longer than that, it can not
// complete: a signal handler may end the process while the thread waits for something that the interrupted thread
// holds.
constexpr int kMostWaitsAtTheEnd = 1000;
constexpr Duration kBetweenWaits{1};

// Never destroyed: the thread uses it until the process ends.
struct Looking {
  Mutex look{"idle thread", lock_level::kIdleThread};  // held while the thread may call the driver
  std::atomic<bool> ended{false};                      // the process is ending
  pid_t process = getpid();
  Duration every{};
};
Looking& looking() { return process_lifetime<Looking>(); }

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// No engine ends during this. What the driver does not allow while a stream captures is left for the next time.
void look() {
  if (Runtime::get().broken() || any_capture()) return;
  static_cast<void>(guarded([] {
    const HeldEngines engines(HeldEngines::Even::kOne);
    if (engines.none()) return CUDA_SUCCESS;
    const Inside inside;
    const CaptureTruce truce;
    for (const ActiveEngine* active : *engines) {
      const CurrentContext context(*active);
      if (!context.is_refused()) active->engine->look_for_idleness(now_ns());
    }
    return CUDA_SUCCESS;
  }));
}

void go_on_looking() {
  Looking& self = looking();
  for (;;) {
    std::this_thread::sleep_for(self.every);
    const MutexLock lock(self.look);
    // Nobody waits for this lock: the end of the process tries it, for a second.
    const WaitsInPlace alone;
    if (self.ended.load()) return;
    look();
  }
}

// The driver may shut down soon. This handler was registered after the driver's, so it runs before it.
void end_looking() {
  Looking& self = looking();
  self.ended.store(true);
  if (getpid() != self.process) return;
  for (int i = 0; i < kMostWaitsAtTheEnd; ++i) {
    if (self.look.try_lock()) {
      self.look.unlock();
      return;
    }
    std::this_thread::sleep_for(kBetweenWaits);
  }
}

}  // namespace

void look_for_idleness(Duration every) {
  static std::atomic<bool> tried{false};
  if (every.count() == 0 || tried.exchange(true)) return;
  Looking& self = looking();
  self.every = every;
  if (std::atexit(&end_looking) != 0) return;
  std::thread thread = try_in_background(&go_on_looking);
  if (!thread.joinable()) return;
  pthread_setname_np(thread.native_handle(), "thermocline-idle");
  thread.detach();
}

}  // namespace thermocline
