// SPDX-License-Identifier: Apache-2.0
// Pointer attributes, for inner pointers and for pointers that are no longer valid.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  mix_all(NULL);
  for (int i = 0; i < BUFFERS; ++i) {
    CUcontext of = NULL;
    unsigned int type = 0, managed = 1;
    CUdeviceptr begins = 0, on_device = 0;
    size_t bytes = 0;
    int device = -1;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER,   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void* answers[] = {&of, &type, &begins, &bytes, &on_device, &device, &managed};
    CHECK(cuPointerGetAttributes(7, asked, answers, buffers[i] + 100));
    printf("%d %u %d %zu %d %d %u\n", of == context, type, begins == buffers[i], bytes, on_device == buffers[i] + 100,
           device, managed);
  }
  CUdeviceptr freed = buffers[0];
  const int result = finish();
  unsigned int type = 0;
  printf("freed %d\n", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, freed) != CUDA_SUCCESS);
  return result;
}
