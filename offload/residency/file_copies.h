// SPDX-License-Identifier: Apache-2.0
// Which eviction units have a copy in the spill file: its ranges, and the transfers under way. When something is
// written or read is decided in spilling.cc.
//
// Contract: a range, and the host memory of a transfer, stay as they are until the transfer has ended, whatever becomes
// of the unit (Ending). Guarded by the engine's lock; nothing here waits but wait() and drain().
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
  // Copies that stayed on the host: no range of the file was free, or the disk was full; or the write failed otherwise.
  std::uint64_t full = 0, failed_writes = 0;
  std::uint64_t failed_reads = 0;
};

class FileCopies {
 public:
  FileCopies(std::shared_ptr<SpillFile> file, Bytes limit, bool in_place, HostPool& host, SpillProblemHandler handler)
      : queue_(std::move(file), in_place), ranges_(limit), host_(host), handler_(handler) {}
  // Every copy has been released, and everything has ended (drain).
  ~FileCopies() = default;

  // Makes sure that the file can grow to so much, of which no more than the limit is needed.
  bool reserve(Bytes bytes);

  // The unit's host copy is current, and has no copy in the file. False: the file has no range for it.
  bool begin_write(EvictionUnit& unit);
  // Somebody needed host memory, and that was the answer.
  void was_full() { ++statistics_.full; }
  // The unit's contents are in the file alone; `memory` has room for them.
  void begin_read(EvictionUnit& unit, void* memory);
  // Takes note of what has ended. Never blocks.
  void note_completed();

  // The unit's host memory is somebody else's from now on: its contents are in the file alone.
  void* take_host(EvictionUnit& unit);
  // The copy in the file is not needed any more. Null: the unit's host memory is nobody's concern here. Else the
  // transfer that still uses it, and what it leaves behind, until it has ended.
  struct Ending {
    std::shared_ptr<SpillTransfer> transfer;
    Bytes offset = 0;
    void* host = nullptr;
    UseSet uses;
  };
  void release(EvictionUnit& unit, std::optional<Ending>* ending);
  void end_later(Ending ending) { ending_.push_back(std::move(ending)); }
  // Of what has ended meanwhile: host memory, with the uses after which it is free. Nothing: there is no more.
  std::optional<Ending> next_ended();
  bool has_ended() const;

  // A transfer under way, after which host memory can be free, above all one that writes; null: there is none.
  std::shared_ptr<SpillTransfer> next_to_end() const;
  void wait(const SpillTransfer& transfer) { queue_.wait(transfer); }
  // Waits for everything.
  void drain();

  std::size_t writing() const { return writing_; }
  Bytes writing_bytes() const { return writing_bytes_; }  // that the host holds until then
  Bytes on_both_bytes() const { return on_both_bytes_; }  // in the file, and on the host as well
  Bytes taken_bytes() const { return ranges_.taken_bytes(); }
  Bytes limit() const { return ranges_.limit(); }
  const SpillStatistics& statistics() const { return statistics_; }
  SpillFile& file() { return queue_.file(); }
  // For the numbers that it keeps: what these units have.
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
  std::vector<EvictionUnit*> moving_;  // kWriting or kReading, in order of their beginning
  std::deque<Ending> ending_;
  std::size_t writing_ = 0;
  Bytes writing_bytes_ = 0, on_both_bytes_ = 0;
  SpillStatistics statistics_;
};

}  // namespace thermocline
