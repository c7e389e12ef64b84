// SPDX-License-Identifier: Apache-2.0
// Evicted memory is copied to the host in every way that exists for one range, completely and in part, while other
// buffers take all the room: to pageable and to pinned memory, waiting and not, in streams with earlier work. Also a
// buffer that is freed before its copy has run, while others are evicted.
#include <string.h>

#include "tests/preload/programs/small.h"

#define LARGE ((size_t)12 << 20)

static CUstream stream;
static unsigned char* pinned;
static unsigned char* pageable;

// Leaves no room for anything else.
static void take_the_room(CUdeviceptr with) { mix_on(stream, with, with); }

static void tell_of(const char* what, const unsigned char* data, size_t bytes) { show_bytes(what, data, bytes); }

int main(void) {
  CUdeviceptr evicted = 0, room = 0, gone = 0;
  CUmemGenericAllocationHandle physical = 0;
  const CUmemAllocationProp own = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  begin();
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemHostAlloc((void**)&pinned, LARGE, 0));
  pageable = (unsigned char*)malloc(LARGE);
  CHECK(cuMemAlloc(&evicted, LARGE));
  CHECK(cuMemAlloc(&room, LARGE));
  fill(evicted, LARGE, 7);
  fill(room, LARGE, 8);
  CHECK(cuCtxSynchronize());
  take_the_room(room);
  CHECK(cuStreamSynchronize(stream));

  CHECK(cuMemcpyDtoH(pageable, evicted, LARGE));
  tell_of("whole", pageable, LARGE);
  CHECK(cuMemcpyDtoH(pageable, evicted + 4096, 4096));
  tell_of("part", pageable, 4096);
  CHECK(cuMemcpy((CUdeviceptr)pinned, evicted + 8192, LARGE - 8192));
  tell_of("unified", pinned, LARGE - 8192);
  memset(pageable, 0, LARGE);
  take_the_room(room);
  CHECK(cuMemcpyDtoHAsync(pageable, evicted, LARGE / 2, stream));
  tell_of("pageable", pageable, LARGE);
  memset(pinned, 0, LARGE);
  take_the_room(room);
  CHECK(cuMemcpyDtoHAsync(pinned, evicted, LARGE, stream));
  CHECK(cuMemcpyAsync((CUdeviceptr)pageable, evicted + LARGE / 2, LARGE / 2, stream));
  CHECK(cuStreamSynchronize(stream));
  tell_of("pinned", pinned, LARGE);
  tell_of("unified in a stream", pageable, LARGE);

  // Its contents are still being read after it was freed, and others are evicted to the same host memory.
  CHECK(cuMemAlloc(&gone, LARGE / 2));
  fill(gone, LARGE / 2, 9);
  CHECK(cuCtxSynchronize());
  take_the_room(room);
  take_the_room(evicted);
  CHECK(cuMemcpyDtoHAsync(pinned, gone, LARGE / 2, stream));
  CHECK(cuMemFreeAsync(gone, stream));
  take_the_room(room);
  take_the_room(evicted);
  CHECK(cuMemcpyDtoHAsync(pinned + LARGE / 2, room + 64, LARGE / 2, stream));
  // It is overwritten after the copy.
  CHECK(cuMemsetD8Async(room, 3, LARGE, stream));
  CHECK(cuStreamSynchronize(stream));
  tell_of("gone", pinned, LARGE);
  show("evicted", evicted, LARGE);
  show("room", room, LARGE);

  // All the room is taken by the program's own mappings, so nothing could be fetched.
  CHECK(cuMemCreate(&physical, (size_t)20 << 20, &own, 0));
  show("beside all the room", evicted, LARGE);
  CHECK(cuMemcpyDtoHAsync(pinned, room, LARGE, stream));
  CHECK(cuStreamSynchronize(stream));
  tell_of("in a stream", pinned, LARGE);
  CHECK(cuMemRelease(physical));

  CHECK(cuMemFree(evicted));
  CHECK(cuMemFree(room));
  CHECK(cuMemFreeHost(pinned));
  free(pageable);
  CHECK(cuStreamDestroy(stream));
  make_buffers();
  return finish();
}
