/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocation callbacks of TensorFlow's PluggableDevice C interface over the library, for authors of plugins:
 *
 *   #include "tensorflow/c/experimental/stream_executor/stream_executor.h"
 *   #include "thermocline_tensorflow.h"
 *
 *   thermocline_tensorflow_fill_platform(params->platform);                  in SE_InitPlugin
 *   thermocline_tensorflow_fill_executor(params->stream_executor);           in create_stream_executor
 *
 * TensorFlow's header comes first, from wherever the plugin has it; this one adds static functions and nothing to link
 * but the library itself (-lthermocline), or nothing at all where the program runs under `thermocline run`.
 *
 * allocate and deallocate know no stream: what is freed is handed out again behind everything that was submitted and
 * accessed it, which the library sees where it is preloaded or linked before the driver. TensorFlow's own best-fit
 * allocator is switched off: it would take most of the device at once, as one buffer, which can only leave as a whole.
 */
#ifndef THERMOCLINE_TENSORFLOW_H
#define THERMOCLINE_TENSORFLOW_H

/* NOLINTBEGIN(modernize-use-nullptr,modernize-deprecated-headers): C */
#include <dlfcn.h>
#include <string.h>

#include <thermocline/thermocline.h>

static inline void thermocline_tensorflow_allocate(const SP_Device* device, uint64_t size, int64_t memory_space,
                                                   SP_DeviceMemoryBase* memory) {
  (void)memory_space;
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = size > (uint64_t)PTRDIFF_MAX ? NULL : thermocline_allocate((ptrdiff_t)size, device->ordinal, NULL);
  memory->size = memory->opaque == NULL ? 0 : size;
  memory->payload = 0;
}

static inline void thermocline_tensorflow_deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  thermocline_free(memory->opaque, (size_t)memory->size, device->ordinal, NULL);
  memory->opaque = NULL;
  memory->size = 0;
}

/* Pinned memory from the driver in this process. A context of the device must be current. */
static inline void* thermocline_tensorflow_host_allocate(const SP_Device* device, uint64_t size) {
  int (*allocate)(void**, size_t, unsigned) = NULL;
  void* const found = dlsym(RTLD_DEFAULT, "cuMemHostAlloc");
  void* memory = NULL;
  (void)device;
  memcpy(&allocate, &found, sizeof allocate);
  /* CU_MEMHOSTALLOC_PORTABLE */
  return allocate != NULL && allocate(&memory, (size_t)size, 1) == 0 ? memory : NULL;
}

static inline void thermocline_tensorflow_host_deallocate(const SP_Device* device, void* memory) {
  int (*give_back)(void*) = NULL;
  void* const found = dlsym(RTLD_DEFAULT, "cuMemFreeHost");
  (void)device;
  memcpy(&give_back, &found, sizeof give_back);
  if (give_back != NULL && memory != NULL) (void)give_back(memory);
}

static inline void thermocline_tensorflow_note(const char* name, uint64_t value, void* user) {
  SP_AllocatorStats* const stats = (SP_AllocatorStats*)user;
  const int64_t number = (int64_t)value;
  if (strcmp(name, "num_allocs") == 0) stats->num_allocs = number;
  if (strcmp(name, "bytes_in_use") == 0) stats->bytes_in_use = number;
  if (strcmp(name, "peak_bytes_in_use") == 0) stats->peak_bytes_in_use = number;
  if (strcmp(name, "largest_alloc_size") == 0) stats->largest_alloc_size = number;
  if (strcmp(name, "bytes_limit") == 0) stats->bytes_limit = number;
  if (strcmp(name, "bytes_reserved") == 0) stats->bytes_reserved = number;
  if (strcmp(name, "peak_bytes_reserved") == 0) stats->peak_bytes_reserved = number;
  if (strcmp(name, "bytes_reservable_limit") == 0) stats->bytes_reservable_limit = number;
  if (strcmp(name, "largest_free_block_bytes") == 0) stats->largest_free_block_bytes = number;
}

/* False before the first allocation. */
static inline TF_Bool thermocline_tensorflow_stats(const SP_Device* device, SP_AllocatorStats* stats) {
  (void)device;
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  stats->has_bytes_limit = 1;
  stats->has_bytes_reservable_limit = 1;
  return thermocline_visit_statistics(THERMOCLINE_NAMES_TENSORFLOW, &thermocline_tensorflow_note, stats) ==
         THERMOCLINE_OK;
}

/* The part of the budget that can be allocated before something has to be evicted. */
static inline TF_Bool thermocline_tensorflow_memory_usage(const SP_Device* device, int64_t* free_bytes,
                                                          int64_t* total_bytes) {
  thermocline_statistics now;
  (void)device;
  now.size = sizeof now;
  if (thermocline_get_statistics(&now) != THERMOCLINE_OK) return 0;
  *total_bytes = (int64_t)now.budget_bytes;
  *free_bytes = now.live_bytes < now.budget_bytes ? (int64_t)(now.budget_bytes - now.live_bytes) : 0;
  return 1;
}

static inline void thermocline_tensorflow_fill_executor(SP_StreamExecutor* executor) {
  executor->allocate = &thermocline_tensorflow_allocate;
  executor->deallocate = &thermocline_tensorflow_deallocate;
  executor->host_memory_allocate = &thermocline_tensorflow_host_allocate;
  executor->host_memory_deallocate = &thermocline_tensorflow_host_deallocate;
  executor->get_allocator_stats = &thermocline_tensorflow_stats;
  executor->device_memory_usage = &thermocline_tensorflow_memory_usage;
}

static inline void thermocline_tensorflow_fill_platform(SP_Platform* platform) {
  platform->use_bfc_allocator = 0;
  platform->force_memory_growth = 1;
}
/* NOLINTEND(modernize-use-nullptr,modernize-deprecated-headers) */

#endif
