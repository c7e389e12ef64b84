// SPDX-License-Identifier: Apache-2.0
// Asks cuGetProcAddress for each of its arguments and prints which the driver has.
#include <dlfcn.h>
#include <stdio.h>

#include <cuda.h>

typedef CUresult (*Resolve)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

int main(int count, char** names) {
  Resolve resolve = NULL;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver != NULL) *(void**)&resolve = dlsym(driver, "cuGetProcAddress_v2");
  if (resolve == NULL) return 2;
  for (int i = 1; i < count; ++i) {
    void* found = NULL;
    const CUresult result = resolve(names[i], &found, 13000, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
    printf("%s: %s\n", names[i], result == CUDA_SUCCESS && found != NULL ? "there" : "not there");
  }
  return 0;
}
