// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/independent_blocks.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <system_error>
#include <thread>

#include "simulator/ptx/kernel.h"

namespace simulator::ptx {
namespace {

// Threads are created for a launch once it has executed this many instructions: half a millisecond, several times the
// cost of the threads.
constexpr std::uint64_t kWorthThreads = std::uint64_t{1} << 19;

// Each worker has stacks of its own, with guard pages, of which a process may have some 65,000 (fiber.cc).
constexpr std::uint32_t kMostWorkers = 16;

// The block with this number, in order of execution.
struct Place {
  std::uint32_t at[3];
};
Place place_of(const Launch& launch, std::uint64_t block) {
  const std::uint64_t row = block / launch.grid[0];
  return {{static_cast<std::uint32_t>(block % launch.grid[0]), static_cast<std::uint32_t>(row % launch.grid[1]),
           static_cast<std::uint32_t>(row / launch.grid[1])}};
}

// Blocks are taken in order: when one fails, all earlier ones have been taken, and will end. The lowest failure counts.
struct Work {
  GridRun& grid;
  std::uint64_t blocks;
  std::atomic<std::uint64_t> next;
  std::atomic<std::uint64_t> failed;  // the lowest that did; `blocks`: none
};

class Worker {
 public:
  Worker(Work& work, Stacks& stacks) : work_(work), stacks_(stacks) {}

  void run() {
    const Launch& launch = work_.grid.launch;
    const auto body = [](void* self) { static_cast<Worker*>(self)->run_blocks(); };
    std::uint64_t at = 0;
    if (launch.guarded == nullptr) return body(this);
    if (launch.guarded(body, this, &at)) return;
    outcome_.fault = Fault::kIllegalAddress;
    outcome_.address = at;
    std::snprintf(outcome_.message, kMessageBytes, "kernel '%s', block %llu: illegal address 0x%llx",
                  work_.grid.kernel.name.c_str(), static_cast<unsigned long long>(block_),
                  static_cast<unsigned long long>(at));
    fail();
  }

  const Outcome& outcome() const { return outcome_; }
  std::uint64_t last_block() const { return block_; }

 private:
  void run_blocks() {
    GridRun own{work_.grid.kernel, work_.grid.launch, outcome_, work_.grid.reached, {}};
    BlockRun block(own, stacks_);
    while ((block_ = work_.next++) < work_.failed) {
      if (!block.run(place_of(own.launch, block_).at)) return fail();
    }
  }

  void fail() {
    std::uint64_t lowest = work_.failed;
    while (block_ < lowest && !work_.failed.compare_exchange_weak(lowest, block_)) {
    }
  }

  Work& work_;
  Stacks& stacks_;
  Outcome outcome_;
  std::uint64_t block_ = 0;
};

// The program's signals are for its own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Starts as many threads as the system permits.
std::vector<std::thread> start(std::vector<Worker>& workers) {
  const SignalsBlocked blocked;
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  try {
    for (Worker& worker : workers) threads.emplace_back([&worker] { worker.run(); });
  } catch (const std::system_error&) {  // a limit of the user or of the control group: those that there are do it all
  }
  return threads;
}

// This thread runs no block: a fault of the host would jump out of here while the others run. False: no threads.
bool run_at_once(GridRun& grid, StackPools& stacks, std::uint64_t first, std::uint64_t blocks) {
  Work work{grid, blocks, first, blocks};
  const std::size_t count = std::min<std::uint64_t>(std::min(grid.launch.cores, kMostWorkers), blocks - first);
  std::vector<Worker> workers;
  workers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) workers.emplace_back(work, stacks.of(i));
  std::vector<std::thread> threads = start(workers);
  if (threads.empty()) return false;
  for (std::thread& thread : threads) thread.join();
  for (const Worker& worker : workers) {
    grid.outcome.instructions += worker.outcome().instructions;
    grid.outcome.counts += worker.outcome().counts;
    if (worker.outcome().fault == Fault::kNone || worker.last_block() != work.failed) continue;
    grid.outcome.fault = worker.outcome().fault;
    grid.outcome.address = worker.outcome().address;
    std::copy(std::begin(worker.outcome().message), std::end(worker.outcome().message), grid.outcome.message);
  }
  return true;
}

}  // namespace

void run_independent_blocks(GridRun& grid, StackPools& stacks) {
  const Launch& launch = grid.launch;
  const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  bool may_be_at_once = launch.cores > 1 && !grid.kernel.emitted.is_ordered && launch.traced == nullptr;
  BlockRun block(grid, stacks.of(0));
  for (std::uint64_t number = 0; number < blocks; ++number) {
    if (may_be_at_once && grid.outcome.instructions >= kWorthThreads && number + 1 < blocks) {
      if (run_at_once(grid, stacks, number, blocks)) return;
      may_be_at_once = false;
    }
    if (!block.run(place_of(launch, number).at)) return;
  }
}

}  // namespace simulator::ptx
