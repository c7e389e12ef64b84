// SPDX-License-Identifier: Apache-2.0
// The code of a kernel, where it can be run. Who implements it need not be known here (simulator/cuda/module/ptx.cc).
#pragma once

#include <cuda.h>

#include <functional>
#include <optional>
#include <string>

#include "simulator/core/memory/page_table.h"
#include "simulator/core/types.h"

namespace simulator {

struct Kernel;

// How a kernel ended that did not come to its end. The context is lost.
struct KernelFault {
  CUresult error = CUDA_ERROR_LAUNCH_FAILED;
  Address address = 0;
  std::string message;
};

// Whether memory may be accessed that the page table says nothing of: pinned memory of the host.
using MayTouch = std::function<bool(Address at, Bytes bytes, Access needed)>;

class RealKernel {
 public:
  virtual ~RealKernel() = default;
  // It calls malloc or free.
  virtual bool needs_heap() const { return false; }
  // It asks for the cluster that its block is in: only clusters of one block can be run then.
  virtual bool uses_clusters() const { return false; }
  // On this thread, to its end or a fault. May be left by a jump out of a signal handler (fault_guard.h).
  virtual std::optional<KernelFault> run(const Kernel& kernel, const PageTable& table,
                                         const MayTouch& may_touch) const = 0;
};

}  // namespace simulator
