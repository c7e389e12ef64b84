// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_engine/runner.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "driver/check.h"
#include "offload/relauncher.h"
#include "tests/fuzz_engine/steps.h"
#include "tests/fuzz_engine/tag_file.h"

namespace thermocline::fuzz_engine {
namespace {

void ignore_report(const std::string&) {}

struct Taken {
  PageHandle page;
  Bytes bytes;
  bool told;
};

class EngineRunner final : public Runner, private Relauncher {
 public:
  EngineRunner(const Program& program, const FaultPlan& plan, Outcome* outcome)
      : Runner(program, outcome), plan_(plan), may_fail_(plan.one_in != 0 || plan.only_nth != 0) {
    hides_accesses_ &= !may_fail_;
  }

 private:
  Bytes memory_bytes() const override { return setup_.memory; }
  bool wanted(std::size_t) const override { return true; }

  void start() override {
    faulty_ = std::make_unique<FaultyDriver>(driver().table(), plan_);
    // If many calls fail, those that undo a partial initialization fail too.
    if (plan_.one_in != 0) faulty_->stop();
    if (Status status = create(); !status.ok()) {
      if (faulty_->failed() == 0) return fail("the engine does not start: error " + std::to_string(status.code()));
      if (!faulty_->held().empty()) return fail("an engine that did not start holds " + faulty_->held());
      need(create(), "an engine at the second attempt");
    }
    faulty_->resume();
  }
  Status create() {
    EngineOptions options{.budget_bytes = setup_.budget,
                          .policy = setup_.policy,
                          .safety = setup_.safety,
                          .host_fallback = setup_.host_fallback,
                          .host_is_readable = false,
                          .host_limit_bytes = setup_.host_limit,
                          .page_bytes = setup_.page_bytes,
                          .soft_limit = setup_.soft_limit,
                          // Nothing is recomputed while the lock is released.
                          .waits_without_lock = !setup_.recompute,
                          .recompute = setup_.recompute ? Recompute::kAuto : Recompute::kOff,
                          .relauncher = setup_.recompute ? this : nullptr};
    options.spill_limit_bytes = setup_.spill_limit;
    // No draw of the seed, so that its program stays the same.
    options.may_use_pageable = setup_.seed % 2 == 0;
    options.spills_in_place = true;
    if (setup_.spill_limit != 0) file_ = std::make_shared<TagFile>(setup_.spill_limit, setup_.spill_fault_one_in);
    const Status status = Engine::create(faulty_->driver(), options, &engine_, file_);
    if (status.ok()) engine_->set_report_handler(&ignore_report);
    return status;
  }

  void validate() override {
    engine_->validate();
    const EngineStatistics statistics = engine_->statistics();
    // An operation for which the device has no room is refused, but keeps the pages that it got before.
    const Bytes most = setup_.soft_limit ? std::max(setup_.memory, setup_.budget) : setup_.budget;
    if (statistics.over_budget_operations > 0 && !setup_.soft_limit) fail("the budget was exceeded without leave");
    if (statistics.peak_device_bytes > most) fail("more than the budget was held");
    SimulatedStatistics device{};
    device.size = sizeof device;
    device_->control().statistics(&device);
    if (device.physical_bytes > most + stolen()) fail("the device holds more than the budget");
    if (device.races != 0) fail("a race");
  }

  Status allocate(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) override {
    return engine_->allocate(bytes, stream, out);
  }
  Status free(DeviceAddress address, std::optional<StreamHandle> stream) override {
    return engine_->free(address, stream);
  }
  std::optional<Operation> begin(const Step& step, StreamHandle stream,
                                 std::span<const MemoryAccess> accesses) override {
    if (step.kind == Kind::kUnknown) return engine_->begin_unknown(stream);
    OperationInfo info{.kind = step.token, .nanoseconds = step.nanoseconds, .overwrites = !setup_.recompute};
    if (setup_.recompute && (step.kind == Kind::kOperate || step.kind == Kind::kAbandon))
      info.relaunch = describe_uses(step, accesses);
    return engine_->begin(stream, accesses, info);
  }

  bool other(const Step& step) override {
    switch (step.kind) {
      case Kind::kTrim:
        if (Status status = engine_->trim(); !status.ok() && !may_fail_) need(status, "trimming");
        return true;
      case Kind::kSleep:
      case Kind::kWake:
        return sleep_or_wake(step);
      case Kind::kPin:
        return pin(step);
      case Kind::kDrop: {
        const Buffer& buffer = buffer_of(step);
        if (buffer.bytes != 0) static_cast<void>(engine_->drop(buffer.address));
        return true;
      }
      case Kind::kExternal:
      case Kind::kSteal:
        return take_pages(step);
      default:
        return give_back();
    }
  }

  bool sleep_or_wake(const Step& step) {
    SleepReport report;
    const bool sleeps = step.kind == Kind::kSleep;
    const SleepRequest request{.waits = step.names_stream};
    const Status status = sleeps ? engine_->sleep(request, &report) : engine_->wake(request, &report);
    if (!status.ok() && !may_fail_ && setup_.policy != kNoPolicy) need(status, "sleeping or waking");
    if (!status.ok()) return true;
    const Bytes told = report.pinned_bytes + report.external_bytes + report.in_use_bytes + report.no_host_bytes;
    if (sleeps && report.device_bytes != told + report.other_bytes) fail("a report of sleep does not add up");
    if (sleeps && step.names_stream && !may_fail_ && report.in_use_bytes + report.other_bytes > 0)
      fail("after a sleep that waited " + std::to_string(report.in_use_bytes + report.other_bytes) + " bytes stay");
    if (sleeps && setup_.host_limit == 0 && !may_fail_ && report.no_host_bytes > 0) fail("host memory ran out");
    return true;
  }

  const RelaunchInfo* describe_uses(const Step& step, std::span<const MemoryAccess> accesses) {
    uses_.clear();
    for (const SimulatedOperand& operand : operands()) {
      const bool fresh = (operand.flags & SIMULATED_OPERAND_FRESH) != 0;
      uses_.push_back({.reads = (operand.flags & SIMULATED_OPERAND_READ) != 0 && !fresh,
                       .writes = (operand.flags & SIMULATED_OPERAND_WRITE) != 0});
    }
    relaunch_ = {
        .id = launches_.size() + 1, .may_run_again = true, .uses = uses_, .same_as = number_of(step, accesses)};
    return &relaunch_;
  }
  // Equal for operations of equal lists, also if other buffers are there by now.
  std::uint64_t number_of(const Step& step, std::span<const MemoryAccess> accesses) {
    std::vector<std::uint64_t> all{step.token};
    for (const MemoryAccess& one : accesses)
      all.insert(all.end(), {one.address.value, one.bytes, static_cast<std::uint64_t>(one.access) * 2 + one.found});
    for (const OperandUse& use : uses_) all.push_back((use.reads ? 1u : 0u) + (use.writes ? 2u : 0u));
    return numbers_.try_emplace(std::move(all), numbers_.size() + 1).first->second;
  }
  void launched() override {
    if (setup_.recompute) launches_.push_back(operands());
  }
  Status relaunch(std::uint64_t id, StreamHandle stream, std::span<const DeviceAddress> addresses) override {
    // If calls fail, this one fails sometimes too.
    if (may_fail_ && !stopped_ && ++relaunches_ % 5 == 0) return Status::out_of_memory();
    std::vector<SimulatedOperand> operands = launches_[id - 1];
    for (std::size_t i = 0; i < operands.size(); ++i) operands[i].address = addresses[i].value;
    return Status(device_->control().relaunch_operator(reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream)),
                                                       kOperatorName, 0, 0, 5, operands.data(), operands.size(), id));
  }

  bool pin(const Step& step) {
    Buffer& buffer = buffer_of(step);
    if (buffer.bytes == 0) return false;
    const Bytes needed = footprint(buffer.bytes, setup_.page_bytes);
    if (const Status status = engine_->pin(buffer.address, "test"); !status.ok()) {
      refused(step, status, needed);
      return false;
    }
    return buffer.pinned = true;
  }

  bool take_pages(const Step& step) {
    const bool told = step.kind == Kind::kExternal;
    if (told) {
      if (const Status status = engine_->add_external(step.bytes); !status.ok()) {
        refused(step, status, step.bytes);
        return false;
      }
    }
    PageHandle page{};
    if (const Status status = driver().create_page(step.bytes, 0, &page); !status.ok()) {
      if (!status.is_out_of_memory()) need(status, "memory of the program's own");
      if (told && stolen() == 0) fail("room that was made is not there");
      if (told) engine_->remove_external(step.bytes);
      return false;
    }
    taken_.push_back({page, step.bytes, told});
    return true;
  }
  bool give_back() {
    if (taken_.empty()) return false;
    const Taken first = taken_.front();
    taken_.erase(taken_.begin());
    need(driver().destroy_page(first.page), "giving back");
    if (first.told) engine_->remove_external(first.bytes);
    return true;
  }

  void waited(const Step& step, const std::function<Status()>& wait) override {
    if (step.kind == Kind::kWaitAll) {
      const UseSet uses = engine_->submitted_all();
      need(wait(), "synchronising");
      step.names_stream ? engine_->synchronized(uses) : engine_->synchronized_all();
      return;
    }
    const StreamHandle stream = order_->handle(step.stream);
    const UseSet uses = engine_->submitted(stream);
    need(wait(), "synchronising");
    step.names_stream ? engine_->synchronized(uses) : engine_->synchronized(stream);
  }
  void retire(StreamHandle stream) override { engine_->retire(stream); }

  // No other error than out of memory, and only if there is none.
  void refused(const Step& step, Status status, Bytes needed) override {
    ++outcome_.refused;
    if (may_fail_) return;
    if (!status.is_out_of_memory()) return fail("error " + std::to_string(status.code()) + " where no call failed");
    // Operations that run again may need more room than the operation for which they run.
    const bool must =
        setup_.policy != kNoPolicy && !setup_.recompute && setup_.host_limit == 0 && step.kind != Kind::kUnknown;
    if (must && needed + pinned_bytes() <= whole_pages_beside(taken()))
      fail(std::string(name_of(step.kind)) + " was refused, and " + std::to_string(needed) + " bytes fit");
  }

  void before_reading() override {
    outcome_.driver_calls = faulty_->calls();
    outcome_.faults = faulty_->failed();
    outcome_.failed_call = faulty_->last_failed();
    faulty_->stop();
    if (file_ != nullptr) file_->stop_failing();
    stopped_ = true;
    while (give_back()) {
    }
    validate();
  }

  void after_freeing() override {
    engine_->synchronized_all();
    outcome_.statistics = engine_->statistics();
    expect_nothing_held("after everything was freed");
    DeviceAddress all;
    const Bytes whole = whole_pages_beside(0);
    if (need(engine_->allocate(whole, StreamHandle{}, &all), "the whole budget in one piece")) {
      const MemoryAccess access{all};
      Operation operation = engine_->begin(StreamHandle{}, {&access, 1});
      if (!operation.status().ok()) return fail("the whole budget can not be used; held are " + faulty_->held());
      operation.commit();
      need(engine_->free(all, StreamHandle{}), "freeing the whole budget");
      need(driver().synchronize_context(), "synchronising");
    }
    engine_->synchronized_all();
    validate();
    expect_nothing_held("at the end");
    engine_.reset();
    file_.reset();
    if (!faulty_->held().empty()) fail("the engine leaks " + faulty_->held());
    faulty_.reset();
  }

  void expect_nothing_held(const std::string& when) {
    need(engine_->trim(), "trimming");
    const EngineStatistics s = engine_->statistics();
    if (s.live_bytes != 0) fail(when + " " + std::to_string(s.live_bytes) + " bytes are live");
    if (s.device_bytes != 0) fail(when + " " + std::to_string(s.device_bytes) + " device bytes are held");
    if (s.host_bytes != 0) fail(when + " " + std::to_string(s.host_bytes) + " host bytes are held");
    if (s.spilled_bytes != 0) fail(when + " " + std::to_string(s.spilled_bytes) + " bytes are in the spill file");
    if (s.pinned_buffers != 0) fail(when + " " + std::to_string(s.pinned_buffers) + " buffers are pinned");
  }

  Bytes taken() const {
    Bytes sum = 0;
    for (const Taken& one : taken_) sum += one.bytes;
    return sum;
  }
  Bytes whole_pages_beside(Bytes others) const {
    return round_down(setup_.budget - std::min(others, setup_.budget), setup_.page_bytes);
  }
  Bytes stolen() const {
    Bytes sum = 0;
    for (const Taken& one : taken_) sum += one.told ? 0 : one.bytes;
    return sum;
  }

  const FaultPlan plan_;
  const bool may_fail_;
  std::unique_ptr<FaultyDriver> faulty_;
  std::shared_ptr<TagFile> file_;
  std::unique_ptr<Engine> engine_;
  std::vector<Taken> taken_;
  std::vector<OperandUse> uses_;
  RelaunchInfo relaunch_;
  std::map<std::vector<std::uint64_t>, std::uint64_t> numbers_;
  std::vector<std::vector<SimulatedOperand>> launches_;  // by id, from 1
  std::uint64_t relaunches_ = 0;
  bool stopped_ = false;  // no more failures are injected
};

// The device alone: its own allocations, and more memory than any program needs.
class PlainRunner final : public Runner {
 public:
  PlainRunner(const Program& program, const std::vector<bool>& done, Outcome* outcome)
      : Runner(program, outcome), done_(done) {}

 private:
  Bytes memory_bytes() const override { return Bytes{1} << 42; }
  bool wanted(std::size_t step) const override { return done_[step]; }
  void start() override {
    void* const library = dlopen(THERMOCLINE_SIMULATED_CUDA, RTLD_NOW | RTLD_NOLOAD);
    THERMOCLINE_CHECK(library != nullptr, "the simulated device is loaded");
    allocate_ = reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t)>(dlsym(library, "cuMemAlloc_v2"));
    free_ = reinterpret_cast<CUresult (*)(CUdeviceptr)>(dlsym(library, "cuMemFree_v2"));
  }
  Status allocate(Bytes bytes, std::optional<StreamHandle>, DeviceAddress* out) override {
    return Status(allocate_(reinterpret_cast<CUdeviceptr*>(&out->value), bytes));
  }
  Status free(DeviceAddress address, std::optional<StreamHandle>) override { return Status(free_(address.value)); }
  std::optional<Operation> begin(const Step&, StreamHandle, std::span<const MemoryAccess>) override {
    return std::nullopt;
  }
  bool other(const Step& step) override {
    if (step.kind == Kind::kPin) buffer_of(step).pinned = true;
    return true;
  }
  void waited(const Step&, const std::function<Status()>& wait) override { need(wait(), "synchronising"); }
  void retire(StreamHandle) override {}
  void refused(const Step&, Status status, Bytes) override { need(status, "the device alone"); }

  const std::vector<bool>& done_;
  CUresult (*allocate_)(CUdeviceptr*, std::size_t) = nullptr;
  CUresult (*free_)(CUdeviceptr) = nullptr;
};

}  // namespace

Outcome run_on_engine(const Program& program, const FaultPlan& faults) {
  Outcome outcome;
  outcome.done.resize(program.steps.size());
  // After a failure the engine has unfinished work and can not be destroyed: it is leaked, and whoever runs many
  // programs runs them in processes of their own.
  auto* const runner = new EngineRunner(program, faults, &outcome);
  runner->run(true);
  if (outcome.failure.empty()) delete runner;
  return outcome;
}

Outcome run_alone(const Program& program, const std::vector<bool>& done, bool check) {
  Outcome outcome;
  outcome.done.resize(program.steps.size());
  PlainRunner(program, done, &outcome).run(check);
  return outcome;
}

Outcome run(const Program& program, const FaultPlan& faults) {
  Outcome outcome = run_on_engine(program, faults);
  if (!outcome.failure.empty()) return outcome;
  const Outcome alone = run_alone(program, outcome.done, program.setup.seed % 16 == 0);
  if (!alone.failure.empty()) {
    outcome.failure = "the program is wrong by itself: " + alone.failure;
  } else if (alone.done != outcome.done) {
    outcome.failure = "the device alone did other steps";
  } else if (alone.checksum != outcome.checksum) {
    outcome.failure = "a wrong byte: the checksum is not that of the device alone";
  }
  return outcome;
}

Outcome run(const Program& program) {
  return run(program, {.seed = program.setup.seed, .one_in = program.setup.fault_one_in});
}

}  // namespace thermocline::fuzz_engine
