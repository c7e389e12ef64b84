// SPDX-License-Identifier: Apache-2.0
// Addresses that the program reserves and maps itself, between buffers of the library.
#include "tests/preload/programs/small.h"

int main(void) {
  begin();
  make_buffers();
  CUmemAllocationProp property = {0};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {0};
  access.location = property.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CUdeviceptr at = 0;
  CHECK(cuMemCreate(&handle, BYTES, &property, 0));
  CHECK(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
  CHECK(cuMemMap(at, BYTES, 0, handle, 0));
  CHECK(cuMemSetAccess(at, BYTES, &access, 1));
  CHECK(cuMemRetainAllocationHandle(&again, (void*)at));
  CHECK(cuMemRelease(again));
  CHECK(cuMemsetD32(at, 3, BYTES / 4));
  for (int i = 0; i < BUFFERS; ++i) mix_on(NULL, buffers[i], at);
  mix_on(NULL, at, buffers[4]);
  show("mapped", at, BYTES);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemUnmap(at, BYTES));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(at, BYTES));
  return finish();
}
