// SPDX-License-Identifier: Apache-2.0
// The interface to a kernel's code, if it can be run. The implementation is elsewhere (simulator/cuda/module/ptx.cc).
#pragma once

#include <cuda.h>

#include <functional>
#include <optional>
#include <string>

#include "simulator/core/memory/page_table.h"
#include "simulator/core/types.h"

namespace simulator {

struct Kernel;

// The error with which a kernel ended. The context is lost.
struct KernelFault {
  CUresult error = CUDA_ERROR_LAUNCH_FAILED;
  Address address = 0;
  std::string message;
};

// Whether memory that is not in the page table may be accessed: pinned host memory.
using MayTouch = std::function<bool(Address at, Bytes bytes, Access needed)>;

class RealKernel {
 public:
  virtual ~RealKernel() = default;
  // Whether it calls malloc or free.
  virtual bool needs_heap() const { return false; }
  // Whether it uses its block's cluster: then only clusters of one block can be run.
  virtual bool uses_clusters() const { return false; }
  // Runs on this thread, to the end or to a fault. May be left by a jump out of a signal handler (fault_guard.h).
  virtual std::optional<KernelFault> run(const Kernel& kernel, const PageTable& table,
                                         const MayTouch& may_touch) const = 0;
};

}  // namespace simulator
