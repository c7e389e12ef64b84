// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/executor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "simulator/core/execution/declared_operator.h"
#include "simulator/core/execution/digests_of_tags.h"
#include "simulator/core/execution/fault_guard.h"
#include "simulator/core/execution/mixing.h"
#include "simulator/core/hash.h"
#include "simulator/core/memory/device_view.h"
#include "simulator/core/streams/kernel_time.h"
#include "simulator/core/streams/name_of.h"
#include "simulator/core/streams/timeline_file.h"
#include "simulator/faults/faults.h"

namespace simulator {
namespace {

thread_local bool inside_host_function = false;
thread_local Conditions* conditions_of_kernel = nullptr;  // of the kernel that is running

// A loop with this many rounds is considered endless.
constexpr std::uint64_t kMostRounds = 1 << 20;

struct HostFunctionScope {
  HostFunctionScope() { inside_host_function = true; }
  ~HostFunctionScope() { inside_host_function = false; }
};

struct ConditionsScope {
  explicit ConditionsScope(Conditions* conditions) { conditions_of_kernel = conditions; }
  ~ConditionsScope() { conditions_of_kernel = nullptr; }
};

[[noreturn]] void goes_round_for_good(const Operation& operation) {
  std::fprintf(stderr,
               "simulated device: a loop does not end: the condition of a node (operation %llu, stream %u) still holds "
               "after %llu rounds\n",
               static_cast<unsigned long long>(operation.id), operation.stream,
               static_cast<unsigned long long>(kMostRounds));
  std::abort();
}

bool is_plain(const Shape& shape) { return shape.height == 1 && shape.depth == 1; }

// CUDA driver API, CUstreamWaitValue_flags.
bool is_there(const WaitValue& wait, std::uint64_t found) {
  const std::uint64_t all = wait.bytes == 8 ? ~std::uint64_t{0} : 0xffffffff;
  switch (wait.until) {
    case Until::kReaches: {
      const std::uint64_t difference = (found - wait.value) & all;
      return difference <= all / 2;
    }
    case Until::kEquals:
      return found == (wait.value & all);
    case Until::kHasAnyOf:
      return (found & wait.value & all) != 0;
    case Until::kLacksAnyOutside:
      return (~(found | wait.value) & all) != 0;
  }
  return true;
}

}  // namespace

bool Executor::in_host_function() { return inside_host_function; }

bool Executor::set_condition(std::uint64_t handle, std::uint32_t value) {
  if (conditions_of_kernel == nullptr) return false;
  const auto known = conditions_of_kernel->find(handle);
  if (known == conditions_of_kernel->end()) return false;
  known->second = value;
  return true;
}

std::optional<Address> Executor::denied(DeviceId device, Address at, Bytes bytes, Access needed) const {
  if (bytes == 0) return std::nullopt;
  const auto first = table_.first_denied(at, bytes, needed, device);
  if (!first) return std::nullopt;
  // Pinned host memory is accessible to every device.
  const auto pinned = host_.find(at);
  if (pinned && at + bytes <= pinned->begin + pinned->bytes) return std::nullopt;
  return first;
}

std::optional<Address> Executor::denied(DeviceId device, Address at, const Shape& shape, Access needed) const {
  std::optional<Address> result;
  for_rows(shape, [&](Bytes offset, Bytes bytes) {
    if (!result) result = denied(device, at + offset, bytes, needed);
  });
  return result;
}

void Executor::fault(const Operation& operation, Address at) {
  if (kernel_fault_) {
    error_ = kernel_fault_->error;
    std::fprintf(stderr, "simulated device: %s (operation %llu, stream %u); the context is lost\n",
                 kernel_fault_->message.c_str(), static_cast<unsigned long long>(operation.id), operation.stream);
    kernel_fault_.reset();
    if (checker_ != nullptr && error_ == CUDA_ERROR_ILLEGAL_ADDRESS) checker_->inaccessible(operation, at);
    return;
  }
  error_ = CUDA_ERROR_ILLEGAL_ADDRESS;
  std::fprintf(stderr,
               "simulated device: illegal address 0x%llx in %s (operation %llu, stream %u%s); the context is lost\n",
               static_cast<unsigned long long>(at), std::string(name_of(operation.work)).c_str(),
               static_cast<unsigned long long>(operation.id), operation.stream,
               has_several_devices_ ? (", device " + std::to_string(operation.device)).c_str() : "");
  if (checker_ != nullptr) checker_->inaccessible(operation, at);
}

// The effects of each kind of work. Each function returns the address of an illegal access, if there was one.
struct Executor::Run {
  Executor& executor;
  const Operation& operation;

  std::optional<Address> operator()(Marker&) { return std::nullopt; }
  std::optional<Address> operator()(Record&) { return std::nullopt; }
  std::optional<Address> operator()(Lifetime&) { return std::nullopt; }

  std::optional<Address> operator()(HostFunction&) { return std::nullopt; }  // has run: see may_go_on

  std::optional<Address> operator()(Internal& work) {
    work.function();
    return std::nullopt;
  }

  template <typename Body>
  std::optional<Address> access(Body body) {
    if (executor.tagged_) {
      body();
      return std::nullopt;
    }
    return run_guarded(body);
  }

  std::optional<Address> operator()(Copy& copy) {
    const bool writes_device = copy.direction == Direction::kToDevice || copy.direction == Direction::kOnDevice;
    const bool reads_device = copy.direction == Direction::kToHost || copy.direction == Direction::kOnDevice;
    if (writes_device) {
      if (const auto at =
              executor.denied(copy.to_as.value_or(operation.device), copy.to, copy.to_shape, Access::kReadWrite))
        return at;
    }
    if (reads_device) {
      if (const auto at =
              executor.denied(copy.from_as.value_or(operation.device), copy.from, copy.from_shape, Access::kRead))
        return at;
    }
    return access([&] { move(copy); });
  }

  void move(Copy& copy) {
    Contents& contents = executor.contents_;
    if (copy.staged != nullptr) {
      const std::byte* from = copy.staged.get();
      for_rows(copy.to_shape, [&](Bytes offset, Bytes bytes) {
        contents.write(copy.to + offset, from, bytes);
        from += bytes;
      });
      return;
    }
    if (is_plain(copy.to_shape) && is_plain(copy.from_shape)) {
      contents.copy(copy.to, copy.from, copy.to_shape.width);
      return;
    }
    const Shape& to = copy.to_shape;
    const Shape& from = copy.from_shape;
    for (Bytes z = 0; z < to.depth; ++z) {
      for (Bytes y = 0; y < to.height; ++y) {
        contents.copy(copy.to + z * to.slice_pitch + y * to.row_pitch,
                      copy.from + z * from.slice_pitch + y * from.row_pitch, to.width);
      }
    }
  }

  std::optional<Address> operator()(WriteValue& write) {
    if (const auto at = executor.denied(operation.device, write.to, write.bytes, Access::kReadWrite)) return at;
    return access([&] { executor.contents_.write_word(write.to, write.value, write.bytes); });
  }

  std::optional<Address> operator()(WaitValue& wait) {
    return executor.denied(operation.device, wait.at, wait.bytes, Access::kRead);
  }

  std::optional<Address> operator()(Set& set) {
    if (const auto at = executor.denied(operation.device, set.to, set.shape, Access::kReadWrite)) return at;
    return access([&] {
      for_rows(set.shape, [&](Bytes offset, Bytes bytes) {
        executor.contents_.fill(set.to + offset, bytes, set.value, set.element);
      });
    });
  }

  std::optional<Address> operator()(Kernel& kernel) {
    if (kernel.function != nullptr && !executor.tagged_) return call(kernel);
    if (kernel.real != nullptr && !executor.tagged_) return run_code(kernel);
    for (const Buffer& buffer : kernel.named) {
      if (const auto at = executor.denied(operation.device, buffer.address, buffer.bytes, Access::kReadWrite))
        return at;
    }
    for (const Fetch& fetch : kernel.fetched) {
      if (const auto at = executor.denied(operation.device, fetch.address, fetch.shape, Access::kRead)) return at;
    }
    if (executor.tagged_ && accesses_of_digests(kernel)) {
      return access([&] { compute_digests(kernel, executor.contents_); });
    }
    std::uint64_t result = 0;
    const auto at = access([&] { result = mix_buffers(kernel, executor.contents_); });
    if (!kernel.declared) executor.checksum_ += combine(kernel.ordinal, result);
    return at;
  }

  std::optional<Address> call(Kernel& kernel) {
    std::vector<void*> arguments;
    arguments.reserve(kernel.parameters.size() + 1);
    for (const Parameter& parameter : kernel.parameters) {
      arguments.push_back(kernel.block_of_parameters.data() + parameter.offset);
    }
    arguments.push_back(nullptr);
    return watched(kernel,
                   [&] { return access([&] { kernel.function(arguments.data(), kernel.grid, kernel.block); }); });
  }

  std::optional<Address> run_code(Kernel& kernel) {
    const MayTouch may_touch = [&](Address at, Bytes bytes, Access needed) {
      return !executor.denied(operation.device, at, bytes, needed);
    };
    const std::vector<std::byte> before = declared_to_be_written(kernel);
    std::vector<AccessedRange> ranges;
    const bool is_traced = executor.checker_ != nullptr && RaceChecker::is_traced(kernel);
    const auto faulted = watched(kernel, [&] {
      std::optional<KernelFault>& fault = executor.kernel_fault_;
      KernelCounts counts;
      const auto at = access([&] {
        fault = kernel.real->run(kernel, executor.table_, may_touch, &counts, is_traced ? &ranges : nullptr);
      });
      if (kernel.is_counted) {
        const Time time = time_of(kernel, counts, executor.settings_);
        kernel.took = jittered(executor.settings_.faults, time, kernel.ordinal);
      }
      return at || !fault ? at : std::optional(fault->address);
    });
    if (is_traced) executor.checker_->kernel_accessed(operation, ranges);
    kernel.wrote = before != declared_to_be_written(kernel);
    return faulted;
  }

  static std::vector<std::byte> declared_to_be_written(const Kernel& kernel) {
    if (kernel.writing == 0) return {};
    const Fetch& range = *kernel.declared->may_write;
    const auto* const begin = reinterpret_cast<const std::byte*>(range.address);
    return {begin, begin + range.shape.width};
  }

  // While the race checker is active, and the system's page protection is that of the kernel's device.
  template <typename Body>
  std::optional<Address> watched(Kernel& kernel, Body run) {
    const HostFunctionScope scope;
    const ConditionsScope settable(kernel.conditions.get());
    std::optional<DeviceView> view;
    if (executor.has_several_devices_) view.emplace(executor.addresses_, operation.device);
    if (executor.checker_ == nullptr) return run();
    const KernelWatch watch(executor.checker_->to_watch(kernel, operation.device), kernel.ordinal);
    const auto at = run();
    executor.checker_->kernel_accessed(operation, watch.accesses());
    return at;
  }

  std::optional<Address> operator()(Conditional& conditional) {
    executor.run(operation, *conditional.node);
    return std::nullopt;
  }

  std::optional<Address> operator()(Operator& op) {
    for (const Operand& operand : op.operands) {
      const Access needed = operand.write || operand.fresh ? Access::kReadWrite : Access::kRead;
      if (const auto at = executor.denied(operation.device, operand.address, operand.bytes, needed)) return at;
    }
    std::uint64_t results = 0;
    const auto at = access([&] { results = compute(op, executor.contents_); });
    if (!op.is_relaunch) executor.checksum_ += results;
    return at;
  }
};

void Executor::run(const Operation& operation, ConditionalNode& node) {
  for (std::uint64_t round = 0; const Body* const body = node.chosen(); ++round) {
    if (round == kMostRounds) goes_round_for_good(operation);
    for (const Step& step : *body) {
      Time took = 0;
      if (!run(operation, step, &took)) return;
      node.took += took;
    }
    if (node.branching != Branching::kWhile) return;
  }
}

// False: a fault occurred.
bool Executor::run(const Operation& operation, const Step& step, Time* took) {
  Operation own;
  own.id = operation.id;
  own.stream = operation.stream;
  own.branch = operation.branch;
  own.device = own.served_by = step.device;
  own.work = step.work;
  if (checker_ != nullptr) checker_->executes(own);
  if (const auto at = std::visit(Run{*this, own}, own.work)) fault(own, *at);
  count(own.work);
  const auto* const within = std::get_if<Conditional>(&own.work);
  const auto* const kernel = std::get_if<Kernel>(&own.work);
  *took = within != nullptr                         ? std::exchange(within->node->took, 0)
          : kernel != nullptr && kernel->is_counted ? kernel->took
                                                    : step.duration;
  return error_ == CUDA_SUCCESS;
}

void Executor::clear_fresh(const Operation& operation) {
  for (const Buffers::Slot slot : operation.fresh_buffers) clear(buffers_.take_fresh(slot, true));
  for (const Buffers::Slot slot : operation.other_fresh_buffers) clear(buffers_.take_fresh(slot, false));
}

// Only where pages are mapped: an operation that accesses the rest faults by itself.
void Executor::clear(const std::optional<Buffer>& buffer) {
  if (!buffer) return;
  const Address end = buffer->address + buffer->bytes;
  for (Address at = buffer->address; at < end;) {
    const Address stop = std::min(end, round_down(at, kPageBytes) + kPageBytes);
    if (!table_.first_denied(at, stop - at, Access::kReadWrite)) contents_.zero(at, stop - at);
    at = stop;
  }
}

void Executor::execute(Operation& operation) {
  if (error_ == CUDA_SUCCESS) {
    if (checker_ != nullptr) checker_->executes(operation);
    clear_fresh(operation);
    if (const auto at = std::visit(Run{*this, operation}, operation.work)) fault(operation, *at);
  }
  for (auto* const held : {&operation.fresh_buffers, &operation.other_fresh_buffers}) {
    for (const Buffers::Slot slot : *held) buffers_.let_go(slot);
    held->clear();
  }
  if (checker_ != nullptr) checker_->executed(operation);
}

bool Executor::may_go_on(Operation& operation) {
  if (auto* const function = std::get_if<HostFunction>(&operation.work)) return may_go_on(operation, *function);
  const auto* const wait = std::get_if<WaitValue>(&operation.work);
  return wait == nullptr || may_go_on(operation, *wait);
}

// A function that has begun also goes on after a fault.
bool Executor::may_go_on(const Operation& operation, HostFunction& work) {
  if (work.call == nullptr) {
    if (error_ != CUDA_SUCCESS) return true;
    if (checker_ != nullptr) checker_->begins(operation);
    work.call = host_threads_.begin(work.function, [](bool begins) { inside_host_function = begins; });
  }
  return HostThreads::has_ended(*work.call);
}

// If an operation cannot read the word, its fault occurs when it continues.
bool Executor::may_go_on(const Operation& operation, const WaitValue& wait) {
  if (error_ != CUDA_SUCCESS) return true;
  if (denied(operation.device, wait.at, wait.bytes, Access::kRead)) return true;
  std::uint64_t found = 0;
  auto look = [&] { found = contents_.word(wait.at, wait.bytes); };
  if (tagged_) {
    look();
  } else if (run_guarded(look)) {
    return true;
  }
  return is_there(wait, found);
}

void Executor::count(const Copy& copy) {
  const Bytes bytes = copy.to_shape.bytes();
  switch (copy.direction) {
    case Direction::kToDevice:
      ++counts_.h2d_copies;
      counts_.h2d_bytes += bytes;
      break;
    case Direction::kToHost:
      ++counts_.d2h_copies;
      counts_.d2h_bytes += bytes;
      break;
    case Direction::kOnDevice:
      ++counts_.d2d_copies;
      counts_.d2d_bytes += bytes;
      break;
    case Direction::kOnHost:
      break;
  }
}

void Executor::count(const Work& work) {
  if (const auto* copy = std::get_if<Copy>(&work)) count(*copy);
  if (const auto* set = std::get_if<Set>(&work)) {
    ++counts_.sets;
    counts_.set_bytes += set->shape.bytes();
  }
  if (std::holds_alternative<HostFunction>(work)) ++counts_.host_functions;
  if (std::holds_alternative<Kernel>(work) || std::holds_alternative<Operator>(work)) ++counts_.kernels;
}

void Executor::completed(Operation& operation) {
  if (const auto* record = std::get_if<Record>(&operation.work)) {
    events_.completed(*record, operation.id, operation.end);
    return;
  }
  if (std::holds_alternative<Marker>(operation.work) || std::holds_alternative<Internal>(operation.work) ||
      std::holds_alternative<Lifetime>(operation.work) || std::holds_alternative<WriteValue>(operation.work) ||
      std::holds_alternative<WaitValue>(operation.work))
    return;
  if (timeline_file_ != nullptr) timeline_file_->ran(operation);
  counts_.last_end_ns = std::max(counts_.last_end_ns, operation.end);
  count(operation.work);
}

}  // namespace simulator
