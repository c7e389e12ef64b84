// SPDX-License-Identifier: Apache-2.0
// The engines' calls that put something into streams, for their table of the driver (real_table.h): counted as the
// program's own are (stream_queues.h).
#pragma once

#include <cuda.h>

namespace thermocline {

CUresult CUDAAPI record_counted(CUevent event, CUstream stream);
CUresult CUDAAPI wait_counted(CUstream stream, CUevent event, unsigned int flags);

}  // namespace thermocline
