// SPDX-License-Identifier: Apache-2.0
// The NVTX ranges that the program is in (nvtxRangePush, torch.cuda.nvtx, cuBLAS, cuDNN, ...), for reports that say what a
// thread was doing.
//
// NVTX calls the functions of the tool that NVTX_INJECTION64_PATH names, and nobody where it names none. So ranges are seen
// where there is a tool (the simulated device is one, profilers are), or where the variable names this library. What a
// tool asks for, it gets: its functions are called by ours. Source: nvtx3/nvtxDetail/nvtxInit.h and nvtxTypes.h of CUDA
// 13.0: the client looks up InitializeInjectionNvtx2 in the tool, and passes it tables of slots for the tool's functions.
#pragma once

#include <string>

namespace thermocline {

inline constexpr const char* kNvtxInitialization = "InitializeInjectionNvtx2";

// In place of the tool's function of that name, which is `found`: what gives the tool's functions and then ours to NVTX.
// `found` itself, where another tool's is in use.
void* with_nvtx_ranges(void* found) noexcept;

// Of this thread, outermost first: "epoch 2 > forward"; "": none, or nobody tells.
std::string nvtx_ranges();

}  // namespace thermocline
