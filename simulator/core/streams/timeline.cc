// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/timeline.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "simulator/core/check.h"
#include "simulator/core/streams/conditional.h"

namespace simulator {
namespace {

constexpr Time kForever = std::numeric_limits<Time>::max();
constexpr std::size_t kFirstBlocks = 1;

template <typename Queue, typename Item>
void push(Queue& queue, Item item) {
  queue.push_back(item);
  std::push_heap(queue.begin(), queue.end(), std::greater<>());
}

template <typename Queue>
auto pop(Queue& queue) {
  std::pop_heap(queue.begin(), queue.end(), std::greater<>());
  const auto item = queue.back();
  queue.pop_back();
  return item;
}

}  // namespace

Timeline::Timeline(Effects& effects, std::optional<std::uint64_t> seed, DeviceId devices)
    : effects_(effects),
      blocks_(kFirstBlocks),
      edges_(1),
      queues_(devices * kEngines),
      running_(queues_.size()),
      engine_free_(queues_.size()) {
  begin_block();
  if (seed) random_.emplace(*seed);
}

// Called when the next operation is the first of a block.
void Timeline::begin_block() {
  const OperationId oldest = base_ / kBlock, newest = next_ / kBlock;
  if (newest - oldest == blocks_.size()) {
    std::vector<std::unique_ptr<Operation[]>> larger(blocks_.size() * 2);
    for (OperationId block = oldest; block < newest; ++block) {
      larger[block & (larger.size() - 1)] = std::move(blocks_[block & (blocks_.size() - 1)]);
    }
    blocks_ = std::move(larger);
  }
  std::unique_ptr<Operation[]>& block = blocks_[newest & (blocks_.size() - 1)];
  if (block == nullptr) block = std::make_unique<Operation[]>(kBlock);
}

void Timeline::add_edge(OperationId from, OperationId waiter) {
  std::uint32_t edge = free_edges_;
  if (edge != 0) {
    free_edges_ = edges_[edge].next;
  } else {
    edge = static_cast<std::uint32_t>(edges_.size());
    edges_.emplace_back();
  }
  edges_[edge] = {waiter, at(from).first_edge};
  at(from).first_edge = edge;
}

OperationId Timeline::submit(Operation operation, std::span<const OperationId> after) {
  if (next_ % kBlock == 0) begin_block();
  const OperationId id = next_++;
  Operation& slot = at(id);
  slot = std::move(operation);
  slot.id = id;
  slot.ready = slot.submitted;
  host_time_ = std::max(host_time_, slot.submitted);
  for (const OperationId dependency : after) {
    SIMULATOR_CHECK(dependency < id, "an operation depends on earlier ones only");
    if (completed(dependency)) continue;
    add_edge(dependency, id);
    ++slot.waits_for;
  }
  ++unexecuted_;
  if (slot.waits_for == 0) become_ready(slot);
  // A device may be arbitrarily fast: some operations run before the host does anything else.
  if (random_ && random_->one_in(8)) run_until(0);
  return id;
}

bool Timeline::must_block(Operation& operation) {
  const bool may_wait =
      std::holds_alternative<WaitValue>(operation.work) || std::holds_alternative<HostFunction>(operation.work);
  return may_wait && !operation.executed && !effects_.may_go_on(operation);
}

const Operation* Timeline::first_blocked() const {
  const Operation* waits = nullptr;
  for (const OperationId id : blocked_) {
    if (std::holds_alternative<HostFunction>(at(id).work)) return nullptr;
    if (waits == nullptr) waits = &at(id);
  }
  return waits;
}

// A host function begins when it is its turn.
void Timeline::become_ready(Operation& operation) {
  if (std::holds_alternative<WaitValue>(operation.work) && must_block(operation)) {
    blocked_.push_back(operation.id);
  } else {
    enqueue(operation);
  }
}

// An operation that has seen its value continues, even if the value changes afterwards.
void Timeline::release_blocked(Time now) {
  for (std::size_t i = 0; i < blocked_.size();) {
    Operation& operation = at(blocked_[i]);
    if (must_block(operation)) {
      ++i;
      continue;
    }
    blocked_.erase(blocked_.begin() + static_cast<std::ptrdiff_t>(i));
    operation.ready = std::max(operation.ready, now);
    enqueue(operation);
  }
}

void Timeline::enqueue(const Operation& operation) {
  if (random_) {
    allowed_.push_back(operation.id);
    return;
  }
  Queue& queue = operation.engine == Engine::kNone ? instants_ : queues_[lane(operation)];
  push(queue, Ready{operation.ready, operation.id});
}

void Timeline::execute(Operation& operation) {
  if (operation.executed) return;
  operation.executed = true;
  --unexecuted_;
  effects_.execute(operation);
}

void Timeline::execute_at_start(Operation& operation) {
  if (operation.executed) return;
  execute(operation);
  operation.is_running = true;
  ++started_;
}

void Timeline::has_run(Operation& operation) {
  if (std::exchange(operation.is_running, false)) --started_;
}

void Timeline::determine_duration(Operation& operation) {
  if (const auto* const conditional = std::get_if<Conditional>(&operation.work)) {
    execute_at_start(operation);
    operation.duration = conditional->node->took;
  } else if (const auto* const kernel = std::get_if<Kernel>(&operation.work); kernel != nullptr) {
    if (kernel->is_counted) {
      execute_at_start(operation);
      operation.duration = kernel->took;
    } else if (kernel->writing > 0) {
      execute_at_start(operation);
      if (kernel->wrote) operation.duration += kernel->writing;
    }
  }
}

void Timeline::complete(Operation& operation) {
  execute(operation);
  operation.completed = true;
  has_run(operation);
  busy_[static_cast<std::size_t>(operation.engine)] += operation.duration;
  last_end_ = std::max(last_end_, operation.end);
  order_hash_ = combine(order_hash_, operation.id);
  ++completed_count_;
  effects_.completed(operation);
  std::uint32_t edge = std::exchange(operation.first_edge, 0);
  while (edge != 0) {
    Operation& waiter = at(edges_[edge].waiter);
    waiter.ready = std::max(waiter.ready, operation.end);
    if (--waiter.waits_for == 0) become_ready(waiter);
    const std::uint32_t following = edges_[edge].next;
    edges_[edge].next = std::exchange(free_edges_, edge);
    edge = following;
  }
  operation.work = Marker{};
  operation.fresh_buffers.clear();
  operation.other_fresh_buffers.clear();
  if (!blocked_.empty()) release_blocked(operation.end);
  while (base_ < next_ && at(base_).completed) ++base_;
}

void Timeline::start_next(std::size_t lane) {
  const Ready next = pop(queues_[lane]);
  Operation& operation = at(next.id);
  determine_duration(operation);
  operation.end = std::max(engine_free_[lane], next.time) + operation.duration;
  running_[lane] = next.id;
  engine_free_[lane] = operation.end;
}

// Executes the earliest step that can happen by `limit`. At equal times completions come first, since they make others
// ready, and starts last.
bool Timeline::step(Time limit) {
  Time earliest = kForever;
  std::size_t completes = queues_.size();
  std::size_t starts = queues_.size();
  for (std::size_t lane = 0; lane < queues_.size(); ++lane) {
    if (running_[lane] == 0 || engine_free_[lane] >= earliest) continue;
    earliest = engine_free_[lane];
    completes = lane;
  }
  bool instant = false;
  if (!instants_.empty() && instants_.front().time < earliest) {
    earliest = instants_.front().time;
    instant = true;
  }
  for (std::size_t lane = 0; lane < queues_.size(); ++lane) {
    if (running_[lane] != 0 || queues_[lane].empty()) continue;
    const Time start = std::max(engine_free_[lane], queues_[lane].front().time);
    if (start >= earliest) continue;
    earliest = start;
    starts = lane;
  }
  if (earliest == kForever || earliest > limit) return false;
  if (starts < queues_.size()) {
    start_next(starts);
  } else if (instant) {
    const Ready next = pop(instants_);
    Operation& operation = at(next.id);
    if (must_block(operation)) {
      blocked_.push_back(next.id);
      return true;
    }
    operation.end = next.time + operation.duration;
    complete(operation);
  } else {
    complete(at(std::exchange(running_[completes], 0)));
  }
  return true;
}

std::size_t Timeline::pick_at_random() {
  if (random_->one_in(12)) favour_ = random_->next();
  std::size_t pick = 0;
  std::uint64_t highest = 0;
  for (std::size_t i = 0; i < allowed_.size(); ++i) {
    const Operation& operation = at(allowed_[i]);
    // Detached operations of one stream are unordered among themselves, so their engine distinguishes them.
    const std::uint64_t priority = mix(
        favour_ ^ combine(operation.stream + (operation.branch << 32), static_cast<std::uint64_t>(operation.engine)));
    if (priority <= highest) continue;
    highest = priority;
    pick = i;
  }
  return random_->one_in(12) ? random_->below(allowed_.size()) : pick;
}

void Timeline::step_at_random() {
  const std::size_t pick = pick_at_random();
  Operation& operation = at(allowed_[pick]);
  allowed_[pick] = allowed_.back();
  allowed_.pop_back();
  if (must_block(operation)) {
    blocked_.push_back(operation.id);
    return;
  }
  determine_duration(operation);
  // Times mean little in this order; they only never decrease.
  operation.end = std::max(operation.ready, last_end_) + operation.duration;
  complete(operation);
}

void Timeline::run_until(Time now) {
  host_time_ = std::max(host_time_, now);
  if (!blocked_.empty()) release_blocked(host_time_);
  if (random_) {
    while (!allowed_.empty() && !random_->one_in(3)) step_at_random();
    return;
  }
  while (step(now)) {
  }
}

std::optional<Time> Timeline::finish(OperationId id) {
  if (completed(id)) return 0;
  if (!blocked_.empty()) release_blocked(host_time_);
  while (!completed(id)) {
    if (random_ ? allowed_.empty() : !step(kForever)) {
      SIMULATOR_CHECK(!blocked_.empty(), "a pending operation has one before it that is ready, or stands");
      return std::nullopt;
    }
    if (random_) step_at_random();
  }
  return at(id).end;  // the slot is unchanged until a later submission reuses it
}

std::optional<Time> Timeline::finish_all() {
  if (idle()) return 0;
  while (!idle()) {
    if (!finish(base_)) return std::nullopt;
  }
  return last_end_;
}

std::optional<Time> Timeline::finish_device(DeviceId device) {
  Time last = 0;
  bool all = true;
  const OperationId newest = next_;
  for (OperationId id = base_; id < newest; id = std::max(id + 1, base_)) {
    if (completed(id) || at(id).device != device) continue;
    const std::optional<Time> end = finish(id);
    all &= end.has_value();
    last = std::max(last, end.value_or(0));
  }
  return all ? std::optional(last) : std::nullopt;
}

void Timeline::run_early() {
  while (run_early_once()) {
  }
}

// A running operation counts as executed from now on. True: a blocked operation may continue by now because of later
// work.
bool Timeline::run_early_once() {
  std::vector<bool> behind;  // by operation from base_ on: it is ordered after a blocked one
  std::vector<OperationId> stood;
  for (OperationId id = base_; id < next_ && unexecuted_ + started_ > 0; ++id) {
    Operation& operation = at(id);
    has_run(operation);
    if (operation.executed) continue;
    const bool is_behind = !behind.empty() && behind[id - base_];
    if (!is_behind && !must_block(operation)) {
      execute(operation);
      continue;
    }
    if (!is_behind) stood.push_back(id);
    behind.resize(next_ - base_);
    for (std::uint32_t edge = operation.first_edge; edge != 0; edge = edges_[edge].next) {
      behind[edges_[edge].waiter - base_] = true;
    }
  }
  return std::any_of(stood.begin(), stood.end(), [this](OperationId id) { return !must_block(at(id)); });
}

void Timeline::validate() const {
  std::vector<std::uint32_t> waits(next_ - base_);
  std::uint64_t unexecuted = 0, started = 0;
  for (OperationId id = base_; id < next_; ++id) {
    const Operation& operation = at(id);
    SIMULATOR_CHECK(operation.id == id, "a slot holds the operation of its number");
    SIMULATOR_CHECK(!operation.completed || operation.executed, "what is completed has happened");
    unexecuted += operation.executed ? 0 : 1;
    started += operation.is_running ? 1 : 0;
    for (std::uint32_t edge = operation.first_edge; edge != 0; edge = edges_[edge].next) {
      SIMULATOR_CHECK(edges_[edge].waiter > id && edges_[edge].waiter < next_, "edges lead to later operations");
      ++waits[edges_[edge].waiter - base_];
    }
  }
  std::size_t queued = instants_.size() + allowed_.size() + blocked_.size();
  for (std::size_t lane = 0; lane < queues_.size(); ++lane)
    queued += queues_[lane].size() + (running_[lane] != 0 ? 1 : 0);
  for (OperationId id = base_; id < next_; ++id) {
    const Operation& operation = at(id);
    SIMULATOR_CHECK(operation.waits_for == waits[id - base_], "an operation waits for as many as lead to it");
    if (!operation.completed && operation.waits_for == 0) --queued;
  }
  SIMULATOR_CHECK(queued == 0, "what waits for nothing is ready, running or stands");
  SIMULATOR_CHECK(unexecuted == unexecuted_ && started == started_, "operations that have not happened are counted");
}

}  // namespace simulator
