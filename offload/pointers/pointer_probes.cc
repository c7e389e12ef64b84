// SPDX-License-Identifier: Apache-2.0
#include "offload/pointers/pointer_probes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver/nvtx_range.h"

namespace thermocline {
namespace {

// Pinned memory for probes; allocated at the first probe.
constexpr Bytes kRoomBytes = kMiB;
// Per launch. Kernels over lists of small parameters (optimizers) are given more small buffers than this.
constexpr Bytes kMostLookedAtBytes = 512 * kKiB;
constexpr std::size_t kMostLookedAt = 32;

constexpr Bytes kWordBytes = sizeof(std::uint64_t);
// Structures without padding have words at any multiple of it.
constexpr Bytes kAlignment = 4;

// This many probes in a row have to find nothing before a kernel is trusted in graphs, where it is not probed.
constexpr std::uint64_t kEnoughLooks = 2;

}  // namespace

PointerProbes::~PointerProbes() {
  if (room_ != nullptr) static_cast<void>(driver_.free_host(room_));
}

void PointerProbes::arriving(const OperationInfo& info, std::span<const MemoryAccess> accesses, bool is_led) {
  const std::uint64_t name = name_of(info);
  present_ = nullptr;
  // Two entries for each name: the second is for launches from whose arguments stored pointers can be reached, if the
  // kernel is not known to write pointers without that.
  Kernel& without = kernels_[name * 2];
  Kernel& kernel = is_led && without.looked_at ? kernels_[name * 2 + 1] : without;
  if (is_passed(kernel)) return;
  if (!is_given_a_table(accesses)) return;
  present_ = &kernel;
  accesses_.assign(accesses.begin(), accesses.end());
}

bool PointerProbes::passes(const OperationInfo& info) {
  const auto known = kernels_.find(name_of(info) * 2);
  return known != kernels_.end() && is_passed(known->second);
}

bool PointerProbes::writes_none(const char* name) const {
  const auto found = kernels_.find(reinterpret_cast<std::uintptr_t>(name) * 2);
  return name != nullptr && found != kernels_.end() && found->second.clean_looks >= kEnoughLooks;
}

// A kernel that was found to write pointers keeps that verdict: that is only cautious.
void PointerProbes::kernels_may_be_others() {
  abandoned();
  for (auto& [name, kernel] : kernels_) kernel = {.suspect = kernel.is_writer, .is_writer = kernel.is_writer};
  for (Look& look : looks_) look.is_former = true;
}

// Whether any of them may be a pointer table: otherwise nothing can be learned, however often the kernel is launched.
bool PointerProbes::is_given_a_table(std::span<const MemoryAccess> accesses) const {
  return std::any_of(accesses.begin(), accesses.end(), [this](const MemoryAccess& access) {
    return References::may_be_given_a_table(heap_, access.address);
  });
}

void PointerProbes::submitted(StreamIndex stream) {
  Kernel& kernel = *std::exchange(present_, nullptr);
  ++kernel.launches;
  const References::Given given = references_.given(accesses_);
  if (kernel.is_writer) {
    static_cast<void>(references_.written_by_kernel(given));
    return;
  }
  std::vector<Part> parts = small_ones(given, kernel);
  if (parts.empty()) return;
  if (!kernel.looked_at) {
    if (kernel.number == 0) kernel.number = ++numbers_;
    static_cast<void>(references_.written_by_kernel(given, kernel.number));
  }
  const bool may_look = !is_blind_ && !clock_.is_recording();
  if (may_look && !kernel.under_way && kernel.launches >= kernel.next_look)
    look(kernel, stream, given, std::move(parts));
}

std::vector<PointerProbes::Part> PointerProbes::small_ones(const References::Given& given, const Kernel& kernel) const {
  std::vector<Part> parts;
  Bytes bytes = 0;
  for (const Buffer* const buffer : given.named) {
    const Bytes words = buffer->requested() / kAlignment * kAlignment;
    if (words < kWordBytes || buffer->requested() > References::kMostTableBytes) continue;
    parts.push_back({buffer->address(), buffer->number(), words, bytes,
                     own_ranges_of(references_.targets_of(*buffer, kernel.number))});
    bytes += words;
  }
  const bool leads = given.named.size() + given.reachable.size() > 1;
  if (!leads || parts.size() > kMostLookedAt || bytes > kMostLookedAtBytes) parts.clear();
  return parts;
}

std::vector<PointerProbes::Range> PointerProbes::ranges_of(const References::Targets& buffers) const {
  std::vector<Range> ranges;
  ranges.reserve(buffers.size());
  for (const Buffer* const buffer : buffers)
    ranges.push_back({buffer->address().value - Heap::kMostBefore, buffer->end().value});
  return ranges;
}

// The ranges without those addresses that also mean another buffer.
std::vector<PointerProbes::Range> PointerProbes::own_ranges_of(const References::Targets& buffers) const {
  std::vector<Range> ranges = ranges_of(buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = *buffers[i];
    const bool is_alone = heap_.find(DeviceAddress{buffer.address().value - Heap::kMostElement}) == nullptr;
    ranges[i].begin = buffer.address().value - (is_alone ? Heap::kMostElement : 0);
    if (heap_.find(buffer.end()) != &buffer) --ranges[i].end;
  }
  return ranges;
}

bool PointerProbes::take_room(Bytes bytes, Look* look) {
  if (room_ == nullptr) {
    void* room = nullptr;
    if (!driver_.allocate_host(kRoomBytes, &room).ok()) {
      is_blind_ = true;
      return false;
    }
    room_ = static_cast<std::byte*>(room);
  }
  const Bytes oldest = looks_.empty() ? 0 : looks_.front().begin;
  const Bytes newest = looks_.empty() ? 0 : looks_.back().end;
  Bytes begin = newest;
  if (newest < oldest || looks_.empty()) {
    if (!looks_.empty() && begin + bytes >= oldest) return false;
  } else if (begin + bytes > kRoomBytes) {
    if (bytes >= oldest) return false;
    begin = 0;
  }
  look->begin = begin;
  look->end = begin + bytes;
  return true;
}

void PointerProbes::look(Kernel& kernel, StreamIndex stream, const References::Given& given, std::vector<Part> parts) {
  Look look{.kernel = &kernel,
            .number = kernel.number,
            .use = {stream, clock_.submitted(stream) + 1},
            .parts = std::move(parts),
            .targets = ranges_of(given.named)};
  for (const Range& range : ranges_of(given.reachable)) look.targets.push_back(range);
  if (given.anywhere) {
    const std::uint64_t begin = heap_.range_begin().value;
    look.targets.push_back({begin, begin + heap_.range_bytes()});
  }
  if (!take_room(look.parts.back().offset + look.parts.back().bytes, &look)) return;
  std::size_t copied = 0;
  const UnorderedReads reads(annotate_);
  for (const Part& part : look.parts) {
    std::byte* const to = room_ + look.begin + part.offset;
    if (!driver_.copy_to_host(to, part.at, part.bytes, clock_.handle_of(stream)).ok()) break;
    ++copied;
  }
  // The room is in use by what has been copied, even if other copies failed.
  if (copied == 0) return;
  look.parts.resize(copied);
  kernel.under_way = true;
  ++made_;
  looks_.push_back(std::move(look));
}

bool PointerProbes::evaluate_completed(Wait wait) {
  bool any = false;
  while (!looks_.empty()) {
    const Look& oldest = looks_.front();
    if (!clock_.passed(oldest.use) && (wait != Wait::kYes || !clock_.synchronize(oldest.use).ok())) break;
    judge(oldest);
    looks_.pop_front();
    any = true;
  }
  return any;
}

PointerProbes::Findings PointerProbes::find_in(const Look& look) const {
  Findings found;
  for (const Part& part : look.parts) {
    const Buffer* const holder = heap_.find(part.at);
    const bool is_there = holder != nullptr && holder->number() == part.number;
    for (Bytes at = 0; at + kWordBytes <= part.bytes; at += kAlignment) {
      std::uint64_t word;
      std::memcpy(&word, room_ + look.begin + part.offset + at, kWordBytes);
      if (word - heap_.range_begin().value > heap_.range_bytes()) continue;
      const auto leads_there = [word](const Range& range) { return word >= range.begin && word <= range.end; };
      if (std::none_of(look.targets.begin(), look.targets.end(), leads_there)) continue;
      found.any = true;
      if (std::any_of(part.known.begin(), part.known.end(), leads_there)) continue;
      found.any_new = true;
      if (is_there) found.stored.push_back({part.at + at, word});
    }
  }
  return found;
}

void PointerProbes::judge(const Look& look) {
  Kernel& kernel = *look.kernel;
  const Findings found = find_in(look);
  if (look.is_former) {
    references_.found(found.stored);
    if (look.number != 0 && found.any_new) references_.confirm(look.number);
    if (look.number != 0 && !found.any_new) references_.retract(look.number);
    return;
  }
  kernel.under_way = false;
  // A kernel that has written pointers once may have written the same ones again.
  if (!found.any_new && !(kernel.suspect && found.any)) {
    kernel.looked_at = true;
    ++kernel.clean_looks;
    kernel.suspect = false;
    kernel.next_look = 2 * kernel.launches;
    if (kernel.number != 0) references_.retract(kernel.number);
    return;
  }
  references_.found(found.stored);
  if (kernel.number != 0) references_.confirm(kernel.number);
  kernel.looked_at = false;
  kernel.clean_looks = 0;
  kernel.is_writer = kernel.suspect;
  writers_ += kernel.is_writer ? 1 : 0;
  kernel.suspect = true;
  kernel.next_look = kernel.launches + 1;
}

}  // namespace thermocline
