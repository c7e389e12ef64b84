// SPDX-License-Identifier: Apache-2.0
#include "allocator/mappable_host.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "driver/check.h"
#include "driver/locks.h"

namespace thermocline {

MappableHost::~MappableHost() {
  rest_.merge(pieces_);
  rest_.merge(in_use_);
  mapping_may_be_called();
  dismantle_rest();
}

Status MappableHost::take(Bytes bytes, void** out) {
  THERMOCLINE_CHECK(bytes != 0 && bytes % page_bytes_ == 0, "Mappable memory is taken in whole pages.");
  if (waiting_calls_ == WaitingCalls::kAll) return Status::not_supported();
  mapping_may_be_called();
  DeviceAddress at;
  if (const Status status = driver_->reserve(bytes, page_bytes_, &at); !status.ok()) return status;
  Piece piece;
  piece.bytes = bytes;
  piece.pages.reserve(bytes / page_bytes_);
  Status status = fill(at, &piece);
  bool passed = true;
  if (status.ok() && !proven_) {
    status = prove(at, &passed);
    proven_ = status.ok();
    if (!proven_ && !status.is_out_of_memory()) {
      status = Status::not_supported();
      if (failed_ != nullptr) failed_();
    }
  }
  const MutexLock lock(mutex_);
  if (!passed) {
    in_use_.emplace(at.value, std::move(piece));
    return status;
  }
  if (!status.ok()) {
    rest_.emplace(at.value, std::move(piece));
    if (waiting_calls_ == WaitingCalls::kNone) dismantle_rest();
    return status;
  }
  pieces_.emplace(at.value, std::move(piece));
  *out = reinterpret_cast<void*>(at.value);
  return Status();
}

Status MappableHost::fill(DeviceAddress at, Piece* piece) const {
  while (piece->mapped < piece->bytes / page_bytes_) {
    PageHandle page{};
    if (const Status status = driver_->create_host_page(page_bytes_, node_, &page); !status.ok()) return status;
    piece->pages.push_back(page);
    const DeviceAddress next = at + piece->mapped * page_bytes_;
    if (const Status status = driver_->map(next, page_bytes_, page); !status.ok()) return status;
    ++piece->mapped;
  }
  return driver_->set_shared_access(at, piece->bytes, device_, node_);
}

Status MappableHost::prove(DeviceAddress at, bool* passed) const {
  constexpr Bytes kTried = 64 * kKiB;
  constexpr int kAttempts = 4;
  THERMOCLINE_CHECK(3 * kTried <= page_bytes_, "A page has room for what is tried.");
  // Three areas of one page: the first is accessed as device memory, the other two as host memory (source, result).
  const DeviceAddress device = at;
  auto* const from = reinterpret_cast<unsigned char*>((at + kTried).value);
  auto* const back = from + kTried;
  for (Bytes i = 0; readable_ && i < kTried; ++i) {
    from[i] = static_cast<unsigned char>(i % 251);
    back[i] = 0;
  }
  Status status = driver_->copy_to_device(device, from, kTried, stream_);
  if (status.ok()) status = driver_->copy_to_host(back, device, kTried, stream_);
  *passed = false;
  for (int attempt = 0; attempt < kAttempts && !*passed; ++attempt) {
    const WaitsInPlace nothing_else_runs_there;
    *passed = driver_->synchronize_stream(stream_).ok();
  }
  if (!*passed) return Status::not_supported();
  if (status.ok() && readable_ && !std::equal(from, from + kTried, back)) return Status::not_supported();
  return status;
}

bool MappableHost::dismantle(DeviceAddress at, Piece* piece) const {
  if (piece->mapped > 0 && !driver_->unmap(at, piece->mapped * page_bytes_).ok()) return false;
  piece->mapped = 0;
  while (!piece->pages.empty()) {
    if (!driver_->destroy_page(piece->pages.back()).ok()) return false;
    piece->pages.pop_back();
  }
  return driver_->release(at, piece->bytes).ok();
}

void MappableHost::dismantle_rest() {
  for (auto one = rest_.begin(); one != rest_.end();) {
    one = dismantle(DeviceAddress{one->first}, &one->second) ? rest_.erase(one) : std::next(one);
  }
}

bool MappableHost::give(void* at) {
  if (waiting_calls_ != WaitingCalls::kNone) return false;
  const MutexLock lock(mutex_);
  mapping_may_be_called();
  const auto found = pieces_.find(reinterpret_cast<std::uint64_t>(at));
  if (found == pieces_.end()) return false;
  const bool gone = dismantle(DeviceAddress{found->first}, &found->second);
  if (!gone && found->second.mapped > 0) return false;
  if (!gone) rest_.insert(std::move(*found));
  pieces_.erase(found);
  dismantle_rest();
  return true;
}

bool MappableHost::owns(const void* at) const {
  const MutexLock lock(mutex_);
  return piece_at(at) != pieces_.end();
}

MappableHost::Pieces::const_iterator MappableHost::piece_at(const void* at) const {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  const auto next = pieces_.upper_bound(address);
  if (next == pieces_.begin()) return pieces_.end();
  const auto found = std::prev(next);
  return address - found->first < found->second.bytes ? found : pieces_.end();
}

bool MappableHost::pages_of(const void* at, Bytes bytes, std::vector<PageHandle>* out) const {
  const MutexLock lock(mutex_);
  const auto piece = piece_at(at);
  if (piece == pieces_.end()) return false;
  const Bytes offset = reinterpret_cast<std::uint64_t>(at) - piece->first;
  if (offset % page_bytes_ != 0 || bytes % page_bytes_ != 0 || bytes > piece->second.bytes - offset) return false;
  const auto first = piece->second.pages.begin() + static_cast<std::ptrdiff_t>(offset / page_bytes_);
  out->insert(out->end(), first, first + static_cast<std::ptrdiff_t>(bytes / page_bytes_));
  return true;
}

}  // namespace thermocline
