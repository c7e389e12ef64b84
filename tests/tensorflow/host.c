/* SPDX-License-Identifier: Apache-2.0
 * host PLUGIN: loads the plugin as TensorFlow does, and allocates through it 24 MiB where the budget is 16.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

#include <dlfcn.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define BUFFERS 6

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "host: %s\n", what);
  exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

static SP_Platform platform;
static SP_PlatformFns functions;
static SP_Device device;
static SP_StreamExecutor executor;

static void load(const char* plugin) {
  void (*init)(SE_PlatformRegistrationParams*, TF_Status*) = NULL;
  void* const library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  require(library != NULL, library == NULL ? dlerror() : "");
  void* const found = dlsym(library, "SE_InitPlugin");
  memcpy(&init, &found, sizeof init);
  SE_PlatformRegistrationParams params = {.struct_size = SE_PLATFORM_REGISTRATION_PARAMS_STRUCT_SIZE};
  params.platform = &platform;
  params.platform_fns = &functions;
  platform.use_bfc_allocator = 1; /* as TensorFlow begins */
  init(&params, NULL);
  SE_CreateDeviceParams of_device = {.struct_size = SE_CREATE_DEVICE_PARAMS_STRUCT_SIZE};
  of_device.device = &device;
  functions.create_device(&platform, &of_device, NULL);
  SE_CreateStreamExecutorParams of_executor = {.struct_size = SE_CREATE_STREAM_EXECUTOR_PARAMS_STRUCT_SIZE};
  of_executor.stream_executor = &executor;
  functions.create_stream_executor(&platform, &of_executor, NULL);
}

static void make_context_current(void) {
  CUdevice first = 0;
  CUcontext context = NULL;
  REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&first, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, first) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

int main(int count, char** arguments) {
  SP_DeviceMemoryBase buffers[BUFFERS], large;
  SP_AllocatorStats stats;
  int64_t available = 0, total = 0;
  REQUIRE(count == 2);
  load(arguments[1]);
  REQUIRE(!platform.use_bfc_allocator && platform.force_memory_growth);
  REQUIRE(!executor.get_allocator_stats(&device, &stats));
  make_context_current();
  unsigned char* const host = (unsigned char*)executor.host_memory_allocate(&device, 4 * MIB);
  REQUIRE(host != NULL);
  for (int i = 0; i < BUFFERS; ++i) {
    executor.allocate(&device, 4 * MIB, 0, &buffers[i]);
    REQUIRE(buffers[i].opaque != NULL && buffers[i].size == 4 * MIB);
    memset(host, i + 1, 4 * MIB);
    REQUIRE(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)buffers[i].opaque, host, 4 * MIB) == CUDA_SUCCESS);
  }
  for (int i = 0; i < BUFFERS; ++i) {
    REQUIRE(cuMemcpyDtoH(host, (CUdeviceptr)(uintptr_t)buffers[i].opaque, 4 * MIB) == CUDA_SUCCESS);
    REQUIRE(host[0] == i + 1 && host[4 * MIB - 1] == i + 1);
  }
  REQUIRE(executor.get_allocator_stats(&device, &stats));
  REQUIRE(stats.num_allocs == BUFFERS && stats.bytes_in_use == (int64_t)(24 * MIB));
  REQUIRE(stats.has_bytes_limit && stats.bytes_limit == (int64_t)(16 * MIB));
  REQUIRE(stats.bytes_reserved <= (int64_t)(16 * MIB) && stats.largest_alloc_size == (int64_t)(4 * MIB));
  REQUIRE(executor.device_memory_usage(&device, &available, &total) && available == 0 && total == (int64_t)(16 * MIB));
  executor.allocate(&device, 64 * MIB, 0, &large);
  REQUIRE(large.opaque == NULL && large.size == 0);
  executor.deallocate(&device, &large);
  for (int i = 0; i < BUFFERS; ++i) executor.deallocate(&device, &buffers[i]);
  REQUIRE(executor.get_allocator_stats(&device, &stats) && stats.bytes_in_use == 0);
  executor.host_memory_deallocate(&device, host);
  puts("all right");
  return 0;
}
