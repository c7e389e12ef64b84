// SPDX-License-Identifier: Apache-2.0
// The device's time line: operations with dependencies, on engines, executed in order of virtual time or, with a seed,
// in any order that the dependencies allow.
//
// Order of time is a discrete-event simulation. An operation becomes ready at the latest of its submission and the ends
// of its dependencies. An engine executes the operations that are ready, in order of that time, one at a time. Nothing
// after the given time is committed, since a later submission could still come first. An operation's effects happen at
// its end.
//
// Adversarial order gives each stream a random priority and runs the ready operation whose stream has the highest one;
// at random moments all priorities are drawn again. So one stream runs far ahead while another starves, which finds a
// missing wait much sooner than a random choice at each step (the idea of Burckhardt et al., A randomized scheduler
// with probabilistic guarantees of finding bugs, ASPLOS 2010).
//
// The effects of a conditional node, of a kernel whose code runs, and of a kernel that may or may not write host
// memory, happen at its start, because its duration is known only then. It still counts as executed at its end.
//
// An operation that waits for a value is blocked, once it is ready, until Effects::may_go_on returns true; this is
// checked whenever something has happened, and on request. The same holds for a host function that has not returned.
//
// Invariants (checked by validate()): dependencies refer to earlier operations only; an operation waits for as many
// operations as have an edge to it; it is ready, running or blocked when it waits for none; every operation below
// `base_` is completed.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "simulator/core/random.h"
#include "simulator/core/streams/operation.h"
#include "simulator/core/types.h"

namespace simulator {

enum class Engine : std::uint8_t { kCompute, kToDevice, kToHost, kNone };
inline constexpr std::size_t kEngines = 3;  // of each device: the engines that execute one operation at a time

struct Operation {
  OperationId id = 0;
  StreamId stream = 0;
  DeviceId device = 0;       // that executes it: its stream's
  DeviceId served_by = 0;    // the device whose engine is used
  std::uint64_t branch = 0;  // of a graph: which of its nodes
  Engine engine = Engine::kNone;
  bool completed = false;
  bool executed = false;    // its effects have happened
  bool is_running = false;  // its effects happened at its start, and its end is still to come
  Time submitted = 0;
  Time duration = 0;
  Time ready = 0;
  Time end = 0;
  std::uint32_t waits_for = 0;
  std::uint32_t first_edge = 0;  // list of the operations that wait for this one; 0: none
  // Slots of registered buffers that were fresh at submission and that this operation accesses (memory/buffers.h).
  boost::container::small_vector<std::uint32_t, 2> fresh_buffers;
  // Slots of fresh buffers that it does not name, but may access.
  boost::container::small_vector<std::uint32_t, 2> other_fresh_buffers;
  Work work;
};

// The effects of operations. Called by the timeline; nothing may be submitted to it meanwhile.
class Effects {
 public:
  virtual void execute(Operation& operation) = 0;    // once, at the end or early (run_early)
  virtual void completed(Operation& operation) = 0;  // once, when the time line has passed its end
  // For an operation that waits for a value: whether the value is there. For a host function, which begins at the first
  // such call: whether it has returned.
  virtual bool may_go_on(Operation&) { return true; }

 protected:
  ~Effects() = default;
};

class Timeline {
 public:
  // With a seed: adversarial order.
  Timeline(Effects& effects, std::optional<std::uint64_t> seed, DeviceId devices = 1);

  OperationId submit(Operation operation, std::span<const OperationId> after);

  // Executes everything that ends by `now`; in adversarial order, any allowed amount.
  void run_until(Time now);
  // Runs until the operation is completed; returns its end, 0 if it had completed before. Nothing: it is ordered after
  // a blocked operation, and everything else has been executed.
  std::optional<Time> finish(OperationId id);
  // Returns the last end, 0 if nothing was pending.
  std::optional<Time> finish_all();
  // Finishes the device's operations, and everything that they wait for. Returns the end of the last one, 0 if nothing
  // was pending.
  std::optional<Time> finish_device(DeviceId device);
  // Executes all effects now, in order of submission. The time line does not advance: times and order stay what they
  // would have been.
  void run_early();

  bool completed(OperationId id) const { return id < base_ || at(id).completed; }
  bool executed(OperationId id) const { return id < base_ || (at(id).executed && !at(id).is_running); }
  bool has_unexecuted() const { return unexecuted_ + started_ > 0; }
  // The first operation that waits for a value; null: none does, or a host function has not returned.
  const Operation* first_blocked() const;
  bool idle() const { return base_ == next_; }
  OperationId newest() const { return next_ - 1; }

  Time last_end() const { return last_end_; }
  std::uint64_t order_hash() const { return order_hash_; }
  std::uint64_t completed_count() const { return completed_count_; }
  // The sum over all devices.
  Time busy(Engine engine) const { return busy_[static_cast<std::size_t>(engine)]; }

  void validate() const;

 private:
  struct Edge {
    OperationId waiter;
    std::uint32_t next;
  };
  struct Ready {
    Time time;
    OperationId id;
    bool operator>(const Ready& other) const { return time != other.time ? time > other.time : id > other.id; }
  };
  using Queue = std::vector<Ready>;  // a heap, earliest first

  static constexpr std::size_t kBlock = 256;  // operations

  Operation& at(OperationId id) { return blocks_[id / kBlock & (blocks_.size() - 1)][id % kBlock]; }
  const Operation& at(OperationId id) const { return blocks_[id / kBlock & (blocks_.size() - 1)][id % kBlock]; }
  void begin_block();
  void add_edge(OperationId from, OperationId waiter);
  void become_ready(Operation& operation);
  void enqueue(const Operation& operation);
  bool must_block(Operation& operation);
  void release_blocked(Time now);
  bool run_early_once();
  void execute(Operation& operation);
  void determine_duration(Operation& operation);
  void execute_at_start(Operation& operation);
  void has_run(Operation& operation);
  void complete(Operation& operation);
  bool step(Time limit);
  void start_next(std::size_t lane);
  static std::size_t lane(const Operation& operation) {
    return operation.served_by * kEngines + static_cast<std::size_t>(operation.engine);
  }
  std::size_t pick_at_random();
  void step_at_random();

  Effects& effects_;
  std::optional<Random> random_;
  // A ring of blocks, whose number is a power of two. However many operations are pending, none is moved.
  std::vector<std::unique_ptr<Operation[]>> blocks_;
  OperationId base_ = 1;  // the oldest operation that is not completed
  OperationId next_ = 1;
  std::vector<Edge> edges_;  // [0] unused
  std::uint32_t free_edges_ = 0;
  // By device and engine: see lane().
  std::vector<Queue> queues_;
  Queue instants_;                    // ready operations that use no engine
  std::vector<OperationId> running_;  // 0: idle
  std::vector<Time> engine_free_;
  std::vector<OperationId> allowed_;  // adversarial: ready operations
  std::uint64_t favour_ = 0;          // adversarial: seed of the present priorities
  std::vector<OperationId> blocked_;
  Time host_time_ = 0;  // as far as it is known here
  std::array<Time, kEngines + 1> busy_{};
  Time last_end_ = 0;
  std::uint64_t unexecuted_ = 0;
  std::uint64_t started_ = 0;  // operations that are running
  std::uint64_t completed_count_ = 0;
  std::uint64_t order_hash_ = 0;
};

}  // namespace simulator
