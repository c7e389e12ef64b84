/* SPDX-License-Identifier: Apache-2.0
 * shown COMMAND: holds six buffers of 4 MiB, has used them in turn, and runs a shell command outside the library, to
 * which it is $SHOWN. Then it frees them, and runs the command again if there is a second one.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES (4u << 20)
#define BUFFERS 6

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "shown: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

int main(int count, char** arguments) {
  char pid[32];
  CUdevice device;
  CUcontext context;
  CUdeviceptr buffers[BUFFERS];
  REQUIRE(count >= 2);
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  REQUIRE(setenv("SHOWN", pid, 1) == 0 && unsetenv("LD_PRELOAD") == 0 && unsetenv("LD_LIBRARY_PATH") == 0);
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  for (unsigned i = 0; i < BUFFERS; ++i) {
    REQUIRE(cuMemAlloc(&buffers[i], BYTES) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32(buffers[i], i, BYTES / 4) == CUDA_SUCCESS);
  }
  REQUIRE(system(arguments[1]) == 0);
  for (unsigned i = 0; i < BUFFERS; ++i) REQUIRE(cuMemFree(buffers[i]) == CUDA_SUCCESS);
  if (count > 2) REQUIRE(system(arguments[2]) == 0);
  return 0;
}
