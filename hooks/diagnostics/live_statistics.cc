// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/live_statistics.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "config/rank.h"
#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/runtime.h"
#include "hooks/runtime/tags.h"
#include "offload/planning/background.h"
#include "telemetry/live_page.h"

namespace thermocline {
namespace {

// Never destroyed: the thread uses it until the process ends.
std::atomic<LivePageWriter*> shown{nullptr};

std::atomic<int (*)(OrderKind, std::uint64_t, SleepReport*)> carry_out{nullptr};
std::atomic<bool> carrying_out{false};

// Never destroyed, like the page. Two threads write to the page.
Mutex& writing() {
  struct Writing {
    Mutex mutex{"live page", lock_level::kLeaf};
  };
  return process_lifetime<Writing>().mutex;
}

int obey(OrderKind kind, const std::string& name, SleepReport* report) {
  const auto work = carry_out.load();
  if (work == nullptr || kind == OrderKind::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  const std::uint64_t tag = find_tag(name);
  return name.empty() || tag != 0 ? work(kind, tag, report) : CUDA_ERROR_NOT_FOUND;
}

void obey(LivePageWriter& page, std::uint32_t order) {
  std::string tag;
  {
    const MutexLock lock(writing());
    if (!page.begin_order(order, &tag)) return;
  }
  SleepReport report;
  const int status = obey(kind_of(order), tag, &report);
  const MutexLock lock(writing());
  page.end_order(order, status, report);
}

// If an order comes while the last one ends, the thread that looks after the flag is cleared finds it.
void obey_all(LivePageWriter& page) {
  do {
    for (std::uint32_t order = page.next_order(); order != 0; order = page.next_order()) obey(page, order);
    carrying_out.store(false);
  } while (page.next_order() != 0 && !carrying_out.exchange(true));
}

void hear_orders(LivePageWriter& page) {
  if (page.next_order() == 0 || carrying_out.exchange(true)) return;
  std::thread thread = try_in_background([&page] { obey_all(page); });
  if (!thread.joinable()) {
    carrying_out.store(false);
    return;
  }
  pthread_setname_np(thread.native_handle(), "thermocline-sleep");
  thread.detach();
}

void* answer(void*) {
  LivePageWriter& page = *shown.load();
  for (;;) {
    page.wait();
    hear_orders(page);
    EngineStatistics statistics;
    if (!Runtime::get().statistics(&statistics)) continue;
    const MutexLock lock(writing());
    page.write(statistics);
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

void carry_out_orders_with(int (*how)(OrderKind kind, std::uint64_t tag, SleepReport* report)) { carry_out.store(how); }

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
