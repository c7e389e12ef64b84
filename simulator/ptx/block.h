// SPDX-License-Identifier: Apache-2.0
// A running block: its threads, what they wait for, and how they end. Threads that never wait for one another run one
// after the other on one stack. Otherwise each thread has a stack of its own, and they run in order of their numbers
// until they wait. Nothing depends on time or on the host's cores.
//
// Invariants: a thread is in one state; a lane waits for one operation of its warp, or its thread at one barrier.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator/ptx/cluster.h"
#include "simulator/ptx/context.h"
#include "simulator/ptx/fiber.h"
#include "simulator/ptx/interface.h"
#include "simulator/ptx/reached.h"
#include "simulator/ptx/warp_operation.h"

namespace simulator::ptx {

struct Kernel;  // compiled (kernel.h)

// The reserve of each stack: for helpers, and for signal handlers of the host.
inline constexpr std::uint64_t kStackReserve = std::uint64_t{48} << 10;

// The data that all blocks of a launch share.
struct GridRun {
  const Kernel& kernel;
  const Launch& launch;
  Outcome& outcome;
  Reached& reached;
  std::string printed;
  std::uint64_t clock_looks = 0;
  alignas(16) std::uint32_t workspace[4] = {};  // of a cooperative launch; its blocks wait at the second word
  std::map<std::uint64_t, Texture> textures{};  // textures in use, whose memory has been checked
};

class BlockRun {
 public:
  // This block uses the stacks from `first_stack` on. `in_company`: its threads may wait for other blocks. `cluster`
  // outlives the block; nullptr: no block knows another one.
  BlockRun(GridRun& grid, Stacks& stacks, std::size_t first_stack = 0, bool in_company = false,
           ClusterRun* cluster = nullptr);
  ~BlockRun();
  BlockRun(const BlockRun&) = delete;
  BlockRun& operator=(const BlockRun&) = delete;

  // False: a fault, which is described in the outcome.
  bool run(const std::uint32_t (&at)[3]);

  // Runs the block in parts, for blocks that may wait for each other: pauses when all threads wait for other blocks.
  enum class Progress : std::uint8_t { kPaused, kDone, kFailed };
  bool begin(const std::uint32_t (&at)[3]);
  Progress go_on();
  bool has_moved() const { return has_moved_; }  // some thread, in the last go_on()
  void report_stuck();                           // no thread of this block, or of others, will ever go on
  void take_counts();                            // adds what was executed since the last call to the outcome
  std::size_t stacks() const { return contexts_.size(); }
  std::uint64_t shared_begin() const { return reinterpret_cast<std::uint64_t>(shared_base_); }
  std::uint64_t shared_bytes() const { return contexts_[0].shared_bytes; }
  void open_cluster_barrier();  // for all who wait at it

  // ---- called by the running thread, with its context
  std::uint64_t exchange(ThreadContext& thread, WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                         std::uint64_t second);
  enum class BarrierKind : std::uint32_t { kSync, kArrive, kCount, kAnd, kOr };
  std::uint32_t barrier(ThreadContext& thread, std::uint32_t id, std::uint32_t count, BarrierKind kind, bool value,
                        std::uint32_t site);
  void yield(ThreadContext& thread);
  void arrive_at_cluster(ThreadContext& thread);
  void wait_for_cluster(ThreadContext& thread);
  const ClusterRun& cluster() const { return cluster_ == nullptr ? nobody_ : *cluster_; }
  void tick(ThreadContext& thread, std::uint64_t steps);
  [[noreturn]] void end(ThreadContext& thread);
  [[noreturn]] void fail(ThreadContext& thread, Fault fault, std::uint64_t address, const std::string& what,
                         int site = -1);
  void access(ThreadContext& thread, std::uint64_t address, std::uint32_t kind, std::uint32_t site);
  // Makes all accesses of a span (spans.h); their sites have consecutive numbers.
  void access_span(ThreadContext& thread, std::uint64_t base, std::uint32_t first_site, std::uint32_t count);
  // Checks an access through a generic address, for helpers, as generated code does: faults, or returns.
  void check(ThreadContext& thread, std::uint64_t address, std::uint32_t bytes, bool writes, std::uint32_t site);
  // Checks a read of global memory, for helpers.
  void check_global(ThreadContext& thread, std::uint64_t address, std::uint32_t bytes, std::uint32_t site);
  // Faults if there is no texture or surface of this kind, or if its memory may not be accessed.
  const Texture& texture(ThreadContext& thread, std::uint64_t handle, bool is_surface, std::uint32_t site);
  void trace_surface(std::uint64_t address, std::uint64_t bytes, bool writes);
  GridRun& grid() { return grid_; }

 private:
  enum class State : std::uint8_t { kReady, kYielded, kAtWarp, kAtBarrier, kAtCluster, kDone };
  struct Thread {
    State state = State::kReady;
    WarpOperation operation = WarpOperation::kSync;
    std::uint32_t mask = 0;
    std::uint64_t value = 0, second = 0, result = 0;
    std::uint32_t barrier = 0;
    std::optional<std::uint64_t> cluster_phase{};  // of its last arrival at the cluster's barrier
    Fiber fiber;
  };
  struct Warp {
    std::uint32_t live = 0;     // lanes that have not ended
    std::uint32_t waiting = 0;  // lanes in state kAtWarp
  };
  struct Barrier {
    std::uint32_t arrived = 0;
    std::uint32_t expected = 0;  // 0: all
    std::uint32_t trues = 0;
    std::vector<std::uint32_t> of_warp;  // number arrived, by warp
  };

  void set_up(ThreadContext& context, std::uint32_t thread);
  void go_to_next_thread(ThreadContext& context) const;
  void set_cluster(ThreadContext& context) const;
  void begin_together();
  bool run_one_by_one();
  bool run_warp(std::uint32_t warp);
  void pause(Thread& thread, State state);
  void finish_operations(std::uint32_t warp);
  bool is_complete(std::uint32_t warp, std::uint32_t mask, WarpOperation operation) const;
  void complete(std::uint32_t warp, std::uint32_t mask, WarpOperation operation);
  void work_on_words(std::uint32_t warp, std::uint32_t members);
  bool release_active(std::uint32_t warp);
  void check_barrier(std::uint32_t id);
  [[noreturn]] void stop(ThreadContext& thread);
  // Shared memory (the cluster's included), local memory, parameters.
  bool is_own_memory(const ThreadContext& thread, std::uint64_t address, std::uint64_t bytes, std::uint32_t kind) const;

  GridRun& grid_;
  Stacks& stacks_;
  const std::size_t first_stack_;
  const bool in_company_;
  ClusterRun* const cluster_;
  const ClusterRun nobody_{};
  std::uint32_t threads_ = 0;
  std::uint32_t live_ = 0;
  std::uint32_t at_[3] = {};
  std::vector<ThreadContext> contexts_;
  std::vector<Thread> states_;
  std::vector<Warp> warps_;
  std::vector<Barrier> barriers_;
  std::uint32_t awaited_ = 0;  // a bit for each barrier at which somebody has arrived
  std::vector<std::byte> shared_;
  std::byte* shared_base_ = nullptr;
  Fiber alone_;  // for threads that run one after the other
  bool has_failed_ = false;
  bool has_moved_ = false;
};

}  // namespace simulator::ptx
