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
// later. A request that can not be granted before such a stream continues is refused with not_ready: the caller may
// retry, without the engine's lock in between.
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
#include "offload/sleep.h"
#include "offload/statistics.h"

namespace thermocline {

class Engine;
class SpillFile;
class ThreadCache;
struct SpillTransfer;

// The scope of one operation; see the head of this file. Moving it moves the lock. Not thread-safe: it belongs to its
// thread.
class [[nodiscard]] Operation {
 public:
  Operation(Operation&&) noexcept;
  Operation& operator=(Operation&&) = delete;
  ~Operation();

  Status status() const { return status_; }
  // Its stream has come behind a blocked one: a call that waits for it must not be made under the lock.
  bool is_behind_blocked() const;
  // Where the range begins that it reads (OperationInfo::reads_host_copy): pinned host memory, which stays as it is
  // until what is submitted to the stream before commit has run. Null: the range is on the device.
  const void* host_copy() const;
  // The work has been submitted. `completed`: it has also run (a synchronous copy).
  void commit(bool completed = false);

 private:
  friend class Engine;
  Operation(Engine* engine, std::unique_lock<Mutex> lock, Status status);

  Engine* engine_;
  std::unique_lock<Mutex> lock_;
  Status status_;
};

// A kernel of a graph that was launched.
struct GraphKernel {
  const char* name = nullptr;    // as OperationInfo::name
  bool stores_pointers = false;  // known to (OperatorClass::kTables)
  std::vector<MemoryAccess> accesses;
};

// What one operation needs on the device at once.
struct Demand {
  Bytes bytes = 0;   // what it may come to, as far as it is not pinned
  Bytes stays = 0;   // pinned, or mapped by the program itself
  Bytes budget = 0;  // for both
  // Whether what does not fit is brought there in turn: there is a policy that evicts, and no limit that may be exceeded.
  bool takes_turns = true;

  bool fits() const noexcept { return bytes + stays <= budget; }
};

class Engine {
 public:
  // Reserves addresses and creates the copy streams in the current context. `driver`'s table must outlive the engine.
  // `spill_file`: where host copies go for which there is no host memory (docs/host_spill.md); null: nowhere. With a
  // file there is no host fallback: an address leads to host memory that stays, or to nothing.
  static Status create(const Driver& driver, const EngineOptions& options, std::unique_ptr<Engine>* out,
                       std::shared_ptr<SpillFile> spill_file = nullptr);
  // Gives everything back to the driver; the context must still be current and nothing may be running.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Thread cancellation interrupts neither of them. Callers of the other functions must make sure of that themselves.
  //
  // Both are done without the lock where the calling thread freed a buffer of that size on that stream before, or was
  // given the buffer itself (allocator/thread_cache.h).
  //
  // `stream`: the memory is first used on this stream (cuMemAllocAsync); none: anywhere (cuMemAlloc). out_of_memory
  // leaves everything as it was and writes a report through the report handler.
  Status allocate(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) {
    return allocate_by_key(bytes, key_of(stream), out);
  }
  // `address` as allocate gave it, else invalid_value. Never blocks; memory is reused behind all streams that accessed
  // it.
  Status free(DeviceAddress address, std::optional<StreamHandle> stream) {
    return free_by_key(address, key_of(stream));
  }

  // True for every address of the reservation, live or not. Lock-free.
  bool owns(DeviceAddress address) const noexcept { return address.value - range_begin_ < range_bytes_; }
  std::uint64_t range_begin() const noexcept { return range_begin_; }
  std::uint64_t range_bytes() const noexcept { return range_bytes_; }
  std::optional<BufferFacts> find(DeviceAddress address) const;
  // Those that an operation with this access may mean (Heap::meant_by); for a range, the one that contains its beginning.
  std::vector<BufferFacts> meant_by(const MemoryAccess& access) const;

  Operation begin(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info = {}) {
    return begin(stream, accesses, info, info.again);
  }
  // `again`: in place of info's.
  Operation begin(StreamHandle stream, std::span<const MemoryAccess> accesses, const OperationInfo& info, bool again);
  // Whether all that the operation accesses can be on the device at once.
  bool fits(std::span<const MemoryAccess> accesses);
  // Of one that may follow stored pointers: all that it may come to, and what stays beside it.
  Demand demand_of(std::span<const MemoryAccess> accesses);
  // Whether the operation fits where the driver takes `bytes` of its own for the operation, which count as external
  // once it has them. out_of_memory, and reported: never. With a soft limit or a full fallback that is not said
  // beforehand.
  Status fits_beside(std::span<const MemoryAccess> accesses, Bytes bytes);
  // Whether so many ranges fit at once wherever they lie, each no longer than an eviction unit. Lock-free.
  bool fits_anywhere(std::uint64_t ranges) const noexcept;
  // Whether so many bytes of whole pages fit at once. Lock-free.
  bool has_room_for(Bytes bytes) const noexcept;
  // To the end of what leaves and returns with the byte at `at`; 0: it is not ours.
  Bytes unit_bytes_from(DeviceAddress at) const;
  // Of the range, from its beginning, what one copy to the host should take: what lies in one eviction unit that is not
  // on the device, or all that lies before the first such unit. All of it where nothing is evicted.
  Bytes host_copy_run(AddressRange range) const;
  // Whether host_copy_run finds anything evicted there.
  bool is_on_host(AddressRange range) const;
  // For an operation of which nothing is known: everything live is accessed.
  Operation begin_unknown(StreamHandle stream);

  // Which addresses of ours stand in memory (references.h). The calls follow the submission of what changes them.
  // False: none does. True of has_global_references: some stand in memory that is not ours, and every kernel may follow
  // them. Both without the lock.
  bool has_references() const noexcept;
  bool has_global_references() const noexcept;
  void hold(std::span<const HeldWord> words);
  // Something has been put there that could not be looked at.
  void hold_unknown(AddressRange range);
  // The names of kernels may stand for other ones from now on, and none that was launched so far runs again: a module is
  // about to be unloaded. Fails where contents that they have to make again find no room; a context as for begin().
  Status kernels_may_be_others();
  void overwritten(AddressRange range);
  // `exact`: byte by byte; else somewhere in `to`, and what stood there may still stand there.
  void copied(AddressRange to, AddressRange from, bool exact);
  // Reads what kernels may have stored in the range, at the next turn of the stream, if something has left the device. Has
  // no effect where that is not possible at once.
  void read_stored(AddressRange range, StreamHandle stream);
  // Before and after what a copy of a graph is about to bring there is told (References).
  void will_be_overwritten(AddressRange range);
  void told_what_overwrites(AddressRange range);
  void forget_former(AddressRange range);
  // A kernel was given these, and may have written them into the small ones among them.
  void written_by_kernel(std::span<const MemoryAccess> accesses);
  // Kernels of a graph that was launched may have written what they were given (graph_kernels.cc).
  void written_by_graph(std::span<const GraphKernel> kernels);

  // Begins to fetch the buffer at `address`, and keeps it on the device until unpin was called as often (`reason` is a
  // literal, for reports). Does not wait for the fetch: operations that name the buffer do, on their stream.
  Status pin(DeviceAddress address, const char* reason);
  // Until the pinned buffer may be accessed by somebody who is not seen: it has been fetched, and whoever had its memory
  // before is done with it. kNever: not_ready instead of a wait; the work that is waited for may need this thread.
  enum class HostWait { kForEvents, kNever };
  Status wait_until_fetched(DeviceAddress address, HostWait wait = HostWait::kForEvents);
  // If that pinned buffer (BufferFacts::number) is still there: it stays on the device until it is freed.
  void keep_pinned(DeviceAddress address, std::uint64_t number);
  // If it is still there: one pin less.
  void unpin(DeviceAddress address, std::uint64_t number);
  // unpin() where whoever accessed it was not seen, and may have written.
  void unpin_unseen(DeviceAddress address, std::uint64_t number);
  // The eviction units that the ranges lie in come to the device and stay until let_go: all of them, or none, so that
  // threads that hold some of theirs do not wait for one another. A range of 0 bytes: the whole buffer. `reason` is a
  // literal, for reports. not_ready: what others hold leaves no room.
  Status hold_on_device(std::span<const AddressRange> ranges, const char* reason, std::uint64_t* hold);
  void let_go(std::uint64_t hold);

  // The program knows that the buffer is not used for a while: it is copied out now, behind its uses, and goes before
  // others when room is needed. not_supported: the policy is none, or nothing leaves any more
  // (EngineOptions::evict_no_more).
  Status evict(DeviceAddress address);
  // Evicts a buffer whose contents can be recomputed: they are dropped, and its pages are free at once. not_supported:
  // they can not be, or recompute is off; nothing has happened.
  Status drop(DeviceAddress address);
  // It is used soon, and comes back now where there is room for it without evicting others; else not_ready.
  Status prefetch(DeviceAddress address);

  // The program itself waited: what it submitted to the stream (to all streams) has passed.
  void synchronized(StreamHandle stream);
  void synchronized_all();
  // synchronized() where other threads go on submitting while the program waits: what was submitted before it waited,
  // and afterwards that this has passed.
  UseSet submitted(StreamHandle stream);
  UseSet submitted_all() const;
  void synchronized(const UseSet& uses);
  // These functions of the driver wait for work in flight. From now on they are not called while a stream is blocked:
  // what needs them is refused with not_ready.
  void mapping_waits(WaitingCalls calls);
  // Another device, which the driver lets use memory of this one, may use all of the engine's: what is mapped, and what
  // will be. For good. On failure it may use some of it.
  Status open_to(int device);
  // `order` makes the stream wait for what may be blocked, and says whether it has. Under the lock, so that nobody finds the
  // stream waiting before it is known to.
  void come_behind(StreamHandle stream, const std::function<bool()>& order);
  // Whether an operation that is submitted to the stream now runs after one that is blocked until the host acts: a value that
  // it waits for, a host function.
  bool is_behind_blocked(StreamHandle stream);
  // Whether any stream is blocked so.
  bool any_blocked();
  // Some stream is about to record a graph (any), or none does any more. What is dropped is made again before: by
  // make_all_again, which answers not_ready while streams are blocked, or else here.
  Status make_all_again();
  void recording(bool any);
  // The program is about to destroy the stream.
  void retire(StreamHandle stream);
  // All that it knows of, and the library's own.
  std::vector<StreamHandle> streams() const;

  // The program maps (delta > 0) or gives back physical memory of its own, which counts against the budget;
  // out_of_memory when no room can be made.
  Status add_external(Bytes bytes);
  void remove_external(Bytes bytes);

  // The driver is out of memory for something of its own: so many bytes fewer than are held now are held until as many
  // calls of take_again. out_of_memory when no room can be made; then nothing has to be taken again.
  Status leave_free(Bytes bytes);
  void take_again();

  // The program says that a step of its iteration ends here; learning needs no marks, but believes them.
  void step();

  // Gives unused device and host memory back to the driver.
  Status trim();

  // For a thread that asks every now and then; `now_ns`: of a clock that never goes back. Once nothing has been
  // allocated, freed, evicted or fetched for EngineOptions::idle_after_ns, gives back to the driver what nobody uses
  // (idle.h). Waits for nobody: neither for the lock, nor for the device while it has it; what the driver may wait for
  // while it frees pinned memory it waits for without the lock.
  void look_for_idleness(std::uint64_t now_ns);

  // Sleep (offload/sleep.h): gives all device memory back that may leave. not_supported: as for evict. What the program
  // accesses meanwhile stays. What is asleep comes back as anything that was evicted does, when it is accessed.
  Status sleep(const SleepRequest& request, SleepReport* report);
  // Brings back what is asleep, oldest access first, into free memory only, and waits for it. What finds no room stays
  // asleep (SleepReport::asleep_bytes).
  Status wake(const SleepRequest& request, SleepReport* report);

  // With EngineOptions::budget_source. How much of the device the program would use, and uses.
  struct BudgetUse {
    Bytes budget = 0;
    Bytes demand = 0;            // what is live and not asleep
    Bytes in_use = 0;            // pages, and the program's own mappings
    std::uint64_t activity = 0;  // another number after each operation, allocation and free
    bool works = false;          // something that was submitted may still be running
  };
  // Nothing: somebody has the lock.
  std::optional<BudgetUse> try_budget_use();
  // Takes what the source has for it.
  void raise_budget();
  // Makes room for a smaller budget and tells the source; out_of_memory and not_ready: as far as anything can leave now,
  // which may be in part. Waits as an operation does.
  Status lower_budget(Bytes budget);

  // cuMemGetInfo's view: the budget, and what of it is not taken by live buffers (0 when more is live than fits), in whole
  // pages: one buffer can have all of it.
  void memory_info(Bytes* free, Bytes* total) const;
  // Of physical memory, as chosen (page_bytes.h).
  Bytes page_bytes() const noexcept;
  // True at this moment, whatever threads do without the lock; asking changes nothing.
  EngineStatistics statistics() const;
  // The statistics where nobody holds the lock; else nothing.
  std::optional<EngineStatistics> try_statistics() const;
  // Every peak becomes what is so now.
  void reset_peaks();
  // Every kernel is shown to the engine then, also one that is given no address.
  bool audits() const noexcept { return audits_; }
  // Operations that access nothing of ours are to be shown, too: somebody wants to know what may be running.
  bool wants_all_launches() const noexcept;
  // Contents may have to be dropped: operations are to say how they may run again (OperationInfo::relaunch). Until then it
  // is of no use. Lock-free.
  bool wants_relaunches() const noexcept;
  AuditStatistics audit() const;

  // Receives the out-of-memory report; the default writes to stderr. Called with the engine locked: it must not call
  // back.
  using ReportHandler = void (*)(const std::string& report);
  void set_report_handler(ReportHandler handler);

  // Recomputes every cached number from first principles; checks (driver/check.h) what must hold.
  void validate() const;

 private:
  friend class Operation;
  class State;  // engine_state.h: the parts, all guarded by mutex_

  explicit Engine(int device);

  // Asks again behind each wait that was deferred.
  template <class Ask>
  Status ask_without_waiting(std::unique_lock<Mutex>& lock, Ask ask);

  Status wait_for_deferred(std::unique_lock<Mutex>& lock);
  void wait_for_file(std::unique_lock<Mutex>& lock, const std::shared_ptr<SpillTransfer>& transfer);
  bool wait_for_pages(std::unique_lock<Mutex>& lock);
  // A stream as ThreadCaches has it.
  static constexpr std::uint64_t kNoStream = ~std::uint64_t{0};
  static std::uint64_t key_of(std::optional<StreamHandle> stream) {
    return stream.has_value() ? static_cast<std::uint64_t>(*stream) : kNoStream;
  }
  // What allocate and free do: in the thread's cache; else under the lock (small_buffers.cc). The last two are called
  // with the lock held, and give it back.
  Status allocate_by_key(Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  Status free_by_key(DeviceAddress address, std::uint64_t stream);
  Status allocate_past_cache(Bytes bytes, std::uint64_t stream, DeviceAddress* out, ThreadCache* cache);
  Status allocate_without_entry(Bytes bytes, std::uint64_t stream, DeviceAddress* out);
  Status free_past_cache(DeviceAddress address, std::uint64_t stream);
  Status free_without_entry(DeviceAddress address, std::uint64_t stream);
  Status allocate_slowly(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out);
  Status free_slowly(DeviceAddress address, std::optional<StreamHandle> stream);
  bool wait_for_uses(std::unique_lock<Mutex>& lock, const UseSet& uses);

  mutable Mutex mutex_;
  std::unique_ptr<State> state_;
  std::uint64_t caches_key_ = 0;  // of the threads' caches
  std::uint64_t range_begin_ = 0;
  std::uint64_t range_bytes_ = 0;
  bool audits_ = false;
};

}  // namespace thermocline
