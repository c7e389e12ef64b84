// SPDX-License-Identifier: Apache-2.0
// Wraps the entries of the engines' driver table (real_table.h) that submit work to streams, so that they are counted
// like the program's own calls (stream_queues.h).
#pragma once

#include <cuda.h>

namespace thermocline {

CUresult CUDAAPI record_counted(CUevent event, CUstream stream);
CUresult CUDAAPI wait_counted(CUstream stream, CUevent event, unsigned int flags);

}  // namespace thermocline
