// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/race_checker.h"

#include <algorithm>
#include <utility>

#include "simulator/core/streams/name_of.h"

namespace simulator {
namespace {

// Calls visit(first address, bytes) for the part of the range in each page.
template <typename Visit>
void for_pages(Address at, Bytes bytes, Visit visit) {
  for (const Address end = at + bytes; at < end;) {
    const Address stop = std::min(end, round_down(at, kPageBytes) + kPageBytes);
    visit(at, stop - at);
    at = stop;
  }
}

}  // namespace

RaceChecker::RaceChecker(const PageTable& table, const HostMemory& host, const Buffers& buffers, bool tagged,
                         DeviceId devices)
    : table_(table),
      host_(host),
      buffers_(buffers),
      tagged_(tagged),
      findings_(labels_,
                [this](Address at) {
                  const auto buffer = buffers_.find(at);
                  return buffer ? " in buffer " + std::to_string(buffer->number) : std::string();
                }),
      order_(devices) {}

Mark RaceChecker::mark_of(const Operation& operation, Accessed accessed) const {
  Mark mark;
  mark.operation = operation.id;
  mark.chain = order_.place(operation.id).chain;
  mark.stream = operation.stream;
  mark.label = label_;
  mark.accessed = accessed;
  return mark;
}

void RaceChecker::report(const Mark& mark) {
  for (const Mark& earlier : conflicts_) {
    if (!agreeing_.contains(earlier.operation)) findings_.unordered(earlier, mark);
  }
  conflicts_.clear();
}

Shadow::Page RaceChecker::pinned_page(Address at) {
  const std::uint32_t known = pinned_pages_.at(at);
  if (known != 0) return known - 1;
  pinned_pages_.set(at, ++next_pinned_page_);
  return next_pinned_page_ - 1;
}

void RaceChecker::access(const Operation& operation, Accessed accessed, Address at, Bytes bytes, bool certain) {
  if (bytes == 0) return;
  Mark mark = mark_of(operation, accessed);
  mark.address = at;
  mark.bytes = bytes;
  mark.certain = certain;
  const Clock& clock = *order_.place(operation.id).clock;
  if (PageTable::is_device(table_.entry(at))) {
    if (operation.id <= newest_unmapped_) check_late(mark, at, bytes);
    access_device(mark, clock, at, bytes);
  } else if (host_.find(at)) {
    access_pinned(mark, clock, at, bytes);
  }
}

void RaceChecker::access_device(const Mark& mark, const Clock& clock, Address at, Bytes bytes) {
  const auto part = [&](Address from, Bytes length) {
    const PageTable::Entry entry = table_.entry(from);
    if (length == 0 || !PageTable::is_device(entry)) return;  // the operation itself faults there
    const Bytes begin = from % kPageBytes;
    device_.access(PageTable::page(entry), begin, begin + length, mark, clock, order_.host(), conflicts_);
  };
  const Address end = at + bytes;
  const Address first = std::min(end, round_up(at, kPageBytes));
  const Address last = std::max(first, round_down(end, kPageBytes));
  part(at, first - at);
  part(last, end - last);
  whole_.clear();
  bool rises = true;
  Shadow::Page previous = 0;
  for (Address page = first; page < last; page += kPageBytes) {
    const PageTable::Entry entry = table_.entry(page);
    if (!PageTable::is_device(entry)) continue;
    rises &= PageTable::page(entry) > previous || whole_.empty();
    previous = PageTable::page(entry);
    whole_.push_back(previous);
  }
  if (!rises) name_once();
  device_.access(whole_, mark, clock, conflicts_);
  report(mark);
}

// A page may be mapped twice in one range.
void RaceChecker::name_once() {
  ++stamp_;
  const auto is_known = [this](Shadow::Page page) {
    if (page >= stamps_.size()) stamps_.resize(std::max<std::size_t>(page + 1, 2 * stamps_.size()));
    return std::exchange(stamps_[page], stamp_) == stamp_;
  };
  whole_.erase(std::remove_if(whole_.begin(), whole_.end(), is_known), whole_.end());
}

void RaceChecker::access_pinned(const Mark& mark, const Clock& clock, Address at, Bytes bytes) {
  whole_.clear();
  for_pages(at, bytes, [&](Address part, Bytes length) {
    const Shadow::Page page = pinned_page(part);
    const Bytes begin = part % kPageBytes;
    if (length < kPageBytes) {
      pinned_.access(page, begin, begin + length, mark, clock, order_.host(), conflicts_);
    } else {
      whole_.push_back(page);
    }
  });
  pinned_.access(whole_, mark, clock, conflicts_);
  report(mark);
}

void RaceChecker::check_late(const Mark& mark, Address at, Bytes bytes) {
  for_pages(at, bytes, [&](Address part, Bytes) {
    const OperationId newest = unmapped_.at(part);
    if (mark.operation <= newest) findings_.came_late(mark, part, newest);
  });
}

void RaceChecker::access_rows(const Operation& operation, Accessed accessed, Address at, const Shape& shape) {
  for_rows(shape, [&](Bytes offset, Bytes bytes) { access(operation, accessed, at + offset, bytes); });
}

void RaceChecker::access_lifetime(const Operation& operation, const Lifetime& lifetime) {
  Mark mark = mark_of(operation, Accessed::kWrite);
  mark.address = lifetime.address;
  mark.bytes = lifetime.bytes;
  mark.begins = lifetime.begins;
  mark.ends = !lifetime.begins;
  if (lifetime.begins) {
    // Work that was submitted earlier has completed, which the driver has made sure of. Work that was submitted later
    // and has been executed already did not wait.
    for_marks(mark.address, mark.bytes, [&](const Mark& early) {
      if (early.operation > operation.id) findings_.unordered(early, mark);
    });
    handed_out(mark.address, mark.bytes);
  }
  access_device(mark, *order_.place(operation.id).clock, lifetime.address, lifetime.bytes);
}

struct RaceChecker::Accessor {
  RaceChecker& checker;
  const Operation& operation;

  void operator()(const Marker&) const {}
  void operator()(const Record&) const {}
  void operator()(const HostFunction&) const {}
  void operator()(const Internal&) const {}
  void operator()(const Conditional&) const {}  // its steps access memory

  void operator()(const Lifetime& lifetime) const { checker.access_lifetime(operation, lifetime); }

  // A staged source was read before the call returned.
  void operator()(const Copy& copy) const {
    if (copy.staged == nullptr && !copy.reads_without_order) {
      checker.access_rows(operation, Accessed::kRead, copy.from, copy.from_shape);
    }
    checker.access_rows(operation, Accessed::kWrite, copy.to, copy.to_shape);
  }

  // Polling a word does not race with anything.
  void operator()(const WaitValue&) const {}
  void operator()(const WriteValue& write) const {
    checker.access(operation, Accessed::kWrite, write.to, write.bytes);
    checker.order_.released(operation.id, write.to);
  }

  void operator()(const Set& set) const { checker.access_rows(operation, Accessed::kWrite, set.to, set.shape); }

  void operator()(const Kernel& kernel) const {
    for (std::size_t i = 0; i < kernel.named.size(); ++i) {
      checker.access(operation, Accessed::kName, kernel.named[i].address, kernel.named[i].bytes,
                     kernel.named_directly[i] && (checker.tagged_ || !is_traced(kernel)) &&
                         !checker.is_watched(kernel, kernel.named[i], operation.device));
    }
    for (const Fetch& fetch : kernel.fetched) {
      checker.access_rows(operation, Accessed::kRead, fetch.address, fetch.shape);
    }
    if (kernel.declared && kernel.declared->may_write) {
      const Fetch& written = *kernel.declared->may_write;
      checker.access_rows(operation, Accessed::kWrite, written.address, written.shape);
    }
  }

  void operator()(const Operator& op) const {
    for (const Operand& operand : op.operands) {
      if (operand.read) checker.access(operation, Accessed::kRead, operand.address, operand.bytes);
    }
    for (const Operand& operand : op.operands) {
      if (operand.write || operand.fresh) checker.access(operation, Accessed::kWrite, operand.address, operand.bytes);
    }
  }
};

// The function may tell the host that it has begun long before it returns, and so that all earlier work has ended.
void RaceChecker::begins(const Operation& function) {
  order_.executes(function.id);
  order_.host_knows(function.id);
}

void RaceChecker::executes(const Operation& operation) {
  label_ = labels_.label(name_of(operation.work));
  order_.executes(operation.id);
  if (std::holds_alternative<HostFunction>(operation.work)) order_.follows_host(operation.id);
  if (const auto* wait = std::get_if<WaitValue>(&operation.work)) {
    order_.acquired(operation.id, wait->at, host_.find(wait->at).has_value());
    const Mark mark = mark_of(operation, Accessed::kRead);
    if (operation.id <= newest_unmapped_) check_late(mark, wait->at, wait->bytes);
  }
  std::visit(Accessor{*this, operation}, operation.work);
}

bool RaceChecker::is_watched(const Kernel& kernel, const Buffer& buffer, DeviceId device) const {
  return kernel.function != nullptr && !tagged_ && KernelWatch::can_watch(buffer) &&
         shared_with_host_.count(buffer.address) == 0 &&
         !table_.first_denied(buffer.address, buffer.bytes, Access::kReadWrite, device);
}

std::vector<Buffer> RaceChecker::to_watch(const Kernel& kernel, DeviceId device) const {
  std::vector<Buffer> watched;
  for (const Buffer& buffer : kernel.named) {
    if (is_watched(kernel, buffer, device)) watched.push_back(buffer);
  }
  return watched;
}

void RaceChecker::kernel_accessed(const Operation& operation, std::span<const KernelAccess> accesses) {
  for (const KernelAccess& seen : accesses) {
    access(operation, seen.writes ? Accessed::kWrite : Accessed::kRead, seen.address, 1);
  }
}

void RaceChecker::kernel_accessed(const Operation& operation, std::span<const AccessedRange> ranges) {
  for (const RangeAccess how : {RangeAccess::kRead, RangeAccess::kWrite, RangeAccess::kAtomic}) {
    const auto count = static_cast<std::size_t>(std::ranges::count(ranges, how, &AccessedRange::how));
    if (count >= kMostAccessedRanges) findings_.partly_seen(label_, count);
  }
  for (const AccessedRange& range : ranges) {
    if (range.how != RangeAccess::kAtomic) continue;
    for_marks(range.address, range.bytes, [&](const Mark& mark) {
      if (mark.accessed == Accessed::kAtomic) agreeing_.insert(mark.operation);
    });
  }
  for (const AccessedRange& range : ranges) {
    const Accessed accessed = range.how == RangeAccess::kRead    ? Accessed::kRead
                              : range.how == RangeAccess::kWrite ? Accessed::kWrite
                                                                 : Accessed::kAtomic;
    access(operation, accessed, range.address, range.bytes);
  }
  agreeing_.clear();
}

void RaceChecker::executed(const Operation& operation) { order_.executed(operation.id); }

void RaceChecker::inaccessible(const Operation& operation, Address at) {
  Mark mark = mark_of(operation, Accessed::kName);
  mark.address = at;
  mark.bytes = 1;
  findings_.inaccessible(mark, at, unmapped_.at(at));
}

template <typename Visit>
void RaceChecker::for_marks(Address at, Bytes bytes, Visit visit) const {
  for_pages(at, bytes, [&](Address part, Bytes length) {
    const PageTable::Entry entry = table_.entry(part);
    const Bytes begin = part % kPageBytes;
    if (PageTable::is_device(entry)) {
      device_.for_each(PageTable::page(entry), begin, begin + length, visit);
    } else if (const std::uint32_t page = pinned_pages_.at(part); page != 0) {
      pinned_.for_each(page - 1, begin, begin + length, visit);
    }
  });
}

void RaceChecker::unmaps(const char* call, Address at, Bytes bytes, OperationId newest) {
  const auto through_here = [&](const Mark& mark) {
    return mark.address < at + bytes && at < mark.address + mark.bytes;
  };
  for_marks(at, bytes, [&](const Mark& mark) {
    if (!mark.known_to(order_.host()) && through_here(mark)) findings_.taken_away(call, at, bytes, mark);
  });
  for_pages(at, bytes, [&](Address part, Bytes) { unmapped_.set(part, newest); });
  newest_unmapped_ = std::max(newest_unmapped_, newest);
}

void RaceChecker::frees(const char* call, Address at, Bytes bytes) {
  for_marks(at, bytes, [&](const Mark& mark) {
    if (!mark.begins && !mark.known_to(order_.host())) findings_.taken_away(call, at, bytes, mark);
  });
  handed_out(at, bytes);
}

void RaceChecker::handed_out(Address at, Bytes bytes) {
  shared_with_host_.erase(at);
  order_.forget_words(at, at + bytes);
  for_pages(at, bytes, [&](Address part, Bytes length) {
    const PageTable::Entry entry = table_.entry(part);
    const Bytes begin = part % kPageBytes;
    if (PageTable::is_device(entry)) {
      device_.forget(PageTable::page(entry), begin, begin + length);
    } else if (const std::uint32_t page = pinned_pages_.at(part); page != 0) {
      pinned_.forget(page - 1, begin, begin + length);
    }
  });
}

void RaceChecker::discarded(PageRun run) {
  for (std::uint32_t i = 0; i < run.count; ++i) device_.forget(run.first + i, 0, kPageBytes);
}

void RaceChecker::validate() const {
  device_.validate();
  pinned_.validate();
}

}  // namespace simulator
