// SPDX-License-Identifier: Apache-2.0
// Calls that pass memory to another interface: what the driver refuses, it also refuses under the library. "unfreed":
// the buffers exist until the end.
#include "tests/preload/programs/small.h"

#include <unistd.h>

int main(int count, char** arguments) {
  (void)arguments;
  begin();
  make_buffers();
  int file = -1;
  TELL(cuMemGetHandleForAddressRange(&file, buffers[1], BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  if (file >= 0) close(file);
  file = -1;
  CUmemGenericAllocationHandle nothing = 0;
  TELL(cuMemExportToShareableHandle(&file, nothing, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  // Memory that was passed on, or nearly, is still used.
  mix_all(NULL);
  if (count == 1) return finish();
  show_buffers();
  return 0;
}
