// SPDX-License-Identifier: Apache-2.0
// The engine: one per device. It hands out addresses, is told of every operation before it is submitted, and keeps what
// the operation accesses on the device; contents that are not in use are kept in pinned host memory. Hooks and replays
// make the same calls.
//
// It is a deterministic state machine: it reads no clock and draws no random numbers. Its only inputs are these calls
// and the results of the driver that it was given. A plan is made on a separate thread, from copies of the engine's
// data, and is taken at a fixed point of the program (background.h).
//
// An operation:
//
//   Operation operation = engine.begin(stream, accesses);
//   if (!operation.status().ok()) return operation.status();   // out of memory: nothing was submitted
//   ... submit to `stream` ...
//   operation.commit();                                        // or not, if the submission failed
//
// While the engine waits for the driver its lock is released (waits_without_lock), except for the waits that are listed
// in docs/architecture.md. The engine never waits for a stream that is blocked by a value that the program writes
// later. A request that cannot be granted before such a stream continues is refused with not_ready. The caller may
// retry, and does not hold the engine's lock in between.
//
// Between begin and commit the engine is locked: nothing that the operation accesses can be evicted. Thread-safe; a
// context of the device must be current on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/probes.h"
#include "driver/status.h"
#include "driver/units.h"
#include "offload/access.h"
#include "offload/lock_levels.h"
#include "offload/operation_info.h"
#include "offload/options.h"
#include "offload/sharing/stall_times.h"
#include "offload/sleep.h"
#include "offload/statistics.h"

namespace thermocline {

class Block;
class Buffer;
class Engine;
class SpillFile;
class ThreadCache;
struct SpillTransfer;

// A part of the range that an upload fills: `bytes` from `offset` on.
struct UploadCopy {
  void* host = nullptr;
  Bytes offset = 0, bytes = 0;
};

// The scope of one operation; see the top of this file. Moving it moves the lock. Not thread-safe: it belongs to one
// thread.
class [[nodiscard]] Operation {
 public:
  Operation(Operation&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), status_(other.status_), is_repeated_(other.is_repeated_) {}
  Operation& operator=(Operation&&) = delete;
  ~Operation() {
    if (engine_ != nullptr) [[unlikely]]
      abandon();
  }

  Status status() const { return status_; }
  // The operation's stream runs behind a blocked one: calls that wait for the stream must not be made under the lock.
  bool is_behind_blocked() const;
  // The address of the range that the operation reads (OperationInfo::reads_host_copy), in pinned host memory, which is
  // unchanged until everything submitted to the stream before commit has run. Null: the range is on the device.
  const void* host_copy() const;
  // With OperationInfo::source: memory of the library's that the caller fills with these parts of the operation's range,
  // each an eviction unit's contents, and from which it then copies them to the device. Empty: the operation is submitted
  // as usual. Valid until commit(), which makes each the host copy of its unit.
  std::span<const UploadCopy> upload_copies() const;
  // The copying failed, and the operation is submitted as usual. The stream may still be reading from the memory.
  void forget_upload_copies();
  // The operation has been submitted. `completed`: it has also run (a synchronous copy).
  void commit(bool completed = false);

 private:
  friend class Engine;
  // Takes over the engine's lock.
  Operation(Engine* engine, Status status, bool is_repeated)
      : engine_(engine), status_(status), is_repeated_(is_repeated) {}
  void abandon();

  Engine* engine_;  // whose lock it holds; null: none, after commit() or a move
  Status status_;
  bool is_repeated_;  // Engine::State::repeat() has prepared it
};

// A kernel of a graph that was launched.
struct GraphKernel {
  const char* name = nullptr;    // as OperationInfo::name
  bool stores_pointers = false;  // it is known to (OperatorClass::kTables)
  std::vector<MemoryAccess> accesses;
};

// The memory that one operation needs on the device at once.
struct Demand {
  Bytes bytes = 0;    // what it may come to, as far as it is not pinned
  Bytes certain = 0;  // of these: without what only a kernel may have stored the address of, which can be read
  Bytes stays = 0;    // pinned, or mapped by the program itself
  Bytes budget = 0;   // for both
  // Whether what does not fit is brought there in turn: there is a policy that evicts, and no limit that may be exceeded.
  bool takes_turns = true;

  bool fits() const noexcept { return bytes + stays <= budget; }
  bool may_fit() const noexcept { return certain + stays <= budget; }
};

class Engine {
 public:
  // Reserves addresses and creates the copy streams in the current context. `driver`'s table must outlive the engine.
  // `spill_file`: takes host copies for which there is no host memory (docs/host_spill.md); null: there is none. With a
  // file there is no host fallback, because a host mapping needs host memory that stays.
  static Status create(const Driver& driver, const EngineOptions& options, std::unique_ptr<Engine>* out,
                       std::shared_ptr<SpillFile> spill_file = nullptr);
  // Returns everything to the driver. The context must still be current and nothing may be running.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Thread cancellation interrupts neither function. Callers of the other functions must make sure of that themselves.
  //
  // Both work without the lock if the calling thread freed a buffer of that size on that stream before (allocate), or
  // was given the buffer itself (free); see allocator/thread_cache.h.
  //
  // `stream`: the memory is first used on this stream (cuMemAllocAsync); none: on any stream (cuMemAlloc).
  // out_of_memory changes nothing and writes a report through the report handler.
  Status allocate(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) {
    return allocate_by_key(bytes, key_of(stream), out);
  }
  // `address` must be one that allocate returned, else invalid_value. Never blocks; the memory is reused after the work
  // of all streams that accessed it.
  Status free(DeviceAddress address, std::optional<StreamHandle> stream) {
    return free_by_key(address, key_of(stream));
  }

  // True for every address of the reservation, live or not. Lock-free.
  bool owns(DeviceAddress address) const noexcept { return address.value - range_begin_ < range_bytes_; }
  std::uint64_t range_begin() const noexcept { return range_begin_; }
  std::uint64_t range_bytes() const noexcept { return range_bytes_; }
  std::optional<BufferFacts> find(DeviceAddress address) const;
  // The buffers that an operation with this access may mean (Heap::meant_by); for a range: the one at its beginning.
  std::vector<BufferFacts> meant_by(const MemoryAccess& access) const;

  Operation begin(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info = {}) {
    return begin(stream, accesses, info, info.again);
  }
  // `again` replaces info.again.
  Operation begin(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info, bool again);
  // Whether everything that the operation accesses can be on the device at once.
  bool fits(std::span<const MemoryAccess> accesses);
  // All that an operation that may follow stored pointers may access, and what stays on the device beside it.
  Demand demand_of(std::span<const MemoryAccess> accesses);
  // Whether the operation fits if the driver takes `bytes` of its own for it, which then count as external.
  // out_of_memory: it never fits; this is reported. With a soft limit or a full host fallback nothing is refused in
  // advance.
  Status fits_beside(std::span<const MemoryAccess> accesses, Bytes bytes);
  // Whether that many ranges fit at once wherever they lie, each no longer than an eviction unit. Lock-free.
  bool fits_anywhere(std::uint64_t ranges) const noexcept;
  // Whether that many bytes of whole pages fit at once. Lock-free.
  bool has_room_for(Bytes bytes) const noexcept;
  // Bytes from `at` to the end of the memory that is evicted and fetched together with it. 0: the address is not ours.
  Bytes unit_bytes_from(DeviceAddress at) const;
  // The longest prefix of the range that one copy to the host should take: either within one non-resident eviction
  // unit, or everything before the first such unit. The whole range if nothing in it is evicted.
  Bytes host_copy_run(AddressRange range) const;
  // Whether host_copy_run finds evicted memory there.
  bool is_on_host(AddressRange range) const;
  // False: no upload leaves a host copy, ever.
  bool may_want_upload_copies() const noexcept;
  // Whether an upload to this range should be submitted with its source (OperationInfo::source).
  bool wants_upload_copy(AddressRange range, OperationInfo::Source source) const;
  // For an operation about which nothing is known: it accesses everything that is live.
  Operation begin_unknown(StreamHandle stream);

  // The pointer map (references.h). The following calls come after the submission of the work that changes the memory.
  // has_references is false if no address of ours is stored anywhere. has_global_references is true if some are stored
  // in memory that is not ours: any kernel may follow those. Both are lock-free.
  bool has_references() const noexcept;
  bool has_global_references() const noexcept;
  void hold(std::span<const HeldWord> words);
  // A copy wrote something to the range that could not be searched for addresses.
  void hold_unknown(AddressRange range);
  // A module is about to be unloaded: kernel names may mean other kernels from now on, and no kernel launched so far
  // runs again. Dropped contents that need them are recomputed; fails if these find no room. Context: as for begin().
  Status kernels_may_be_others();
  void overwritten(AddressRange range);
  // `exact`: copied byte by byte. Otherwise the contents are somewhere in `to`, whose former contents may remain.
  void copied(AddressRange to, AddressRange from, bool exact);
  // If something is evicted: reads from the device, in `stream` order, the addresses that kernels may have stored in
  // the range. Has no effect if that is not possible at once.
  void read_stored(AddressRange range, StreamHandle stream);
  // Around the calls that tell what a copy of a graph will write there (References).
  void will_be_overwritten(AddressRange range);
  void told_what_overwrites(AddressRange range);
  void forget_former(AddressRange range);
  // A kernel was given these accesses, and may have stored them in the small buffers among them.
  void written_by_kernel(std::span<const MemoryAccess> accesses);
  // A graph was launched: its kernels may have stored the addresses that they were given (graph_kernels.cc). `may_keep`:
  // the buffers may stay on the device instead. Returns whether more is stored now.
  bool written_by_graph(std::span<const GraphKernel> kernels, bool may_keep);
  // Whether kernels may have stored addresses in the range.
  bool may_be_stored_in(AddressRange range);

  // Begins to fetch the buffer at `address`; it stays on the device until as many unpins as pins (`reason`: a literal,
  // for reports). Does not wait for the fetch: operations that name the buffer wait, on their stream.
  Status pin(DeviceAddress address, const char* reason);
  // Waits until unseen work may access the pinned buffer: it has been fetched, and earlier users of its memory are
  // done. kNever: returns not_ready instead of waiting, because the awaited work may need this thread.
  enum class HostWait { kForEvents, kNever };
  Status wait_until_fetched(DeviceAddress address, HostWait wait = HostWait::kForEvents);
  // If the pinned buffer (BufferFacts::number) still exists, it stays on the device until it is freed.
  void keep_pinned(DeviceAddress address, std::uint64_t number);
  // If the buffer still exists: removes one pin.
  void unpin(DeviceAddress address, std::uint64_t number);
  // unpin() after unseen work accessed the buffer, and may have written to it.
  void unpin_unseen(DeviceAddress address, std::uint64_t number);
  // Fetches the eviction units that the ranges lie in and keeps them on the device until let_go: all or none, so that
  // threads that hold some of their units do not wait for one another. A range of 0 bytes means the whole buffer.
  // `reason`: a string literal, for reports. not_ready: there is no room beside what others hold.
  Status hold_on_device(std::span<const AddressRange> ranges, const char* reason, std::uint64_t* hold);
  void let_go(std::uint64_t hold);

  // The program knows that the buffer is not used for a while. It is copied out now, after its uses, and is evicted
  // before others when room is needed. not_supported: the policy is none, or nothing may be evicted any more
  // (EngineOptions::evict_no_more).
  Status evict(DeviceAddress address);
  // Evicts a buffer whose contents can be recomputed: they are dropped, and its pages are free at once. not_supported:
  // they cannot be recomputed, or recompute is off; nothing has changed.
  Status drop(DeviceAddress address);
  // The buffer is used soon. It is fetched now if there is room without evicting others, else not_ready.
  Status prefetch(DeviceAddress address);

  // The program itself waited: all work that it submitted to the stream (to all streams) has completed.
  void synchronized(StreamHandle stream);
  void synchronized_all();
  // synchronized() in two steps, if other threads go on submitting while the program waits: take submitted() before the
  // wait, and pass it to synchronized() after the wait.
  UseSet submitted(StreamHandle stream);
  UseSet submitted_all() const;
  void synchronized(const UseSet& uses);
  // These driver functions wait for work in flight. From now on the engine does not call them while a stream is
  // blocked; requests that need them are refused with not_ready.
  void mapping_waits(WaitingCalls calls);
  // The driver lets another device access memory of this one: that device gets access to all of the engine's mappings,
  // present and future, for good. On failure it may have access to some of them.
  Status open_to(int device);
  // `order` makes the stream wait for work that may be blocked, and returns whether it did. It runs under the lock, so
  // nobody finds the stream waiting before the engine knows that it is.
  void come_behind(StreamHandle stream, const std::function<bool()>& order);
  // Whether an operation submitted to the stream now would run after one that waits for the host: for a value that the
  // host writes, or for a host function.
  bool is_behind_blocked(StreamHandle stream);
  // Whether any stream is blocked so.
  bool any_blocked();
  // Some stream is about to record a graph (any), or none does any more. Dropped contents are recomputed before that:
  // by make_all_again(), which returns not_ready while streams are blocked, or else by recording().
  Status make_all_again();
  void recording(bool any);
  // The program is about to destroy the stream.
  void retire(StreamHandle stream);
  // All streams that the engine knows of, and the library's own.
  std::vector<StreamHandle> streams() const;

  // The program maps (delta > 0) or releases physical memory of its own, which counts against the budget.
  // out_of_memory: no room can be made.
  Status add_external(Bytes bytes);
  void remove_external(Bytes bytes);

  // The driver is out of memory for something of its own: the engine holds that many bytes fewer than now until
  // take_again() has been called as often. out_of_memory: no room can be made; then take_again() is not needed.
  Status leave_free(Bytes bytes);
  void take_again();

  // The program marks the end of a step of its iteration. Learning needs no marks, but trusts them.
  void step();

  // Gives unused device and host memory back to the driver.
  Status trim();
  // Host memory alone, and what is claimed of a limit but not needed; for which host copies of what stays on the device are
  // dropped. Returns how many bytes the driver has back.
  Bytes trim_host();
  // With a spill file: moves host copies there, to leave host memory to other devices, until this one has its part of
  // the limit among so many devices; 0: until it has only what copies have to pass through. Waits for the disk, and for
  // copies. False: the file does not hold more.
  bool leave_host(std::size_t sharers);
  // Whether the last allocation that depended on host memory was refused while other devices of the process had some of
  // the limit. Lock-free.
  bool others_left_too_little_host() const noexcept;

  // To be called now and then by some thread; `now_ns`: of a monotonic clock. Once nothing has been allocated, freed,
  // evicted or fetched for EngineOptions::idle_after_ns, unused memory goes back to the driver (idle.h). Does not wait
  // for the lock, nor for the device while it holds the lock. Pinned memory is freed without the lock, because the
  // driver may wait there.
  void look_for_idleness(std::uint64_t now_ns);

  // Gives the buffer that contains the address a tag (0: none), until it is freed. invalid_value: there is no such
  // buffer. Buffers that share pages have none: they sleep only with everything else.
  Status tag(DeviceAddress address, std::uint64_t tag);
  // Sleep (offload/sleep.h): gives back all device memory that may be evicted; not_supported: as for evict, and for a
  // tag under a full host fallback. Memory that the program accesses meanwhile stays. Sleeping memory is fetched when it
  // is accessed, like all evicted memory.
  Status sleep(const SleepRequest& request, SleepReport* report);
  // Fetches sleeping memory, oldest access first, into free memory only, and waits for it. Memory that finds no room
  // stays asleep (SleepReport::asleep_bytes).
  Status wake(const SleepRequest& request, SleepReport* report);

  // With EngineOptions::budget_source: how much of the device the program would use, and does use.
  struct BudgetUse {
    Bytes budget = 0;
    Bytes demand = 0;            // live and not asleep
    Bytes in_use = 0;            // pages, and the program's own mappings
    std::uint64_t activity = 0;  // another number after each operation, allocation and free
    bool works = false;          // something that was submitted may still be running
    StallTimes times{};          // zero unless the source needs them
  };
  // Empty: another thread holds the lock.
  std::optional<BudgetUse> try_budget_use();
  // Waits until no other process has the time slice, as each operation does when it begins.
  void wait_for_turn();
  // Takes as much budget as the source has for this engine.
  void raise_budget();
  // Makes room for a smaller budget and tells the source. out_of_memory and not_ready: only what can be evicted now
  // was, which may be a part. Waits as an operation does.
  Status lower_budget(Bytes budget);

  // The view of cuMemGetInfo: the budget, and the part of it that live buffers do not take (0 if more is live than
  // fits). `free` is in whole pages, and one buffer can have all of it.
  void memory_info(Bytes* free, Bytes* total) const;
  // The size of a page of physical memory, as chosen (page_bytes.h).
  Bytes page_bytes() const noexcept;
  // Exact at this moment, even while threads allocate without the lock. The call changes nothing.
  EngineStatistics statistics() const;
  // The statistics if nobody holds the lock; else empty.
  std::optional<EngineStatistics> try_statistics() const;
  // Resets every peak to the present value.
  void reset_peaks();
  // True: the engine must be shown every kernel, even those that are given no address.
  bool audits() const noexcept { return audits_; }
  // True: even operations that access none of our memory must be shown: somebody wants to know what may be running.
  bool wants_all_launches() const noexcept;
  // True: contents may have to be dropped, so operations must say how they can run again (OperationInfo::relaunch).
  // While false, that is not used. Lock-free.
  bool wants_relaunches() const noexcept;
  // As long as it is the same, each buffer is where it was, and nobody else's. No two engines have had the same. Only
  // where contents may be recomputed. Lock-free; to be taken before buffers are looked up.
  std::uint64_t placement() const noexcept;
  AuditStatistics audit() const;

  // Receives the out-of-memory report; the default writes to stderr. Called with the engine locked: it must not call
  // the engine.
  using ReportHandler = void (*)(const std::string& report);
  void set_report_handler(ReportHandler handler);

  // Recomputes every cached number from scratch, and checks the invariants (driver/check.h).
  void validate() const THERMOCLINE_NOT_ANALYSED;

 private:
  friend class Operation;
  class State;  // engine_state.h: all guarded by mutex_

  explicit Engine(int device);

  // begin() for an operation that is not known; called with the lock held.
  Operation begin_slowly(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info,
                         bool again);
  // Calls `ask` again after each wait that was deferred.
  template <class Ask>
  Status ask_without_waiting(std::unique_lock<Mutex>& lock, Ask ask);

  Bytes trim_host(std::unique_lock<Mutex>& lock);
  Status wait_for_deferred(std::unique_lock<Mutex>& lock);
  void wait_for_file(std::unique_lock<Mutex>& lock, const std::shared_ptr<SpillTransfer>& transfer);
  bool wait_for_pages(std::unique_lock<Mutex>& lock);
  void wait_for_turn(std::unique_lock<Mutex>& lock);
  // A stream in the form that ThreadCaches uses.
  static constexpr std::uint64_t kNoStream = ~std::uint64_t{0};
  static std::uint64_t key_of(std::optional<StreamHandle> stream) {
    return stream.has_value() ? static_cast<std::uint64_t>(*stream) : kNoStream;
  }
  // How allocate and free work: through the thread's cache, else under the lock (common_case.cc). Those that say
  // `taken`, and the last two, are called with the lock held, and release it.
  Status allocate_by_key(Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  Status free_by_key(DeviceAddress address, std::uint64_t stream);
  Status allocate_past_cache(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                             ThreadCache* cache) THERMOCLINE_NOT_ANALYSED;
  Status allocate_without_entry(Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  Status allocate_from(ThreadCache* cache, Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  Status search_cache(ThreadCache& cache, Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  Status free_past_cache(DeviceAddress address, std::uint64_t stream) THERMOCLINE_NOT_ANALYSED;
  Status free_without_entry(DeviceAddress address, std::uint64_t stream);
  Status allocate_after_waiting(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                                ThreadCache* cache) THERMOCLINE_NOT_ANALYSED;
  Status free_after_waiting(DeviceAddress address, std::uint64_t stream) THERMOCLINE_NOT_ANALYSED;
  Status allocate_anew(Bytes bytes, std::uint64_t stream, DeviceAddress* out,
                       ThreadCache* cache) THERMOCLINE_NOT_ANALYSED;
  Status free_anew(DeviceAddress address, std::uint64_t stream) THERMOCLINE_NOT_ANALYSED;
  Status allocate_where_allowed(Bytes bytes, std::uint64_t stream, DeviceAddress* out, ThreadCache* cache)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status free_where_allowed(DeviceAddress address, std::uint64_t stream)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status allocate_in_slab_taken(Bytes bytes, std::uint64_t stream, DeviceAddress* out, ThreadCache* cache)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status free_in_slab_taken(DeviceAddress address, std::uint64_t stream, const Block& slab)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status allocate_taken(Bytes bytes, std::uint64_t stream, DeviceAddress* out, ThreadCache* cache)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status free_taken(DeviceAddress address, std::uint64_t stream) THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status remember_taken(Buffer& buffer, std::uint64_t stream) THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status allocate_slowly(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  Status free_slowly(DeviceAddress address, std::optional<StreamHandle> stream)
      THERMOCLINE_RELEASE(mutex_) THERMOCLINE_NOT_ANALYSED;
  bool wait_for_uses(std::unique_lock<Mutex>& lock, const UseSet& uses);

  mutable Mutex mutex_;
  std::unique_ptr<State> state_;
  std::uint64_t caches_key_ = 0;  // of the threads' caches
  std::uint64_t range_begin_ = 0;
  std::uint64_t range_bytes_ = 0;
  bool audits_ = false;
};

}  // namespace thermocline
