// SPDX-License-Identifier: Apache-2.0
// The parts of an engine; each part uses only parts before it. Guarded by Engine::mutex_.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "allocator/heap.h"
#include "allocator/host_pool.h"
#include "allocator/stream_clock.h"
#include "allocator/thread_cache.h"
#include "driver/host_reserve.h"
#include "driver/locks.h"
#include "driver/nvtx_memory.h"
#include "offload/digest/digests.h"
#include "offload/engine/audit.h"
#include "offload/engine/engine.h"
#include "offload/engine/idle.h"
#include "offload/engine/known_operations.h"
#include "offload/engine/report.h"
#include "offload/pointers/pointer_probes.h"
#include "offload/pointers/references.h"
#include "offload/policy/eviction_policy.h"
#include "offload/policy/recompute_policy.h"
#include "offload/recompute/verification.h"
#include "offload/recompute/versions.h"
#include "offload/residency/migration.h"
#include "offload/residency/residency.h"
#include "offload/residency/unit_size.h"
#include "offload/sharing/stall_meter.h"

namespace thermocline {

// Registering host memory costs a system-wide operation; large steps make it rare.
inline constexpr Bytes kHostStepBytes = 64 * kMiB;

// The allocator's parts. They must not move, since each holds references to those above it.
struct Foundation {
  explicit Foundation(const Driver& driver_in) : driver(driver_in), clock(driver) {}

  const Driver driver;
  StreamClock clock;
  std::unique_ptr<HostPool> host;
  std::unique_ptr<Heap> heap;
};

// While one lives, waits happen in place, with the lock held. Costs nothing if nobody defers and locks are unchecked.
struct InPlace {
  InPlace(StreamClock& clock, bool deferred) {
    if (deferred) none.emplace(clock, false);
    if (locks_are_checked.load(std::memory_order_relaxed)) [[unlikely]]
      allowed.emplace();
  }
  std::optional<StreamClock::Deferring> none;
  std::optional<WaitsInPlace> allowed;
};

class Engine::State {
 public:
  static Status create(const Driver& driver, const EngineOptions& options, std::shared_ptr<SpillFile> spill_file,
                       std::unique_ptr<State>* out);
  ~State();

  // Collects the distinct blocks that the accesses name into `operands`, with what may be written.
  // `stream`: where the operation will be submitted.
  // `again` replaces info.again.
  Status resolve(std::span<const MemoryAccess> list, const OperationInfo& info, bool again, StreamHandle stream);
  void resolve_all();
  bool fits(std::span<const MemoryAccess> list);
  Demand demand_of(std::span<const MemoryAccess> list);
  Status fits_beside(std::span<const MemoryAccess> list, Bytes bytes);
  void show_room();
  Bytes unit_bytes_from(DeviceAddress at);
  // See Operation, and Engine.
  const void* host_copy() const;
  std::span<const UploadCopy> upload_copies() const { return uploads; }
  bool wants_upload_copy(AddressRange range, OperationInfo::Source source);
  void forget_upload_copies();
  Bytes host_copy_run(AddressRange range);
  bool is_on_host(AddressRange range);
  // resolve() and prepare() in the cheapest way (common_operation.cc). False: this case is not covered, and nothing has
  // changed.
  bool repeat(std::span<const MemoryAccess> list, const OperationInfo& info, StreamHandle handle);
  // The operation that was just prepared may come again.
  void learn_operation() {
    if (is_undisturbed() && operands.size() == named_operands)
      known_operations.learn(heap, given, info, operands, std::move(noted), placement);
  }
  // Half of the budget has been live at once, or a part of what lives is not on the device.
  bool expects_shortage() {
    if (!may_run_short) [[unlikely]]
      may_run_short = pressed || residency.any_nonresident() || 2 * (held_block_bytes + external_bytes) > budget_bytes;
    return may_run_short;
  }
  bool tracks_contents();
  // Allocations before operations are told to the policy (prepare()) are not told either: it learns no uses of them.
  void tell_of_allocation(const Block& block) {
    if (may_run_short) policy->allocated(block);
  }
  // Makes `operands` resident and makes `stream` wait for everything that it must wait for.
  Status prepare(StreamHandle stream);
  void commit(bool completed);
  // commit() for an operation that repeat() has prepared. What it leaves out concerns states in which is_undisturbed() is
  // false, or operations that are never known.
  void commit_repeated(bool completed);

  Status allocate(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* address);
  Status free(DeviceAddress address, std::optional<StreamHandle> stream);
  // allocate() and free() where memory neither moves nor runs short, in the cheapest way (common_case.cc). False: the
  // case is not covered; only cached buffers may have been taken back. note_what_is_slow: call it after every change of
  // its inputs.
  void note_what_is_slow() {
    slow_to_allocate = !is_plain || !detained.empty();
    slow_to_free = slow_to_allocate || !pinned.empty() || !references.empty();
  }
  bool allocate_commonly(Bytes bytes, std::uint64_t stream, ThreadCache& cache, DeviceAddress* address);
  bool free_commonly(DeviceAddress address, std::uint64_t stream);
  // Something has to be taken back from caches, or noted of them, before space is divided.
  bool has_cache_changes() const { return caches.has_changes() || caches.has_large(); }
  // Parts of these, for slabs, that call no function. Null, or false: that is not enough, and nothing has changed. To be
  // called where `allowed` says so.
  Buffer* allocate_at_once(Bytes bytes);
  bool free_at_once(DeviceAddress address, std::uint64_t key, const Block& slab);
  bool may_allocate_at_once(Bytes bytes, std::uint64_t key, const ThreadCache& cache) const;
  // These two functions compare with this, instead of looking at all that may forbid it. Invariant, recomputed by
  // validate_allowed(): while the lock is free as it was (Mutex::unlock_as_it_was), this is so, or allows nothing.
  struct Allowed {
    static constexpr std::uint64_t kNobody = ThreadCache::kNoStream - 1;
    std::uint64_t key_to_allocate = kNobody;  // the stream that it is allowed for, as thread caches know it
    std::uint64_t key_to_free = kNobody;
    Use newest;            // the newest operation there
    Bytes most_bytes = 0;  // allocations of up to so much are in slabs, and the largest so far is no less
    Bytes most_live = 0;   // up to there no peak changes
    const ThreadCache* only_cache = nullptr;  // null: not the only one, or something has to be taken back
  };
  Allowed allowed;
  Allowed what_is_allowed(std::uint64_t key) const;
  void validate_allowed() const;
  // The buffer was allocated now, and will be cached when it is freed.
  void remember(Buffer& buffer, std::uint64_t stream);
  void count_allocation(const Buffer& buffer, Bytes bytes);
  Status pin(DeviceAddress address, const char* reason, bool for_good);
  Status read_stored(AddressRange range, StreamHandle handle);
  void written_by_graph(std::span<const GraphKernel> kernels, bool may_keep);
  void unpin(const Buffer& buffer);
  Status wait_until_fetched(DeviceAddress address);
  void keep_pinned(const Buffer& buffer);
  void let_go_pin(const Buffer& buffer);
  Status hold_on_device(std::span<const AddressRange> ranges, const char* reason, std::uint64_t* hold);
  void let_go(std::uint64_t hold);
  Status add_external(Bytes bytes);
  Status leave_free(Bytes bytes);
  // Makes the operands resident; beyond the budget if they alone exceed it and may (soft_limit.cc).
  Status make_operands_resident(FetchReason reason = FetchReason::kAccessed);
  // The budget is fixed, and no operation exceeds it: memory that is there need not be requested.
  bool has_budget_of_its_own() const { return options.budget_source == nullptr && !over_budget; }
  // With EngineOptions::budget_source (shared_budget.cc): requests a budget of that size. False: there is no more now.
  bool raise_budget(Bytes wanted);
  bool take_budget(Bytes now);
  // The request does not fit now, and may fit once other processes have given memory back. The caller retries.
  bool may_fit_later(Bytes wanted) const;
  Status lower_budget(Bytes budget);
  Status lower_budget_to(Bytes budget);
  // calls(): changes with each operation and allocation of the program. works(): whether work of the program may be
  // running, as opposed to the copies by which lower_budget makes room.
  std::uint64_t calls() const;
  bool works();
  // For the measurement of time slices (StallMeter): the operation begins. False: it is not measured.
  bool begin_stall(StreamHandle handle, std::span<const MemoryAccess> list, const OperationInfo& what);
  // The operation that was begun may run from here on, or will not be submitted.
  void end_stall(StreamHandle handle, bool may_run) { may_run ? stalls->may_run(handle) : stalls->abandon(); }
  Status evict(DeviceAddress address);
  Status drop(DeviceAddress address);
  Status prefetch(DeviceAddress address);
  void add_small_buffers(RefusalFacts* facts) const;
  const char* direction_of(const Block& block) const;
  void list_operands(RefusalFacts* facts) const;
  void add_other_holders(RefusalFacts* facts) const;
  void add_operands(RefusalFacts* facts) const;
  Status refuse(const RefusalFacts& facts);
  Status refuse(const char* what, Bytes bytes, bool one_operation = false);
  // Refuses the operation whose operands are listed; `allocates`: what it allocates itself.
  Status refuse_operation(Bytes allocates = 0);
  RefusalFacts facts_of(const char* what, Bytes wanted, bool one_operation) const;

  // Learns what threads have freed and reused without the lock. Call it before anything that depends on who owns what.
  void note_cache_changes();
  // Frees buffers that threads have cached; true if there were any.
  bool reclaim(Reclaim what = Reclaim::kCached);
  // As of the last note_cache_changes().
  Bytes live_bytes() const { return heap.live_bytes() - caches.cached_bytes() - detained_bytes; }
  Bytes live_block_bytes() const { return held_block_bytes - caches.cached_block_bytes() - detained_block_bytes; }

  // The program holds the buffer: it is neither cached nor detained.
  bool is_held(const Buffer& buffer) const { return !ThreadCache::is_cached(buffer) && !detained.contains(&buffer); }

  // One step of a sleep (sleep.cc).
  Residency::Step sleep_more(const SleepScope& scope, bool for_work);
  bool sleeps_or_wakes = false;  // a sleep or a wake is in progress; the lock may be free
  SleepReport report_of_sleep(const SleepScope& scope, bool no_host);
  // Changes with each allocation, free and move.
  std::uint64_t activity() const;
  // Gives back pages that nobody can be using. True: only what an idle program keeps is left.
  bool give_back_pages();

  // Gives up the part of the claim on host memory that is not needed any more.
  void lower_host_claim();
  // Leaves others more than that: the spill file holds what then has no room on the host. `most`: of host memory, for
  // this device. False: the file can not, and the claim is as it was.
  bool lower_host_claim_beside_file(Bytes most);
  // Releases those detained buffers that nothing keeps any more.
  void release_detained();

  // Call it after every change of the references.
  void show_references();

  // Recomputing (recompute.cc); only where `versions` is there.
  void may_recompute();
  // For tests (EngineOptions::drops_all).
  void drop_all();
  bool may_trust() const;
  void note_arrival();
  void note_return();
  Status recompute_before(StreamHandle handle);
  void note_submission(Use use);
  // Recomputes contents that are needed apart from an operation: afterwards no buffer is dropped.
  Status recompute_all();
  // recompute_all(); and nothing that was submitted so far ever runs again.
  Status run_nothing_again();
  // The buffer is about to be freed. False: something that depends on it could not be recomputed now.
  bool lets_go(const Buffer& buffer);
  bool keeps_inputs() const;

  // Call it after every growth of the program's buffers or mappings; refused requests never count. Sets the heap's
  // limit to what the budget leaves beside the program's own mappings; calls no driver function if the limit grows.
  void limit_pages() { static_cast<void>(heap.set_limit(limit_of_pages())); }
  Bytes limit_of_pages() const;
  void note_peaks();
  void note_device_peak() {
    noted_created_pages = heap.created_pages();
    counters.peak_device_bytes = std::max(counters.peak_device_bytes, heap.created_bytes() + external_bytes);
  }
  void reset_peaks();
  EngineStatistics collect() const;
  void validate() const;

  const EngineOptions options;
  const bool looks_at_tables;
  Bytes budget_bytes;                           // changes only with EngineOptions::budget_source
  std::uint64_t rested_at = ~std::uint64_t{0};  // calls() when an idle program last gave memory back
  const Bytes device_total;
  std::unique_ptr<Foundation> foundation;
  StreamClock& clock;
  HostPool& host;
  Heap& heap;
  HostMappings host_mappings;
  Digests digests;
  Migration migration;
  Residency residency;
  RecentAllocations allocations;
  const std::unique_ptr<EvictionPolicy> policy;
  References references;
  PointerProbes looks;
  ThreadCaches caches;
  IdleWatch idle;
  std::optional<StallMeter> stalls;  // empty unless the budget's source needs it
  KnownOperations known_operations;
  std::unique_ptr<Versions> versions;              // null unless contents may be recomputed
  RecomputePolicy* recompute_policy = nullptr;     // non-null if `versions` is
  std::unique_ptr<Verification> verification;      // null unless recomputed contents are verified
  std::unique_ptr<NvtxMemory> annotations;         // null unless asked for
  std::unordered_set<const Buffer*> told_scratch;  // our scratch that tools have been told of
  std::unique_ptr<Audit> audit;                    // null unless asked for

  StreamIndex stream{};               // of the operation in preparation
  std::vector<BlockState*> operands;  // its blocks
  std::vector<BlockState*> left_out;  // operands that it may use at their host copies; recorded when it is submitted
  std::size_t named_operands = 0;     // of these, the ones it was given; they come first
  std::size_t told_operands = 0;      // then those that its caller has found (MemoryAccess::found)
  OperationInfo info;
  EvictionUnit* host_read = nullptr;        // the unit whose host copy is read; null: device memory is used
  DeviceAddress host_read_at;               // the address in it where that begins
  std::vector<UploadCopy> uploads;          // upload_copies.cc: what it leaves on the host
  std::vector<EvictionUnit*> uploaded;      // of which units, one by one
  std::uint64_t accesses = 0;               // number of accesses that it was given
  std::uint64_t operation = 0;              // operations prepared so far
  std::uint64_t resolution = 0;             // stamps the operands
  std::vector<DeviceAddress> reachable;     // of the operation: reachable through stored pointers
  bool is_plain = false;                    // no buffer has to be reported one by one (set once)
  bool repeats = false;                     // operations that come again may be recognized (set once)
  bool slow_to_allocate = true;             // the fast path is off (note_what_is_slow)
  bool slow_to_free = true;                 // the same; may stay true after the cause is gone
  std::atomic<bool> has_references{false};  // copy of !references.empty(), read without the lock
  std::atomic<bool> has_global_references{false};
  // The part of the budget that one operation can have, read without the lock. 0: operations need whole buffers.
  std::atomic<Bytes> room{0};
  // An operand was non-resident when it was accessed. From then on buffers' lifetimes matter more than the cost of an
  // allocation: a cached buffer would be kept, or copied out, as if it were alive.
  bool pressed = false;
  // Half of the budget has been live at once. Only from then on is the policy told of operations: earlier it would not
  // use its knowledge of them, and learning costs a fifth of a launch.
  bool may_run_short = false;
  std::span<const MemoryAccess> given;  // of the operation in preparation; valid as long as its caller's list
  bool given_everything = false;        // the operation accesses everything that is live
  // A dropped buffer that the operation in preparation writes, and does not read.
  struct Overwriting {
    Versions::BufferNumber number;
    DeviceAddress address;
  };
  std::vector<Overwriting> overwriting;
  // Another number, which no engine had before, whenever a buffer comes, goes, or is held by somebody else. Only where
  // `versions` is there.
  std::atomic<std::uint64_t> placement{0};
  void note_placement();
  bool is_vouched_for = false;  // it accesses nothing else than it was given
  // The form in which versions know the operation in preparation, if its caller described all of it. Null: it did not, or the
  // operation counts as one that may not run again though its caller says that it may.
  std::shared_ptr<const Versions::Form> noted;
  std::thread::id arrived_in;  // the thread whose operation was noted last; id(): unknown
  bool is_part = false;        // the operation in preparation is a later part of one
  // Versions are being recorded: how contents were made, for buffers that may have to be dropped. Operations submitted
  // before may have written anything.
  std::atomic<bool> tracks{false};
  UseSet not_vouched_for;        // the newest operations that nobody vouches for, until they have passed
  bool recomputing = false;      // a recipe is being run
  Bytes held_block_bytes = 0;    // whole blocks with live or cached buffers: device and host together must hold them
  Bytes pinned_block_bytes = 0;  // pinned blocks, and pinned units of other blocks
  Bytes largest_unit = 0;        // the largest ever allocated
  Bytes host_claim = 0;          // the part of shared limits that may be needed; set by host_holds
  std::atomic<bool> others_left_too_little{false};  // of the host limit, as host_holds said last
  struct Pin {
    const char* reason;
    std::uint64_t times = 0;  // ends after as many unpins
    bool for_good = false;    // ends when it is freed
  };
  // Units of a block, by index, that a call holds on the device.
  struct HeldUnits {
    const Block* block;
    std::vector<std::size_t> units;
  };
  struct Held {
    std::thread::id thread;  // the calling thread
    std::vector<HeldUnits> blocks;
  };
  std::unordered_map<std::uint64_t, Held> held_ranges;  // few: one for each such call in progress
  std::uint64_t newest_hold = 0;
  std::unordered_map<const Buffer*, Pin> pinned;  // few: each counts in its block's pins
  // Freed while a stream was blocked that uses them, or that they were freed on. Their memory is not reused before
  // these streams have gone on. The heap counts them as live. Invariant: none is cached; the sums below are theirs.
  std::unordered_set<Buffer const*> detained;
  Bytes detained_bytes = 0, detained_block_bytes = 0;
  Bytes external_bytes = 0;
  std::uint64_t leaving_free = 0;  // leave_free() calls for which less is held than the budget allows
  bool over_budget = false;        // the heap's limit is higher than the budget, for an operation (soft_limit.cc)
  bool raised = false;             // ... which has not been counted yet
  EngineStatistics counters;       // counters that no other part keeps
  // created_pages() when the peak of device bytes was noted last. The program's own mappings have not grown since then,
  // so the peak is unchanged as long as there are not more pages.
  std::uint64_t noted_created_pages = 0;
  ReportHandler report_handler = nullptr;
  // Empty: `buffer` is null or not the program's. For an audited buffer: the size that the program asked for.
  std::optional<BufferFacts> facts_of(const Buffer* buffer) const;

 private:
  State(std::unique_ptr<Foundation> foundation, const EngineOptions& options, Bytes budget_bytes, Bytes device_total);
  // The block of the buffer at `address`; null if the block is a slab, or under a full host fallback.
  Status own_block_at(DeviceAddress address, BlockState** out);
  void add_operand(Block* block, Access access);
  void add_range(Block* block, const MemoryAccess& access);
  void list_operand(BlockState& state);
  void access(const MemoryAccess& access);
  void access_range(const MemoryAccess& access);
  void add_all();
  Status expect_anything(StreamHandle handle);
  bool list_known_operands(std::vector<Versions::Operand>* list);
  Status recompute_one_by_one(std::span<const Versions::BufferNumber> buffers, StreamHandle handle,
                              RecomputeReason reason);
  Status recompute_planned(StreamHandle handle);
  // `as_planned`: exactly those operations that the plan runs again before the arriving one.
  Status recompute(std::span<const Versions::BufferNumber> buffers, StreamHandle handle, RecomputeReason reason,
                   bool as_planned);
  Status run(const Recipe& recipe, StreamHandle handle, bool as_planned, std::vector<DeviceAddress>* at);
  Status run_again(const Recipe& recipe, std::uint32_t index, StreamHandle handle, std::vector<DeviceAddress>* at);
  Status make_ready(std::span<const MemoryAccess> list, StreamHandle handle);
  void was_submitted(StreamHandle handle);
  Status copy_aside(std::span<const Versions::BufferNumber> written, StreamHandle handle);
  Status copy_aside(const Versions::Operand& input, StreamHandle handle);
  Status allocate_scratch(Bytes bytes, StreamIndex hint, DeviceAddress* out);
  void put_back_overwriting();
  bool drop_block(BlockState& state);
  // Verifying what runs again (rehearsal.cc); only where `verification` is there.
  void may_verify();
  bool begin_rehearsal();
  bool fits_with_scratch() const;
  Status skip_rehearsal(Status why) {
    verification->not_rehearsed();
    return why;
  }
  Status rehearse(const RelaunchInfo& launch, StreamHandle handle);
  Status rehearse_in(const RelaunchInfo& launch, StreamHandle handle, std::vector<DeviceAddress>* scratch);
  Status copy_by_ourselves(DeviceAddress to, DeviceAddress from, Bytes bytes, StreamHandle handle);
  static void note_digest(BlockState& state, const UseSet& digest);
  void verify_submission();
  bool verify_drop(BlockState& state, const Buffer& buffer);
  void verify_made_again(const Buffer& buffer);
  void begin_operands(std::span<const MemoryAccess> list);
  References::Followed collect_operands(std::span<const MemoryAccess> list, bool follows);
  // The evicted unit of a block whose host copy contains the whole range; null: there is none.
  EvictionUnit* evicted_at(AddressRange range);
  // For a copy within the device whose source and target do not fit together: reads its source on the host, if it can.
  Status leave_source_on_host(std::span<const MemoryAccess> list);
  Status read_host_copy(StreamHandle handle);
  bool keeps_uploads(OperationInfo::Source source) const;
  bool fills(const EvictionUnit& unit, AddressRange range) const;
  bool may_be_written_beside(const EvictionUnit& unit);
  void begin_upload_copies();
  void keep_upload_copies(Use use);
  void pin_block(BlockState& state);
  void unpin_block(BlockState& state);
  static Bytes held_unit_bytes(const BlockState& state);
  void forget_held(const Block& block);
  Bytes held_by_other_threads(bool beside);
  Status read_tables(std::span<const MemoryAccess> list, StreamHandle handle, bool may_reach_anything);
  Status read_table(AddressRange range, StreamIndex in, bool copies_may_come, std::vector<DeviceAddress>* words);
  // Whether only the operands of an operation that comes again have to be checked, and no state of an earlier operation
  // has to be cleaned up by resolve().
  bool is_undisturbed() const {
    return repeats && HostReserve::has_enough() && !caches.has_changes() && detained.empty() && !looks.has_arrived() &&
           host_read == nullptr && left_out.empty() && !over_budget && !residency.is_trusting();
  }
  // Whether origins of contents have to be noted, from the next operation on if not yet.
  bool notes_origins() const {
    return versions != nullptr && (may_run_short || tracks.load(std::memory_order_relaxed));
  }
  // Whether note_arrival() and recompute_before() would only add the operation to those that versions know.
  bool is_only_noted(const OperationInfo& what) const;
  struct Found;
  static bool are_as_they_were(const KnownOperation& known, StreamIndex in, Found* out);
  void tell_of_arrival(std::uint64_t known);
  void note_repeated(const KnownOperation& known);
  bool is_not_looked_at(const OperationInfo& what);
  bool anything_follows() const;
  void note_submitted();
  bool wait_for_others(const KnownOperation& known, StreamIndex in);
  bool is_given_small_buffers() const;
  static bool any_small_buffers(std::span<BlockState* const> blocks);
  bool is_given_a_table(const GraphKernel& kernel) const;
  bool is_known_to_store_none(const GraphKernel& kernel);
  bool keep_what_was_given(const GraphKernel& kernel);
  bool collect_probes(Wait wait);
  // Device memory that the operands need, with pinned memory.
  Bytes operand_bytes() const;
  // The unit is mapped to a host copy, or is on the device. False: there was no host memory, so it must be fetched.
  static bool leads_to_a_copy(const BlockState& state);
  void leave_out_what_is_mapped();
  bool any_nonresident() const;
  Status admit(StreamHandle handle);
  Status fetch_operands();
  bool host_holds(Bytes live, Bytes limit, const Block& block);
  bool pinned_host_holds(Bytes live);
  bool others_have_host_memory() const;
  bool shares_host_memory() const { return options.host_account != nullptr || options.host_ledger != nullptr; }
  // The host limit, less what other devices of the process have of it; ~0: no limit.
  Bytes host_limit_left() const;
  bool claim_host(Bytes bytes);
  Bytes claim_beside_file(Bytes live, Bytes least);
  void note_unit_of(const Block& block) {
    largest_unit = std::max(largest_unit, largest_unit_of(block.pages(), block.page_bytes()));
  }
  // Whether host and spill file together can hold that much, if the host alone can not.
  bool file_holds(Bytes live);
  void count_raise();
  Status make_operands_resident_in_lease(FetchReason reason);
  Status return_to_budget();
  Status find_addresses(Bytes bytes, StreamIndex hint, Buffer** out);
  Status place(Bytes bytes, StreamIndex hint, Buffer** out);
  // The next user of its space waits for everything that was submitted to the stream so far.
  void freed_on(Buffer& buffer, StreamIndex on) { buffer.block().uses.add(Use{on, clock.submitted(on)}); }
  void take_back_large();
  Buffer* allocate_in_mapped_pages(Bytes bytes, StreamIndex hint);
  bool free_pages(DeviceAddress address, std::uint64_t stream, StreamIndex on);
  void keep_unseen();
  void collect_host(EngineStatistics* all) const;
  void collect_movements(EngineStatistics* all) const;
  void release(Buffer& buffer);
  void detain(const Buffer& buffer);
  void give_back(Buffer* buffer);
};

}  // namespace thermocline
