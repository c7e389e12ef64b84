// SPDX-License-Identifier: Apache-2.0
// Moves the contents of units of blocks between the device and pinned host memory on two streams of its own, one a
// direction, so that both directions of the link work at once and neither stands behind the program's kernels.
//
// Contract: a copy out waits on the device for everything submitted that may use the unit; whoever accesses the block
// afterwards finds the copy in `wait_for`. Host memory is reused only after every copy that reads or writes it has
// passed. Guarded by the engine's lock.
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

  // Submits the copy of a mapped, defined unit without a host copy; it becomes kCopyingOut. out_of_memory: the host limit.
  Status copy_out(EvictionUnit& unit);
  // A unit without contents gets host memory, to which its addresses can lead; false: there is none.
  bool set_aside(EvictionUnit& unit);
  // Submits the copy back into a unit that has just got pages. The host copy stays valid until somebody writes.
  Status copy_in(EvictionUnit& unit);
  // The unit's host copy has been made current, behind `use`, by somebody else; it becomes kCopyingOut.
  void evicted_after(EvictionUnit& unit, Use use);
  // What has turned out to have been copied so.
  void copied_out(Bytes bytes) { statistics_.evicted_bytes += bytes; }
  // What a copy has to move of the unit.
  Bytes contents_of(const EvictionUnit& unit) const;
  // The host copy is stale or not needed any more.
  void drop_host_copy(EvictionUnit& unit);

  // The spill file; null: there is none.
  FileCopies* files() { return files_.get(); }
  const FileCopies* files() const { return files_.get(); }
  // The unit's contents are in the file, too: its host memory is free once no copy uses it.
  void free_host_of(EvictionUnit& unit);
  // The unit's contents are on the host, and what is in the file is not needed.
  void drop_file_copy(EvictionUnit& unit);
  Bytes host_limit() const { return host_.limit(); }
  Bytes host_live_bytes() const { return host_.live_bytes(); }
  // Host memory into which the unit's contents can be read from the file; null: there is none.
  void* allocate_for(const EvictionUnit& unit) { return allocate_host(unit.host_bytes, unit.bytes()); }
  // Until the next operation: the unit's host memory is read by it, and stays.
  void keep(const EvictionUnit* unit) { kept_ = unit; }
  bool is_kept(const EvictionUnit& unit) const { return kept_ == &unit; }
  // Ok: it has ended. not_ready: somebody has to wait for it without the engine's lock (take_awaited).
  Status wait_for(const std::shared_ptr<SpillTransfer>& transfer);
  std::shared_ptr<SpillTransfer> take_awaited() { return std::exchange(awaited_, nullptr); }
  bool awaits() const { return awaited_ != nullptr; }

  // True once the copy out has passed; never blocks. The unit is then kCurrent.
  bool has_left(EvictionUnit& unit);
  // Blocks the host until the copy out has passed.
  Status finish(EvictionUnit& unit);

  // Copies submitted and not known to have passed, per direction; polls.
  std::size_t copies_out();
  std::size_t returning();
  // Of these the one that was submitted first.
  std::optional<Use> oldest_copy_out() { return copies_out() == 0 ? std::nullopt : std::optional(copies_out_.front()); }
  std::optional<Use> oldest_returning() { return returning() == 0 ? std::nullopt : std::optional(returning_.front()); }
  std::optional<Use> newest_returning() { return returning() == 0 ? std::nullopt : std::optional(returning_.back()); }

  // What the link has been seen to carry; an assumption until enough has been copied.
  Link link() { return meter_.link(); }

  // Frees the host memory of dropped copies that no copy uses any more; polls.
  void collect_retired();

  // Waits for both streams and frees retired host memory; used before everything is given back.
  void drain();

  // How much pinned host memory was asked for in vain the last time; 0: it was there.
  Bytes host_refused() const { return host_refused_; }
  // Without the engine's lock there would be more host memory (HostPool::make_way).
  bool wants_trim() const { return host_.wants_trim(); }

  const MigrationStatistics& statistics() const { return statistics_; }

 private:
  struct Retired {
    void* host;
    UseSet uses;
  };

  // Host memory for `bytes`, in pages with a host fallback; waits for copies that still use retired memory only when
  // there is none without.
  void* allocate_host(Bytes bytes, Bytes page_bytes);
  void free_abandoned(Wait wait);
  static UseSet uses_of_host(EvictionUnit& unit);
  void collect_ended();
  // Of what is retired: copies to the program's memory may be blocked behind what it does later.
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
  MigrationStatistics statistics_;
};

}  // namespace thermocline
