// SPDX-License-Identifier: Apache-2.0
#include "offload/digest/digests.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/check.h"
#include "driver/locks.h"
#include "driver/nvtx_range.h"

namespace thermocline {
namespace {

// Large enough for more than one block, groups of four units, single units, and an incomplete last unit.
constexpr Bytes kPatternBytes = 80 * kKiB + 5 * kDigestUnit + 11;
// Tickets begin at a value that never-written memory does not contain.
constexpr std::uint64_t kFirstTicket = 0x7468'6572'6d6f'0000;

std::uint64_t address_of(const void* host) { return reinterpret_cast<std::uintptr_t>(host); }

}  // namespace

// The test of the kernels, on a pattern: its digest is right; it is copied completely, and nothing beyond it, if
// another digest was expected; nothing is written if its own digest was.
struct alignas(64) Digests::Test {
  std::byte pattern[kPatternBytes];
  alignas(64) std::byte copy[kPatternBytes + kDigestUnit];
  alignas(64) std::byte untouched[kPatternBytes];
};

Digests::~Digests() {
  const WaitsInPlace at_the_end;
  if (stream_) static_cast<void>(driver_.synchronize_stream(stream_.get()));
  const ModuleOwner ends_here = std::move(module_);
}

void Digests::turn_off(const std::string& why) {
  state_ = State::kOff;
  why_off_ = why;
}

Status Digests::load() {
  const RelaxedCapture relaxed(driver_);
  const WaitsInPlace while_the_driver_loads;
  ModuleHandle module{};
  if (Status status = driver_.load_module(digest_code().c_str(), &module); !status.ok()) return status;
  module_ = ModuleOwner(driver_, module);
  if (Status status = driver_.find_function(module, kDigestKernel, &digest_); !status.ok()) return status;
  if (Status status = driver_.find_function(module, kCopyKernel, &copy_); !status.ok()) return status;
  void* memory = nullptr;
  if (Status status = driver_.allocate_host(most_at_once_ * sizeof(Slot) + sizeof(Test), &memory); !status.ok())
    return status;
  memory_ = HostMemoryOwner(driver_, memory);
  std::memset(memory, 0, most_at_once_ * sizeof(Slot) + sizeof(Test));
  slots_ = static_cast<Slot*>(memory);
  test_ = reinterpret_cast<Test*>(slots_ + most_at_once_);
  StreamHandle handle{};
  if (Status status = driver_.create_stream(&handle); !status.ok()) return status;
  stream_ = StreamOwner(driver_, handle);
  index_ = clock_.index_of(handle);
  return {};
}

void Digests::open() {
  const Ordinal now = failed_loads_ == 0 ? 0 : clock_.submitted_in_all();
  if (now < load_again_at_) return;
  Status status = load();
  // The first eviction happens when the device is full, and loading code takes device memory: there may be room later.
  if (status.is_out_of_memory() && ++failed_loads_ < kMostLoads) {
    load_again_at_ = clock_.submitted_in_all() + load_gap_;
    load_gap_ = std::min(2 * load_gap_, kLargestGap);
    return;
  }
  if (!status.ok()) {
    return turn_off("the driver does not load the kernels (error " + std::to_string(status.code()) + ")");
  }
  for (std::size_t slot = most_at_once_; slot-- > 0;) free_slots_.push_back(slot);
  newest_ticket_ = kFirstTicket;
  state_ = uses_.tested ? State::kTesting : State::kReady;
  if (uses_.tested && !begin_test().ok()) turn_off("the driver does not launch the kernels");
}

Status Digests::begin_test() {
  std::uint32_t word = 1;
  for (std::byte& one : test_->pattern) {
    word = word * 1664525 + 1013904223;  // Numerical Recipes' generator
    one = static_cast<std::byte>(word >> 24);
  }
  // Pinned memory has one address for host and device (CUDA Programming Guide, Unified Virtual Address Space).
  const AddressRange pattern{{address_of(test_->pattern)}, kPatternBytes};
  const auto known = [](Digest digest) {
    TakenDigest taken;
    taken.state = TakenDigest::State::kKnown;
    taken.value = digest;
    return taken;
  };
  Status status = submit(pattern, &tested_[0]);
  // Compares with a digest that the host knows, and with one whose records the host has not read.
  Digest other = digest_of(test_->pattern);
  ++other.high;
  if (status.ok()) status = submit(pattern, &tested_[1]);
  if (status.ok()) status = submit_copy(pattern, test_->copy, tested_[1], known(other));
  if (status.ok()) status = submit(pattern, &tested_[2]);
  if (status.ok()) status = submit_copy(pattern, test_->untouched, tested_[2], tested_[0]);
  return status;
}

bool Digests::test_came_out_right() const {
  const Digest right = digest_of(test_->pattern);
  for (const TakenDigest& taken : tested_) {
    if (taken.state != TakenDigest::State::kKnown || taken.value != right) return false;
  }
  const auto is_zero = [](std::byte one) { return one == std::byte{}; };
  return tested_[1].outcome == TakenDigest::Outcome::kChanged && tested_[2].outcome == TakenDigest::Outcome::kEqual &&
         std::memcmp(test_->copy, test_->pattern, kPatternBytes) == 0 &&
         std::all_of(test_->copy + kPatternBytes, std::end(test_->copy), is_zero) &&
         std::all_of(std::begin(test_->untouched), std::end(test_->untouched), is_zero);
}

Status Digests::launch(FunctionHandle function, Shape shape, std::span<const std::uint64_t> parameters,
                       AddressRange range, void* host) {
  void* addresses[12];
  THERMOCLINE_CHECK(parameters.size() <= std::size(addresses), "a launch has room for its parameters");
  for (std::size_t i = 0; i < parameters.size(); ++i) addresses[i] = const_cast<std::uint64_t*>(&parameters[i]);
  const DeclaredAccesses accesses(uses_.annotate, range.at, range.bytes, host);
  return driver_.launch(function, shape.blocks, shape.threads, addresses, stream_.get());
}

Use Digests::advance() {
  const Use use{index_, clock_.advance(index_)};
  static_cast<void>(clock_.fence(index_));
  return use;
}

Status Digests::submit(AddressRange range, TakenDigest* out) {
  const std::size_t slot = free_slots_.back();
  const unsigned blocks = digest_blocks(range.bytes);
  const std::uint64_t ticket = ++newest_ticket_;
  const std::uint64_t parameters[] = {range.at.value, range.bytes, address_of(slots_[slot].records), ticket};
  if (Status status = launch(digest_, {blocks, kDigestThreads}, parameters, range, nullptr); !status.ok())
    return status;
  free_slots_.pop_back();
  const Use use = advance();
  pending_.push_back({out, slot, ticket, range.bytes, blocks, false, use});
  *out = {};
  out->state = TakenDigest::State::kPending;
  out->use = use;
  return {};
}

// `fresh`: the digest of the newest launch.
Status Digests::submit_copy(AddressRange range, void* host, const TakenDigest& fresh, const TakenDigest& copied) {
  Launch& newest = pending_.back();
  THERMOCLINE_CHECK(newest.owner == &fresh, "a copy follows the digest of what it copies");
  const Launch* const old = launch_of(copied);
  THERMOCLINE_CHECK(old != nullptr || copied.state == TakenDigest::State::kKnown, "the copy has a digest");
  Slot& slot = slots_[newest.slot];
  const std::uint64_t parameters[] = {range.at.value,
                                      range.bytes,
                                      address_of(host),
                                      address_of(slot.records),
                                      newest.ticket,
                                      newest.blocks,
                                      old != nullptr ? address_of(slots_[old->slot].records) : 0,
                                      old != nullptr ? old->ticket : 0,
                                      old != nullptr ? old->blocks : 0,
                                      old != nullptr ? 0 : copied.value.low,
                                      old != nullptr ? 0 : copied.value.high,
                                      address_of(&slot.verdict)};
  if (Status status = launch(copy_, {copy_blocks(range.bytes), kCopyThreads}, parameters, range, host); !status.ok())
    return status;
  newest.compares = true;
  newest.use = newest.owner->use = advance();
  return {};
}

const Digests::Launch* Digests::launch_of(const TakenDigest& taken) const {
  if (taken.state != TakenDigest::State::kPending) return nullptr;
  const auto found = std::ranges::find(pending_, &taken, &Launch::owner);
  return found == pending_.end() ? nullptr : &*found;
}

bool Digests::is_ready() {
  if (state_ == State::kClosed) open();
  poll();
  return state_ == State::kReady;
}

Status Digests::wait_for(const UseSet& behind, const UseSet& and_behind) {
  if (!is_ready() || clock_.is_blocked(behind) || clock_.is_blocked(and_behind)) return Status::not_ready();
  Status status = free_slots_.empty() ? Status::out_of_memory() : Status();
  if (status.ok()) status = clock_.wait_all(index_, behind);
  if (status.ok()) status = clock_.wait_all(index_, and_behind);
  return status;
}

bool Digests::take(AddressRange range, const UseSet& behind, const UseSet& and_behind, TakenDigest* out) {
  Status status = wait_for(behind, and_behind);
  if (status == Status::not_ready()) return false;
  if (status.ok()) status = submit(range, out);
  if (!status.ok()) {
    ++statistics_.failed;
    return false;
  }
  ++statistics_.taken;
  statistics_.bytes += range.bytes;
  return true;
}

bool Digests::copy_if_changed(AddressRange range, void* host, const UseSet& behind, const UseSet& and_behind,
                              TakenDigest* copied, UseSet* submitted) {
  TakenDigest fresh;
  const bool begun = copied->is_known_or_coming() && take(range, behind, and_behind, &fresh);
  if (begun) submitted->add(fresh.use);
  // The digest may have failed meanwhile.
  const bool copies = begun && copied->is_known_or_coming() && submit_copy(range, host, fresh, *copied).ok();
  if (begun && !copies) ++statistics_.failed;
  release(copied);
  if (!copies) {
    release(&fresh);
    return false;
  }
  submitted->add(fresh.use);
  pending_.back().owner = copied;
  *copied = fresh;
  return true;
}

void Digests::poll() {
  while (!pending_.empty() && clock_.passed(pending_.front().use)) {
    const Launch launch = pending_.front();
    pending_.pop_front();
    collect(launch);
    free_slots_.push_back(launch.slot);
  }
  if (state_ != State::kTesting || !pending_.empty()) return;
  if (test_came_out_right()) {
    state_ = State::kReady;
  } else {
    turn_off("the kernels do not compute what they should on this device");
  }
  outcomes_.clear();
}

void Digests::collect(const Launch& launch) {
  const Slot& slot = slots_[launch.slot];
  using Outcome = TakenDigest::Outcome;
  Outcome outcome = Outcome::kNotCompared;
  bool whole = true;
  if (launch.compares) {
    whole = slot.verdict.ticket == launch.ticket;
    outcome = whole && slot.verdict.found == CopyVerdict::kEqual ? Outcome::kEqual : Outcome::kChanged;
    if (state_ == State::kReady) outcomes_.push_back(outcome);
  }
  Digest sum;
  for (unsigned block = 0; block < launch.blocks; ++block) {
    const DigestRecord& record = slot.records[block];
    whole &= record.ticket == launch.ticket && record.bytes == launch.bytes;
    sum += Digest{record.low, record.high};
  }
  if (!whole && state_ == State::kReady) ++statistics_.failed;
  if (launch.owner == nullptr) return;
  launch.owner->state = whole ? TakenDigest::State::kKnown : TakenDigest::State::kFailed;
  launch.owner->outcome = outcome;
  launch.owner->value = sum;
}

void Digests::release(TakenDigest* taken) {
  if (taken->state == TakenDigest::State::kPending) {
    for (Launch& launch : pending_) {
      if (launch.owner == taken) launch.owner = nullptr;
    }
  }
  *taken = {};
}

TakenDigest::Outcome Digests::next_outcome() {
  if (outcomes_.empty()) return TakenDigest::Outcome::kNotCompared;
  const TakenDigest::Outcome outcome = outcomes_.front();
  outcomes_.pop_front();
  return outcome;
}

std::size_t Digests::validate() const {
  THERMOCLINE_CHECK(slots_ == nullptr || state_ == State::kOff || free_slots_.size() + pending_.size() == most_at_once_,
                    "each slot of records is free, or has one launch");
  if (state_ != State::kReady) return 0;
  return outcomes_.size() + static_cast<std::size_t>(std::ranges::count(pending_, true, &Launch::compares));
}

}  // namespace thermocline
