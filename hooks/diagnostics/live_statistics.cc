// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/live_statistics.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

#include "config/rank.h"
#include "hooks/runtime/runtime.h"
#include "telemetry/live_page.h"

namespace thermocline {
namespace {

// Never destroyed: the thread uses it until the process ends.
std::atomic<LivePageWriter*> shown{nullptr};

void* answer(void*) {
  LivePageWriter& page = *shown.load();
  for (;;) {
    page.wait();
    EngineStatistics statistics;
    if (Runtime::get().statistics(&statistics)) page.write(statistics);
  }
}

LiveRank own_rank() {
  const std::optional<Rank> rank = rank_of_process();
  if (!rank) return {};
  return {rank->rank, rank->local.value_or(-1), rank->size.value_or(-1)};
}

// Blocks all signals in the thread: the program's signals are for its own threads.
bool start_thread() {
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, &answer, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  pthread_setname_np(thread, "thermocline");
  pthread_detach(thread);
  return true;
}

}  // namespace

void show_statistics() {
  static std::atomic<bool> tried{false};
  if (tried.exchange(true)) return;
  std::unique_ptr<LivePageWriter> page = LivePageWriter::create(kLivePageFolder, THERMOCLINE_VERSION, own_rank());
  if (page == nullptr) return;
  shown.store(page.get());
  if (start_thread()) {
    static_cast<void>(page.release());
  } else {
    shown.store(nullptr);
  }
}

void hide_statistics() {
  // The thread may be waiting on the page, so only its name is removed. In a forked child the page belongs to the
  // parent and stays.
  if (LivePageWriter* const page = shown.load()) page->remove();
}

}  // namespace thermocline
