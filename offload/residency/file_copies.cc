// SPDX-License-Identifier: Apache-2.0
#include "offload/residency/file_copies.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "driver/check.h"
#include "driver/locks.h"

namespace thermocline {
namespace {

bool is_for_lack_of_room(int error) { return error == ENOSPC || error == EFBIG || error == EDQUOT; }

}  // namespace

bool FileCopies::reserve(Bytes bytes) {
  bytes = std::min(bytes, ranges_.limit());
  if (bytes <= reserved_) return true;
  if (queue_.file().reserve(bytes) != 0) return false;
  reserved_ = bytes;
  return true;
}

void FileCopies::count_on_both(const EvictionUnit& unit, bool comes) {
  on_both_bytes_ += comes ? unit.host_bytes : -unit.host_bytes;
}

bool FileCopies::begin_write(EvictionUnit& unit) {
  THERMOCLINE_CHECK(unit.copy == HostCopy::kCurrent && unit.host != nullptr && unit.file == nullptr,
                    "only what is current on the host, and not in the file, is written");
  const Bytes bytes = spill_bytes_of(unit.host_bytes);
  const std::optional<Bytes> offset = ranges_.take(bytes);
  if (!offset) return false;
  auto transfer = std::make_shared<SpillTransfer>();
  transfer->writes = true;
  transfer->offset = *offset;
  transfer->memory = unit.host;
  transfer->bytes = bytes;
  unit.file = std::make_unique<FileCopy>();
  unit.file->offset = *offset;
  unit.file->bytes = bytes;
  unit.file->transfer = transfer;
  moving_.push_back(&unit);
  ++writing_;
  writing_bytes_ += unit.host_bytes;
  queue_.begin(std::move(transfer));
  return true;
}

void FileCopies::begin_read(EvictionUnit& unit, void* memory) {
  THERMOCLINE_CHECK(unit.file != nullptr && unit.file->state == FileCopyState::kWritten && unit.host == nullptr,
                    "only what is in the file alone is read");
  FileCopy& file = *unit.file;
  auto transfer = std::make_shared<SpillTransfer>();
  transfer->offset = file.offset;
  transfer->memory = memory;
  transfer->bytes = file.bytes;
  transfer->checksum = file.checksum;
  file.memory = memory;
  file.transfer = transfer;
  file.state = FileCopyState::kReading;
  moving_.push_back(&unit);
  queue_.begin(std::move(transfer));
}

void FileCopies::note_completed() {
  for (std::size_t i = 0; i < moving_.size();) {
    EvictionUnit& unit = *moving_[i];
    if (unit.file->transfer->is_pending()) {
      ++i;
      continue;
    }
    moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(i));
    if (unit.file->state == FileCopyState::kWriting) {
      ended_writing(unit);
    } else {
      ended_reading(unit);
    }
  }
}

void FileCopies::ended_writing(EvictionUnit& unit) {
  --writing_;
  writing_bytes_ -= unit.host_bytes;
  const auto transfer = std::exchange(unit.file->transfer, nullptr);
  if (transfer->is_done()) {
    unit.file->state = FileCopyState::kWritten;
    unit.file->checksum = transfer->checksum;
    statistics_.written_bytes += unit.host_bytes;
    count_on_both(unit, true);
    return;
  }
  ranges_.give(unit.file->offset);
  unit.file.reset();
  // Not written again before it has been evicted again: a write that fails for lack of room would fail for ever.
  unit.stays_on_host = true;
  ++(is_for_lack_of_room(transfer->error) ? statistics_.full : statistics_.failed_writes);
  report(false, transfer->error, unit.host_bytes);
}

void FileCopies::ended_reading(EvictionUnit& unit) {
  const auto transfer = std::exchange(unit.file->transfer, nullptr);
  void* const memory = std::exchange(unit.file->memory, nullptr);
  if (transfer->is_done()) {
    unit.file->state = FileCopyState::kWritten;
    unit.host = memory;
    statistics_.read_bytes += unit.host_bytes;
    count_on_both(unit, true);
    return;
  }
  host_.free(memory);
  unit.file->state = FileCopyState::kUnreadable;
  ++statistics_.failed_reads;
  report(true, transfer->error, unit.host_bytes);
}

void FileCopies::report(bool reading, int error, Bytes bytes) {
  if (handler_ != nullptr) handler_({reading, error, bytes});
}

void* FileCopies::take_host(EvictionUnit& unit) {
  THERMOCLINE_CHECK(unit.host != nullptr && unit.file != nullptr && unit.file->state == FileCopyState::kWritten,
                    "host memory is given up only for what has been written");
  count_on_both(unit, false);
  return std::exchange(unit.host, nullptr);
}

void FileCopies::release(EvictionUnit& unit, std::optional<Ending>* ending) {
  const std::unique_ptr<FileCopy> file = std::move(unit.file);
  if (file->transfer == nullptr) {
    if (unit.host != nullptr) count_on_both(unit, false);
    ranges_.give(file->offset);
    return;
  }
  std::erase(moving_, &unit);
  const bool writes = file->state == FileCopyState::kWriting;
  if (writes) {
    --writing_;
    writing_bytes_ -= unit.host_bytes;
  }
  *ending = Ending{file->transfer, file->offset, writes ? unit.host : file->memory, {}};
}

std::optional<FileCopies::Ending> FileCopies::next_ended() {
  const auto ended = std::ranges::find_if(ending_, [](const Ending& one) { return !one.transfer->is_pending(); });
  if (ended == ending_.end()) return std::nullopt;
  Ending one = std::move(*ended);
  ending_.erase(ended);
  ranges_.give(one.offset);
  return one;
}

bool FileCopies::has_ended() const {
  return std::ranges::any_of(ending_, [](const Ending& one) { return !one.transfer->is_pending(); });
}

std::shared_ptr<SpillTransfer> FileCopies::next_to_end() const {
  if (!ending_.empty()) return ending_.front().transfer;
  if (moving_.empty()) return nullptr;
  const auto write =
      std::ranges::find_if(moving_, [](const EvictionUnit* unit) { return unit->file->transfer->writes; });
  // Another thread's operation may be reading the unit; when that has ended it can be read again.
  return (write != moving_.end() ? *write : moving_.front())->file->transfer;
}

void FileCopies::drain() {
  const WaitsInPlace at_the_end;
  for (const EvictionUnit* unit : moving_) queue_.wait(*unit->file->transfer);
  for (const Ending& one : ending_) queue_.wait(*one.transfer);
}

void FileCopies::validate(const std::vector<const EvictionUnit*>& units) const {
  ranges_.validate();
  Bytes taken = 0, writing_bytes = 0, on_both = 0;
  std::size_t writing = 0, moving = 0;
  for (const EvictionUnit* unit : units) {
    const FileCopy& file = *unit->file;
    const bool moves = file.state == FileCopyState::kWriting || file.state == FileCopyState::kReading;
    THERMOCLINE_CHECK(unit->copy == HostCopy::kCurrent, "what is in the file, or on its way there, is current");
    THERMOCLINE_CHECK(ranges_.bytes_at(file.offset) == file.bytes && file.bytes == spill_bytes_of(unit->host_bytes),
                      "a copy has a range of the file of its own size");
    THERMOCLINE_CHECK(moves == (file.transfer != nullptr), "what moves has a transfer");
    THERMOCLINE_CHECK((file.state == FileCopyState::kReading) == (file.memory != nullptr),
                      "what is read has memory to be read into");
    THERMOCLINE_CHECK(file.state != FileCopyState::kWriting || unit->host != nullptr,
                      "what is being written is on the host");
    THERMOCLINE_CHECK(
        (file.state != FileCopyState::kReading && file.state != FileCopyState::kUnreadable) || unit->host == nullptr,
        "what is being read, or can not be, is not on the host");
    THERMOCLINE_CHECK(!moves || std::ranges::find(moving_, unit) != moving_.end(), "what moves is known to move");
    taken += file.bytes;
    moving += moves ? 1 : 0;
    if (file.state == FileCopyState::kWriting) {
      ++writing;
      writing_bytes += unit->host_bytes;
    }
    if (file.state == FileCopyState::kWritten && unit->host != nullptr) on_both += unit->host_bytes;
  }
  for (const Ending& one : ending_) taken += ranges_.bytes_at(one.offset);
  THERMOCLINE_CHECK(taken == ranges_.taken_bytes() && units.size() + ending_.size() == ranges_.ranges(),
                    "each range of the file belongs to one copy");
  THERMOCLINE_CHECK(moving == moving_.size(), "nothing else moves");
  THERMOCLINE_CHECK(writing == writing_ && writing_bytes == writing_bytes_ && on_both == on_both_bytes_,
                    "what is being written, and what is in both places, is counted");
}

}  // namespace thermocline
