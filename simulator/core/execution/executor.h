// SPDX-License-Identifier: Apache-2.0
// Executes operations: checks every device range that they name against mappings and access rights, clears fresh
// buffers, moves contents, runs host functions and kernels. After the first fault nothing has any effect: the context
// is lost.
#pragma once

#include <cuda.h>

#include "simulator/control.h"
#include "simulator/core/execution/host_threads.h"
#include "simulator/core/execution/race_checker.h"
#include "simulator/core/memory/address_space.h"
#include "simulator/core/memory/buffers.h"
#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/host_memory.h"
#include "simulator/core/settings.h"
#include "simulator/core/streams/conditional.h"
#include "simulator/core/streams/events.h"
#include "simulator/core/streams/timeline.h"

namespace simulator {

class TimelineFile;

class Executor final : public Effects {
 public:
  Executor(const PageTable& table, const AddressSpace& addresses, Contents& contents, Buffers& buffers,
           const HostMemory& host, Events& events, const Settings& settings, RaceChecker* checker,
           TimelineFile* timeline_file = nullptr)
      : table_(table),
        addresses_(addresses),
        contents_(contents),
        buffers_(buffers),
        host_(host),
        events_(events),
        settings_(settings),
        tagged_(settings.tagged),
        has_several_devices_(settings.devices > 1),
        checker_(checker),
        timeline_file_(timeline_file) {}

  void execute(Operation& operation) override;
  void completed(Operation& operation) override;
  bool may_go_on(Operation& operation) override;

  CUresult error() const { return error_; }
  std::uint64_t checksum() const { return checksum_; }
  const SimulatedStatistics& counts() const { return counts_; }  // only the counters of executed work

  // True on a thread that is inside a host function or kernel.
  static bool in_host_function();
  // To be called on a thread inside a kernel of a graph that has this condition; false: there is none.
  static bool set_condition(std::uint64_t handle, std::uint32_t value);

 private:
  struct Run;  // the effects of one operation

  bool may_go_on(const Operation& operation, HostFunction& work);
  bool may_go_on(const Operation& operation, const WaitValue& wait);

  void clear_fresh(const Operation& operation);
  void clear(const std::optional<Buffer>& buffer);
  void run(const Operation& operation, ConditionalNode& node);
  bool run(const Operation& operation, const Step& step, Time* took);
  // The first address of the range for which the device lacks the needed access.
  std::optional<Address> denied(DeviceId device, Address at, Bytes bytes, Access needed) const;
  std::optional<Address> denied(DeviceId device, Address at, const Shape& shape, Access needed) const;
  void fault(const Operation& operation, Address at);
  void count(const Work& work);
  void count(const Copy& copy);

  const PageTable& table_;
  const AddressSpace& addresses_;
  Contents& contents_;
  Buffers& buffers_;
  const HostMemory& host_;
  Events& events_;
  const Settings& settings_;
  const bool tagged_;
  const bool has_several_devices_;
  RaceChecker* const checker_;         // nullptr: races are not checked
  TimelineFile* const timeline_file_;  // nullptr: no timeline is written
  HostThreads host_threads_;
  CUresult error_ = CUDA_SUCCESS;
  std::optional<KernelFault> kernel_fault_;  // of the kernel that has just ended with it
  std::uint64_t checksum_ = 0;
  SimulatedStatistics counts_{};
};

}  // namespace simulator
