// SPDX-License-Identifier: Apache-2.0
// Which eviction units have a copy in the spill file: the ranges in the file, and the transfers in progress.
// spilling.cc decides when something is written or read.
//
// Contract: a range, and the host memory of a transfer, remain until the transfer has ended, whatever happens to the
// unit (Ending). Guarded by the engine's lock. Only wait() and drain() wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "allocator/host_pool.h"
#include "allocator/use_set.h"
#include "driver/status.h"
#include "offload/residency/block_state.h"
#include "offload/spill/file_ranges.h"
#include "offload/spill/spill_queue.h"
#include "offload/spill_problem.h"

namespace thermocline {

struct SpillStatistics {
  Bytes written_bytes = 0, read_bytes = 0;
  // Copies that stayed on the host: because the file or the disk was full; because the write failed for another reason.
  std::uint64_t full = 0, failed_writes = 0;
  std::uint64_t failed_reads = 0;
};

class FileCopies {
 public:
  FileCopies(std::shared_ptr<SpillFile> file, Bytes limit, bool in_place, HostPool& host, SpillProblemHandler handler)
      : queue_(std::move(file), in_place), ranges_(limit), host_(host), handler_(handler) {}
  // Every copy must have been released, and every transfer must have ended (drain).
  ~FileCopies() = default;

  // Makes sure that the file can grow to `bytes`, or to the limit if that is less.
  bool reserve(Bytes bytes);

  // Requires that the unit's host copy is current and has no copy in the file. False: the file has no range for it.
  bool begin_write(EvictionUnit& unit);
  // Counts a request for host memory that failed because the file was full.
  void was_full() { ++statistics_.full; }
  // Requires that the unit's contents are only in the file. `memory` must have room for them.
  void begin_read(EvictionUnit& unit, void* memory);
  // Processes transfers that have ended. Never blocks.
  void note_completed();

  // Takes the unit's host memory away and returns it: its contents are then only in the file.
  void* take_host(EvictionUnit& unit);
  // Gives up the copy in the file. `ending` stays empty if no transfer uses the unit's host memory or the range. Else
  // it gets the transfer, and the memory and range that are free once it has ended: pass it to end_later().
  struct Ending {
    std::shared_ptr<SpillTransfer> transfer;
    Bytes offset = 0;
    void* host = nullptr;
    UseSet uses;
  };
  void release(EvictionUnit& unit, std::optional<Ending>* ending);
  void end_later(Ending ending) { ending_.push_back(std::move(ending)); }
  // An ended Ending: its host memory is free after its uses. Empty: there is no more.
  std::optional<Ending> next_ended();
  bool has_ended() const;

  // A transfer in progress whose end may free host memory, preferably a write; null: there is none.
  std::shared_ptr<SpillTransfer> next_to_end() const;
  void wait(const SpillTransfer& transfer) { queue_.wait(transfer); }
  // Waits for all transfers.
  void drain();

  std::size_t writing() const { return writing_; }
  Bytes writing_bytes() const { return writing_bytes_; }  // host memory held until these writes end
  Bytes on_both_bytes() const { return on_both_bytes_; }  // in the file and on the host
  Bytes taken_bytes() const { return ranges_.taken_bytes(); }
  Bytes limit() const { return ranges_.limit(); }
  const SpillStatistics& statistics() const { return statistics_; }
  SpillFile& file() { return queue_.file(); }
  // Checks the numbers that it caches against these units.
  void validate(const std::vector<const EvictionUnit*>& units) const;

 private:
  void ended_writing(EvictionUnit& unit);
  void ended_reading(EvictionUnit& unit);
  void report(bool reading, int error, Bytes bytes);
  void count_on_both(const EvictionUnit& unit, bool comes);

  SpillQueue queue_;
  FileRanges ranges_;
  HostPool& host_;
  const SpillProblemHandler handler_;
  Bytes reserved_ = 0;
  std::vector<EvictionUnit*> moving_;  // being written or read, in order of their beginning
  std::deque<Ending> ending_;
  std::size_t writing_ = 0;
  Bytes writing_bytes_ = 0, on_both_bytes_ = 0;
  SpillStatistics statistics_;
};

}  // namespace thermocline
