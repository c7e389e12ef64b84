// SPDX-License-Identifier: Apache-2.0
// A buffer that two processes share through the runtime's handles: the child writes what its parent reads.
#include "tests/preload/programs/runtime/small.cuh"

#include <sys/wait.h>
#include <unistd.h>

int child(int from, int to) {
  cudaIpcMemHandle_t handle;
  if (read(from, &handle, sizeof handle) != sizeof handle) return 3;
  void* shared = nullptr;
  NEED(cudaIpcOpenMemHandle(&shared, handle, cudaIpcMemLazyEnablePeerAccess));
  std::vector<char> host(kBytes);
  NEED(cudaMemcpy(host.data(), shared, kBytes, cudaMemcpyDeviceToHost));
  std::printf("child reads ");
  print_digest(host.data(), kBytes);
  std::fflush(stdout);
  NEED(cudaMemset(shared, 0x5a, kBytes / 2));
  NEED(cudaDeviceSynchronize());
  NEED(cudaIpcCloseMemHandle(shared));
  return write(to, "x", 1) == 1 ? 0 : 3;
}

int main() {
  int there[2];
  int back[2];
  if (pipe(there) != 0 || pipe(back) != 0) return 3;
  const pid_t forked = fork();  // before CUDA begins
  if (forked == 0) _exit(child(there[0], back[1]));
  make_buffers();
  NEED(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle;
  NEED(cudaIpcGetMemHandle(&handle, buffers[2]));
  mix_all();
  NEED(cudaMemset(buffers[2], 0x33, kBytes));
  NEED(cudaDeviceSynchronize());
  char done = 0;
  if (write(there[1], &handle, sizeof handle) != sizeof handle || read(back[0], &done, 1) != 1) return 3;
  int status = 0;
  if (waitpid(forked, &status, 0) != forked || status != 0) return 4;
  mix_all();
  return finish();
}
