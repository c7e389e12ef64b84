// SPDX-License-Identifier: Apache-2.0
// A pool of the program's own, and the one of the device after another was made current.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUmemPoolProps properties = {0};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = NULL, before = NULL;
  CHECK(cuMemPoolCreate(&pool, &properties));
  CHECK(cuDeviceGetMemPool(&before, 0));
  CUdeviceptr own = 0, current = 0;
  CHECK(cuMemAllocFromPoolAsync(&own, BYTES, pool, NULL));
  CHECK(cuDeviceSetMemPool(0, pool));
  CHECK(cuMemAllocAsync(&current, BYTES, NULL));
  CHECK(cuMemcpyDtoDAsync(own, buffers[2], BYTES, NULL));
  CHECK(cuMemcpyDtoDAsync(current, buffers[5], BYTES, NULL));
  mix_all(NULL);
  mix_on(NULL, own, current);
  show("own", own, BYTES);
  CHECK(cuMemFreeAsync(own, NULL));
  CHECK(cuMemFreeAsync(current, NULL));
  CHECK(cuDeviceSetMemPool(0, before));
  CHECK(cuStreamSynchronize(NULL));
  CHECK(cuMemPoolTrimTo(pool, 0));
  CHECK(cuMemPoolDestroy(pool));
  return finish();
}
