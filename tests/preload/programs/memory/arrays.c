// SPDX-License-Identifier: Apache-2.0
// Arrays and textures: forwarded, with buffers of ours at the other end.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUDA_ARRAY_DESCRIPTOR description = {0};
  description.Width = 1024;
  description.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  description.NumChannels = 1;
  CUarray array = NULL;
  CUresult made = cuArrayCreate(&array, &description);
  printf("array %d\n", (int)made);
  if (made == CUDA_SUCCESS) {
    CHECK(cuMemcpyDtoA(array, 0, buffers[0], 4096));
    CHECK(cuMemcpyAtoD(buffers[1], array, 0, 4096));
    CHECK(cuArrayDestroy(array));
  }
  CUDA_RESOURCE_DESC resource = {0};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = buffers[2];
  resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = BYTES;
  CUDA_TEXTURE_DESC reading = {0};
  CUtexObject texture = 0;
  made = cuTexObjectCreate(&texture, &resource, &reading, NULL);
  printf("texture %d\n", (int)made);
  if (made == CUDA_SUCCESS) CHECK(cuTexObjectDestroy(texture));
  mix_all(NULL);
  return finish();
}
