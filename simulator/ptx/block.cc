// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/block.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulator/ptx/grid.h"
#include "simulator/ptx/kernel.h"
#include "simulator/ptx/matrix.h"

namespace simulator::ptx {
namespace {

constexpr std::uint32_t kLanes = 32;
constexpr std::size_t kSharedAlignment = 128;
constexpr std::uint32_t kBarriers = 16;
// A thread that may be waiting for another one yields after this many steps.
constexpr std::uint64_t kStepsOfATurn = 4096;

std::uint64_t round_up_to(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

BlockRun::~BlockRun() {
  if (cluster_ != nullptr) cluster_->leave(this);
}

BlockRun::BlockRun(GridRun& grid, Stacks& stacks, std::size_t first_stack, bool in_company, ClusterRun* cluster)
    : grid_(grid), stacks_(stacks), first_stack_(first_stack), in_company_(in_company), cluster_(cluster) {
  const Launch& launch = grid.launch;
  threads_ = launch.block[0] * launch.block[1] * launch.block[2];
  const bool together = grid.kernel.emitted.needs_fibers;
  contexts_.resize(together ? threads_ : 1);
  states_.resize(together ? threads_ : 1);
  const std::uint64_t fixed = grid.kernel.emitted.shared_bytes;
  const std::uint64_t bytes = (fixed == 0 ? 0 : round_up_to(fixed, kSharedAlignment)) + launch.dynamic_shared;
  shared_.resize(bytes + kSharedAlignment);
  const auto base = reinterpret_cast<std::uint64_t>(shared_.data());
  shared_base_ = shared_.data() + (round_up_to(base, kSharedAlignment) - base);
  for (ThreadContext& context : contexts_) {
    context = {};
    for (std::size_t i = 0; i < 3; ++i) {
      context.ntid[i] = launch.block[i];
      context.nctaid[i] = launch.grid[i];
    }
    context.parameters = reinterpret_cast<std::uint64_t>(launch.parameters);
    context.shared = reinterpret_cast<std::uint64_t>(shared_base_);
    context.shared_bytes = bytes;
    context.dynamic_bytes = launch.dynamic_shared;
    context.pages = reinterpret_cast<std::uint64_t>(grid.reached.table());
    context.grid_id = launch.grid_id;
    context.block = this;
    if (launch.is_cooperative) context.grid_workspace = reinterpret_cast<std::uint64_t>(grid.workspace);
  }
}

void BlockRun::set_up(ThreadContext& context, std::uint32_t thread) {
  const Launch& launch = grid_.launch;
  context.tid[0] = thread % launch.block[0];
  context.tid[1] = thread / launch.block[0] % launch.block[1];
  context.tid[2] = thread / launch.block[0] / launch.block[1];
  std::copy(std::begin(at_), std::end(at_), std::begin(context.ctaid));
  set_cluster(context);
  context.lane = thread % kLanes;
  context.warp = thread / kLanes;
  context.thread = thread;
  const bool waits = grid_.kernel.emitted.may_wait && grid_.kernel.emitted.needs_fibers;
  context.step_limit = waits ? std::min(kStepsOfATurn, launch.most_steps) : launch.most_steps;
  const std::size_t stack = first_stack_ + (contexts_.size() == 1 ? 0 : thread);
  context.stack_low = stacks_.low(stack) + kStackReserve;
  context.stack_high = stacks_.high(stack);
}

// As set_up(), for the thread after the one that the context is set up for.
void BlockRun::go_to_next_thread(ThreadContext& context) const {
  const Launch& launch = grid_.launch;
  ++context.thread;
  context.lane = context.thread % kLanes;
  context.warp = context.thread / kLanes;
  if (++context.tid[0] < launch.block[0]) return;
  context.tid[0] = 0;
  if (++context.tid[1] < launch.block[1]) return;
  context.tid[1] = 0;
  ++context.tid[2];
}

void BlockRun::set_cluster(ThreadContext& context) const {
  if (!grid_.kernel.emitted.uses_clusters) return;
  std::uint32_t shape[3];
  cluster_shape(grid_.kernel, grid_.launch, shape);
  context.is_explicit_cluster = grid_.launch.cluster[0] != 0 || grid_.kernel.cluster[0] != 0 ? 1 : 0;
  for (std::size_t i = 0; i < 3; ++i) {
    context.cluster_nctaid[i] = shape[i];
    context.cluster_ctaid[i] = at_[i] % shape[i];
    context.clusterid[i] = at_[i] / shape[i];
    context.nclusterid[i] = grid_.launch.grid[i] / shape[i];
  }
  const std::uint32_t(&at)[3] = context.cluster_ctaid;
  context.cluster_ctarank = at[0] + shape[0] * (at[1] + shape[1] * at[2]);
  context.cluster_nctarank = shape[0] * shape[1] * shape[2];
}

bool BlockRun::run(const std::uint32_t (&at)[3]) {
  if (!begin(at)) return false;
  const bool completed = grid_.kernel.emitted.needs_fibers ? go_on() == Progress::kDone : run_one_by_one();
  take_counts();
  return completed;
}

void BlockRun::take_counts() {
  for (ThreadContext& context : contexts_) {
    grid_.outcome.instructions += std::exchange(context.steps, 0);
    grid_.outcome.counts += std::exchange(context.counts, {});
  }
}

bool BlockRun::begin(const std::uint32_t (&at)[3]) {
  std::copy(std::begin(at), std::end(at), std::begin(at_));
  if (!stacks_.provide(first_stack_ + contexts_.size())) {
    grid_.outcome.fault = Fault::kStackOverflow;
    std::snprintf(grid_.outcome.message, kMessageBytes, "no memory for the stacks of kernel '%s'",
                  grid_.kernel.name.c_str());
    return false;
  }
  // On a device the initial contents are arbitrary; here they are zero, so that every run is the same.
  std::fill(shared_.begin(), shared_.end(), std::byte{0});
  if (grid_.kernel.emitted.needs_fibers) begin_together();
  if (cluster_ != nullptr) cluster_->add(this, threads_);
  return true;
}

bool BlockRun::run_one_by_one() {
  alone_.prepare(
      stacks_.high(first_stack_),
      [](void* data) {
        auto* const self = static_cast<BlockRun*>(data);
        ThreadContext& context = self->contexts_[0];
        const KernelEntry entry = self->grid_.kernel.entry;
        self->set_up(context, 0);
        for (std::uint32_t thread = 0; thread < self->threads_; ++thread) {
          entry(&context);
          self->go_to_next_thread(context);
        }
        self->alone_.pause();
      },
      this);
  alone_.resume();
  return !has_failed_;
}

void BlockRun::begin_together() {
  live_ = threads_;
  barriers_.assign(kBarriers, {});
  awaited_ = 0;
  const std::uint32_t warps = (threads_ + kLanes - 1) / kLanes;
  for (Barrier& barrier : barriers_) barrier.of_warp.assign(warps, 0);
  warps_.assign(warps, {});
  for (std::uint32_t thread = 0; thread < threads_; ++thread) {
    set_up(contexts_[thread], thread);
    warps_[thread / kLanes].live |= 1u << thread % kLanes;
    states_[thread].state = State::kReady;
    states_[thread].fiber.prepare(
        stacks_.high(first_stack_ + thread),
        [](void* data) {
          auto* const context = static_cast<ThreadContext*>(data);
          context->block->grid_.kernel.entry(context);
          context->block->end(*context);
        },
        &contexts_[thread]);
  }
}

BlockRun::Progress BlockRun::go_on() {
  has_moved_ = false;
  while (live_ > 0) {
    bool ran = false;
    for (std::uint32_t warp = 0; warp < warps_.size(); ++warp) {
      ran = run_warp(warp) || ran;
      if (has_failed_) return Progress::kFailed;
    }
    has_moved_ = has_moved_ || ran;
    if (ran) continue;
    bool yielded = false, at_cluster = false;
    for (Thread& thread : states_) {
      at_cluster = at_cluster || thread.state == State::kAtCluster;
      if (thread.state != State::kYielded) continue;
      thread.state = State::kReady;
      yielded = true;
    }
    if (yielded && in_company_) return Progress::kPaused;
    if (yielded) continue;
    if (at_cluster) return Progress::kPaused;
    report_stuck();
    return Progress::kFailed;
  }
  return Progress::kDone;
}

// Runs until no thread of the warp can continue.
bool BlockRun::run_warp(std::uint32_t warp) {
  const std::uint32_t first = warp * kLanes, end = std::min(first + kLanes, threads_);
  bool ran = false;
  do {
    bool ran_now = false;
    for (std::uint32_t thread = first; thread < end; ++thread) {
      if (states_[thread].state != State::kReady) continue;
      ran_now = true;
      states_[thread].fiber.resume();
      if (has_failed_) return true;
    }
    if (!ran_now && !release_active(warp)) return ran;
    ran = true;
  } while (true);
}

void BlockRun::pause(Thread& thread, State state) {
  thread.state = state;
  thread.fiber.pause();
}

void BlockRun::yield(ThreadContext& context) {
  if (!grid_.kernel.emitted.needs_fibers) return;
  pause(states_[context.thread], State::kYielded);
}

void BlockRun::arrive_at_cluster(ThreadContext& context) {
  if (cluster_ == nullptr) return;
  states_[context.thread].cluster_phase = cluster_->arrive();
}

// A thread that has not arrived does not wait.
void BlockRun::wait_for_cluster(ThreadContext& context) {
  Thread& thread = states_[context.thread];
  if (cluster_ == nullptr || !thread.cluster_phase || cluster_->is_over(*thread.cluster_phase)) return;
  pause(thread, State::kAtCluster);
}

void BlockRun::open_cluster_barrier() {
  for (Thread& thread : states_) {
    if (thread.state == State::kAtCluster) thread.state = State::kReady;
  }
}

void BlockRun::tick(ThreadContext& context, std::uint64_t steps) {
  const bool waits = grid_.kernel.emitted.may_wait && grid_.kernel.emitted.needs_fibers;
  if (!waits || steps >= grid_.launch.most_steps)
    fail(context, Fault::kTimeout, 0,
         "runs without end (more than " + std::to_string(steps) + " instructions in one loop)");
  context.step_limit = steps + kStepsOfATurn;
  yield(context);
}

void BlockRun::end(ThreadContext& context) {
  Thread& thread = states_[context.thread];
  thread.state = State::kDone;
  --live_;
  warps_[context.warp].live &= ~(1u << context.lane);
  if (cluster_ != nullptr) cluster_->end_thread(thread.cluster_phase);
  finish_operations(context.warp);
  for (std::uint32_t rest = awaited_; rest != 0; rest &= rest - 1)
    check_barrier(static_cast<std::uint32_t>(std::countr_zero(rest)));
  thread.fiber.pause();
  __builtin_unreachable();
}

// ---- warps

bool BlockRun::is_complete(std::uint32_t warp, std::uint32_t mask, WarpOperation operation) const {
  if (operation == WarpOperation::kActive) return false;
  const std::uint32_t members = mask & warps_[warp].live;
  if ((members & ~warps_[warp].waiting) != 0) return false;
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const Thread& thread = states_[warp * kLanes + static_cast<std::uint32_t>(std::countr_zero(rest))];
    if (thread.mask != mask || thread.operation != operation) return false;
  }
  return true;
}

void BlockRun::finish_operations(std::uint32_t warp) {
  for (std::uint32_t rest = warps_[warp].waiting; rest != 0; rest &= rest - 1) {
    const Thread& waiting = states_[warp * kLanes + static_cast<std::uint32_t>(std::countr_zero(rest))];
    if (waiting.state == State::kAtWarp && is_complete(warp, waiting.mask, waiting.operation))
      complete(warp, waiting.mask, waiting.operation);
  }
}

bool BlockRun::release_active(std::uint32_t warp) {
  std::uint32_t mask = 0;
  for (std::uint32_t rest = warps_[warp].waiting; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    const Thread& thread = states_[warp * kLanes + lane];
    if (thread.operation == WarpOperation::kActive) mask |= 1u << lane;
  }
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Thread& thread = states_[warp * kLanes + static_cast<std::uint32_t>(std::countr_zero(rest))];
    thread.result = mask;
    thread.state = State::kReady;
  }
  warps_[warp].waiting &= ~mask;
  return mask != 0;
}

std::uint64_t BlockRun::exchange(ThreadContext& context, WarpOperation operation, std::uint32_t mask,
                                 std::uint64_t value, std::uint64_t second) {
  Thread& thread = states_[context.thread];
  thread.operation = operation;
  thread.mask = operation == WarpOperation::kActive ? 0 : mask | 1u << context.lane;
  thread.value = value;
  thread.second = second;
  thread.state = State::kAtWarp;
  warps_[context.warp].waiting |= 1u << context.lane;
  if (is_complete(context.warp, thread.mask, operation)) {
    complete(context.warp, thread.mask, operation);
  } else {
    thread.fiber.pause();
  }
  return thread.result;
}

namespace {

constexpr std::uint64_t kFlag = std::uint64_t{1} << 32;

// PTX ISA 9.0, 9.7.9.6: the lane that a lane reads, and whether that is inside of its segment.
std::uint32_t shuffled_lane(WarpOperation operation, std::uint32_t lane, std::uint64_t second, bool* inside) {
  const auto b = static_cast<std::uint32_t>(second & 31), c = static_cast<std::uint32_t>(second >> 32);
  const std::uint32_t clamp = c & 31, segment = c >> 8 & 31;
  const std::uint32_t most = (lane & segment) | (clamp & ~segment);
  const std::uint32_t least = lane & segment;
  std::uint32_t from = lane;
  switch (operation) {
    case WarpOperation::kShuffleUp:
      // For this operation the clamp is the lowest lane.
      from = lane - b;
      *inside = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(most);
      break;
    case WarpOperation::kShuffleDown:
      from = lane + b;
      *inside = from <= most;
      break;
    case WarpOperation::kShuffleXor:
      from = lane ^ b;
      *inside = from <= most;
      break;
    default:
      from = least | (b & ~segment);
      *inside = from <= most;
  }
  return *inside ? from : lane;
}

std::uint32_t reduced(WarpOperation operation, std::uint32_t a, std::uint32_t b) {
  const auto x = static_cast<std::int32_t>(a), y = static_cast<std::int32_t>(b);
  switch (operation) {
    case WarpOperation::kSum:
      return a + b;
    case WarpOperation::kSignedMin:
      return x < y ? a : b;
    case WarpOperation::kSignedMax:
      return x > y ? a : b;
    case WarpOperation::kUnsignedMin:
      return std::min(a, b);
    case WarpOperation::kUnsignedMax:
      return std::max(a, b);
    case WarpOperation::kAnd:
      return a & b;
    case WarpOperation::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

}  // namespace

// Applies the operation to the lanes that are present.
void BlockRun::work_on_words(std::uint32_t warp, std::uint32_t members) {
  Thread* const threads = &states_[std::size_t{warp} * kLanes];
  const Thread& first = threads[std::countr_zero(members)];
  std::uint32_t* lanes[kLanes] = {};
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    lanes[lane] = reinterpret_cast<std::uint32_t*>(threads[lane].value);
  }
  if (first.operation == WarpOperation::kMultiply) return multiply(MatrixShape::unpacked(first.second), lanes);
  move_rows(Rows::unpacked(first.second), lanes);
}

// NOLINTNEXTLINE(readability-function-size): a case an operation
void BlockRun::complete(std::uint32_t warp, std::uint32_t mask, WarpOperation operation) {
  Thread* const lanes = &states_[std::size_t{warp} * kLanes];
  const std::uint32_t members = mask & warps_[warp].live;
  warps_[warp].waiting &= ~members;
  const auto first = static_cast<std::uint32_t>(std::countr_zero(members));
  if (operation == WarpOperation::kMultiply || operation == WarpOperation::kRows) work_on_words(warp, members);
  std::uint32_t ballot = 0;
  auto all = static_cast<std::uint32_t>(lanes[first].value);
  bool same = true;
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (lanes[lane].value != 0) ballot |= 1u << lane;
    same = same && lanes[lane].value == lanes[first].value;
    if (lane != first) all = reduced(operation, all, static_cast<std::uint32_t>(lanes[lane].value));
  }
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    Thread& thread = lanes[lane];
    switch (operation) {
      case WarpOperation::kShuffleUp:
      case WarpOperation::kShuffleDown:
      case WarpOperation::kShuffleXor:
      case WarpOperation::kShuffleIndex: {
        bool inside = false;
        const std::uint32_t from = shuffled_lane(operation, lane, thread.second, &inside);
        // The value of a lane that takes no part is undefined; here it is its own.
        const bool takes_part = (members >> from & 1) != 0;
        thread.result = (takes_part ? lanes[from].value : thread.value) | (inside ? kFlag : 0);
        break;
      }
      case WarpOperation::kBallot:
        thread.result = ballot;
        break;
      case WarpOperation::kAll:
        thread.result = ballot == members ? 1 : 0;
        break;
      case WarpOperation::kAny:
        thread.result = ballot != 0 ? 1 : 0;
        break;
      case WarpOperation::kUniform:
        thread.result = ballot == 0 || ballot == members ? 1 : 0;
        break;
      case WarpOperation::kMatchAny: {
        std::uint32_t equal = 0;
        for (std::uint32_t others = members; others != 0; others &= others - 1) {
          const auto other = static_cast<std::uint32_t>(std::countr_zero(others));
          if (lanes[other].value == thread.value) equal |= 1u << other;
        }
        thread.result = equal;
        break;
      }
      case WarpOperation::kMatchAll:
        thread.result = same ? members | kFlag : 0;
        break;
      case WarpOperation::kElect:
        thread.result = first | (lane == first ? kFlag : 0);
        break;
      case WarpOperation::kSync:
      case WarpOperation::kMultiply:
      case WarpOperation::kRows:
      case WarpOperation::kActive:
        thread.result = 0;
        break;
      default:
        thread.result = all;
    }
    thread.state = State::kReady;
  }
}

// ---- barriers

std::uint32_t BlockRun::barrier(ThreadContext& context, std::uint32_t id, std::uint32_t count, BarrierKind kind,
                                bool value, std::uint32_t site) {
  if (id >= kBarriers)
    fail(context, Fault::kTrap, 0, "there is no barrier " + std::to_string(id), static_cast<int>(site));
  Barrier& barrier = barriers_[id];
  ++barrier.arrived;
  awaited_ |= 1u << id;
  ++barrier.of_warp[context.warp];
  barrier.expected = count;
  if (value) ++barrier.trues;
  Thread& thread = states_[context.thread];
  thread.barrier = id;
  // For the result: the query for the threads that have arrived.
  thread.value = static_cast<std::uint64_t>(kind);
  if (kind != BarrierKind::kArrive) thread.state = State::kAtBarrier;
  check_barrier(id);
  if (thread.state == State::kAtBarrier) thread.fiber.pause();
  return static_cast<std::uint32_t>(thread.result);
}

// Threads that have ended are not waited for. A warp counts as a whole, even if some of its lanes do not exist.
void BlockRun::check_barrier(std::uint32_t id) {
  Barrier& barrier = barriers_[id];
  if (barrier.expected == 0) {
    if (barrier.arrived < live_) return;
  } else {
    std::uint32_t counted = 0;
    for (std::uint32_t warp = 0; warp < barrier.of_warp.size(); ++warp) {
      const std::uint32_t arrived = barrier.of_warp[warp];
      if (arrived != 0)
        counted += arrived + kLanes - std::max(arrived, static_cast<std::uint32_t>(std::popcount(warps_[warp].live)));
    }
    if (counted < barrier.expected) return;
  }
  for (Thread& thread : states_) {
    if (thread.state != State::kAtBarrier || thread.barrier != id) continue;
    const auto kind = static_cast<BarrierKind>(thread.value);
    thread.result = kind == BarrierKind::kAnd  ? (barrier.trues == barrier.arrived ? 1 : 0)
                    : kind == BarrierKind::kOr ? (barrier.trues != 0 ? 1 : 0)
                                               : barrier.trues;
    thread.state = State::kReady;
  }
  const std::size_t warps = barrier.of_warp.size();
  barrier = {};
  barrier.of_warp.assign(warps, 0);
  awaited_ &= ~(1u << id);
}

// ---- ends

void BlockRun::report_stuck() {
  Outcome& outcome = grid_.outcome;
  outcome.fault = Fault::kTimeout;
  for (std::uint32_t thread = 0; thread < threads_; ++thread) {
    const Thread& state = states_[thread];
    if (state.state == State::kDone) continue;
    const std::string what = state.state == State::kAtBarrier   ? "barrier " + std::to_string(state.barrier)
                             : state.state == State::kAtCluster ? "the barrier of its cluster"
                                                                : "other lanes of its warp";
    std::snprintf(outcome.message, kMessageBytes,
                  "kernel '%s', block (%u, %u, %u): threads wait for one another: thread %u waits at %s, which the "
                  "others do not reach",
                  grid_.kernel.name.c_str(), at_[0], at_[1], at_[2], thread, what.c_str());
    return;
  }
}

void BlockRun::fail(ThreadContext& context, Fault fault, std::uint64_t address, const std::string& what, int site) {
  std::string text = "kernel '" + grid_.kernel.name + "', block (" + std::to_string(context.ctaid[0]) + ", " +
                     std::to_string(context.ctaid[1]) + ", " + std::to_string(context.ctaid[2]) + "), thread (" +
                     std::to_string(context.tid[0]) + ", " + std::to_string(context.tid[1]) + ", " +
                     std::to_string(context.tid[2]) + "): " + what;
  const auto& sites = grid_.kernel.emitted.sites;
  if (site >= 0 && static_cast<std::size_t>(site) < sites.size()) {
    const Site& at = sites[static_cast<std::size_t>(site)];
    text += ", '" + at.text + "' in line " + std::to_string(at.line) + " of its PTX";
    if (!at.source.empty()) text += ", " + at.source;
  }
  grid_.outcome.fault = fault;
  grid_.outcome.address = address;
  std::snprintf(grid_.outcome.message, kMessageBytes, "%s", text.c_str());
  stop(context);
}

// The fiber keeps its stack, and is restarted from the beginning when it is reused.
void BlockRun::stop(ThreadContext& context) {
  has_failed_ = true;
  if (grid_.kernel.emitted.needs_fibers) states_[context.thread].fiber.pause();
  alone_.pause();
  __builtin_unreachable();
}

}  // namespace simulator::ptx
