// SPDX-License-Identifier: Apache-2.0
// Compiles LLVM IR, as text, to native code: the only part that uses LLVM.
#pragma once

#include <memory>
#include <string>

#include "simulator/ptx/context.h"

namespace simulator::ptx {

// Owns the code and LLVM's data for it.
class Code {
 public:
  virtual ~Code() = default;
  virtual KernelEntry entry() const = 0;
};

// Compiles the function `kernel` of the text. Throws Error (module.h) with LLVM's message: a bug in the emitter.
std::unique_ptr<Code> compile(const std::string& ir);

}  // namespace simulator::ptx
