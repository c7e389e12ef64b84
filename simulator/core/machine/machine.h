// SPDX-License-Identifier: Apache-2.0
// The simulated devices behind the driver API, as one object: host clock, streams and events on the device's time line,
// physical memory, address space, contents, buffers. The API layer (simulator/cuda/) translates cu* calls to calls of
// this class.
//
// Contract: there is one machine per process. Every call is made between enter() and the destruction of the Entry that
// it returned, which holds the one lock; nothing here locks again. Calls charge their cost in host time themselves,
// except those marked "free of charge". Results are CUDA's numbers. After a fault, every call of the API layer should
// return error() first: faults are sticky.
//
// When work is executed: submitting only queues it. Effects happen in wait_* and poll, which blocking calls, queries
// and unmap, free and create use. An operation whose end is later than the host's clock is not executed unless the host
// waits for it.
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

enum class Cost { kLaunch, kCopy, kStreamCall, kMap, kSetAccess, kSetAccessNext, kUnmap, kUnmapNext };

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

  // Takes the lock, and tells the progress thread that the host is active. Not from inside a host function: see
  // in_host_function().
  static Entry enter();

  // True on a thread that is inside a host function or kernel: the API then returns CUDA_ERROR_NOT_PERMITTED without
  // calling enter().
  static bool in_host_function();

  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // --- Start, settings, state ---
  //
  // Reads the environment (THERMOCLINE_SIMULATE_*; configure() has priority) and creates the devices. Idempotent. An
  // invalid setting is reported on stderr, and the result is CUDA_ERROR_NO_DEVICE; without address space for the page
  // tables it is CUDA_ERROR_OUT_OF_MEMORY.
  CUresult initialize();
  bool initialized() const;
  // nullptr, or an error message (valid until the next call).
  const char* configure(const char* key, const char* value);
  // The first fault, else CUDA_SUCCESS. In a forked child of an initialized parent: CUDA_ERROR_NOT_INITIALIZED until
  // reset().
  CUresult error() const;
  // Returns to the initial state; `on_reset`, which runs with the lock held, resets the API layer's own state.
  void reset();
  void set_on_reset(std::function<void()> on_reset);
  // Sets the function that describes what the program has not released, for the end of a checked run.
  void set_leftovers(std::string (*leftovers)(const Machine&));
  // Device memory that a kernel's code takes at its first launch; 0 if modules are loaded as a whole.
  Bytes lazy_loading() const;
  // Whether kernels without a host implementation mix (mixing.h) instead of running their code.
  bool mixes_kernels() const;
  std::uint64_t kernel_steps() const;
  unsigned cores() const;          // of the host, that may run blocks of a kernel
  const Profile& profile() const;  // after initialize(); capacity() overrides its memory_bytes
  DeviceId devices() const;        // how many
  Bytes granularity() const;       // of physical memory and addresses, as programs see it
  // The error that the fault plan injects into a call of the driver's function; counts the call.
  CUresult fault(std::string_view symbol);
  const FaultPlan& fault_plan() const;  // also before initialize()
  const DriverSwitches& driver() const;
  bool tagged() const;  // memory holds no bytes: host implementations of kernels do not run, kernels mix

  // --- Clock ---
  Time now() const;
  void charge(Cost cost, std::uint64_t count = 1);

  // --- Streams ---
  //
  // Blocking streams and the legacy stream of a device order each other as CUDA documents; non-blocking ones are
  // independent.
  StreamId create_stream(bool non_blocking, DeviceId device = 0);
  // Operations in the stream still complete. The id must not be used afterwards.
  void destroy_stream(StreamId stream);
  bool stream_exists(StreamId stream) const;
  static StreamId legacy_stream(DeviceId device) { return device; }
  bool is_legacy(StreamId stream) const { return stream < devices(); }
  DeviceId device_of(StreamId stream) const;
  // The function with which control.h's launch_operator finds a stream for a CUstream. Without one, the handle's value
  // is the id.
  using StreamResolver = bool (*)(const void* handle, StreamId* out);
  void set_stream_resolver(StreamResolver resolver);
  CUresult resolve_stream(const void* handle, StreamId* out) const;

  // --- Queueing ---
  struct Order {
    std::span<const OperationId> after;  // in addition to the stream's order; may include completed ones
    bool detached = false;     // ordered only by `after`, not by the stream, and the stream does not wait for it
    std::uint64_t branch = 0;  // in adversarial orders, detached operations of different branches run in any order
    bool uncharged = false;    // not submitted by a host call of its own
    std::optional<DeviceId> device = std::nullopt;  // that executes it; not set: the stream's device
  };
  // Charges the cost of a launch (kernels, operators), a copy (copies, sets, host functions) or a stream call (all
  // others).
  OperationId submit(StreamId stream, Work work, const Order& order);
  OperationId submit(StreamId stream, Work work) { return submit(stream, std::move(work), Order{}); }
  // A stream's queue is limited (setting queue-limit): while it is full, each call that adds to it waits, with the lock
  // released, before it reads any state. submit() and the event calls do that themselves, unless the operation is
  // uncharged or detached. If one call adds several operations, it waits before them, and adds one charged operation
  // after them.
  void wait_for_queue(StreamId stream);
  void queued(StreamId stream, OperationId operation);
  // The newest operation of the stream, 0 if none. A later detached operation names it in order to be ordered after it.
  OperationId tail(StreamId stream) const;

  // --- Waiting and asking ---
  //
  // The host blocks, and its clock advances to the completion. These return error(). Free of charge. If the operation
  // waits for a blocked one, other threads are let in; if none of them makes a call for a certain time, the process
  // ends with a message that names what is blocked.
  CUresult wait(OperationId operation);
  CUresult wait_stream(StreamId stream);  // for the legacy stream: also what that itself would wait for
  CUresult wait_all();
  CUresult wait_device(DeviceId device);
  // Completes everything that has ended by now (adversarial order: any allowed amount). Free of charge.
  void poll();
  // Polls, then answers. Free of charge: the caller charges the query, so that polling loops end. After a true result
  // the program knows of the completion; is_done() is for the driver's own use.
  bool is_done(OperationId operation);
  bool query(OperationId operation);
  bool query_stream(StreamId stream);

  // --- Events ---
  EventId create_event();
  void destroy_event(EventId event);
  OperationId record_event(EventId event, StreamId stream, const Order& order);
  OperationId record_event(EventId event, StreamId stream) { return record_event(event, stream, Order{}); }
  // Later work of the stream is ordered after the event's newest record at this moment; an event that was never
  // recorded orders nothing.
  void stream_wait_event(StreamId stream, EventId event);
  // 0: never recorded. For cuEventQuery and cuEventSynchronize.
  OperationId recorded(EventId event) const;
  // Between the newest records, which must both have completed; INVALID_HANDLE if one was never recorded, NOT_READY if
  // one is pending.
  CUresult elapsed(EventId begin, EventId end, Time* out);

  // --- Physical memory ---
  //
  // Whole pages; OUT_OF_MEMORY beyond the device's capacity.
  CUresult create_physical(Bytes bytes, PhysicalId* out, PhysicalPlace place = PhysicalPlace::kDevice,
                           DeviceId device = 0);
  CUresult retain_physical(PhysicalId physical);    // needs one more release
  CUresult release_physical(PhysicalId physical);   // the memory is freed when released and unmapped everywhere
  Bytes physical_bytes(PhysicalId physical) const;  // 0: no such handle
  bool physical_exists(PhysicalId physical) const;  // has a handle or a mapping
  bool physical_is_mapped(PhysicalId physical) const;
  // Memory shared with other processes (shared_files.h). share_physical gives a run that was just created a file; its
  // descriptor stays the machine's (-1: it has none). The imports make a run from a file of another process, or from a
  // place in its memory.
  CUresult share_physical(PhysicalId physical);
  int shared_file(PhysicalId physical) const;
  CUresult import_physical(int file, PhysicalId* out, DeviceId device = 0);
  CUresult open_physical(const FilePlace& place, Bytes bytes, PhysicalId* out, DeviceId device = 0);
  // The pages around an allocation. From now on they count as written, because other processes may write them. Nothing
  // if contents are not bytes.
  std::optional<FilePlace> show_to_others(Address at, Bytes bytes);
  Bytes capacity() const;  // of each device
  Bytes free_bytes(DeviceId device = 0) const;
  std::optional<DeviceId> owner_at(Address at) const;  // the device whose memory is mapped there

  // --- Address space ---
  CUresult reserve(Bytes bytes, Bytes alignment, Address hint, Address* out);
  CUresult release_addresses(Address at, Bytes bytes);
  CUresult map(Address at, Bytes bytes, Bytes offset, PhysicalId physical);
  CUresult set_access(Address at, Bytes bytes, Access access, DeviceId device = 0);
  CUresult unmap(Address at, Bytes bytes);     // polls first, does not wait (unless unmap=waits)
  bool is_host_physical_at(Address at) const;  // mapped to physical memory on the host
  std::uint64_t further_mappings(Address at, Bytes bytes, Time cost) const;
  std::optional<PhysicalId> physical_at(Address at) const;
  std::vector<PhysicalId> physical_in(Address at, Bytes bytes) const;  // mapped there, up to the first gap
  bool mapping_at(Address at, Address* begin, Bytes* bytes) const;
  std::size_t reservations() const;  // made by the program and not released
  bool reservation_at(Address at, Address* begin, Bytes* bytes) const;
  Access access_at(Address at, DeviceId device = 0) const;

  // --- cuMemAlloc-like memory ---
  //
  // Addresses with memory and access, at least 512-byte aligned; small allocations share pages. Registers no buffer.
  // `own_pages`: whole new pages, zeroed now, accessible to every device (managed memory, which the host may write
  // before any operation). `heap`: a device's number, or a result of create_heap().
  CUresult allocate(Bytes bytes, bool own_pages, Address* out, std::size_t heap = 0);
  // A heap on the device whose access rights are its own (a pool's); with a single device, that device's heap.
  std::size_t create_heap(DeviceId device);
  void set_heap_access(std::size_t heap, DeviceId device, Access access);
  Access heap_access(std::size_t heap, DeviceId device) const;
  // The wait in a call that frees memory: for everything that is pending or, for memory of one device among several,
  // everything of that device. `promised`: the call is documented to wait, or every known driver does; otherwise the
  // program must know that nothing uses the range any more.
  CUresult wait_to_free(const char* call, Address at, Bytes bytes, bool promised);
  // Does not wait: see wait_to_free(). INVALID_VALUE unless `at` came from allocate.
  CUresult free(Address at);
  bool allocation_at(Address at, Address* begin, Bytes* bytes) const;

  // --- Memory of graphs ---
  //
  // Reserves addresses for the driver itself, in whole pages without memory; the program does not see this reservation.
  CUresult keep_addresses(Bytes bytes, Address* out);
  void give_addresses(Address at, Bytes bytes);
  // place maps memory there, to which nobody has access yet; displace unmaps it.
  void place(Address at, Bytes bytes, PhysicalId physical);
  void displace(Address at, Bytes bytes);
  // The memory is accessible from the operation that calls open to the one that calls close; it is zero at first. Free
  // of charge.
  void open(Address at, Bytes bytes, Rights rights);
  void close(Address at, Bytes bytes);

  // --- Host memory ---
  CUresult allocate_host(Bytes bytes, void** out);
  CUresult free_host(void* at);
  CUresult register_host(void* at, Bytes bytes);
  CUresult unregister_host(void* at);
  bool pinned_at(const void* at, Address* begin, Bytes* bytes) const;  // allocated or registered

  // --- Buffers: the program's allocations ---
  //
  // A fresh buffer counts as zero until it is first written: the first operation that accesses it clears it.
  // INVALID_VALUE if it overlaps another buffer.
  CUresult register_buffer(Address at, Bytes bytes, Fresh fresh);
  CUresult unregister_buffer(Address at);
  // Mappings inside a heap are not buffers: is_heap() says whether to register one. A heap may be registered again.
  void register_heap(Address at, Bytes bytes);
  void unregister_heap(Address at);
  bool is_heap(Address at) const;
  std::optional<Buffer> buffer_at(Address at) const;  // containing it

  // --- Textures ---
  //
  // Handles for kernels' parameters. The memory of a surface is read and written, and must be in a buffer.
  std::uint64_t add_texture(const Fetch& fetch, bool writes);
  void remove_texture(std::uint64_t handle);

  // --- Statistics ---
  void validate() const;  // recomputes every invariant of every part
  // A hash of what accessible memory contains now, without pending work: equal contents give equal numbers.
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

  OperationId queue(StreamId stream, Work&& work, const Order& order);
  void note_order(StreamId stream, const Work& work, const Order& order);
  CUresult finish_all();  // waits as the driver; the program learns nothing from it
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
