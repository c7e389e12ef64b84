// SPDX-License-Identifier: Apache-2.0
// A parent and a child that share a buffer by CUDA IPC, in addition to buffers that are not shared. The child reports
// what it sees to the parent, so that only one of them prints.
#include "tests/preload/programs/small.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void pass(int to, const void* data, size_t bytes) {
  if (write(to, data, bytes) != (ssize_t)bytes) exit(3);
}

static void take(int from, void* data, size_t bytes) {
  if (read(from, data, bytes) != (ssize_t)bytes) exit(3);
}

// More than the budget, of memory that can not be shared.
static void make_own_buffers(void) {
  for (uint32_t i = 0; i < BUFFERS; ++i) {
    CHECK(cuMemAllocAsync(&buffers[i], BYTES, NULL));
    fill(buffers[i], BYTES, i);
  }
  CHECK(cuCtxSynchronize());
}

static int child(int from, int to) {
  CUipcMemHandle handle;
  CUdeviceptr shared = 0;
  CUresult given = CUDA_SUCCESS;
  take(from, &given, sizeof given);
  if (given != CUDA_SUCCESS) return 0;
  take(from, &handle, sizeof handle);
  begin();
  make_own_buffers();
  CHECK(cuIpcOpenMemHandle(&shared, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  mix_all(NULL);
  mix_on(NULL, shared, buffers[2]);
  mix_on(NULL, buffers[3], shared);
  CHECK(cuCtxSynchronize());
  uint32_t* seen = (uint32_t*)malloc(BYTES);
  CHECK(cuMemcpyDtoH(seen, buffers[3], BYTES));
  pass(to, seen, 4096);
  free(seen);
  CHECK(cuIpcCloseMemHandle(shared));
  for (int i = 0; i < BUFFERS; ++i) CHECK(cuMemFree(buffers[i]));
  end();
  return 0;
}

int main(void) {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) return 3;
  const pid_t other = fork();
  if (other == 0) return child(down[0], up[1]);
  begin();
  make_own_buffers();
  CUdeviceptr shared = 0;
  CHECK(cuMemAlloc(&shared, BYTES));
  fill(shared, BYTES, 77);
  mix_on(NULL, shared, buffers[0]);
  CHECK(cuCtxSynchronize());
  CUipcMemHandle handle;
  memset(&handle, 0, sizeof handle);
  const CUresult given = cuIpcGetMemHandle(&handle, shared);
  printf("handle %d\n", (int)given);
  pass(down[1], &given, sizeof given);
  if (given == CUDA_SUCCESS) {
    pass(down[1], &handle, sizeof handle);
    char seen[4096];
    take(up[0], seen, sizeof seen);
    show_bytes("seen", seen, sizeof seen);
  }
  int status = 0;
  if (waitpid(other, &status, 0) != other || status != 0) return 3;
  show("shared", shared, BYTES);
  mix_on(NULL, buffers[1], shared);
  mix_all(NULL);
  CHECK(cuMemFree(shared));
  return finish();
}
