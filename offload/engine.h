// SPDX-License-Identifier: Apache-2.0
// The engine: one per device. It hands out addresses, sees every operation before it is submitted, and keeps what the
// operation accesses on the device; what is cold waits in pinned host memory. Hooks and replay drive it through the
// same calls.
//
// It is a deterministic state machine: it reads no clock and draws no random number. All it knows of the world are
// these calls and the answers of the driver it was given. A plan is made on a thread, from copies, and is taken at a
// fixed place of the program (background.h).
//
// An operation:
//
//   Operation operation = engine.begin(stream, accesses);
//   if (!operation.status().ok()) return operation.status();   // out of memory: nothing was submitted
//   ... submit to `stream` ...
//   operation.commit();                                        // or not, if the submission failed
//
// Where the driver has to be waited for, the lock is open meanwhile (waits_without_lock), but for the waits that are
// listed in docs/architecture.md. Where streams stand behind values that the program writes later, the engine waits for
// none of them. What can not be
// had before they have gone on is answered not_ready: the caller may ask again, without the engine's lock meanwhile.
//
// Between begin and commit the engine is locked: nothing that the operation accesses can leave. Thread-safe; a context
// of the device must be current on the calling thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/size_class.h"
#include "allocator/use_set.h"
#include "driver/driver.h"
#include "driver/locks.h"
#include "driver/status.h"
#include "driver/units.h"
#include "offload/operator_class.h"
#include "offload/recompute/relauncher.h"

namespace thermocline {

// none: a caching allocator that never copies. reactive: evicts under pressure, writes idle buffers out early, brings
// back on access. learned: reactive until the program has repeated itself, then by plan.
enum class Policy { kNone, kReactive, kLearned };

// When a live buffer's pages change hands. strict: when all that may use them has passed, and its addresses lead
// nowhere any more. trusting: as soon as its copy out has been submitted; for programs all of whose accesses are known.
enum class Safety { kStrict, kTrusting };

// What an evicted buffer's addresses lead to (host_fallback.h, docs/host_fallback.md). off: nowhere. auto: to its copy
// on the host, where the device can map that. full: the same, and no buffer changes its place while anything runs;
// slow.
enum class HostFallback { kOff, kAuto, kFull };

// Contents that are cheaper to recompute than to copy are dropped and recomputed, where the caller may be asked to run
// operations again (recompute/relauncher.h) and a learned plan says so. off: none are.
enum class Recompute { kOff, kAuto };

class HostLedger;

struct EngineOptions {
  int device = 0;
  // Most bytes the engine may hold on the device, the program's own mappings included. 0: all of the device's memory.
  Bytes budget_bytes = 0;
  Policy policy = Policy::kLearned;
  // False: nothing moves before it must, so that a reactive engine is plain least-recently-used on demand. For
  // measurements.
  bool ahead_of_need = true;
  Safety safety = Safety::kStrict;
  HostFallback host_fallback = HostFallback::kOff;
  // False: host memory has addresses and no bytes (a simulated device). Then writes that nobody saw are not found.
  bool host_is_readable = true;
  // Most bytes of pinned host memory. 0: no limit of ours.
  Bytes host_limit_bytes = 0;
  // Of a limit that this process shares with others; outlives the engine. Null: there is none.
  HostLedger* host_ledger = nullptr;
  // Smaller buffers stay on the device unless a whole slab of them is idle.
  Bytes min_offload_bytes = kMiB;
  // Write-behind begins when more than this part of the budget is taken, in percent.
  unsigned low_water_percent = 60;
  // Write-behind keeps up to this part of the budget clean, in percent.
  unsigned clean_reserve_percent = 25;
  // An engine that has been idle for so long gives back what nobody uses (Engine::look_for_idleness). 0: never.
  std::uint64_t idle_after_ns = 1'000'000'000;
  // Of that, so much stays: of the device's memory, and of pinned memory.
  Bytes idle_reserve_bytes = 16 * kMiB;
  // Registers every buffer through NVTX's memory extension, for tools that look into the pool.
  bool annotate = false;
  // Behind each buffer, nobody's, for whoever looks for what is written there. Buffers then count as so much larger,
  // and none is kept by a thread for itself.
  Bytes redzone_bytes = 0;
  // An operation that exceeds the budget alone is let in while the device has room, and counted (soft_limit.cc).
  bool soft_limit = false;
  // What has to be waited for is waited for without the lock, so that other threads go on meanwhile; what was asked for
  // begins again behind that. For callers with several threads: who is first then depends on them.
  bool waits_without_lock = false;
  // Evicts nothing, and lets an operation into nothing but what it is known to access (audit.h). The policy is none.
  bool audit = false;
  Recompute recompute = Recompute::kOff;
  RecomputePlans recompute_plans = RecomputePlans::kJoint;
  // Runs operations again; outlives the engine. Null: none may run again.
  Relauncher* relauncher = nullptr;
};

// What an operation does to memory, as far as its caller knows. Parameters of a kernel do not tell.
enum class Access { kUnknown, kRead, kWrite };

// A word that an operation was given, or a range that a copy names. bytes 0: only an address is known; then it stands
// for the buffer that contains it, and one past the end of a buffer stands for that buffer and the one that begins
// there.
struct MemoryAccess {
  DeviceAddress address;
  Bytes bytes = 0;
  Access access = Access::kUnknown;
};

struct AddressRange {
  DeviceAddress at;
  Bytes bytes = 0;

  DeviceAddress end() const { return at + bytes; }
};

// Eight bytes that a copy has put into memory, which may be an address of ours.
struct HeldWord {
  DeviceAddress at;
  std::uint64_t value = 0;
};

// What is known of an operation beside its accesses. kind: equal for equal work (a hash of function and grid, or of the
// kind of copy); 0 when unknown. nanoseconds: its duration as recorded; 0 when unknown, and
// then it is measured (duration_meter.h).
struct OperationInfo {
  std::uint64_t kind = 0;
  std::uint64_t nanoseconds = 0;
  OperatorClass operator_class = OperatorClass::kOther;
  const char* name =
      nullptr;  // of what runs, as long as the process lives; null: unknown. The engine does not look at it
  // A kernel, or a graph: it may go wherever the words lead that stand in the buffers whose addresses it was given.
  bool follows = false;
  // It waits for a value that may be written later, or may come behind such a wait in ways that nobody sees.
  bool may_block = false;
  // Ranges that it writes it writes whole, without looking at what was there (copies, sets).
  bool overwrites = false;
  // It reads the one range that it names, and nothing else: a copy to the host. What of a single eviction unit is not
  // on the device is not fetched for it, but read from the copy on the host (Operation::host_copy).
  bool reads_host_copy = false;
  // It was prepared before and answered not_ready, or is the rest of one that is done in several: it is the same
  // operation still.
  bool again = false;

  // How it may run again, and what of its accesses it reads and writes; lives until the operation is committed. Null:
  // it may not.
  const RelaunchInfo* relaunch = nullptr;

  // One kernel, of which something can be learnt by its next launches. Graphs are known by nothing.
  bool is_kernel() const { return follows && (name != nullptr || kind != 0); }
};

// A live buffer as the program asked for it.
struct BufferFacts {
  DeviceAddress address;
  Bytes bytes = 0;
  std::uint64_t number = 0;  // in order of allocation
  bool resident = false;
};

// What an audit (audit.h) has looked at.
struct AuditStatistics {
  std::uint64_t operations = 0;
  std::uint64_t launches = 0;   // of these, kernels and graphs
  std::uint64_t kernels = 0;    // by name
  std::uint64_t unknown = 0;    // launches to which everything was open
  std::uint64_t left_open = 0;  // times that access could not be taken away
  std::uint64_t fault = 0;      // the operation, by number, that accessed what it was not let into; 0: none
  int error = 0;                // the driver's
  const char* faulty = nullptr;
};

// Counters since the engine began; bytes unless named otherwise.
struct EngineStatistics {
  Bytes budget_bytes = 0;
  Bytes live_bytes = 0, peak_live_bytes = 0;      // what the program holds
  Bytes device_bytes = 0, peak_device_bytes = 0;  // what the engine holds on the device
  Bytes host_bytes = 0, peak_host_bytes = 0;      // pinned host memory taken
  Bytes external_bytes = 0;                       // the program's own mappings
  Bytes evicted_bytes = 0, restored_bytes = 0;    // copied out and in
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t operations = 0;
  std::uint64_t evictions = 0, restores = 0;  // blocks that left and came back
  std::uint64_t prefetches = 0, wasted_prefetches = 0;
  // Under a host fallback: units evicted with a host mapping, evicted without one, and that came back
  // changed.
  std::uint64_t fallback_evictions = 0, unmapped_evictions = 0, unseen_accesses = 0;
  std::uint64_t write_behinds = 0;                  // copies out that nobody waited for when they began
  std::uint64_t plans = 0, divergences = 0;         // iterations learned, and departures from them
  std::uint64_t recomputed_operations = 0;          // that ran again
  std::uint64_t recomputed_ns = 0;                  // what they took, as far as known
  Bytes dropped_bytes = 0;                          // whole blocks that were dropped, to be recomputed
  std::uint64_t predicted_step_ns = 0;              // of an iteration under the plan in force; 0: there is none
  std::uint64_t creates = 0, maps = 0, unmaps = 0;  // driver calls
  std::uint64_t host_waits = 0;                     // times the host had to wait for the device
  std::uint64_t out_of_memory = 0;                  // answers to the program
  std::uint64_t pinned_buffers = 0;                 // buffers that may not leave the device
  Bytes pinned_bytes = 0;                           // blocks of these
  std::uint64_t references = 0;                     // places in memory where addresses of buffers stand
  std::uint64_t followed = 0;                       // accesses of buffers that such addresses led to
  // Under a full host fallback: blocks that stored addresses lead to, and that were used at their copies on the host
  // for lack of room.
  std::uint64_t unfetched_targets = 0;
  // That exceeded the budget, because they could not have run within it (EngineOptions::soft_limit).
  std::uint64_t over_budget_operations = 0;
  std::uint64_t host_reads = 0;   // copies to the host that were served from the host copy of what is evicted
  std::uint64_t table_reads = 0;  // tables of kernels that were read because what they may lead to does not fit
  std::uint64_t pointer_probes = 0,
                pointer_writing_kernels = 0;  // launches looked at for tables, and kernels that write such
  // Of the hooks, which fill them in (hooks/fallbacks.h).
  std::uint64_t unknown_launches = 0, captured_operations = 0, other_contexts = 0, unknown_functions = 0;
  std::uint64_t untracked_uploads = 0, unseen_collectives = 0, refused_shares = 0;

  // The peak may count some that their threads had just freed (ThreadCache::kSlots a thread at most).
  std::uint64_t live_buffers = 0, peak_live_buffers = 0;
  Bytes allocated_bytes = 0, freed_bytes = 0;  // what made live_bytes, and its own mappings; their difference is live
  Bytes largest_allocation_bytes = 0;
  Bytes block_bytes = 0;                         // whole pages of live buffers, wherever they are
  Bytes nonresident_bytes = 0;                   // of these, not on the device
  Bytes created_bytes = 0, destroyed_bytes = 0;  // pages; their difference, and external_bytes, is device_bytes
  Bytes free_mapped_bytes = 0;                   // pages held behind no live buffer
  Bytes slab_bytes = 0, slab_live_bytes = 0;     // pages that small buffers share, and what of them is live
  // The largest allocation for which nothing would have to leave the device.
  Bytes available_bytes = 0;
  Bytes host_limit_bytes = 0;                        // 0: none
  Bytes host_live_bytes = 0;                         // of the host memory taken, what holds something
  Bytes host_taken_bytes = 0, host_given_bytes = 0;  // their difference is host_bytes
  // Of a limit that processes share (0: none), what all of them hold or may yet need of it, and this process's part.
  Bytes host_shared_limit_bytes = 0, host_shared_bytes = 0, host_claimed_bytes = 0;
  std::array<SizeClass, SizeClass::kCount> size_classes;  // of live buffers
};

class Engine;

// The scope of one operation; see the head of this file. Moving it moves the lock. Not thread-safe: it belongs to its
// thread.
class [[nodiscard]] Operation {
 public:
  Operation(Operation&&) noexcept;
  Operation& operator=(Operation&&) = delete;
  ~Operation();

  Status status() const { return status_; }
  // Its stream has come behind one that stands: a call that waits for it must not be made under the lock.
  bool is_held_up() const;
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

class Engine {
 public:
  // Reserves addresses and creates the copy streams in the current context. `driver`'s table must outlive the engine.
  static Status create(const Driver& driver, const EngineOptions& options, std::unique_ptr<Engine>* out);
  // Gives everything back to the driver; the context must still be current and nothing may be running.
  ~Engine();

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Neither is cut short where its thread is cancelled; callers of the rest see to that themselves.
  //
  // Both are done without the lock where the calling thread freed a buffer of that size on that stream before, or was
  // given the buffer itself (allocator/thread_cache.h).
  //
  // `stream`: the memory is first used on this stream (cuMemAllocAsync); none: anywhere (cuMemAlloc). out_of_memory
  // leaves everything as it was and writes a report through the report handler.
  Status allocate(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out);
  // `address` as allocate gave it, else invalid_value. Never blocks; memory is reused behind all streams that accessed
  // it.
  Status free(DeviceAddress address, std::optional<StreamHandle> stream);

  // True for every address of the reservation, live or not. Lock-free.
  bool owns(DeviceAddress address) const noexcept { return address.value - range_begin_ < range_bytes_; }
  std::uint64_t range_begin() const noexcept { return range_begin_; }
  std::uint64_t range_bytes() const noexcept { return range_bytes_; }
  std::optional<BufferFacts> find(DeviceAddress address) const;

  Operation begin(StreamHandle stream, std::span<const MemoryAccess> accesses, OperationInfo info = {});
  // Whether all that the operation accesses can be on the device at once.
  bool fits(std::span<const MemoryAccess> accesses);
  // To the end of what leaves and returns with the byte at `at`; 0: it is not ours.
  Bytes unit_bytes_from(DeviceAddress at) const;
  // Of the range, from its beginning, what one copy to the host should take: what lies in one eviction unit that is not
  // on the device, or all that lies before the first such unit. All of it where nothing is evicted.
  Bytes host_copy_run(AddressRange range) const;
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
  void overwritten(AddressRange range);
  // `exact`: byte by byte; else somewhere in `to`, and what stood there may still stand there.
  void copied(AddressRange to, AddressRange from, bool exact);
  // A kernel was given these, and may have written them into the small ones among them.
  void written_by_kernel(std::span<const MemoryAccess> accesses);
  // The same of each of a graph's kernels, behind which no look is made: what those with small buffers were given stays
  // on the device until it is freed, or counts as written there where it can not stay.
  void written_by_graph(std::span<const std::vector<MemoryAccess>> kernels);

  // Brings the buffer at `address` to the device and keeps it there until it is freed (`reason` is a literal, for
  // reports).
  Status pin(DeviceAddress address, const char* reason);
  // The same until unpin was called as often; where pin was called as well, until it is freed.
  Status pin_for_now(DeviceAddress address, const char* reason);
  void unpin(DeviceAddress address);
  // The eviction units that the range lies in come to the device and stay until let_go. A range of 0 bytes: the whole
  // buffer. `reason` is a literal, for reports.
  Status hold_on_device(AddressRange range, const char* reason, std::uint64_t* hold);
  void let_go(std::uint64_t hold);

  // The program knows that the buffer is not used for a while: it is copied out now, behind its uses, and goes before
  // others when room is needed. not_supported: the policy is none.
  Status evict(DeviceAddress address);
  // The same where its contents can be recomputed: they are dropped, and its pages are free at once. not_supported:
  // they can not be, or recompute is off; nothing has happened.
  Status drop(DeviceAddress address);
  // It is used soon, and comes back now where there is room for it without evicting others; else not_ready.
  Status prefetch(DeviceAddress address);

  // The program itself waited: what it submitted to the stream (to all streams) has passed.
  void synchronized(StreamHandle stream);
  void synchronized_all();
  // The same where other threads go on submitting while the program waits: what was submitted before it waited, and
  // afterwards that this has passed.
  UseSet submitted(StreamHandle stream);
  UseSet submitted_all() const;
  void synchronized(const UseSet& uses);
  // Another device, which the driver lets use memory of this one, may use all of the engine's: what is mapped, and what
  // will be. For good. On failure it may use some of it.
  Status open_to(int device);
  // `order` makes the stream wait for what may stand, and says whether it has. Under the lock, so that nobody finds the
  // stream waiting before it is known to.
  void come_behind(StreamHandle stream, const std::function<bool()>& order);
  // Some stream is about to record a graph (any), or none does any more.
  void recording(bool any);
  // The program is about to destroy the stream.
  void retire(StreamHandle stream);

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

  // cuMemGetInfo's view: the budget, and what of it is not taken by live buffers (0 when more is live than fits).
  void memory_info(Bytes* free, Bytes* total) const;
  // True at this moment, whatever threads do without the lock; asking changes nothing.
  EngineStatistics statistics() const;
  // Every peak becomes what is so now.
  void reset_peaks();
  // Every kernel is shown to the engine then, also one that is given no address.
  bool audits() const noexcept;
  // Operations that access nothing of ours are to be shown, too: somebody wants to know what may be running.
  bool wants_all_launches() const noexcept;
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

  Engine();

  // Asks again behind each wait that was deferred.
  template <class Ask>
  Status ask_without_waiting(std::unique_lock<Mutex>& lock, Ask ask);

  mutable Mutex mutex_{"engine"};
  std::unique_ptr<State> state_;
  std::uint64_t range_begin_ = 0;
  std::uint64_t range_bytes_ = 0;
};

}  // namespace thermocline
