// SPDX-License-Identifier: Apache-2.0
#include "offload/digest/digests.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/locks.h"
#include "driver/nvtx_range.h"

namespace thermocline {
namespace {

// Each is 8 KiB of pinned memory.
constexpr std::size_t kSlots = 32;
// More than one block, groups of four units and single ones, and a last unit that is not whole.
constexpr Bytes kPatternBytes = 48 * kKiB + 5 * kDigestUnit + 11;
// Tickets begin where no memory that was never written does.
constexpr std::uint64_t kFirstTicket = 0x7468'6572'6d6f'0000;

}  // namespace

Digests::~Digests() {
  const WaitsInPlace at_the_end;
  for (const Stream& stream : streams_) {
    if (stream.owner) static_cast<void>(driver_.synchronize_stream(stream.owner.get()));
  }
}

std::byte* Digests::pattern() { return reinterpret_cast<std::byte*>(slots_ + kSlots); }

void Digests::turn_off(const std::string& why) {
  state_ = State::kOff;
  why_off_ = why;
}

Status Digests::load() {
  const RelaxedCapture relaxed(driver_);
  ModuleHandle module{};
  if (Status status = driver_.load_module(digest_code().c_str(), &module); !status.ok()) return status;
  module_ = ModuleOwner(driver_, module);
  if (Status status = driver_.find_function(module, kDigestKernel, &function_); !status.ok()) return status;
  void* memory = nullptr;
  if (Status status = driver_.allocate_host(kSlots * sizeof(Slot) + kPatternBytes, &memory); !status.ok())
    return status;
  memory_ = HostMemoryOwner(driver_, memory);
  slots_ = static_cast<Slot*>(memory);
  for (Stream& stream : streams_) {
    StreamHandle handle{};
    if (Status status = driver_.create_stream(&handle); !status.ok()) return status;
    stream.owner = StreamOwner(driver_, handle);
    stream.index = clock_.index_of(handle);
  }
  return {};
}

void Digests::open() {
  if (Status status = load(); !status.ok()) {
    return turn_off("the driver does not load the kernel (error " + std::to_string(status.code()) + ")");
  }
  std::memset(static_cast<void*>(slots_), 0, kSlots * sizeof(Slot));
  for (std::size_t slot = kSlots; slot-- > 0;) free_slots_.push_back(slot);
  newest_ticket_ = kFirstTicket;
  std::uint32_t word = 1;
  for (Bytes i = 0; i < kPatternBytes; ++i) {
    word = word * 1664525 + 1013904223;  // Numerical Recipes' generator
    pattern()[i] = static_cast<std::byte>(word >> 24);
  }
  // Pinned memory has one address for host and device (CUDA Programming Guide, Unified Virtual Address Space).
  const DeviceAddress at{reinterpret_cast<std::uintptr_t>(pattern())};
  if (!submit(streams_[kChecks], at, kPatternBytes, &test_).ok())
    return turn_off("the driver does not launch the kernel");
  state_ = State::kTesting;
}

Status Digests::submit(Stream& stream, DeviceAddress at, Bytes bytes, TakenDigest* out) {
  const std::size_t slot = free_slots_.back();
  const unsigned blocks = digest_blocks(bytes);
  const std::uint64_t ticket = ++newest_ticket_;
  std::uint64_t values[4] = {at.value, bytes, reinterpret_cast<std::uintptr_t>(slots_ + slot), ticket};
  void* parameters[4] = {&values[0], &values[1], &values[2], &values[3]};
  {
    const DeclaredRead reads(annotate_, at, bytes);
    if (Status status = driver_.launch(function_, blocks, kDigestThreads, parameters, stream.owner.get()); !status.ok())
      return status;
  }
  free_slots_.pop_back();
  const Use use{stream.index, clock_.advance(stream.index)};
  static_cast<void>(clock_.fence(stream.index));
  stream.pending.push_back({out, slot, ticket, bytes, blocks});
  stream.uses.push_back(use);
  *out = {.state = TakenDigest::State::kPending, .value = {}, .use = use};
  return {};
}

bool Digests::take(Lane lane, AddressRange range, const UseSet& behind, const UseSet& and_behind, TakenDigest* out) {
  if (state_ == State::kClosed) open();
  poll();
  if (state_ != State::kReady) return false;
  if (clock_.is_blocked(behind) || clock_.is_blocked(and_behind)) return false;
  Stream& stream = streams_[lane];
  Status status = free_slots_.empty() ? Status::not_ready() : Status();
  if (status.ok()) status = clock_.wait_all(stream.index, behind);
  if (status.ok()) status = clock_.wait_all(stream.index, and_behind);
  if (status.ok()) status = submit(stream, range.at, range.bytes, out);
  if (!status.ok()) {
    ++statistics_.failed;
    return false;
  }
  ++statistics_.taken;
  statistics_.bytes += range.bytes;
  return true;
}

void Digests::poll() {
  for (Stream& stream : streams_) {
    while (!stream.pending.empty() && clock_.passed(stream.uses.front())) {
      const Launch launch = stream.pending.front();
      stream.pending.pop_front();
      stream.uses.pop_front();
      collect(launch);
      free_slots_.push_back(launch.slot);
    }
  }
  if (state_ != State::kTesting || test_.state == TakenDigest::State::kPending) return;
  const Digest right = digest_of({pattern(), kPatternBytes});
  if (test_.state == TakenDigest::State::kKnown && test_.value == right) {
    state_ = State::kReady;
  } else {
    turn_off("the kernel does not compute what it should on this device");
  }
}

void Digests::collect(const Launch& launch) {
  if (launch.owner == nullptr) return;
  Digest sum;
  bool whole = true;
  for (unsigned block = 0; block < launch.blocks; ++block) {
    const DigestRecord& record = slots_[launch.slot][block];
    whole &= record.ticket == launch.ticket && record.bytes == launch.bytes;
    sum += Digest{record.low, record.high};
  }
  launch.owner->state = whole ? TakenDigest::State::kKnown : TakenDigest::State::kFailed;
  launch.owner->value = sum;
  if (!whole && launch.owner != &test_) ++statistics_.failed;
}

void Digests::release(TakenDigest* taken) {
  if (taken->state == TakenDigest::State::kPending) {
    for (Stream& stream : streams_) {
      for (Launch& launch : stream.pending) {
        if (launch.owner == taken) launch.owner = nullptr;
      }
    }
  }
  *taken = {};
}

}  // namespace thermocline
