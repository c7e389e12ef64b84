// SPDX-License-Identifier: Apache-2.0
// The interface between the library and CUDA: all driver calls that the library makes itself, and nothing else. The
// calls go through a table of function pointers that is filled at run time (driver/table.h). So the library does not
// link against CUDA, and tests can replace any entry and make it fail.
//
// Contract of all calls: as thread-safe as the driver; they never throw; on failure nothing has changed unless stated
// otherwise. The caller owns what it creates until it makes the matching call: reserve/release (addresses),
// create/destroy (pages, streams, events), map/unmap, allocate/free (host memory), load/unload (modules). A context
// must be current on the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

struct DriverTable;  // driver/table.h: names cu* functions

// Opaque driver handles, as integers. 0 is the legacy default stream; for events and pages it is "none".
enum class StreamHandle : std::uintptr_t {};
enum class EventHandle : std::uintptr_t {};
enum class PageHandle : std::uint64_t {};
enum class ModuleHandle : std::uintptr_t {};
enum class FunctionHandle : std::uintptr_t {};

// CUstreamCaptureMode: which captures in progress an unsafe call of this thread invalidates.
enum class CaptureMode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct DeviceFacts {
  int device = 0;          // ordinal
  Bytes total_memory = 0;  // cuDeviceTotalMem
  Bytes page_bytes = 0;    // recommended granularity of physical handles
  bool has_virtual_memory = false;
  // Host memory can be mapped at device addresses, in pages of page_bytes.
  bool can_map_host = false;
  int host_map_node = -1;  // NUMA node on which such host pages are created; -1: the driver chooses
  int host_node = -1;      // NUMA node nearest to the device; -1: unknown, or the machine has one node
};

// Size of the range of one cuMemSetAccess and of one cuMemUnmap call; 0: the whole range. The page size is for drivers
// that accept one mapping per call; then each mapping has the size of a page.
struct MappingSteps {
  Bytes access = 0, unmap = 0;
};

class Driver {
 public:
  // `table` must outlive the driver and stay unchanged.
  explicit Driver(const DriverTable& table, MappingSteps steps = {}) : table_(&table), steps_(steps) {}
  // For a caller whose mappings are pages of this size.
  Driver with_pages_of(Bytes bytes) const {
    return Driver(*table_, {.access = steps_.access == 0 ? 0 : bytes, .unmap = steps_.unmap == 0 ? 0 : bytes});
  }

  const DriverTable& table() const { return *table_; }

  // Asks the driver about the device of the current context.
  Status facts(DeviceFacts* out) const;
  Status memory_info(Bytes* free, Bytes* total) const;

  // Address ranges. `alignment` 0: the allocation granularity.
  Status reserve(Bytes bytes, Bytes alignment, DeviceAddress* out) const;
  Status release(DeviceAddress at, Bytes bytes) const;

  // Physical pages on `device`.
  Status create_page(Bytes bytes, int device, PageHandle* out) const;
  // A physical page in host memory that can be mapped at device addresses; `node` as DeviceFacts::host_map_node.
  Status create_host_page(Bytes bytes, int node, PageHandle* out) const;
  Status destroy_page(PageHandle page) const;

  // A page is always mapped as a whole. After map the range is inaccessible until set_access. unmap takes one or more
  // whole, adjacent mappings; it does not wait for the device, so the caller must make sure that no work uses them.
  Status map(DeviceAddress at, Bytes bytes, PageHandle page) const;
  Status set_access(DeviceAddress at, Bytes bytes, int device) const;
  // Grants access to all these devices with one call.
  Status set_access(DeviceAddress at, Bytes bytes, std::span<const int> devices) const;
  // For host pages: grants access to the device and to the host.
  Status set_shared_access(DeviceAddress at, Bytes bytes, int device, int node) const;
  // Removes the device's access; the mapping stays.
  Status revoke_access(DeviceAddress at, Bytes bytes, int device) const;
  Status unmap(DeviceAddress at, Bytes bytes) const;

  // Asynchronous copies, ordered in `stream`. A copy is asynchronous only if the host memory is pinned.
  Status copy_to_host(void* to, DeviceAddress from, Bytes bytes, StreamHandle stream) const;
  Status copy_to_device(DeviceAddress to, const void* from, Bytes bytes, StreamHandle stream) const;
  Status copy_on_device(DeviceAddress to, DeviceAddress from, Bytes bytes, StreamHandle stream) const;

  // The library's own streams never synchronize with the legacy default stream (CU_STREAM_NON_BLOCKING).
  Status create_stream(StreamHandle* out) const;
  Status destroy_stream(StreamHandle stream) const;
  Status synchronize_stream(StreamHandle stream) const;
  Status synchronize_context() const;
  // True while the stream is capturing a graph; then no event may be recorded in it, and it must not be waited for or
  // used for mapping.
  bool is_capturing(StreamHandle stream) const;
  // True if the stream synchronizes with the legacy default stream, or if the driver does not say.
  bool is_blocking(StreamHandle stream) const;
  // Sets the calling thread's capture mode and returns the previous one. While a capture is in progress anywhere in the
  // process, calls that create, map or query are only legal in kRelaxed (owned.h has a scope for it).
  Status exchange_capture_mode(CaptureMode* mode) const;

  // Events have timing disabled unless `timed`.
  Status create_event(bool timed, EventHandle* out) const;
  Status destroy_event(EventHandle event) const;
  Status record(EventHandle event, StreamHandle stream) const;
  Status wait(StreamHandle stream, EventHandle event) const;
  // The stream waits until the 32 bits at `word`, in pinned host memory, are `value`.
  Status wait_for_value(StreamHandle stream, const void* word, std::uint32_t value) const;
  // ok: completed; not_ready: pending; anything else: an error.
  Status query(EventHandle event) const;
  Status synchronize(EventHandle event) const;
  Status elapsed_ms(EventHandle begin, EventHandle end, float* out) const;

  // Pinned host memory, usable by every context (portable).
  Status allocate_host(Bytes bytes, void** out) const;
  Status free_host(void* at) const;

  // Our own code: PTX that the driver compiles for the device of the current context, which takes milliseconds. `text`
  // ends with a zero byte.
  Status load_module(const char* text, ModuleHandle* out) const;
  Status unload_module(ModuleHandle module) const;
  // The function belongs to the module.
  Status find_function(ModuleHandle module, const char* name, FunctionHandle* out) const;
  // One dimension of blocks, and of threads. `parameters` are read before it returns.
  Status launch(FunctionHandle function, unsigned blocks, unsigned threads, void** parameters,
                StreamHandle stream) const;

 private:
  Status change_access(DeviceAddress at, Bytes bytes, int device, unsigned flags) const;

  // Calls in the driver's steps; stops at the first failure. `access`: an array of `count` CUmemAccessDesc.
  Status give_access(DeviceAddress at, Bytes bytes, const void* access, std::size_t count) const;

  const DriverTable* table_;
  MappingSteps steps_;
};

}  // namespace thermocline
