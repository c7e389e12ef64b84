// SPDX-License-Identifier: Apache-2.0
// Streams, events, queueing, waiting.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "simulator/core/execution/mixing.h"
#include "simulator/core/machine/machine.h"
#include "simulator/core/machine/machine_state.h"
#include "simulator/core/streams/conditional.h"
#include "simulator/core/streams/durations.h"

namespace simulator {
namespace {

// Removes completed operations now and then even if the host makes no queries.
constexpr OperationId kPollEvery = 1024;

constexpr std::chrono::microseconds kBetweenLooks{200};

// Visits every device range that a submission names.
template <typename Visit>
void for_ranges(const Work& work, Visit visit) {
  const auto extent = [](const Shape& shape) {
    return (shape.depth - 1) * shape.slice_pitch + (shape.height - 1) * shape.row_pitch + shape.width;
  };
  if (const auto* copy = std::get_if<Copy>(&work)) {
    if (copy->to_shape.bytes() == 0) return;
    if (copy->direction != Direction::kToHost) visit(copy->to, extent(copy->to_shape));
    if (copy->direction != Direction::kToDevice) visit(copy->from, extent(copy->from_shape));
  } else if (const auto* write = std::get_if<WriteValue>(&work)) {
    visit(write->to, write->bytes);
  } else if (const auto* wait = std::get_if<WaitValue>(&work)) {
    visit(wait->at, wait->bytes);
  } else if (const auto* set = std::get_if<Set>(&work)) {
    if (set->shape.bytes() > 0) visit(set->to, extent(set->shape));
  } else if (const auto* kernel = std::get_if<Kernel>(&work)) {
    for (const Buffer& buffer : kernel->named) visit(buffer.address, buffer.bytes);
    for (const Fetch& fetch : kernel->fetched) visit(fetch.address, extent(fetch.shape));
  } else if (const auto* op = std::get_if<Operator>(&work)) {
    for (const Operand& operand : op->operands) visit(operand.address, operand.bytes);
  } else if (const auto* conditional = std::get_if<Conditional>(&work)) {
    for (const Body& body : conditional->node->bodies) {
      for (const Step& step : body) for_ranges(step.work, visit);
    }
  }
}

Cost cost_of(const Work& work) {
  if (std::holds_alternative<Kernel>(work) || std::holds_alternative<Operator>(work)) return Cost::kLaunch;
  if (std::holds_alternative<Copy>(work) || std::holds_alternative<Set>(work)) return Cost::kCopy;
  return std::holds_alternative<HostFunction>(work) ? Cost::kCopy : Cost::kStreamCall;
}

// A kernel's code may access anything: its module's variables, and memory whose addresses it finds in memory.
bool runs_code(const Work& work) {
  if (const auto* kernel = std::get_if<Kernel>(&work)) return kernel->real != nullptr && !kernel->declared;
  const auto* conditional = std::get_if<Conditional>(&work);
  if (conditional == nullptr) return false;
  const auto& bodies = conditional->node->bodies;
  return std::any_of(bodies.begin(), bodies.end(), [](const Body& body) {
    return std::any_of(body.begin(), body.end(), [](const Step& step) { return runs_code(step.work); });
  });
}

}  // namespace

StreamId Machine::create_stream(bool non_blocking, DeviceId on) {
  charge(Cost::kStreamCall);
  const StreamId stream = device().streams.create(non_blocking, on);
  if (device().checker) device().checker->order().stream_created(stream, non_blocking, on);
  return stream;
}

void Machine::destroy_stream(StreamId stream) {
  charge(Cost::kStreamCall);
  device().streams.destroy(stream);
  if (device().checker) device().checker->order().stream_destroyed(stream);
}

bool Machine::stream_exists(StreamId stream) const { return device().streams.exists(stream); }
DeviceId Machine::device_of(StreamId stream) const { return device().streams.device(stream); }

void Machine::set_stream_resolver(StreamResolver resolver) { state_->resolver = resolver; }

CUresult Machine::resolve_stream(const void* handle, StreamId* out) const {
  if (state_->resolver != nullptr) return state_->resolver(handle, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value > ~StreamId{0} || !stream_exists(static_cast<StreamId>(value))) return CUDA_ERROR_INVALID_HANDLE;
  *out = static_cast<StreamId>(value);
  return CUDA_SUCCESS;
}

// A copy uses the link of the device whose memory it accesses.
void Machine::prepare_copy(Operation& operation, Copy& copy) {
  const Device& d = device();
  const auto as = [&](Address at) {
    const auto heap = std::find_if(d.heaps.begin(), d.heaps.begin() + d.settings.devices,
                                   [&](const auto& candidate) { return candidate->find(at).has_value(); });
    return heap == d.heaps.begin() + d.settings.devices ? operation.device : (*heap)->device();
  };
  const DeviceId from = owner_at(copy.from).value_or(operation.device);
  const DeviceId to = owner_at(copy.to).value_or(operation.device);
  operation.served_by = copy.direction == Direction::kToDevice ? to : from;
  copy.is_between_devices = is_between_devices(copy);
  if (!copy.from_as) copy.from_as = as(copy.from);
  if (!copy.to_as) copy.to_as = as(copy.to);
}

bool Machine::is_between_devices(const Copy& copy) const {
  return devices() > 1 && copy.direction == Direction::kOnDevice && owner_at(copy.from) != owner_at(copy.to);
}

Bytes Machine::external_bytes(const Work& work, DeviceId on) const {
  Bytes external = 0;
  if (devices() == 1) return external;
  for_ranges(work, [&](Address at, Bytes bytes) {
    if (owner_at(at).value_or(on) != on) external += bytes;
  });
  return external;
}

// In a legacy stream, the copy is ordered after everything submitted before to blocking streams of both devices, and
// before everything submitted to them later (CUDA Programming Guide, "Peer-to-peer memory copy").
OperationId Machine::queue_between_devices(StreamId stream, Copy copy) {
  std::vector<StreamId> others;
  for (const auto owner : {owner_at(copy.from), owner_at(copy.to)}) {
    if (owner && legacy_stream(*owner) != stream) others.push_back(legacy_stream(*owner));
  }
  std::vector<OperationId> before;
  before.reserve(others.size());
  for (const StreamId other : others) before.push_back(queue(other, Marker{}, {}));
  const OperationId id = queue(stream, std::move(copy), Order{.after = before});
  for (const StreamId other : others) queue(other, Marker{}, Order{.after = {&id, 1}});
  return id;
}

void Machine::prepare(Operation& operation, Work& work) {
  Device& d = device();
  if (auto* kernel = std::get_if<Kernel>(&work)) {
    if (!kernel->declared) kernel->ordinal = ++d.ordinal;
    name_buffers(*kernel, d.buffers, d.addresses, d.host, d.textures);
    kernel->writing = time_to_write(*kernel, d.settings);
    kernel->is_counted = is_counted(*kernel, d.settings);
  } else if (auto* op = std::get_if<Operator>(&work)) {
    if (op->ordinal == 0) op->ordinal = ++d.ordinal;
  } else if (auto* copy = std::get_if<Copy>(&work); copy != nullptr && d.settings.devices > 1) {
    prepare_copy(operation, *copy);
  } else if (auto* conditional = std::get_if<Conditional>(&work)) {
    for (Body& body : conditional->node->bodies) {
      for (Step& step : body) prepare_step(operation, step);
    }
  }
}

void Machine::prepare_step(const Operation& conditional, Step& step) {
  Operation operation;
  operation.stream = conditional.stream;
  operation.device = operation.served_by = step.device;
  prepare(operation, step.work);
  const Bytes external = external_bytes(step.work, step.device);
  if (auto* kernel = std::get_if<Kernel>(&step.work)) kernel->external = external;
  step.duration = service_of(step.work, device().settings, external).duration;
}

OperationId Machine::queue(StreamId stream, Work&& work, const Order& order) {
  Device& d = device();
  Operation operation;
  operation.stream = stream;
  operation.device = order.device.value_or(d.streams.device(stream));
  operation.served_by = operation.device;
  prepare(operation, work);
  operation.branch = order.branch;
  operation.submitted = d.clock.now();
  const Bytes external = external_bytes(work, operation.device);
  if (auto* kernel = std::get_if<Kernel>(&work)) kernel->external = external;
  const Service service = service_of(work, d.settings, external);
  operation.engine = service.engine;
  operation.duration = service.duration;
  if (service.engine == Engine::kCompute) operation.duration = d.faults.jittered(service.duration, d.ordinal);
  for_ranges(work, [&](Address at, Bytes bytes) { d.buffers.hold_fresh(at, bytes, operation.fresh_buffers); });
  if (runs_code(work)) d.buffers.hold_all_fresh(operation.other_fresh_buffers);
  operation.work = std::move(work);

  Streams::Operations after;
  if (!order.detached) d.streams.predecessors(stream, after);
  after.insert(after.end(), order.after.begin(), order.after.end());
  if (d.checker) note_order(stream, operation.work, order);  // before: it may be executed at once
  const OperationId id = d.timeline.submit(std::move(operation), {after.data(), after.size()});
  if (!order.detached) d.streams.submitted(stream, id);
  if (id % kPollEvery == 0) poll();
  if (d.settings.progress && d.timeline.has_unexecuted()) state_->progress.work_added();
  return id;
}

void Machine::note_order(StreamId stream, const Work& work, const Order& order) {
  simulator::Order& known = device().checker->order();
  const OperationId id = device().timeline.newest() + 1;
  known.submitted(id, stream, order.after, order.detached);
  if (const auto* record = std::get_if<Record>(&work)) known.recorded(record->event, id);
  if (std::holds_alternative<Lifetime>(work)) known.keep(id);
}

// A driver's queue holds this many launches, and the next launch waits until one has progressed. If the stream is
// blocked by another thread, that thread has to be let in.
void Machine::wait_for_queue(StreamId stream) {
  Device& d = device();
  if (d.settings.queue_limit == 0) return;
  const OperationId first = d.streams.holding_up(stream, d.settings.queue_limit);
  if (first != 0) wait_until([&] { return device().timeline.finish(first); });
}

void Machine::queued(StreamId stream, OperationId operation) {
  if (device().settings.queue_limit != 0) device().streams.queued(stream, operation);
}

OperationId Machine::submit(StreamId stream, Work work, const Order& order) {
  const bool is_call = !order.uncharged && !order.detached;
  if (is_call) wait_for_queue(stream);
  if (!order.uncharged) charge(cost_of(work));
  if (auto* copy = std::get_if<Copy>(&work);
      copy != nullptr && is_legacy(stream) && !order.detached && is_between_devices(*copy)) {
    return queue_between_devices(stream, std::move(*copy));
  }
  const OperationId id = queue(stream, std::move(work), order);
  if (is_call) queued(stream, id);
  return id;
}

OperationId Machine::tail(StreamId stream) const { return device().streams.tail(stream); }

// The operation may be ordered after a value that another thread writes, or makes a stream write: so the lock is
// released meanwhile. If no thread makes a call, and no host function runs, for this long, none is going to.
void Machine::wait_until(const std::function<std::optional<Time>()>& ended) {
  std::optional<Time> end = ended();
  std::uint64_t heard = state_->progress.signs();
  for (auto since = std::chrono::steady_clock::now(); !end; end = ended()) {
    mutex_.unlock();
    std::this_thread::sleep_for(kBetweenLooks);
    mutex_.lock();
    if (heard != state_->progress.signs() || device().timeline.first_blocked() == nullptr) {
      heard = state_->progress.signs();
      since = std::chrono::steady_clock::now();
    }
    const std::chrono::duration<double> silence = std::chrono::steady_clock::now() - since;
    if (silence.count() > device().settings.blocked_timeout) blocked_for_good();
  }
  device().clock.wait_until(*end);
}

void Machine::blocked_for_good() const {
  if (const Operation* const operation = device().timeline.first_blocked()) {
    const auto* const wait = std::get_if<WaitValue>(&operation->work);
    std::fprintf(
        stderr,
        "simulated device: the host waits for what can not go on: stream %u (operation %llu) waits for a value "
        "of %u bytes at 0x%llx, and nobody has written it\n",
        operation->stream, static_cast<unsigned long long>(operation->id), wait->bytes,
        static_cast<unsigned long long>(wait->at));
  }
  std::abort();
}

CUresult Machine::wait(OperationId operation) {
  wait_until([&] { return device().timeline.finish(operation); });
  if (device().checker) device().checker->order().host_knows(operation);
  return error();
}

CUresult Machine::wait_stream(StreamId stream) {
  if (is_legacy(stream)) return wait(queue(stream, Marker{}, {}));
  const CUresult result = wait(tail(stream));
  if (device().checker) device().checker->order().host_knows_stream(stream);
  return result;
}

CUresult Machine::finish_all() {
  wait_until([&] { return device().timeline.finish_all(); });
  return error();
}

CUresult Machine::wait_all() {
  const CUresult result = finish_all();
  if (device().checker) device().checker->order().host_knows_everything();
  return result;
}

CUresult Machine::wait_device(DeviceId on) {
  if (devices() == 1) return wait_all();
  wait_until([&] { return device().timeline.finish_device(on); });
  if (device().checker) device().checker->order().host_knows_device(on);
  return error();
}

void Machine::poll() { device().timeline.run_until(device().clock.now()); }

bool Machine::is_done(OperationId operation) {
  poll();
  return device().timeline.executed(operation);
}

bool Machine::query(OperationId operation) {
  const bool done = is_done(operation);
  if (done && device().checker) device().checker->order().host_knows(operation);
  return done;
}

bool Machine::query_stream(StreamId stream) {
  poll();
  const bool done = is_legacy(stream) ? legacy_is_done(stream) : device().timeline.executed(tail(stream));
  if (done && device().checker) device().checker->order().host_knows_stream(stream);
  return done;
}

bool Machine::legacy_is_done(StreamId stream) const {
  Streams::Operations pending;
  device().streams.predecessors(stream, pending);
  for (const OperationId operation : pending) {
    if (!device().timeline.executed(operation)) return false;
  }
  return true;
}

EventId Machine::create_event() {
  charge(Cost::kStreamCall);
  return device().events.create();
}

void Machine::destroy_event(EventId event) {
  charge(Cost::kStreamCall);
  device().events.destroy(event);
  if (device().checker) device().checker->order().event_destroyed(event);
}

// The event must know its operation before that completes, which in adversarial order may be at once.
OperationId Machine::record_event(EventId event, StreamId stream, const Order& order) {
  const bool is_call = !order.uncharged && !order.detached;
  if (is_call) wait_for_queue(stream);
  if (!order.uncharged) charge(Cost::kStreamCall);
  Device& d = device();
  d.events.recorded(event, d.timeline.newest() + 1);
  const OperationId id = queue(stream, d.events.record_of(event), order);
  if (is_call) queued(stream, id);
  return id;
}

void Machine::stream_wait_event(StreamId stream, EventId event) {
  const OperationId newest = recorded(event);
  if (newest != 0) wait_for_queue(stream);
  charge(Cost::kStreamCall);
  if (newest != 0) queued(stream, queue(stream, Marker{}, Order{.after = {&newest, 1}}));
}

OperationId Machine::recorded(EventId event) const { return device().events.newest(event); }

CUresult Machine::elapsed(EventId begin, EventId end, Time* out) {
  charge(Cost::kStreamCall);
  Device& d = device();
  for (const EventId event : {begin, end}) {
    const OperationId newest = d.events.newest(event);
    if (newest == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (!query(newest)) return CUDA_ERROR_NOT_READY;
    // Its effects happened early: the time line catches up, the host does not wait.
    d.timeline.finish(newest);
  }
  *out = d.events.time(end) - d.events.time(begin);
  return error();
}

}  // namespace simulator
