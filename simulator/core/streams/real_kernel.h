// SPDX-License-Identifier: Apache-2.0
// The interface to a kernel's code, if it can be run. The implementation is elsewhere (simulator/cuda/module/ptx.cc).
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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

// Counts of what a kernel executed; a multiply-add counts as two operations.
struct KernelCounts {
  std::uint64_t instructions = 0;  // of PTX, of all threads together
  std::uint64_t flops = 0;         // on numbers of up to 32 bits
  std::uint64_t doubles = 0;       // on numbers of 64 bits
  std::uint64_t tensor_flops = 0;  // of products of matrices
  Bytes accessed = 0;              // bytes of global memory read and written, by whatever thread
  Bytes reached = 0;               // size of the pages that were read, and of those that were written
  Bytes of_host = 0;               // bytes of pinned host memory read and written
};

// The most ranges of each kind that a kernel reports.
inline constexpr std::size_t kMostAccessedRanges = 4096;

// A range that a kernel accessed, exactly. kAtomic: another kernel's atomic accesses may come in between.
enum class RangeAccess : std::uint8_t { kRead, kWrite, kAtomic };
struct AccessedRange {
  Address address = 0;
  Bytes bytes = 0;
  RangeAccess how = RangeAccess::kRead;
};

// Whether memory that is not in the page table may be accessed: pinned host memory.
using MayTouch = std::function<bool(Address at, Bytes bytes, Access needed)>;

class RealKernel {
 public:
  virtual ~RealKernel() = default;
  // Whether the kernel calls malloc or free.
  virtual bool needs_heap() const { return false; }
  // The shape of its clusters, if its code specifies one; else zeros.
  virtual std::array<std::uint32_t, 3> cluster() const { return {}; }
  // Runs to the end or to a fault, on this thread or on several of its own; all of them call may_touch. A jump out of a
  // signal handler may abandon it (fault_guard.h). `ranges`: gets the accessed ranges appended; may be nullptr.
  virtual std::optional<KernelFault> run(const Kernel& kernel, const PageTable& table, const MayTouch& may_touch,
                                         KernelCounts* counts, std::vector<AccessedRange>* ranges) const = 0;
};

}  // namespace simulator
