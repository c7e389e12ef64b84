// SPDX-License-Identifier: Apache-2.0
// The NVTX ranges that the program is in (nvtxRangePush, torch.cuda.nvtx, cuBLAS, cuDNN, ...), for reports that say
// what a thread was doing.
//
// NVTX calls the functions of the tool that NVTX_INJECTION64_PATH names, and nothing if it names none. So ranges are
// seen if there is a tool (such as the simulated device or a profiler), or if the variable names this library. The tool
// still gets its calls: our functions call it. Source: nvtx3/nvtxDetail/nvtxInit.h and nvtxTypes.h of CUDA 13.0: the
// client looks up InitializeInjectionNvtx2 in the tool, and passes it tables of slots for its functions.
#pragma once

#include <string>

namespace thermocline {

inline constexpr const char* kNvtxInitialization = "InitializeInjectionNvtx2";

// Replaces the tool's function of that name, `found`, with one that gives NVTX the tool's functions and then ours.
// Returns `found` itself if another tool's function is already in use.
void* with_nvtx_ranges(void* found) noexcept;

// The ranges of this thread, outermost first: "epoch 2 > forward"; "": none, or NVTX does not report them.
std::string nvtx_ranges();

}  // namespace thermocline
