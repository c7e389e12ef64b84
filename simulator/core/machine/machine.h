// SPDX-License-Identifier: Apache-2.0
// The simulated device behind the driver API, as one object: host clock, streams and events on the device's time line,
// physical memory, address space, contents, buffers. The API layer (simulator/cuda/) turns cu* calls into calls of this
// class.
//
// Contract: there is one machine a process. Every call happens between enter() and the end of the Entry that it
// returned, which holds the one lock; nothing here locks again. Calls charge their cost in host time themselves, calls
// that say "free of charge" do not. Results are CUDA's numbers. After a fault every call that the API layer passes on
// should answer error() first: faults stick.
//
// When work happens: submitting only queues. Effects happen in wait_* and poll, which blocking calls, queries and
// unmap, free, create use; nothing is executed whose end lies behind the host's clock, unless the host waits for it.
#pragma once

#include <cuda.h>

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "simulator/control.h"
#include "simulator/core/driver_switches.h"
#include "simulator/core/memory/buffers.h"
#include "simulator/core/memory/page_table.h"
#include "simulator/core/streams/operation.h"
#include "simulator/core/types.h"
#include "simulator/faults/plan.h"
#include "simulator/profile.h"

namespace simulator {

struct Device;
struct Operation;
struct Step;

enum class Fresh : bool { kNo, kYes };

enum class Cost { kLaunch, kCopy, kStreamCall, kMap, kSetAccess, kUnmap };

class Machine {
 public:
  class Entry {
   public:
    Machine* operator->() const { return machine_; }
    Machine& operator*() const { return *machine_; }

   private:
    friend class Machine;
    explicit Entry(Machine& machine);
    std::unique_lock<std::mutex> lock_;
    Machine* machine_;
  };

  // The lock, and a sign of life for the progress thread. Not from inside a host function: see in_host_function().
  static Entry enter();

  // True on a thread that is inside a host function or kernel: the API answers CUDA_ERROR_NOT_PERMITTED before it
  // enters.
  static bool in_host_function();

  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // --- Start, settings, state
  // ------------------------------------------------------------------------------------------------- Reads the
  // environment (THERMOCLINE_SIMULATE_*; configure() wins) and makes the device. Idempotent. A setting that does not
  // hold is named on stderr and answers CUDA_ERROR_NO_DEVICE.
  CUresult initialize();
  bool initialized() const;
  // nullptr, or what is wrong (lives until the next call).
  const char* configure(const char* key, const char* value);
  // The first fault, else CUDA_SUCCESS. In a forked child of an initialised parent: CUDA_ERROR_NOT_INITIALIZED
  // until reset().
  CUresult error() const;
  // Back to the start; the API layer's own state is dropped by `on_reset`, which runs with the lock held.
  void reset();
  void set_on_reset(std::function<void()> on_reset);
  // What the program has not released, in words; asked for at the end of a checked run.
  void set_leftovers(std::string (*leftovers)(const Machine&));
  // What a kernel's code takes of the device when it is first launched; 0 where modules are loaded whole.
  Bytes lazy_loading() const;
  // Whether kernels without a host implementation mix (mixing.h) rather than run their code.
  bool mixes_kernels() const;
  std::uint64_t kernel_steps() const;
  const Profile& profile() const;  // after initialize(); capacity() wins over its memory_bytes
  DeviceId devices() const;        // how many
  Bytes granularity() const;       // of physical memory and addresses, as programs see it
  // What a plan of faults makes of a call of the driver's function; counts the call.
  CUresult fault(std::string_view symbol);
  const FaultPlan& fault_plan() const;  // also before initialize()
  const DriverSwitches& driver() const;
  bool tagged() const;  // memory holds no bytes: host implementations of kernels do not run, kernels mix

  // --- Clock
  // ------------------------------------------------------------------------------------------------------------------
  Time now() const;
  void charge(Cost cost, std::uint64_t count = 1);

  // --- Streams
  // ----------------------------------------------------------------------------------------------------------------
  // Blocking streams and the legacy stream of a device order each other as CUDA documents; non-blocking ones stand
  // alone.
  StreamId create_stream(bool non_blocking, DeviceId device = 0);
  // What it holds still completes. The id must not be used afterwards.
  void destroy_stream(StreamId stream);
  bool stream_exists(StreamId stream) const;
  static StreamId legacy_stream(DeviceId device) { return device; }
  bool is_legacy(StreamId stream) const { return stream < devices(); }
  DeviceId device_of(StreamId stream) const;
  // How control.h's launch_operator finds a stream from a CUstream. Without one, the handle's value is the id.
  using StreamResolver = bool (*)(const void* handle, StreamId* out);
  void set_stream_resolver(StreamResolver resolver);
  CUresult resolve_stream(const void* handle, StreamId* out) const;

  // --- Queueing
  // ---------------------------------------------------------------------------------------------------------------
  struct Order {
    std::span<const OperationId> after;  // beside the stream's order; completed ones are fine
    bool detached = false;     // only `after` counts, not the stream's order, and the stream does not wait for it
    std::uint64_t branch = 0;  // detached operations of different branches run in any order in adversarial orders
    bool uncharged = false;    // the host did not submit it by itself
    std::optional<DeviceId> device = std::nullopt;  // that does it; not given: the stream's
  };
  // Charges launch (kernels, operators), copy (copies, sets, host functions) or a stream call (rest).
  OperationId submit(StreamId stream, Work work, const Order& order);
  OperationId submit(StreamId stream, Work work) { return submit(stream, std::move(work), Order{}); }
  // A stream's queue has an end (setting queue-limit): each call that puts something into it waits while it is full,
  // with the lock open, before it looks at anything. submit() and the calls for events see to that themselves, unless
  // the operation is uncharged or detached; for those of one call together: before them, and one of them behind it.
  void wait_for_queue(StreamId stream);
  void queued(StreamId stream, OperationId operation);
  // The newest operation of the stream, 0 if none: what a later detached operation must name to come behind it.
  OperationId tail(StreamId stream) const;

  // --- Waiting and asking
  // ----------------------------------------------------------------------------------------------------- Host blocks;
  // its clock moves to the completion. They answer error(). Free of charge. Behind what stands they let other threads
  // in; where none of these calls anything, the process ends with a line that says what stands.
  CUresult wait(OperationId operation);
  CUresult wait_stream(StreamId stream);  // the legacy stream: what it would wait for itself, too
  CUresult wait_all();
  CUresult wait_device(DeviceId device);
  // Completes what has ended by now (adversarial order: any allowed amount). Free of charge.
  void poll();
  // Polls, then answers. Free of charge: the caller charges the query, so that polling loops end. After a yes the
  // program knows; is_done() is for the driver's own use.
  bool is_done(OperationId operation);
  bool query(OperationId operation);
  bool query_stream(StreamId stream);

  // --- Events
  // -----------------------------------------------------------------------------------------------------------------
  EventId create_event();
  void destroy_event(EventId event);
  OperationId record_event(EventId event, StreamId stream, const Order& order);
  OperationId record_event(EventId event, StreamId stream) { return record_event(event, stream, Order{}); }
  // Later work of the stream comes behind the newest record at this moment; an event never recorded orders nothing.
  void stream_wait_event(StreamId stream, EventId event);
  // 0: never recorded. What cuEventQuery, cuEventSynchronize ask for.
  OperationId recorded(EventId event) const;
  // Of the newest records, both completed; INVALID_HANDLE if one was never recorded, NOT_READY if one is pending.
  CUresult elapsed(EventId begin, EventId end, Time* out);

  // --- Physical memory
  // --------------------------------------------------------------------------------------------------------
  // Whole pages; OUT_OF_MEMORY beyond the device's capacity.
  CUresult create_physical(Bytes bytes, PhysicalId* out, PhysicalPlace place = PhysicalPlace::kDevice,
                           DeviceId device = 0);
  CUresult retain_physical(PhysicalId physical);    // one more release is due
  CUresult release_physical(PhysicalId physical);   // memory returns when released and unmapped everywhere
  Bytes physical_bytes(PhysicalId physical) const;  // 0: no such handle
  bool physical_exists(PhysicalId physical) const;  // a handle or a mapping keeps it
  bool physical_is_mapped(PhysicalId physical) const;
  // Shared with other processes (shared_files.h): a run that was just created gets a file, whose descriptor stays the
  // machine's (-1: it has none); a file that somebody else has becomes a run, as does a place in another process.
  CUresult share_physical(PhysicalId physical);
  int shared_file(PhysicalId physical) const;
  CUresult import_physical(int file, PhysicalId* out, DeviceId device = 0);
  CUresult open_physical(const FilePlace& place, Bytes bytes, PhysicalId* out, DeviceId device = 0);
  // Of the pages around an allocation, which is written from here on as far as we know, since others may; nothing where
  // contents are not bytes.
  std::optional<FilePlace> show_to_others(Address at, Bytes bytes);
  Bytes capacity() const;  // of each device
  Bytes free_bytes(DeviceId device = 0) const;
  std::optional<DeviceId> owner_at(Address at) const;  // the device whose memory is mapped there

  // --- Address space
  // ----------------------------------------------------------------------------------------------------------
  CUresult reserve(Bytes bytes, Bytes alignment, Address hint, Address* out);
  CUresult release_addresses(Address at, Bytes bytes);
  CUresult map(Address at, Bytes bytes, Bytes offset, PhysicalId physical);
  CUresult set_access(Address at, Bytes bytes, Access access, DeviceId device = 0);
  CUresult unmap(Address at, Bytes bytes);     // polls first, does not wait unless the driver is to
  bool is_host_physical_at(Address at) const;  // a mapping leads there to memory on the host
  std::optional<PhysicalId> physical_at(Address at) const;
  std::vector<PhysicalId> physical_in(Address at, Bytes bytes) const;  // mapped from there on without a gap
  bool mapping_at(Address at, Address* begin, Bytes* bytes) const;
  std::size_t reservations() const;  // that were made here and not released
  bool reservation_at(Address at, Address* begin, Bytes* bytes) const;
  Access access_at(Address at, DeviceId device = 0) const;

  // --- cuMemAlloc-like memory
  // ------------------------------------------------------------------------------------------------- Addresses with
  // memory and access behind them, at least 512-byte aligned; small ones share pages. Registers no buffer. `own_pages`:
  // whole new pages, zero now, every device's to access (managed memory, which the host may write before any
  // operation).
  // `heap`: a device's number, or what create_heap() answered.
  CUresult allocate(Bytes bytes, bool own_pages, Address* out, std::size_t heap = 0);
  // Memory on the device whose access is its own (a pool's); where there is one device, that device's.
  std::size_t create_heap(DeviceId device);
  void set_heap_access(std::size_t heap, DeviceId device, Access access);
  Access heap_access(std::size_t heap, DeviceId device) const;
  // What a call that frees memory does first: everything that is pending finishes, or, of memory of one device among
  // several, everything of that device. `promised`: CUDA documents that the
  // call waits, or every driver is known to; else the program had to know that nothing uses the range any more.
  CUresult wait_to_free(const char* call, Address at, Bytes bytes, bool promised);
  // Does not wait: see wait_to_free(). INVALID_VALUE unless `at` came from allocate.
  CUresult free(Address at);
  bool allocation_at(Address at, Address* begin, Bytes* bytes) const;

  // --- Memory of graphs
  // ------------------------------------------------------------------------------------------------------------
  // Addresses that are the driver's, whole pages without memory; the program knows nothing of a reservation.
  CUresult keep_addresses(Bytes bytes, Address* out);
  void give_addresses(Address at, Bytes bytes);
  // Puts memory there, which nobody may access yet; takes it from there.
  void place(Address at, Bytes bytes, PhysicalId physical);
  void displace(Address at, Bytes bytes);
  // From when an operation opens it until one closes it, it may be accessed; it is zero at first. Free of charge.
  void open(Address at, Bytes bytes, Rights rights);
  void close(Address at, Bytes bytes);

  // --- Host memory
  // ------------------------------------------------------------------------------------------------------------
  CUresult allocate_host(Bytes bytes, void** out);
  CUresult free_host(void* at);
  CUresult register_host(void* at, Bytes bytes);
  CUresult unregister_host(void* at);
  bool pinned_at(const void* at, Address* begin, Bytes* bytes) const;  // allocated or registered

  // --- Buffers: what the program asked for
  // ------------------------------------------------------------------------------------ A fresh buffer counts as zero
  // until first written: the first operation that accesses it clears it. Registered over another buffer: INVALID_VALUE.
  CUresult register_buffer(Address at, Bytes bytes, Fresh fresh);
  CUresult unregister_buffer(Address at);
  // Mappings inside a heap are nobody's buffers: is_heap() tells whether to register one. A heap may be registered
  // again.
  void register_heap(Address at, Bytes bytes);
  void unregister_heap(Address at);
  bool is_heap(Address at) const;
  std::optional<Buffer> buffer_at(Address at) const;  // containing it

  // --- Textures
  // ---------------------------------------------------------------------------------------------------------------
  // Handles for kernels' parameters; of a surface, what is read is written, too, and lies in a buffer.
  std::uint64_t add_texture(const Fetch& fetch, bool writes);
  void remove_texture(std::uint64_t handle);

  // --- Figures
  // ----------------------------------------------------------------------------------------------------------------
  void validate() const;  // recomputes every invariant of every part
  // Of what accessible memory holds now, pending work not counted: equal contents, equal numbers.
  std::uint64_t digest(Address at, Bytes bytes) const;
  std::uint64_t checksum() const;
  std::uint64_t order_hash() const;
  Time device_now() const;
  void statistics(SimulatedStatistics* out) const;

 private:
  struct State;
  Machine();
  ~Machine() = delete;  // lives as long as the process: destructors of others may still call the driver
  static Machine& instance();
  static void at_exit();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  OperationId queue(StreamId stream, Work work, const Order& order);
  void note_order(StreamId stream, const Work& work, const Order& order);
  CUresult finish_all();  // the driver waits; the program learns nothing
  void wait_until(const std::function<std::optional<Time>()>& ended);
  [[noreturn]] void blocked_for_good() const;
  bool legacy_is_done(StreamId stream) const;
  void prepare(Operation& operation, Work& work);
  void prepare_copy(Operation& operation, Copy& copy);
  void prepare_step(const Operation& conditional, Step& step);
  OperationId queue_between_devices(StreamId stream, Copy copy);
  bool is_between_devices(const Copy& copy) const;
  Bytes external_bytes(const Work& work, DeviceId device) const;
  Device& device();
  const Device& device() const;

  std::mutex mutex_;
  State* const state_;
};

}  // namespace simulator
