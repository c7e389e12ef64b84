/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface of libthermocline.so.1, for programs that know the library. No program has to: preloaded, it works by
 * itself.
 *
 * Conventions:
 *   1. Every function may be called from any thread, at any time, with or without a GPU. None throws or ends the
 *      process, but through what thermocline_raise_with was given. None makes the library begin: the first allocation
 * of device memory does.
 *   2. A thermocline_result is 0 when the function has done what it says, and otherwise a CUresult; then nothing has
 *      changed.
 *   3. Sizes are bytes. Device addresses are CUdeviceptr, as uint64_t, so that cuda.h is not needed.
 *   4. Structures begin with `size`, which the caller sets to sizeof: fields are only ever added at the end.
 *   5. Strings belong to the library and live as long as the process.
 *   6. The library can be linked, or looked for at run time: without it dlsym(RTLD_DEFAULT, "thermocline_version") is
 *      NULL.
 */
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
  THERMOCLINE_NOT_READY = 600,    /* CUDA_ERROR_NOT_READY */
  THERMOCLINE_NOT_SUPPORTED = 801 /* CUDA_ERROR_NOT_SUPPORTED */
};

/* What it is */

/* "0.1.0" */
const char* thermocline_version(void);

/* 1 while device memory of this process is managed, else 0. */
int thermocline_is_active(void);

/* What it has done */

typedef struct thermocline_statistics {
  size_t size;                              /* sizeof(thermocline_statistics) of the caller */
  uint64_t budget_bytes;                    /* most that may be held on the device */
  uint64_t live_bytes, peak_live_bytes;     /* what the program holds */
  uint64_t device_bytes, peak_device_bytes; /* what is held on the device for it */
  uint64_t host_bytes, peak_host_bytes;     /* pinned host memory that holds the rest */
  uint64_t evicted_bytes, restored_bytes;   /* copied out and in, since the process began */
  uint64_t allocations, frees, operations;  /* calls */
  uint64_t pinned_buffers;                  /* buffers that may not leave the device */
  uint64_t out_of_memory;                   /* allocations and launches that were refused */
  /* Not in the first version of this structure. Those that count bytes since the process began come in pairs, whose
   * difference is what is held now. */
  uint64_t live_buffers, peak_live_buffers;
  uint64_t allocated_bytes, freed_bytes;       /* of live_bytes */
  uint64_t created_bytes, destroyed_bytes;     /* of device_bytes, less what the program maps itself */
  uint64_t host_taken_bytes, host_given_bytes; /* of host_bytes */
  uint64_t host_live_bytes, host_limit_bytes;  /* of host_bytes, what holds copies; 0: no limit */
  uint64_t nonresident_bytes;                  /* pages of live buffers that are not on the device */
  uint64_t available_bytes;                    /* largest allocation for which nothing would have to leave */
  uint64_t largest_allocation_bytes;
  uint64_t pinned_bytes; /* pages of pinned_buffers */
} thermocline_statistics;

/* Of the process so far. NOT_ACTIVE before the first allocation; INVALID_VALUE for a size that is no version of the
 * structure. */
thermocline_result thermocline_get_statistics(thermocline_statistics* out);

/* The same numbers, and more, by name: the library's own names, which stand for everything there is (`thermocline stats
 * --json` lists them), or the names of what PyTorch ("allocated_bytes.all.peak", torch.cuda.memory_stats) and
 * TensorFlow
 * ("peak_bytes_in_use", AllocatorStats) show, as far as they have any. Every visit is of one moment. */
enum { THERMOCLINE_NAMES = 0, THERMOCLINE_NAMES_PYTORCH = 1, THERMOCLINE_NAMES_TENSORFLOW = 2 };
typedef void (*thermocline_statistic_visitor)(const char* name, uint64_t value, void* user);

/* Calls visitor(name, value, user) for each. NOT_ACTIVE before the first allocation; INVALID_VALUE for other names. */
thermocline_result thermocline_visit_statistics(int names, thermocline_statistic_visitor visitor, void* user);

/* Every peak becomes what is so now. NOT_ACTIVE before the first allocation. */
thermocline_result thermocline_reset_peaks(void);

/* Why something did not fit */

/* Called when an allocation or an operation is refused for want of memory, on the thread that asked, after everything
 * is as it was before and before the refused call returns: with the report that also goes to stderr (one page: the
 * reason, what to change, what would have fitted, who holds what). The callback may use this interface and CUDA: free
 * memory, for example; the call is refused all the same. */
typedef void (*thermocline_out_of_memory_callback)(const char* report, void* user);

/* One callback for the process; NULL takes it back (a call on another thread may still be under way). */
thermocline_result thermocline_set_out_of_memory_callback(thermocline_out_of_memory_callback callback, void* user);

/* What it is told */

/* Brings the buffer that contains the address to the device and keeps it there until it is freed: for memory that is
 * used in ways that the library can not see, such as from another process. */
thermocline_result thermocline_pin(uint64_t device_address);

/* A step of the program's iteration ends here: everything submitted since the last call belongs to it. Never needed;
 * where given, two equal steps are enough to plan the third. */
thermocline_result thermocline_step(void);

/* What the calling thread allocates from here on is called so in recordings: "weights", "layer 3". "" or NULL: nothing
 * in particular. Works before the first allocation, too, and does nothing else. */
thermocline_result thermocline_tag(const char* tag);

/* Gives device and host memory that is held but not used back to the driver. */
thermocline_result thermocline_trim(void);

/* For who knows better than the library can see: nobody uses the buffer that contains the address for a while, so it
 * leaves as soon as its uses have passed, and its memory goes to whoever needs some. The addresses stay good: the next
 * use brings it back. NOT_SUPPORTED where the library sees no operations. */
thermocline_result thermocline_evict(uint64_t device_address);

/* It is used again soon, and begins to come back. NOT_READY (600): there is no room yet; asking again later helps. */
thermocline_result thermocline_prefetch(uint64_t device_address);

/* Recomputes the library's bookkeeping from first principles: for tests and bug reports. What does not hold is said on
 * stderr and answered with CUDA_ERROR_UNKNOWN (999); memory of the library can not be used afterwards. */
thermocline_result thermocline_validate(void);

/* As the allocator of a framework
 *
 * The functions that PyTorch asks of a CUDAPluggableAllocator, with its signatures; others can use them. A library that
 * was opened with dlopen, and not preloaded, sees no operations: it allocates, reuses memory in the order of streams,
 * counts and reports, and moves nothing to the host. */

/* 1 where the library is preloaded or linked, else 0. */
int thermocline_sees_operations(void);

/* How thermocline_allocate fails. PyTorch does not look at what an allocator returns, so it has to throw: what is given
 * here is called with a sentence and need not return. The signature is that of c10::detail::torchCheckFail. NULL, as at
 * first: nobody; then NULL is the answer. */
typedef void (*thermocline_raise)(const char* function, const char* file, uint32_t line, const char* sentence);
void thermocline_raise_with(thermocline_raise raise);

/* Memory of the device, first used on the stream (a CUstream). The device's primary context is used where none of it is
 * current. NULL for 0 bytes. Other devices than the first are the driver's: plain cuMemAlloc. */
void* thermocline_allocate(ptrdiff_t bytes, int device, void* stream);
/* Whoever is given the memory next comes behind what the stream was given before, and the streams recorded for it. */
void thermocline_free(void* address, size_t bytes, int device, void* stream);
void thermocline_record_stream(void* address, void* stream);

/* The buffer that contains the address, and its size; NULL for memory that is not the library's. */
void* thermocline_base(void* address, size_t* bytes);
/* thermocline_trim, behind all work of the device where the library sees no operations. */
void thermocline_empty_cache(void);
/* Raises, and changes nothing: the budget is a setting. */
void thermocline_memory_fraction(double fraction, int device);

/* Around the capture of a graph: what is allocated for a recording stream between begin and end, and freed, is not
 * used for anything else until the pool has been released as often as it was begun. `filter` is not looked at. */
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
