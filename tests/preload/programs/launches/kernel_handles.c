// SPDX-License-Identifier: Apache-2.0
// Kernels that belong to a library instead of a context, launched by their own handle.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUlibrary library = NULL;
  CUkernel found = NULL, listed[3] = {NULL};
  CUfunction bound = NULL;
  CHECK(cuLibraryLoadData(&library, kKernels, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cuLibraryGetKernel(&found, library, "mix"));
  CHECK(cuLibraryEnumerateKernels(listed, 3, library));
  CHECK(cuKernelGetFunction(&bound, found));
  CUfunction functions[2] = {(CUfunction)found, bound};
  for (int i = 0; i < BUFFERS; ++i) {
    CUdeviceptr from = buffers[(i + 3) % BUFFERS];
    void* parameters[] = {&buffers[i], &from};
    CHECK(cuLaunchKernel(functions[i % 2], 64, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
  }
  CHECK(cuCtxSynchronize());
  CHECK(cuLibraryUnload(library));
  return finish();
}
