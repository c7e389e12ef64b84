// SPDX-License-Identifier: Apache-2.0
#include "trace/replay.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <string_view>

#include "driver/check.h"
#include "driver/hash.h"
#include "driver/owned.h"
#include "driver/quantity.h"
#include "offload/relauncher.h"
#include "trace/program_order.h"
#include "trace/step_clock.h"

namespace thermocline {
namespace {

// The name of copies from the host in recordings of frameworks.
constexpr std::string_view kUpload = "upload";

// The engine's report handler has no context argument; a replay runs on one thread.
thread_local std::string* report_target = nullptr;

void take_report(const std::string& report) {
  if (report_target != nullptr) *report_target = report;
}

class Replay : private Relauncher {
 public:
  Replay(const Trace& trace, const StepProgram& program, const ReplayOptions& options, ReplayResult* result)
      : trace_(trace), program_(program), options_(options), result_(result), buffers_(trace.buffers.size()) {
    for (const std::string& name : trace.names) {
      classes_.push_back(classify_operator(name, {}));
      uploads_.push_back(name == kUpload);
    }
  }

  bool run(std::string* reason) {
    device_ = SimulatedDevice::open(options_.device, reason);
    if (device_ == nullptr) return false;
    report_target = &result_->report;
    Status status = start();
    if (status.ok()) status = run_steps();
    if (status.ok()) status = read_what_is_left();
    report_target = nullptr;
    const bool ran_out = status.is_out_of_memory() && engine_ != nullptr;
    if (ran_out) result_->outcome = ReplayOutcome::kOutOfMemory;
    if (status.ok() || ran_out) status = finish();
    if (!status.ok()) {
      *reason = "the simulated device answered error " + std::to_string(status.code()) + " after " +
                quantity(events_, "event");
    }
    return status.ok();
  }

 private:
  struct Buffer {
    DeviceAddress address;  // none for a buffer of no bytes
    Bytes bytes = 0;
    bool is_alive = false;
    bool is_fresh = false;  // allocated and not used yet
  };
  // Per buffer that the current operator names.
  struct Named {
    std::uint32_t buffer;
    bool reads;
    bool writes;
    bool is_fresh;
    bool continues = false;  // a piece, like the buffer before it
    bool is_sliced = false;
    // Contents that count as zero are overwritten with zeros by the device.
    bool changes() const { return writes || is_fresh; }
  };

  // An operator that may run again.
  struct Remembered {
    std::uint64_t id;
    std::uint64_t ordinal;
    const TraceOperator* op;
    const char* name;
    struct Operand {
      Bytes bytes;
      std::uint32_t flags;
    };
    std::vector<Operand> operands;
  };

  const Driver& driver() const { return device_->driver(); }

  Status start() {
    streams_.push_back(StreamHandle{0});
    for (std::size_t i = 1; i < trace_.streams.size(); ++i) {
      StreamHandle stream{};
      if (const Status status = driver().create_stream(&stream); !status.ok()) return status;
      owned_streams_.emplace_back(driver(), stream);
      streams_.push_back(stream);
    }
    order_ = std::make_unique<ProgramOrder>(driver(), streams_, trace_.buffers.size());
    clock_ = std::make_unique<StepClock>(driver(), streams_);
    const Driver& engines = options_.stopwatch != nullptr ? options_.stopwatch->driver(driver()) : driver();
    EngineOptions engine = options_.engine;
    engine.host_is_readable = false;  // tagged memory has no bytes
    engine.relauncher = this;
    if (const Status status = Engine::create(engines, engine, &engine_); !status.ok()) return status;
    engine_->set_report_handler(&take_report);
    result_->page_bytes = engine_->page_bytes();
    began_ = std::chrono::steady_clock::now();
    return clock_->mark();
  }

  Status run_steps() {
    for (std::size_t i = 0; i < program_.steps; ++i) {
      if (options_.progress) options_.progress(i);
      if (program_.is_repetition(trace_, i)) rename_carried();
      const EngineStatistics before = engine_->statistics();
      const StepSpan span = program_.span(trace_, i);
      step_ = i;
      for (std::size_t e = span.begin; e < span.end; ++e) {
        const TraceEvent& event = trace_.events[e];
        if (const Status status = submit(event); !status.ok()) {
          if (status.is_out_of_memory()) result_->refused = {i, event.kind, event.index};
          return status;
        }
        ++events_;
      }
      if (const Status status = clock_->mark(); !status.ok()) return status;
      if (options_.watcher != nullptr) options_.watcher->step_ended();
      engine_->validate();
      note_step(before, engine_->statistics());
    }
    return Status();
  }

  void note_step(const EngineStatistics& before, const EngineStatistics& after) {
    result_->steps.push_back({.evicted_bytes = after.evicted_bytes - before.evicted_bytes,
                              .restored_bytes = after.restored_bytes - before.restored_bytes,
                              .maps = after.maps - before.maps,
                              .unmaps = after.unmaps - before.unmaps,
                              .plans = after.plans - before.plans,
                              .divergences = after.divergences - before.divergences,
                              .recomputed_operations = after.recomputed_operations - before.recomputed_operations,
                              .recomputed_ns = after.recomputed_ns - before.recomputed_ns,
                              .dropped_buffers = after.dropped_buffers - before.dropped_buffers,
                              .dropped_bytes = after.dropped_bytes - before.dropped_bytes});
  }

  // Buffers that the step frees are replaced by those that the step before left alive.
  void rename_carried() {
    std::vector<Buffer> left;
    for (const auto& [carried, produced] : program_.renames) {
      THERMOCLINE_CHECK(buffers_[produced].is_alive && !buffers_[carried].is_alive,
                        "a step leaves alive what the next one frees");
      left.push_back(std::exchange(buffers_[produced], Buffer()));
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto& [carried, produced] = program_.renames[i];
      buffers_[carried] = left[i];
      order_->renamed(produced, carried);
      if (options_.watcher != nullptr) options_.watcher->renamed(produced, carried);
    }
  }

  Status submit(const TraceEvent& event) {
    switch (event.kind) {
      case EventKind::kAllocate:
        return allocate(event.stream, event.index);
      case EventKind::kFree:
        return free(event.stream, event.index);
      case EventKind::kOperator:
        break;
    }
    const TraceOperator& op = trace_.operators[event.index];
    name_operands(op);
    const Status status = operate(event.stream, op, trace_.names[op.name].c_str());
    if (status.ok() && options_.watcher != nullptr) options_.watcher->submitted(event.index, event.stream, *engine_);
    return status;
  }

  Status allocate(std::uint32_t stream, std::uint32_t index) {
    Buffer& buffer = buffers_[index];
    buffer = {.address = {}, .bytes = trace_.buffers[index].bytes, .is_alive = true, .is_fresh = true};
    order_->allocated(stream, index);
    if (buffer.bytes == 0) return Status();
    const Status status = engine_->allocate(buffer.bytes, streams_[stream], &buffer.address);
    if (status.ok() && options_.watcher != nullptr) {
      options_.watcher->allocated(index, buffer.address, device_->control().now_ns());
    }
    return status;
  }

  Status free(std::uint32_t stream, std::uint32_t index) {
    const Buffer buffer = std::exchange(buffers_[index], Buffer());
    if (buffer.bytes == 0) return Status();
    if (const Status status = order_->before_free(stream, index); !status.ok()) return status;
    if (options_.watcher != nullptr) options_.watcher->freed(index, device_->control().now_ns());
    return engine_->free(buffer.address, streams_[stream]);
  }

  // Each buffer once, in the order in which the operator first names it.
  void name_operands(const TraceOperator& op) {
    named_.clear();
    place_.resize(buffers_.size(), 0);
    const auto name = [this, &op](std::uint32_t buffer, bool reads, bool writes) {
      if (buffers_[buffer].bytes == 0) return;
      std::uint32_t& place = place_[buffer];
      if (place == 0) {
        named_.push_back({buffer, false, false, buffers_[buffer].is_fresh, continues(buffer), is_sliced(op, buffer)});
        place = static_cast<std::uint32_t>(named_.size());
      }
      named_[place - 1].reads |= reads;
      named_[place - 1].writes |= writes;
    };
    for (const std::uint32_t buffer : trace_.reads(op)) name(buffer, true, false);
    for (const std::uint32_t buffer : trace_.writes(op)) name(buffer, false, true);
    for (const Named& n : named_) place_[n.buffer] = 0;
  }

  // Whether the buffer and the last one that was named are pieces of one.
  bool continues(std::uint32_t buffer) const {
    const TraceBuffer& piece = trace_.buffers[buffer];
    return piece.continues && !named_.empty() && trace_.buffers[named_.back().buffer].id == piece.id;
  }

  bool is_sliced(const TraceOperator& op, std::uint32_t buffer) const {
    return op.mark != TraceOperator::kNoMark && trace_.marks[op.mark].splits(trace_.buffers[buffer].id);
  }

  Status operate(std::uint32_t stream, const TraceOperator& op, const char* name) {
    accesses_.clear();
    operands_.clear();
    for (const Named& n : named_) {
      const Buffer& buffer = buffers_[n.buffer];
      THERMOCLINE_CHECK(buffer.is_alive, "an operator names what is alive");
      if (const Status status = order_->before_use(stream, n.buffer, n.changes()); !status.ok()) return status;
      accesses_.push_back(access_of(n, buffer));
      operands_.push_back({.address = buffer.address.value, .bytes = buffer.bytes, .flags = flags_of(n)});
    }
    OperationInfo info = info_of(op, name);
    if (recomputes()) info.relaunch = remember(op, name);
    if (is_upload(op)) {
      info.source = OperationInfo::Source::kAtOnce;
      info.overwrites = true;
    }
    if (options_.stopwatch != nullptr) options_.stopwatch->engine_entered();
    Operation operation = engine_->begin(streams_[stream], accesses_, info);
    if (options_.stopwatch != nullptr) options_.stopwatch->engine_left();
    if (!operation.status().ok()) return operation.status();
    const std::span<const UploadCopy> on_host = operation.upload_copies();
    if (!on_host.empty()) begin_on_host(on_host);
    Status launched = launch(streams_[stream], op, name);
    for (const UploadCopy& part : on_host) {
      if (!launched.ok()) break;
      const DeviceAddress at = accesses_.front().address + part.offset;
      launched = driver().copy_to_device(at, part.host, part.bytes, streams_[stream]);
    }
    if (!launched.ok()) return launched;
    if (options_.stopwatch != nullptr) options_.stopwatch->engine_entered();
    operation.commit();
    if (options_.stopwatch != nullptr) {
      options_.stopwatch->engine_left();
      options_.stopwatch->operator_submitted(step_);
    }
    order_->submitted(stream);
    for (const Named& n : named_) {
      order_->used(stream, n.buffer, n.changes());
      buffers_[n.buffer].is_fresh = false;
    }
    return Status();
  }

  // Hooks see that it is a copy from the host. Without directions and digests its copy would not outlive the next access.
  bool is_upload(const TraceOperator& op) const {
    const bool may_leave_copies = options_.exact || options_.engine.digests == DigestUse::kAuto;
    return may_leave_copies && uploads_[op.name] && op.mark == TraceOperator::kNoMark && named_.size() == 1 &&
           !named_.front().reads;
  }

  // The data of an upload is put into these parts of host memory first, and copied from there.
  void begin_on_host(std::span<const UploadCopy> parts) {
    const SimulatedOperand whole = operands_.front();
    operands_.clear();
    std::uint64_t done = 0;
    const auto add = [&](std::uint64_t address, std::uint64_t bytes) {
      if (bytes == 0) return;
      const std::uint32_t continues = operands_.empty() ? 0 : SIMULATED_OPERAND_CONTINUES;
      operands_.push_back({.address = address, .bytes = bytes, .flags = whole.flags | continues});
      done += bytes;
    };
    for (const UploadCopy& part : parts) {
      add(whole.address + done, part.offset - done);
      add(reinterpret_cast<std::uintptr_t>(part.host), part.bytes);
    }
    add(whole.address + done, whole.bytes - done);
  }

  // Its number on the device, which the parts of an operator have in common.
  std::uint64_t ordinal_of(const TraceOperator& op) const { return op.first_slice > 0 ? ordinals_ : ordinals_ + 1; }

  Status launch(StreamHandle stream, const TraceOperator& op, const char* name) {
    auto* const handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    const SimulatedDeviceControl& control = device_->control();
    ++launched_;
    if (op.first_slice == 0) ++ordinals_;
    if (op.mark == TraceOperator::kNoMark) {
      return Status(control.launch_operator(handle, name, op.flops, op.bytes, op.microseconds, operands_.data(),
                                            operands_.size()));
    }
    const SimulatedSlices slices = slices_of(op, op.first_slice > 0 ? ordinals_ : 0, false);
    return Status(control.launch_slices(handle, name, op.flops, op.bytes, op.microseconds, operands_.data(),
                                        operands_.size(), &slices));
  }

  SimulatedSlices slices_of(const TraceOperator& op, std::uint64_t ordinal, bool is_relaunch) const {
    const std::uint32_t all = trace_.marks[op.mark].slices;
    return {.all = all,
            .first = op.first_slice,
            .count = op.slices == 0 ? all : op.slices,
            .is_relaunch = is_relaunch ? 1U : 0U,
            .ordinal = ordinal};
  }

  bool recomputes() const { return options_.exact && options_.engine.recompute != Recompute::kOff; }

  // Describes the current operator, which will be launched next, as the trace does.
  const RelaunchInfo* remember(const TraceOperator& op, const char* name) {
    if (remembered_.size() == kRemembered) remembered_.pop_front();
    Remembered& r = remembered_.emplace_back(Remembered{launched_ + 1, ordinal_of(op), &op, name, {}});
    uses_.clear();
    for (const Named& n : named_) {
      r.operands.push_back({buffers_[n.buffer].bytes, flags_of(n)});
      // The operator's result does not depend on contents that count as zero.
      uses_.push_back({.reads = n.reads && !n.is_fresh, .writes = n.changes()});
    }
    relaunch_ = {.id = launched_ + 1, .may_run_again = true, .uses = uses_};
    return &relaunch_;
  }

  Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) override {
    const auto known = std::ranges::lower_bound(remembered_, id, {}, &Remembered::id);
    THERMOCLINE_CHECK(known != remembered_.end() && known->id == id && known->operands.size() == addresses.size(),
                      "what runs again was launched before");
    std::vector<SimulatedOperand> operands;
    operands.reserve(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      operands.push_back({addresses[i].value, known->operands[i].bytes, known->operands[i].flags});
    }
    const TraceOperator& op = *known->op;
    auto* const handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    const SimulatedDeviceControl& control = device_->control();
    if (op.mark == TraceOperator::kNoMark) {
      const Status status(control.relaunch_operator(handle, known->name, op.flops, op.bytes, op.microseconds,
                                                    operands.data(), operands.size(), known->ordinal));
      return tell_of_relaunch(status, *known, stream);
    }
    const SimulatedSlices slices = slices_of(op, known->ordinal, true);
    const Status status(control.launch_slices(handle, known->name, op.flops, op.bytes, op.microseconds, operands.data(),
                                              operands.size(), &slices));
    return tell_of_relaunch(status, *known, stream);
  }

  Status tell_of_relaunch(Status status, const Remembered& known, StreamHandle stream) const {
    if (!status.ok() || options_.watcher == nullptr) return status;
    const auto at = std::ranges::find(streams_, stream);
    THERMOCLINE_CHECK(at != streams_.end(), "operators run again in the program's streams");
    options_.watcher->ran_again(static_cast<std::uint32_t>(known.op - trace_.operators.data()),
                                static_cast<std::uint32_t>(at - streams_.begin()), known.ordinal);
    return status;
  }

  MemoryAccess access_of(const Named& named, const Buffer& buffer) const {
    // Without `exact`: what hooks see, an address among the parameters of a kernel.
    if (!options_.exact) return {.address = buffer.address};
    const Access access = named.changes() ? Access::kWrite : Access::kRead;
    return {.address = buffer.address, .bytes = buffer.bytes, .access = access};
  }

  static std::uint32_t flags_of(const Named& named) {
    const auto flag = [](bool is_set, std::uint32_t value) { return is_set ? value : 0U; };
    return flag(named.reads, SIMULATED_OPERAND_READ) | flag(named.writes, SIMULATED_OPERAND_WRITE) |
           flag(named.is_fresh, SIMULATED_OPERAND_FRESH) | flag(named.continues, SIMULATED_OPERAND_CONTINUES) |
           flag(named.is_sliced, SIMULATED_OPERAND_SLICED);
  }

  // Equal work must have equal names and tokens; hooks use the function and its grid for that.
  OperationInfo info_of(const TraceOperator& op, std::string_view name) const {
    std::uint64_t kind = std::hash<std::string_view>()(name);
    for (const double figure : {op.flops, op.bytes}) kind = kind * kHashFactor + std::hash<double>()(figure);
    const double seconds = op.is_measured()             ? op.microseconds * 1e-6
                           : options_.rates.has_value() ? seconds_of(op, *options_.rates)
                                                        : 0;
    return {.kind = kind,
            .nanoseconds = static_cast<std::uint64_t>(seconds * 1e9),
            .operator_class = classes_[op.name],
            .name = trace_.names[op.name].c_str()};
  }

  // The checksum covers results; reading every byte that is still allocated makes all of them results.
  Status read_what_is_left() {
    static constexpr TraceOperator op{.name = 0, .first_operand = 0, .reads = 1, .writes = 0, .flops = 0, .bytes = 0};
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) {
      if (!buffers_[b].is_alive || buffers_[b].bytes == 0) continue;
      named_.assign(1, {b, true, false, buffers_[b].is_fresh});
      if (const Status status = operate(0, op, "read at the end"); !status.ok()) return status;
    }
    return Status();
  }

  Status finish() {
    if (const Status status = driver().synchronize_context(); !status.ok()) return status;
    engine_->synchronized_all();
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - began_;
    result_->events_per_second = static_cast<double>(events_) / std::max(real.count(), 1e-9);
    std::vector<double> times;
    if (const Status status = clock_->read(&times); !status.ok()) return status;
    THERMOCLINE_CHECK(times.size() == result_->steps.size(), "every step that was submitted is measured");
    for (std::size_t i = 0; i < times.size(); ++i) result_->steps[i].ms = times[i];
    result_->checksum = device_->control().checksum();
    result_->statistics = engine_->statistics();
    SimulatedStatistics device{};
    device.size = sizeof device;
    device_->control().statistics(&device);
    result_->races = device.races;
    result_->peak_device_bytes = std::max<Bytes>(result_->statistics.peak_device_bytes, device.peak_physical_bytes);
    return Status();
  }

  const Trace& trace_;
  const StepProgram& program_;
  const ReplayOptions& options_;
  ReplayResult* result_;

  // Members are destroyed from the last to the first: the device must outlive everything else.
  std::unique_ptr<SimulatedDevice> device_;
  std::vector<StreamOwner> owned_streams_;
  std::vector<StreamHandle> streams_;  // by index of the trace's streams
  std::unique_ptr<ProgramOrder> order_;
  std::unique_ptr<StepClock> clock_;
  std::unique_ptr<Engine> engine_;

  std::vector<Buffer> buffers_;  // by index of the trace's buffers
  std::size_t step_ = 0;
  std::uint64_t events_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::vector<OperatorClass> classes_;  // by name
  std::vector<bool> uploads_;           // by name
  std::uint64_t launched_ = 0;          // number of operators
  std::uint64_t ordinals_ = 0;          // the parts of an operator counted as one
  // The most recent operators, if they may run again.
  std::deque<Remembered> remembered_;
  RelaunchInfo relaunch_;
  // Members only to reuse their memory.
  std::vector<OperandUse> uses_;
  std::vector<Named> named_;
  std::vector<std::uint32_t> place_;  // per buffer: 1 + index in named_; 0 between operators
  std::vector<MemoryAccess> accesses_;
  std::vector<SimulatedOperand> operands_;
};

template <class Of>
double of_steady(const std::vector<ReplayStep>& steps, const SteadySteps& steady, Of of) {
  if (steps.empty()) return 0;
  const std::size_t learned_after = steady.repeat ? steady.learned_after.value_or(2) : 2;
  const std::size_t skipped = std::min(learned_after, steps.size() - 1);
  std::vector<double> values;
  for (std::size_t i = skipped; i < steps.size(); ++i) values.push_back(of(steps[i]));
  return median(std::move(values));
}

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool replay(const Trace& trace, const StepProgram& program, const ReplayOptions& options, ReplayResult* out,
            std::string* reason) {
  *out = ReplayResult();
  return Replay(trace, program, options, out).run(reason);
}

std::optional<std::size_t> learned_after_steps(const std::vector<ReplayStep>& steps) {
  std::size_t first = steps.size();
  while (first > 0 && steps[first - 1].plans == 0 && steps[first - 1].divergences == 0) --first;
  const bool learned = first > 0 && first < steps.size() && steps[first - 1].plans > 0;
  return learned ? std::optional(first) : std::nullopt;
}

double SteadySteps::ms(const std::vector<ReplayStep>& steps) const {
  return of_steady(steps, *this, [](const ReplayStep& step) { return step.ms; });
}

double SteadySteps::recomputed_ms(const std::vector<ReplayStep>& steps) const {
  return of_steady(steps, *this, [](const ReplayStep& step) { return static_cast<double>(step.recomputed_ns) * 1e-6; });
}

}  // namespace thermocline
