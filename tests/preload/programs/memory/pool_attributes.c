// SPDX-License-Identifier: Apache-2.0
// A pool's attributes: memory in use and reserved, now and at most, high water marks that are reset, a release
// threshold, a maximum size; for a pool of the program's own, the default one, and the one that was made current.
#include "tests/preload/programs/small.h"

static cuuint64_t number(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  CHECK(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

static void tell(const char* when, CUmemoryPool pool) {
  const cuuint64_t used = number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const cuuint64_t most = number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
  const cuuint64_t reserved = number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  const cuuint64_t most_reserved = number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  // Everything is allocated in whole pages of the device, so that nothing is rounded.
  printf("%s: used %llu of %llu, reserved %llu of %llu\n", when, (unsigned long long)used, (unsigned long long)most,
         (unsigned long long)reserved, (unsigned long long)most_reserved);
}

static CUmemoryPool pool_of(CUdeviceptr at) {
  CUmemoryPool pool = NULL;
  CHECK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at));
  return pool;
}

static void use(CUmemoryPool pool, int by_name) {
  CUdeviceptr held[6];
  cuuint64_t zero = 0, all = ~(cuuint64_t)0;
  tell("before", pool);
  for (int i = 0; i < 6; ++i) {
    CHECK(by_name ? cuMemAllocFromPoolAsync(&held[i], BYTES, pool, NULL) : cuMemAllocAsync(&held[i], BYTES, NULL));
    CHECK(cuMemcpyDtoDAsync(held[i], buffers[i], BYTES, NULL));
    printf("its pool %d\n", pool_of(held[i]) == pool);
  }
  tell("six", pool);
  for (int i = 0; i < 6; ++i) mix_on(NULL, held[i], held[(i + 1) % 6]);
  for (int i = 0; i < 3; ++i) CHECK(cuMemFreeAsync(held[i], NULL));
  CHECK(cuCtxSynchronize());
  tell("three", pool);
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
  TELL(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &all));
  TELL(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero));
  tell("set back", pool);
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  CHECK(cuMemFreeAsync(held[3], NULL));
  CHECK(cuMemFreeAsync(held[4], NULL));
  CHECK(cuCtxSynchronize());
  printf("kept %d\n", number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 3 * BYTES);
  CHECK(cuMemPoolTrimTo(pool, 2 * BYTES));
  printf("trimmed to %llu\n", (unsigned long long)number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  CHECK(cuMemPoolTrimTo(pool, 0));
  tell("one", pool);
  show("held", held[5], BYTES);
  CHECK(cuMemFreeAsync(held[5], NULL));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
  CHECK(cuMemPoolTrimTo(pool, 0));
  tell("none", pool);
}

int main(void) {
  begin();
  make_buffers();
  printf("of no pool %d\n", pool_of(buffers[0]) == NULL);
  CUmemoryPool standard = NULL;
  CHECK(cuDeviceGetDefaultMemPool(&standard, 0));
  use(standard, 0);
  for (int round = 0; round < 2; ++round) {
    CUmemPoolProps properties = {0};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.maxSize = 8 * BYTES;
    CUmemoryPool pool = NULL;
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuDeviceSetMemPool(0, pool));
    use(pool, round);
    CUdeviceptr large = 0;
    TELL(cuMemAllocFromPoolAsync(&large, 9 * BYTES, pool, NULL));
    CHECK(cuDeviceSetMemPool(0, standard));
    tell("default", standard);
    CHECK(cuMemPoolDestroy(pool));
  }
  mix_all(NULL);
  return finish();
}
