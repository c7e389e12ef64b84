// SPDX-License-Identifier: Apache-2.0
// A kernel that can be run: native code, and what a launch of it must provide.
#pragma once

#include <memory>
#include <string>

#include "simulator/ptx/compile.h"
#include "simulator/ptx/context.h"
#include "simulator/ptx/emit.h"

namespace simulator::ptx {

struct Kernel {
  std::string name;
  std::uint32_t cluster[3] = {};  // the size that its code asks for
  Emitted emitted;                // without its text
  std::unique_ptr<Code> code;
  KernelEntry entry = nullptr;
};

}  // namespace simulator::ptx
