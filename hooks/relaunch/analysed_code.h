// SPDX-License-Identifier: Apache-2.0
// What the code of a function tells: through which words of its parameters it reads and writes, and whether it may run
// again. Of what the driver has loaded (kernel_codes.h) and of files (`thermocline kernels`) alike.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hooks/relaunch/device_code.h"
#include "hooks/relaunch/ptx_proof.h"

namespace thermocline {

// One kernel of one text.
class KernelCode {
 public:
  // Null: it is not understood, and why. The text must outlive both.
  static std::unique_ptr<KernelCode> read(const std::string& text, const std::string& name, RerunRefusal* why);

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
  std::vector<std::unique_ptr<KernelCode>> kernels;  // one for each text; those of one name have the same words
  // Why nothing is known of its accesses; none: they are.
  RerunRefusal unknown;
  // Why it never runs again; none: it may.
  RerunRefusal refused;
};

// Null: its code was not seen. The code must outlive the result.
AnalysedCode analyse_code(const DeviceCode* code, const std::string& name);

}  // namespace thermocline
