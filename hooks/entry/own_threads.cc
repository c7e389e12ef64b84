// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/own_threads.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"

namespace thermocline {
namespace {

constexpr int kMostWaitsAtTheEnd = 1000;
constexpr std::chrono::milliseconds kBetweenWaits{1};

// Never destroyed: the threads use it until the process ends.
struct OwnThreads {
  Mutex turn{"own threads", lock_level::kOwnThreads};
  std::atomic<bool> ended{false};
  pid_t process = getpid();
};
OwnThreads& own_threads() { return process_lifetime<OwnThreads>(); }

// The driver may shut down soon. This handler was registered after the driver's, so it runs before it.
void end_turns() {
  OwnThreads& self = own_threads();
  self.ended.store(true);
  if (getpid() != self.process) return;
  for (int i = 0; i < kMostWaitsAtTheEnd; ++i) {
    if (self.turn.try_lock()) {
      self.turn.unlock();
      return;
    }
    std::this_thread::sleep_for(kBetweenWaits);
  }
}

}  // namespace

bool end_own_threads_with_process() {
  static_cast<void>(own_threads());
  static const bool registered = std::atexit(&end_turns) == 0;
  return registered;
}

const std::atomic<bool>& process_ends() { return own_threads().ended; }

OwnThreadTurn::OwnThreadTurn() { own_threads().turn.lock(); }
OwnThreadTurn::~OwnThreadTurn() { own_threads().turn.unlock(); }

}  // namespace thermocline
