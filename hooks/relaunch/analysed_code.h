// SPDX-License-Identifier: Apache-2.0
// The analysis of a function's code: through which words of its parameters it reads and writes, and whether it may run
// again. Used for code that the driver has loaded (kernel_codes.h) and for files (`thermocline kernels`).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hooks/relaunch/device_code.h"
#include "hooks/relaunch/ptx_proof.h"

namespace thermocline {

// One kernel as one PTX text defines it.
class KernelCode {
 public:
  // Null: the kernel is not understood; `why` has the reason. The text must outlive the result.
  static std::unique_ptr<KernelCode> read(const DeviceCode::Text& text, const std::string& name, RerunRefusal* why);

  const PtxKernel& kernel() const { return kernel_; }
  const PtxAccesses& accesses() const { return accesses_; }
  const PtxProof& proof() const { return proof_; }

 private:
  explicit KernelCode(PtxKernel kernel)
      : kernel_(std::move(kernel)), accesses_(find_accesses(kernel_)), proof_(kernel_, accesses_) {}

  PtxKernel kernel_;
  PtxAccesses accesses_;
  PtxProof proof_;
};

struct AnalysedCode {
  std::vector<std::unique_ptr<KernelCode>> kernels;  // one for each text; all kernels of one name have the same words
  // Why its accesses are unknown; none: they are known.
  RerunRefusal unknown;
  // Why it may never run again; none: it may.
  RerunRefusal refused;
};

// `code` null: the code was not seen. The code must outlive the result.
AnalysedCode analyse_code(const DeviceCode* code, const std::string& name);

}  // namespace thermocline
