// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/idle_thread.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <system_error>
#include <thread>

#include "driver/locks.h"
#include "hooks/entry/own_threads.h"
#include "hooks/entry/visit_engines.h"
#include "hooks/interpose/process_lifetime.h"
#include "offload/planning/background.h"

namespace thermocline {
namespace {

// Never destroyed: the thread uses it until the process ends.
struct Looking {
  Duration every{};
};
Looking& looking() { return process_lifetime<Looking>(); }

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void go_on_looking() {
  Looking& self = looking();
  for (;;) {
    std::this_thread::sleep_for(self.every);
    const OwnThreadTurn turn;
    const WaitsInPlace alone;
    if (process_ends().load()) return;
    visit_engines([](const ActiveEngine& active) { active.engine->look_for_idleness(now_ns()); });
  }
}

}  // namespace

void look_for_idleness(Duration every) {
  static std::atomic<bool> tried{false};
  if (every.count() == 0 || tried.exchange(true)) return;
  Looking& self = looking();
  self.every = every;
  if (!end_own_threads_with_process()) return;
  std::thread thread = try_in_background(&go_on_looking);
  if (!thread.joinable()) return;
  pthread_setname_np(thread.native_handle(), "thermocline-idle");
  thread.detach();
}

}  // namespace thermocline
