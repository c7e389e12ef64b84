// SPDX-License-Identifier: Apache-2.0
// Descriptions of array elements.
#include "simulator/cudart/session.h"

extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
