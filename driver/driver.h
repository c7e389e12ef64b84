// SPDX-License-Identifier: Apache-2.0
// The seam between the library and CUDA: the driver calls that we make ourselves, and nothing else. The calls go
// through a table of function pointers that is found at run time (driver/table.h), so the library links nothing of
// CUDA, and so that tests can replace any entry and make it fail.
//
// Contract of all calls: thread-safe as far as the driver is; they never throw; on failure nothing has changed unless
// said otherwise. Whoever calls owns what it creates until the matching verb: reserve/release (addresses),
// create/destroy (pages, streams, events), map/unmap, allocate/free (host memory). A context must be current on the
// calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

struct DriverTable;  // driver/table.h: names cu* functions

// Opaque driver handles, as integers; 0 is the legacy default stream, and "none" for events and pages.
enum class StreamHandle : std::uintptr_t {};
enum class EventHandle : std::uintptr_t {};
enum class PageHandle : std::uint64_t {};

// CUstreamCaptureMode: how far a thread's calls are held responsible for captures in progress.
enum class CaptureMode { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

struct DeviceFacts {
  int device = 0;          // ordinal
  Bytes total_memory = 0;  // cuDeviceTotalMem
  Bytes page_bytes = 0;    // recommended granularity of physical handles
  bool has_virtual_memory = false;
  bool can_map_host = false;  // physical memory on the host, in pages of page_bytes, at device addresses
  int host_map_node = -1;     // where that is created; -1: the driver says where
  int host_node = -1;         // of the machine's memory, the nearest to the device; -1: not known, or there is one
};

// Where a driver takes no more than one mapping a call, whose size all of ours have then; 0: as many as lie side by
// side.
struct MappingSteps {
  Bytes access = 0, unmap = 0;
};

class Driver {
 public:
  // `table` must outlive the driver and stay unchanged.
  explicit Driver(const DriverTable& table, MappingSteps steps = {}) : table_(&table), steps_(steps) {}

  const DriverTable& table() const { return *table_; }

  // Asks the driver about the device of the current context.
  Status facts(DeviceFacts* out) const;
  Status current_context(std::uintptr_t* out) const;
  Status memory_info(Bytes* free, Bytes* total) const;

  // Addresses. `alignment` 0: the granularity.
  Status reserve(Bytes bytes, Bytes alignment, DeviceAddress* out) const;
  Status release(DeviceAddress at, Bytes bytes) const;

  // Physical pages on `device`.
  Status create_page(Bytes bytes, int device, PageHandle* out) const;
  // On the host, for addresses of the device; `node` as DeviceFacts::host_map_node says.
  Status create_host_page(Bytes bytes, int node, PageHandle* out) const;
  Status destroy_page(PageHandle page) const;

  // Mapping: a page is mapped whole. After map the range is inaccessible until set_access. unmap takes one or more
  // whole mappings that lie side by side; it does not wait for the device: fence first.
  Status map(DeviceAddress at, Bytes bytes, PageHandle page) const;
  Status set_access(DeviceAddress at, Bytes bytes, int device) const;
  // Of so many devices, with one call.
  Status set_access(DeviceAddress at, Bytes bytes, std::span<const int> devices) const;
  // Of pages on the host: for the host, too.
  Status set_shared_access(DeviceAddress at, Bytes bytes, int device, int node) const;
  // Takes access away again; what is mapped stays.
  Status revoke_access(DeviceAddress at, Bytes bytes, int device) const;
  Status unmap(DeviceAddress at, Bytes bytes) const;

  // Copies, asynchronous and ordered in `stream`. Host memory must be pinned to be asynchronous.
  Status copy_to_host(void* to, DeviceAddress from, Bytes bytes, StreamHandle stream) const;
  Status copy_to_device(DeviceAddress to, const void* from, Bytes bytes, StreamHandle stream) const;

  // Streams of ours never synchronise with the legacy default stream (CU_STREAM_NON_BLOCKING).
  Status create_stream(StreamHandle* out) const;
  Status destroy_stream(StreamHandle stream) const;
  Status synchronize_stream(StreamHandle stream) const;
  Status synchronize_context() const;
  // True while the stream records a graph; then nothing may be recorded, waited for or mapped on its behalf.
  bool is_capturing(StreamHandle stream) const;
  // True where it is ordered with the legacy default stream, or where the driver does not say.
  bool is_blocking(StreamHandle stream) const;
  // Sets the calling thread's mode, and gives the one before. While a capture is in progress anywhere in the process,
  // calls that create, map or query are only legal in kRelaxed (owned.h has a scope for it).
  Status exchange_capture_mode(CaptureMode* mode) const;

  // Events carry no timing unless `timed`.
  Status create_event(bool timed, EventHandle* out) const;
  Status destroy_event(EventHandle event) const;
  Status record(EventHandle event, StreamHandle stream) const;
  Status wait(StreamHandle stream, EventHandle event) const;
  // ok: completed; not_ready: pending; anything else: an error.
  Status query(EventHandle event) const;
  Status synchronize(EventHandle event) const;
  Status elapsed_ms(EventHandle begin, EventHandle end, float* out) const;

  // Pinned host memory, usable by every context (portable).
  Status allocate_host(Bytes bytes, void** out) const;
  Status free_host(void* at) const;

 private:
  Status change_access(DeviceAddress at, Bytes bytes, int device, unsigned flags) const;

  // In steps where there are any; the first failure ends it.
  Status give_access(DeviceAddress at, Bytes bytes, const void* access, std::size_t count) const;

  const DriverTable* table_;
  MappingSteps steps_;
};

}  // namespace thermocline
