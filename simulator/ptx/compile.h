// SPDX-License-Identifier: Apache-2.0
// LLVM IR, as text, to native code: the only part that knows LLVM.
#pragma once

#include <memory>
#include <string>

#include "simulator/ptx/context.h"

namespace simulator::ptx {

// Owns the code and what LLVM keeps with it.
class Code {
 public:
  virtual ~Code() = default;
  virtual KernelEntry entry() const = 0;
};

// The function `kernel` of the text. Throws Error (module.h), which says what LLVM said: a fault of the emitter's.
std::unique_ptr<Code> compile(const std::string& ir);

}  // namespace simulator::ptx
