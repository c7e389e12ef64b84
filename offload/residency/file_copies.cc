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

void FileCopies::count_on_both(const EvictionUnit& part, bool comes) {
  on_both_bytes_ += comes ? part.host_bytes : -part.host_bytes;
}

bool FileCopies::begin_write(EvictionUnit& part) {
  THERMOCLINE_CHECK(part.copy == HostCopy::kCurrent && part.host != nullptr && part.file == nullptr,
                    "only what is current on the host, and not in the file, is written");
  const Bytes bytes = spill_bytes_of(part.host_bytes);
  const std::optional<Bytes> offset = ranges_.take(bytes);
  if (!offset) return false;
  auto transfer = std::make_shared<SpillTransfer>();
  transfer->writes = true;
  transfer->offset = *offset;
  transfer->memory = part.host;
  transfer->bytes = bytes;
  part.file = std::make_unique<FileCopy>();
  part.file->offset = *offset;
  part.file->bytes = bytes;
  part.file->transfer = transfer;
  moving_.push_back(&part);
  ++writing_;
  writing_bytes_ += part.host_bytes;
  queue_.begin(std::move(transfer));
  return true;
}

void FileCopies::begin_read(EvictionUnit& part, void* memory) {
  THERMOCLINE_CHECK(part.file != nullptr && part.file->state == FileCopyState::kWritten && part.host == nullptr,
                    "only what is in the file alone is read");
  FileCopy& file = *part.file;
  auto transfer = std::make_shared<SpillTransfer>();
  transfer->offset = file.offset;
  transfer->memory = memory;
  transfer->bytes = file.bytes;
  transfer->checksum = file.checksum;
  file.memory = memory;
  file.transfer = transfer;
  file.state = FileCopyState::kReading;
  moving_.push_back(&part);
  queue_.begin(std::move(transfer));
}

void FileCopies::note_completed() {
  for (std::size_t i = 0; i < moving_.size();) {
    EvictionUnit& part = *moving_[i];
    if (part.file->transfer->is_pending()) {
      ++i;
      continue;
    }
    moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(i));
    if (part.file->state == FileCopyState::kWriting) {
      ended_writing(part);
    } else {
      ended_reading(part);
    }
  }
}

void FileCopies::ended_writing(EvictionUnit& part) {
  --writing_;
  writing_bytes_ -= part.host_bytes;
  const auto transfer = std::exchange(part.file->transfer, nullptr);
  if (transfer->is_done()) {
    part.file->state = FileCopyState::kWritten;
    part.file->checksum = transfer->checksum;
    statistics_.written_bytes += part.host_bytes;
    count_on_both(part, true);
    return;
  }
  ranges_.give(part.file->offset);
  part.file.reset();
  // Not again before it has left again: what fails once for lack of room would fail for ever.
  part.stays_on_host = true;
  ++(is_for_lack_of_room(transfer->error) ? statistics_.full : statistics_.failed_writes);
  report(false, transfer->error, part.host_bytes);
}

void FileCopies::ended_reading(EvictionUnit& part) {
  const auto transfer = std::exchange(part.file->transfer, nullptr);
  void* const memory = std::exchange(part.file->memory, nullptr);
  if (transfer->is_done()) {
    part.file->state = FileCopyState::kWritten;
    part.host = memory;
    statistics_.read_bytes += part.host_bytes;
    count_on_both(part, true);
    return;
  }
  host_.free(memory);
  part.file->state = FileCopyState::kUnreadable;
  ++statistics_.failed_reads;
  report(true, transfer->error, part.host_bytes);
}

void FileCopies::report(bool reading, int error, Bytes bytes) {
  if (handler_ != nullptr) handler_({reading, error, bytes});
}

void* FileCopies::take_host(EvictionUnit& part) {
  THERMOCLINE_CHECK(part.host != nullptr && part.file != nullptr && part.file->state == FileCopyState::kWritten,
                    "host memory is given up only for what has been written");
  count_on_both(part, false);
  return std::exchange(part.host, nullptr);
}

void FileCopies::release(EvictionUnit& part, std::optional<Ending>* ending) {
  const std::unique_ptr<FileCopy> file = std::move(part.file);
  if (file->transfer == nullptr) {
    if (part.host != nullptr) count_on_both(part, false);
    ranges_.give(file->offset);
    return;
  }
  std::erase(moving_, &part);
  const bool writes = file->state == FileCopyState::kWriting;
  if (writes) {
    --writing_;
    writing_bytes_ -= part.host_bytes;
  }
  *ending = Ending{file->transfer, file->offset, writes ? part.host : file->memory, {}};
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
      std::ranges::find_if(moving_, [](const EvictionUnit* part) { return part->file->transfer->writes; });
  // Another thread's operation may have what is being read; when that has ended it can be read again.
  return (write != moving_.end() ? *write : moving_.front())->file->transfer;
}

void FileCopies::drain() {
  const WaitsInPlace at_the_end;
  for (const EvictionUnit* part : moving_) queue_.wait(*part->file->transfer);
  for (const Ending& one : ending_) queue_.wait(*one.transfer);
}

void FileCopies::validate(const std::vector<const EvictionUnit*>& parts) const {
  ranges_.validate();
  Bytes taken = 0, writing_bytes = 0, on_both = 0;
  std::size_t writing = 0, moving = 0;
  for (const EvictionUnit* part : parts) {
    const FileCopy& file = *part->file;
    const bool moves = file.state == FileCopyState::kWriting || file.state == FileCopyState::kReading;
    THERMOCLINE_CHECK(part->copy == HostCopy::kCurrent, "what is in the file, or on its way there, is current");
    THERMOCLINE_CHECK(ranges_.bytes_at(file.offset) == file.bytes && file.bytes == spill_bytes_of(part->host_bytes),
                      "a copy has a range of the file of its own size");
    THERMOCLINE_CHECK(moves == (file.transfer != nullptr), "what moves has a transfer");
    THERMOCLINE_CHECK((file.state == FileCopyState::kReading) == (file.memory != nullptr),
                      "what is read has memory to be read into");
    THERMOCLINE_CHECK(file.state != FileCopyState::kWriting || part->host != nullptr,
                      "what is being written is on the host");
    THERMOCLINE_CHECK(
        (file.state != FileCopyState::kReading && file.state != FileCopyState::kUnreadable) || part->host == nullptr,
        "what is being read, or can not be, is not on the host");
    THERMOCLINE_CHECK(!moves || std::ranges::find(moving_, part) != moving_.end(), "what moves is known to move");
    taken += file.bytes;
    moving += moves ? 1 : 0;
    if (file.state == FileCopyState::kWriting) {
      ++writing;
      writing_bytes += part->host_bytes;
    }
    if (file.state == FileCopyState::kWritten && part->host != nullptr) on_both += part->host_bytes;
  }
  for (const Ending& one : ending_) taken += ranges_.bytes_at(one.offset);
  THERMOCLINE_CHECK(taken == ranges_.taken_bytes() && parts.size() + ending_.size() == ranges_.ranges(),
                    "each range of the file belongs to one copy");
  THERMOCLINE_CHECK(moving == moving_.size(), "nothing else moves");
  THERMOCLINE_CHECK(writing == writing_ && writing_bytes == writing_bytes_ && on_both == on_both_bytes_,
                    "what is being written, and what is in both places, is counted");
}

}  // namespace thermocline
