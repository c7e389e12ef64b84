// SPDX-License-Identifier: Apache-2.0
// Copies the contents of eviction units between the device and pinned host memory, on two streams of its own, one for
// each direction. So both directions of the link work at once, and neither waits behind the program's kernels.
//
// Contract: a copy out waits on the device for all submitted work that may use the unit. Later users of the block
// find the copy in `wait_for`. Host memory is reused only after every copy that reads or writes it has
// completed. Guarded by the engine's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "allocator/host_pool.h"
#include "allocator/stream_clock.h"
#include "driver/driver.h"
#include "offload/residency/block_state.h"
#include "offload/residency/file_copies.h"
#include "offload/residency/host_fallback.h"
#include "offload/residency/link_meter.h"

namespace thermocline {

struct MigrationStatistics {
  Bytes evicted_bytes = 0, restored_bytes = 0;
};

class Migration {
 public:
  Migration(const Driver& driver, StreamClock& clock, HostPool& host, HostMappings& host_mappings)
      : driver_(driver), clock_(clock), host_(host), host_mappings_(host_mappings) {}
  // From now on host copies may go to a file (spilling.cc).
  void spill_to(std::unique_ptr<FileCopies> files) { files_ = std::move(files); }
  ~Migration();

  Status open(void (*without_host_memory)() = nullptr);

  // Where the driver pins no more, copies may be in pageable memory (EngineOptions::may_use_pageable).
  void may_use_pageable(void (*pinning_refused)(Bytes pinned)) {
    may_use_pageable_ = true;
    pinning_refused_ = pinning_refused;
  }

  // Submits the copy of a mapped, defined unit without host copy: then kCopyingOut. out_of_memory: the host limit.
  // `may_wait`: the copy may go to pageable memory, for which the host waits.
  Status copy_out(EvictionUnit& unit, bool may_wait);
  // Gives a unit without contents host memory to which its addresses can be mapped; false: there is none.
  bool set_aside(EvictionUnit& unit);
  // Submits the copy into a unit that has just got pages. The host copy is valid until something writes to the unit.
  Status copy_in(EvictionUnit& unit);
  // Something else makes the unit's host copy current, and does so before `use`; the unit becomes kCopyingOut.
  void evicted_after(EvictionUnit& unit, Use use);
  // Host memory for the contents of a unit that an upload fills; null: there is none. Never waits.
  void* host_for_upload(const EvictionUnit& unit);
  // `host`, from host_for_upload(), is the unit's host copy: from now on, or (`at_once` false) behind `use`, an operation
  // that reads it in either case.
  void keep_upload(EvictionUnit& unit, void* host, Use use, bool at_once);
  // Frees memory from host_for_upload() behind these uses.
  void give_back(void* host, const UseSet& uses) { retired_.push_back(Retired{host, uses}); }
  // Counts bytes that turned out to have been copied by evicted_after()'s work.
  void copied_out(Bytes bytes) { statistics_.evicted_bytes += bytes; }
  // How many bytes of the unit a copy has to move.
  Bytes contents_of(const EvictionUnit& unit) const;
  // The host copy is stale or not needed any more.
  void drop_host_copy(EvictionUnit& unit);

  // The spill file; null: there is none.
  FileCopies* files() { return files_.get(); }
  const FileCopies* files() const { return files_.get(); }
  // The unit's contents are in the file, too. Frees its host memory after the last copy that uses it.
  void free_host_of(EvictionUnit& unit);
  // The unit's contents are on the host. Gives up the copy in the file.
  void drop_file_copy(EvictionUnit& unit);
  Bytes host_limit() const { return host_.limit(); }
  Bytes host_live_bytes() const { return host_.live_bytes(); }
  // Host memory into which the unit's contents can be read from the file; null: there is none.
  void* allocate_for(const EvictionUnit& unit) { return allocate_host(unit.host_bytes, unit.bytes()); }
  // The same, in memory that is not pinned, where the driver pins no more.
  void* allocate_pageable_for(const EvictionUnit& unit) { return allocate_pageable(unit.host_bytes); }
  // The operation in preparation reads the unit's host memory, so it must remain until the next operation.
  void keep(const EvictionUnit* unit) { kept_ = unit; }
  bool is_kept(const EvictionUnit& unit) const { return kept_ == &unit; }
  // Ok: the transfer has ended. not_ready: the caller has to wait for it without the engine's lock (take_awaited).
  Status wait_for(const std::shared_ptr<SpillTransfer>& transfer);
  std::shared_ptr<SpillTransfer> take_awaited() { return std::exchange(awaited_, nullptr); }
  bool awaits() const { return awaited_ != nullptr; }

  // True once the copy out is complete; never blocks. The unit is then kCurrent.
  bool has_left(EvictionUnit& unit);
  // Blocks the host until the copy out is complete.
  Status finish(EvictionUnit& unit);

  // Numbers of copies submitted and not known to have completed, per direction; polls.
  std::size_t copies_out();
  std::size_t returning();
  // The first and the last submitted of these.
  std::optional<Use> oldest_copy_out() { return copies_out() == 0 ? std::nullopt : std::optional(copies_out_.front()); }
  std::optional<Use> oldest_returning() { return returning() == 0 ? std::nullopt : std::optional(returning_.front()); }
  std::optional<Use> newest_returning() { return returning() == 0 ? std::nullopt : std::optional(returning_.back()); }

  // The measured bandwidth of the link; an assumption until enough has been copied.
  Link link() { return meter_.link(); }

  // Frees the host memory of dropped copies that no copy uses any more; polls.
  void collect_retired();
  // The same, but waits for the copies; not for streams that are blocked.
  Status await_retired();

  // Waits for both streams and frees retired host memory. Called before everything is given back.
  void drain();

  // Bytes of pinned host memory that could not be had at the last attempt; 0: they could.
  Bytes host_refused() const { return host_refused_; }
  // More host memory could be had without the engine's lock (HostPool::make_way).
  bool wants_trim() const { return host_.wants_trim(); }

  const MigrationStatistics& statistics() const { return statistics_; }

 private:
  struct Retired {
    void* host;
    UseSet uses;
  };

  // Allocates `bytes` of host memory, in pages if there is a host fallback. Waits for copies that still use retired
  // memory only if there is no other memory.
  void* allocate_host(Bytes bytes, Bytes page_bytes);
  void* allocate_pageable(Bytes bytes);
  // Waits for all that a copy in that stream to or from the unit comes behind.
  Status await_what_comes_before(StreamIndex copies, const EvictionUnit& unit);
  void free_abandoned(Wait wait);
  static UseSet uses_of_host(EvictionUnit& unit);
  void collect_ended();
  // The first retired memory whose uses are not blocked: copies to the program's memory may be behind a blocked stream.
  std::deque<Retired>::iterator first_that_goes_on();

  const Driver& driver_;
  StreamClock& clock_;
  HostPool& host_;
  HostMappings& host_mappings_;
  std::unique_ptr<FileCopies> files_;
  const EvictionUnit* kept_ = nullptr;
  std::shared_ptr<SpillTransfer> awaited_;
  StreamHandle out_{}, in_{};
  StreamIndex out_index_{}, in_index_{};
  bool open_ = false;
  std::deque<Retired> retired_;
  std::deque<Use> copies_out_, returning_;
  LinkMeter meter_{driver_};
  Bytes host_refused_ = 0;
  bool may_use_pageable_ = false;
  void (*pinning_refused_)(Bytes pinned) = nullptr;  // null also once it has been called
  MigrationStatistics statistics_;
};

}  // namespace thermocline
