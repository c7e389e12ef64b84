/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface of libthermocline.so.1, for programs that know the library. A program does not need it: when the
 * library is preloaded, it works without any change to the program.
 *
 * Conventions:
 *   1. Every function may be called from any thread, at any time, with or without a GPU. No function throws or ends
 *      the process; the one exception is the callback given to thermocline_raise_with. No function starts the library:
 *      the first allocation of device memory does. In a host function or callback of a stream the driver allows no calls:
 *      there these functions may answer as if no memory were managed.
 *   2. A thermocline_result of 0 means success. Any other value is a CUresult, and then nothing has changed.
 *   3. Sizes are in bytes. Device addresses are CUdeviceptr values as uint64_t, so that cuda.h is not needed.
 *   4. Structures begin with `size`, which the caller sets to sizeof. New fields are only ever added at the end.
 *   5. Returned strings belong to the library and are valid until the process ends.
 *   6. The library can be linked, or looked up at run time: if it is not loaded, dlsym(RTLD_DEFAULT,
 *      "thermocline_version") is NULL. */
#ifndef THERMOCLINE_THERMOCLINE_H
#define THERMOCLINE_THERMOCLINE_H

/* NOLINTBEGIN(modernize-redundant-void-arg,modernize-deprecated-headers,readability-identifier-naming): C */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t thermocline_result;

enum {
  THERMOCLINE_OK = 0,
  THERMOCLINE_INVALID_VALUE = 1,  /* CUDA_ERROR_INVALID_VALUE */
  THERMOCLINE_OUT_OF_MEMORY = 2,  /* CUDA_ERROR_OUT_OF_MEMORY */
  THERMOCLINE_NOT_ACTIVE = 3,     /* CUDA_ERROR_NOT_INITIALIZED: no device memory is managed (yet, or any more) */
  THERMOCLINE_NOT_FOUND = 500,    /* CUDA_ERROR_NOT_FOUND */
  THERMOCLINE_NOT_READY = 600,    /* CUDA_ERROR_NOT_READY */
  THERMOCLINE_NOT_SUPPORTED = 801 /* CUDA_ERROR_NOT_SUPPORTED */
};

/* Version and state */

/* "0.1.0" */
const char* thermocline_version(void);

/* 1 while device memory of this process is managed, else 0. */
int thermocline_is_active(void);

/* Statistics */

typedef struct thermocline_statistics {
  size_t size;                              /* sizeof(thermocline_statistics) of the caller */
  uint64_t budget_bytes;                    /* upper limit for memory on the device */
  uint64_t live_bytes, peak_live_bytes;     /* what the program has allocated */
  uint64_t device_bytes, peak_device_bytes; /* device memory taken */
  uint64_t host_bytes, peak_host_bytes;     /* host memory taken for copies */
  uint64_t evicted_bytes, restored_bytes;   /* copied out and in, since the process began */
  uint64_t allocations, frees, operations;  /* calls */
  uint64_t pinned_buffers;                  /* buffers that may not be evicted */
  uint64_t out_of_memory;                   /* allocations and launches that were refused */
  /* Not in the first version of this structure. Fields that count bytes since the process began come in pairs; the
   * difference of a pair is what is in use now. */
  uint64_t live_buffers, peak_live_buffers;
  uint64_t allocated_bytes, freed_bytes;       /* difference: live_bytes */
  uint64_t created_bytes, destroyed_bytes;     /* difference: device_bytes without the program's own mappings */
  uint64_t host_taken_bytes, host_given_bytes; /* difference: host_bytes */
  uint64_t host_live_bytes, host_limit_bytes;  /* the part of host_bytes in use; the limit, 0: none */
  uint64_t nonresident_bytes;                  /* pages of live buffers that are not on the device */
  uint64_t available_bytes;                    /* largest allocation that needs no eviction */
  uint64_t largest_allocation_bytes;
  uint64_t pinned_bytes; /* pages of pinned_buffers */
} thermocline_statistics;

/* Statistics of the process so far. NOT_ACTIVE before the first allocation; INVALID_VALUE if `size` is no version of
 * the structure. */
thermocline_result thermocline_get_statistics(thermocline_statistics* out);

/* The same numbers, and more, by name. Three sets of names exist: the library's own, which covers every statistic
 * (`thermocline stats --json` lists them); PyTorch's ("allocated_bytes.all.peak", torch.cuda.memory_stats);
 * TensorFlow's ("peak_bytes_in_use", AllocatorStats). The last two have only the statistics for which the framework
 * has a name. All values of one visit are of the same moment. */
enum { THERMOCLINE_NAMES = 0, THERMOCLINE_NAMES_PYTORCH = 1, THERMOCLINE_NAMES_TENSORFLOW = 2 };
typedef void (*thermocline_statistic_visitor)(const char* name, uint64_t value, void* user);

/* Calls visitor(name, value, user) for each. NOT_ACTIVE before the first allocation; INVALID_VALUE for other names. */
thermocline_result thermocline_visit_statistics(int names, thermocline_statistic_visitor visitor, void* user);

/* Sets every peak to its current value. NOT_ACTIVE before the first allocation. */
thermocline_result thermocline_reset_peaks(void);

/* Out of memory */

/* Called when an allocation or an operation is refused for lack of memory: on the thread that asked, after all state
 * has been restored, and before the refused call returns. `report` is the text that is also written to stderr (one
 * page: the reason, what to change, what would have fitted, which allocations hold memory). The callback may use this
 * interface and CUDA, for example to free memory; the call is refused all the same. What is refused within the
 * callback does not call it. The callback should not throw, as no function that C calls may: an exception is dropped, and a
 * line on stderr says so. */
typedef void (*thermocline_out_of_memory_callback)(const char* report, void* user);

/* One callback for the process; NULL removes it (a call on another thread may still be running). */
thermocline_result thermocline_set_out_of_memory_callback(thermocline_out_of_memory_callback callback, void* user);

/* Hints */

/* Fetches the buffer that contains the address, waits until it is there, and keeps it on the device until it is freed:
 * for memory that is accessed in ways that the library can not see, for example by another process. In a program that uses
 * host functions or stream values THERMOCLINE_OUT_OF_MEMORY if it is not there after five minutes: what it waits for may be
 * what the calling thread would do next. */
thermocline_result thermocline_pin(uint64_t device_address);

/* Marks the end of one step of the program's iteration: all operations submitted since the last call belong to that
 * step. Never required. With it, two equal steps are enough to plan the third. */
thermocline_result thermocline_step(void);

/* Names what the calling thread allocates from now on, for recordings and for sleep: "weights", "layer 3". "" or NULL
 * removes the name. It works before the first allocation too, and has no other effect. */
thermocline_result thermocline_tag(const char* tag);

/* Names the buffer that contains the address, until it is freed, for sleep; "" or NULL removes its name. */
thermocline_result thermocline_tag_buffer(uint64_t device_address, const char* tag);

/* Returns unused device and host memory to the driver. */
thermocline_result thermocline_trim(void);

/* A hint that nothing will use the buffer that contains the address for a while. The buffer is evicted as soon as the
 * operations that use it have completed, and its memory serves other allocations. The address stays valid: the next
 * use fetches the contents. Buffers that share pages with others (smaller than half of `page_bytes`) or are smaller than
 * `min_offload_bytes` stay. NOT_SUPPORTED where the library sees no operations. */
thermocline_result thermocline_evict(uint64_t device_address);

/* A hint that the buffer will be used soon: its contents begin to be copied to the device. NOT_READY (600): there is
 * no room yet; try again later. */
thermocline_result thermocline_prefetch(uint64_t device_address);

/* Sleep
 *
 * A program that does nothing for a while gives its device memory to others: every buffer that may leave does, to
 * pinned host memory. Addresses stay valid, and what is used comes back when it is used; nothing has to be woken.
 * `thermocline sleep PID` does the same from outside. docs/sleep.md */

/* What one call did, summed over the devices. After a sleep device_bytes is the sum of the five fields below it and
 * untagged_bytes, which say why it stays; after a wake these are 0. */
typedef struct thermocline_sleep_report {
  size_t size;                                /* sizeof(thermocline_sleep_report) of the caller */
  uint64_t device_bytes_before, device_bytes; /* device memory taken before and afterwards */
  uint64_t pinned_bytes;                      /* shared with others, graphs of the device, thermocline_pin */
  uint64_t external_bytes;                    /* memory that the program maps itself */
  uint64_t in_use_bytes;                      /* used by work in flight, or since the call began */
  uint64_t no_host_bytes;                     /* there was no host memory for its contents */
  uint64_t other_bytes;                       /* not taken back by the driver */
  uint64_t asleep_bytes;                      /* asleep afterwards; of a call with a tag: what has it */
  uint64_t copied_bytes;                      /* copied by this call */
  /* Not in the first version of this structure. */
  uint64_t untagged_bytes; /* the call named a tag, and these have another one or none */
} thermocline_sleep_report;

/* Evicts everything that may leave the device and returns the memory to the driver, after the work submitted so far has
 * completed. OK if something stays: the report says what. `out` may be NULL. NOT_READY: a stream captures a graph, or
 * another sleep or wake is under way.
 * NOT_SUPPORTED: nothing is ever evicted here (policy none, a device without virtual memory management, or the
 * library sees no operations). */
thermocline_result thermocline_sleep(thermocline_sleep_report* out);

/* Brings back what is asleep, least recently used first, as far as there is free memory for it, and waits for it. */
thermocline_result thermocline_wake(thermocline_sleep_report* out);

/* The same for buffers with that tag (thermocline_tag, thermocline_tag_buffer) and no others. Small buffers, which share
 * pages, have none. NOT_FOUND (500): nobody has used that tag. NOT_SUPPORTED also with host_fallback full. */
thermocline_result thermocline_sleep_tag(const char* tag, thermocline_sleep_report* out);
thermocline_result thermocline_wake_tag(const char* tag, thermocline_sleep_report* out);

/* Recomputes the library's bookkeeping from first principles, for tests and bug reports. A violated invariant is
 * printed on stderr, and the result is CUDA_ERROR_UNKNOWN (999); memory of the library can not be used afterwards. */
thermocline_result thermocline_validate(void);

/* As the allocator of a framework
 *
 * The functions that PyTorch asks of a CUDAPluggableAllocator, with PyTorch's signatures; other frameworks can use
 * them. If the library was opened with dlopen instead of being preloaded, it sees no operations: it then allocates,
 * reuses memory in stream order, counts and reports, but moves nothing to the host. */

/* 1 if the library is preloaded or linked, else 0. */
int thermocline_sees_operations(void);

/* How thermocline_allocate reports failure. PyTorch ignores the return value of an allocator, so the allocator has to
 * throw: the function given here is called with a message and need not return. Its signature is that of
 * c10::detail::torchCheckFail. NULL, the initial value: no function is called; thermocline_allocate returns NULL. */
typedef void (*thermocline_raise)(const char* function, const char* file, uint32_t line, const char* sentence);
void thermocline_raise_with(thermocline_raise raise);

/* Device memory whose first use is on `stream` (a CUstream). Uses the device's primary context if no context of the
 * device is current. NULL for 0 bytes. In a context without an engine (a second one on the device, or where the
 * library stands aside) this is plain cuMemAlloc. */
void* thermocline_allocate(ptrdiff_t bytes, int device, void* stream);
/* The next owner of the memory is ordered after all work submitted so far to `stream` and to the streams recorded for
 * the memory. */
void thermocline_free(void* address, size_t bytes, int device, void* stream);
void thermocline_record_stream(void* address, void* stream);

/* The buffer that contains the address, and its size; NULL for memory that is not the library's. */
void* thermocline_base(void* address, size_t* bytes);
/* The same as thermocline_trim; where the library sees no operations, after all work of the device. */
void thermocline_empty_cache(void);
/* Always raises an error and changes nothing: the budget is a setting. */
void thermocline_memory_fraction(double fraction, int device);

/* Brackets the capture of a graph. Memory that is allocated for a capturing stream between begin and end, and then
 * freed, is not reused for anything else until the pool has been released as often as it was begun. `filter` is
 * ignored. */
typedef struct thermocline_pool {
  uint64_t first, second;
} thermocline_pool;
void thermocline_begin_pool(int device, thermocline_pool pool, void* filter);
void thermocline_end_pool(int device, thermocline_pool pool);
void thermocline_release_pool(int device, thermocline_pool pool);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-redundant-void-arg,modernize-deprecated-headers,readability-identifier-naming) */

#endif
