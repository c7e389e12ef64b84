// SPDX-License-Identifier: Apache-2.0
#include "offload/pointers/references.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "driver/check.h"

namespace thermocline {
namespace {

// Words of one table that point to the same buffers in turn (an array of structures) are merged into one run for each
// buffer; this many runs back are searched.
constexpr std::size_t kLookBack = 8;
constexpr Bytes kGap = 256;

constexpr auto kLower = [](const Buffer* a, const Buffer* b) { return a->address() < b->address(); };

DeviceAddress lower(DeviceAddress a, DeviceAddress b) { return a < b ? a : b; }
DeviceAddress higher(DeviceAddress a, DeviceAddress b) { return a < b ? b : a; }

}  // namespace

bool References::may_be_given_a_table(const Heap& heap, DeviceAddress address) {
  const auto is_small = [](const Buffer* buffer) {
    return buffer != nullptr && buffer->requested() <= kMostTableBytes;
  };
  // Nearly all addresses are the beginnings of buffers, and mean no others.
  if (const Buffer* const begun = heap.begins_at(address); begun != nullptr) return is_small(begun);
  const MeantBuffers meant = heap.meant_by(address);
  return is_small(meant.within) || is_small(meant.behind);
}

template <class Visit>
void References::for_each_in(AddressRange range, Visit visit) {
  if (range.bytes == 0) return;
  if (!is_ours(range.at)) {
    visit(outside_);
    return;
  }
  auto at = holders_.upper_bound(range.at.value);
  if (at != holders_.begin()) --at;
  while (at != holders_.end() && at->first < range.end().value) {
    if (at->first + at->second.bytes > range.at.value) visit(at->second);
    at = at->second.empty() ? holders_.erase(at) : std::next(at);
  }
}

References::Holder* References::holder_at(DeviceAddress at, DeviceAddress* end) {
  if (!is_ours(at)) {
    *end = heap_.range_begin() > at ? heap_.range_begin() : DeviceAddress{~std::uint64_t{0}};
    return &outside_;
  }
  const Buffer* const buffer = heap_.find(at);
  if (buffer == nullptr || at >= buffer->end()) return nullptr;
  *end = buffer->end();
  Holder& holder = holders_[buffer->address().value];
  if (holder.number != buffer->number()) {
    runs_ -= holder.size();
    holder = Holder{.bytes = buffer->requested(), .number = buffer->number(), .runs = {}, .written = {}};
  }
  return &holder;
}

void References::add(Holder& holder, Run run) {
  const MeantBuffers target = heap_.meant_by(run.target);
  if (!target.any()) return;
  const auto is_same = [&](const Run& other) {
    return other.target == run.target ||
           (heap_.find(other.target) == target.within && heap_.meant_by(other.target) == target);
  };
  const std::size_t back = std::min(holder.runs.size(), kLookBack);
  for (auto last = holder.runs.end() - static_cast<std::ptrdiff_t>(back); last != holder.runs.end(); ++last) {
    if (run.begin > last->end + kGap || last->begin > run.end + kGap || !is_same(*last)) continue;
    last->begin = lower(last->begin, run.begin);
    last->end = higher(last->end, run.end);
    last->is_former = false;
    return;
  }
  if (holder.runs.size() >= holder.most) collapse(holder);
  holder.runs.push_back(run);
  ++runs_;
}

void References::collapse(Holder& holder) {
  const auto in_order = [](const MeantBuffers& a, const MeantBuffers& b) {
    return std::tie(a.within, a.ended, a.behind) < std::tie(b.within, b.ended, b.behind);
  };
  std::map<MeantBuffers, Run, decltype(in_order)> by_target(in_order);
  std::vector<Run> kept;
  for (const Run& run : holder.runs) {
    const MeantBuffers target = heap_.meant_by(run.target);
    if (!target.any()) continue;  // freed: the word points to nothing
    const auto [at, is_new] = by_target.try_emplace(target, run);
    at->second.begin = lower(at->second.begin, run.begin);
    at->second.end = higher(at->second.end, run.end);
    at->second.is_former = at->second.is_former && run.is_former;
  }
  kept.reserve(by_target.size());
  for (const auto& [target, run] : by_target) kept.push_back(run);
  // Sorted by target address, not by the address of our own objects: so the order is the same in every run of the
  // program.
  std::sort(kept.begin(), kept.end(), [](const Run& a, const Run& b) { return a.target < b.target; });
  runs_ -= holder.runs.size() - kept.size();
  holder.runs = std::move(kept);
  holder.most = std::max(kMostRuns, 2 * holder.runs.size());
}

template <class Visit>
void References::for_each_word(std::span<const HeldWord> words, Visit visit) {
  Holder* holder = nullptr;
  DeviceAddress begin, end;
  for (const HeldWord& word : words) {
    const DeviceAddress target{word.value};
    if (!is_ours(target) || (heap_.find(target) == nullptr && !heap_.meant_by(target).any())) continue;
    if (holder == nullptr || word.at < begin || word.at >= end) {
      holder = holder_at(word.at, &end);
      begin = word.at;
    }
    if (holder == nullptr) continue;
    visit(*holder, Run{word.at, lower(word.at + sizeof word.value, end), target});
  }
}

void References::hold(std::span<const HeldWord> words) {
  for_each_word(words, [this](Holder& holder, const Run& run) { add(holder, run); });
}

void References::found(std::span<const HeldWord> words) {
  for_each_word(words, [this](Holder& holder, const Run& run) { add_written(holder, run); });
}

void References::clear(Holder& holder, AddressRange range, bool only_written) {
  const std::size_t before = holder.size();
  const auto is_over = [&](Run& run) {
    if (run.begin >= range.end() || run.end <= range.at) return false;
    if (run.begin >= range.at && run.end <= range.end()) return true;
    // Overwriting the middle of a run leaves words on both sides.
    if (run.begin >= range.at) run.begin = range.end();
    if (run.end <= range.end()) run.end = range.at;
    return false;
  };
  if (!only_written) std::erase_if(holder.runs, is_over);
  std::erase_if(holder.written, is_over);
  runs_ -= before - holder.size();
}

void References::overwritten(DeviceAddress at, Bytes bytes) {
  for_each_in({at, bytes}, [&](Holder& holder) { clear(holder, {at, bytes}); });
}

void References::will_be_overwritten(AddressRange range) {
  for_each_in(range, [&](Holder& holder) {
    for (Run& run : holder.runs) run.is_former |= run.begin >= range.at && run.end <= range.end();
  });
}

void References::told_what_overwrites(AddressRange range) {
  if (!is_ours(range.at)) return;
  for_each_in(range, [&](Holder& holder) {
    if (std::ranges::none_of(holder.runs, &Run::is_former)) return;
    std::set<std::uint64_t> told;
    std::vector<Run> former;
    for (const Run& run : holder.runs) {
      if (!run.is_former) told.insert(run.target.value);
      if (run.is_former) former.push_back(run);
    }
    runs_ -= std::erase_if(holder.runs, [](const Run& run) { return run.is_former; });
    // If the copy does not run, the pointer stays where it was.
    std::erase_if(former, [&](const Run& run) {
      const bool is_told = told.contains(run.target.value);
      if (is_told) add_beside(holder, run);
      return is_told;
    });
    add_as_written(holder, former);
  });
}

// Ranges near each other become one run over all of them, so that they are read at once.
void References::add_as_written(Holder& holder, const std::vector<Run>& runs) {
  if (runs.empty()) return;
  const DeviceAddress begin = std::ranges::min(runs, {}, &Run::begin).begin;
  const DeviceAddress end = std::ranges::max(runs, {}, &Run::end).end;
  const bool is_near = end - begin <= kMostTableBytes;
  for (const Run& run : runs) add_written(holder, {is_near ? begin : run.begin, is_near ? end : run.end, run.target});
}

void References::forget_former(AddressRange range) {
  for_each_in(range, [&](Holder& holder) {
    runs_ -= std::erase_if(
        holder.runs, [&](const Run& run) { return run.is_former && run.begin >= range.at && run.end <= range.end(); });
  });
}

// Merges it into an existing run of the same target.
void References::add_beside(Holder& holder, const Run& run) {
  const auto known = std::ranges::find(holder.runs, run.target, &Run::target);
  known->begin = lower(known->begin, run.begin);
  known->end = higher(known->end, run.end);
}

void References::collect(const std::vector<Run>& runs, AddressRange range, std::vector<Run>* out) {
  for (const Run& run : runs) {
    const Run part{higher(run.begin, range.at), lower(run.end, range.end()), run.target, run.kernel};
    if (part.begin < part.end) out->push_back(part);
  }
}

void References::add_written(Holder& holder, Run run) {
  // Runs that may point anywhere have separate rules (add_anywhere).
  for (Run& known : run.target == kAnywhere ? std::span<Run>() : std::span<Run>(holder.written)) {
    if (known.kernel != run.kernel || known.target != run.target) continue;
    known.begin = lower(known.begin, run.begin);
    known.end = higher(known.end, run.end);
    return;
  }
  runs_ -= holder.written.size();
  if (run.target == kAnywhere) {
    add_anywhere(holder, run);
  } else {
    holder.written.push_back(run);
    shorten(holder);
  }
  runs_ += holder.written.size();
}

// One run for each kernel, or one for all; the gap between the ranges counts too. In memory outside the engine two
// ranges may be far apart, and the gap belongs to others: more ranges are stored there before they are merged.
void References::add_anywhere(Holder& holder, Run run) {
  run.target = kAnywhere;
  const auto widen = [](Run& known, const Run& by) {
    known.begin = lower(known.begin, by.begin);
    known.end = higher(known.end, by.end);
  };
  std::size_t others = 0;
  for (Run& known : holder.written) {
    if (known.target != kAnywhere) continue;
    ++others;
    const bool is_there = known.begin <= run.begin && run.end <= known.end;
    if (known.kernel == run.kernel && (&holder != &outside_ || is_there)) return widen(known, run);
  }
  if (others >= (&holder == &outside_ ? kMostRuns : kMostAnywhere)) {
    run.kernel = 0;
    std::erase_if(holder.written, [&](const Run& known) {
      if (known.target != kAnywhere) return false;
      widen(run, known);
      return true;
    });
  }
  holder.written.push_back(run);
}

void References::hold_unknown(AddressRange range) {
  for (DeviceAddress at = range.at; at < range.end();) {
    DeviceAddress end;
    Holder* const holder = holder_at(at, &end);
    if (holder == nullptr) return;
    end = lower(end, range.end());
    add_written(*holder, {at, end, kAnywhere});
    at = end;
  }
}

bool References::may_be_stored_in(AddressRange range) {
  bool any = false;
  for_each_in(range, [&](const Holder& holder) {
    any |= std::ranges::any_of(holder.written,
                               [&](const Run& run) { return run.begin < range.end() && range.at < run.end; });
  });
  return any;
}

void References::now_hold(AddressRange range, std::span<const HeldWord> words, bool copies_may_come) {
  if (!copies_may_come) {
    overwritten(range.at, range.bytes);
    return hold(words);
  }
  for_each_in(range, [&](Holder& holder) { clear(holder, range, true); });
  // Not counted among the words that copies were told to write, which are replaced by the next such words only.
  for_each_word(words, [&](Holder& holder, const Run& run) {
    add_written(holder, {range.at, range.end(), run.target});
  });
}

void References::copied(AddressRange to, AddressRange from, bool exact) {
  std::vector<Run> there, written;
  for_each_in(from, [&](Holder& holder) {
    collect(holder.runs, from, &there);
    collect(holder.written, from, &written);
  });
  if (exact) overwritten(to.at, to.bytes);
  const auto each = [&](const std::vector<Run>& runs, void (References::*add_one)(Holder&, Run)) {
    Holder* holder = nullptr;
    DeviceAddress begin, end;
    for (const Run& run : runs) {
      const DeviceAddress at = exact ? to.at + (run.begin.value - from.at.value) : to.at;
      const DeviceAddress stop = exact ? to.at + (run.end.value - from.at.value) : to.end();
      if (holder == nullptr || at < begin || at >= end) {
        holder = holder_at(at, &end);
        begin = at;
      }
      if (holder != nullptr) (this->*add_one)(*holder, Run{at, lower(stop, end), run.target, run.kernel});
    }
  };
  each(there, &References::add);
  each(written, &References::add_written);
  // If nothing is stored, no holder may be left that was created for it.
  for_each_in(to, [](Holder&) {});
}

void References::forget(const Buffer& buffer) {
  const auto at = holders_.find(buffer.address().value);
  if (at == holders_.end()) return;
  runs_ -= at->second.size();
  holders_.erase(at);
}

References::Targets References::targets_at(std::span<const DeviceAddress> addresses) const {
  Targets targets;
  for (const DeviceAddress at : addresses) {
    // One past the end of a buffer: if another one begins there, that one is meant.
    const MeantBuffers meant = heap_.meant_by(at);
    for (const Buffer* const target : {meant.within, meant.behind}) {
      if (target != nullptr) targets.push_back(target);
    }
  }
  // Sorted by address, not by the location of our own objects: so the order is the same in every run of the program.
  std::sort(targets.begin(), targets.end(), kLower);
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

// Reduces the runs to kMostWritten: assumed ones are removed first, then the oldest. The buffer may then point
// anywhere. Returns how many were removed.
std::uint64_t References::shorten(Holder& holder) {
  const auto leads_somewhere = [](const Run& run) { return run.target != kAnywhere; };
  const auto before = static_cast<std::size_t>(std::ranges::count_if(holder.written, leads_somewhere));
  const std::size_t excess = before - std::min(before, kMostWritten);
  std::vector<Run> gone;
  for (const bool known : {false, true}) {
    std::erase_if(holder.written, [&](const Run& run) {
      if (gone.size() == excess || !leads_somewhere(run) || (run.kernel == 0) != known) return false;
      gone.push_back(run);
      return true;
    });
  }
  for (const Run& run : gone) add_anywhere(holder, run);
  return gone.size();
}

std::uint64_t References::add_given(const Buffer& buffer, const Given& given, std::uint64_t kernel) {
  DeviceAddress end;
  Holder& holder = *holder_at(buffer.address(), &end);
  runs_ -= holder.written.size();
  const auto is_in = [](const Targets& all, const Buffer* one) {
    return std::binary_search(all.begin(), all.end(), one, kLower);
  };
  // Runs whose target was freed are removed. Targets that the kernel was given become the newest; targets that it could
  // only reach keep their place; and targets that are known to be stored there are not added as assumptions.
  Targets known, renewed;
  const auto is_over_all = [&](const Run& run) { return run.begin == buffer.address() && run.end == end; };
  std::erase_if(holder.written, [&](const Run& run) {
    if (run.target == kAnywhere) return false;
    const Targets targets = targets_at({&run.target, 1});
    if (targets.empty()) return true;
    // A pointer that is known to be somewhere may be elsewhere, too.
    if ((run.kernel != kernel && run.kernel != 0) || !is_over_all(run)) return false;
    const auto is_named = [&](const Buffer* target) { return is_in(given.named, target); };
    if (kernel == 0 && std::ranges::all_of(targets, is_named)) {
      renewed.insert(renewed.end(), targets.begin(), targets.end());
      return true;
    }
    known.insert(known.end(), targets.begin(), targets.end());
    return false;
  });
  std::sort(known.begin(), known.end(), kLower);
  std::sort(renewed.begin(), renewed.end(), kLower);
  // A table that may lead anywhere leads nowhere else.
  const bool led_anywhere =
      std::ranges::any_of(holder.written, [&](const Run& run) { return run.target == kAnywhere && is_over_all(run); });
  std::uint64_t added = 0;
  for (const Targets* const all : {&given.reachable, &given.named}) {
    for (const Buffer* const target : *all) {
      const bool is_named = all == &given.named;
      if (target == &buffer || is_in(known, target) || (!is_named && is_in(given.named, target))) continue;
      holder.written.push_back({buffer.address(), end, target->address(), kernel});
      added += is_in(renewed, target) ? 0 : 1;
    }
  }
  const std::uint64_t gone = shorten(holder);
  if (!led_anywhere) additions_ += added + gone + (given.anywhere ? 1 : 0);
  if (given.anywhere) add_anywhere(holder, {buffer.address(), end, kAnywhere, kernel});
  runs_ += holder.written.size();
  if (holder.empty()) holders_.erase(buffer.address().value);
  return gone;
}

References::Given References::given(std::span<const MemoryAccess> accesses) {
  std::vector<DeviceAddress> addresses;
  Given all;
  all.anywhere = follow(accesses, &addresses).anywhere;
  all.reachable = targets_at(addresses);
  addresses.clear();
  for (const MemoryAccess& access : accesses) addresses.push_back(access.address);
  all.named = targets_at(addresses);
  return all;
}

std::uint64_t References::written_by_kernel(const Given& given, std::uint64_t kernel) {
  std::uint64_t gone = 0;
  for (const Buffer* const buffer : given.named) {
    if (buffer->requested() <= kMostTableBytes) gone += add_given(*buffer, given, kernel);
  }
  return gone;
}

void References::confirm(std::uint64_t kernel) {
  const auto confirm_in = [&](std::uint64_t begin, Holder& holder) {
    std::vector<DeviceAddress> addresses;
    for (const Run& run : holder.written) {
      const bool is_over_all = run.begin.value == begin && run.end - run.begin == holder.bytes;
      if (run.kernel == 0 && is_over_all) addresses.push_back(run.target);
    }
    const Targets known = targets_at(addresses);
    runs_ -= std::erase_if(holder.written, [&](Run& run) {
      if (run.kernel != kernel) return false;
      run.kernel = 0;
      if (run.target == kAnywhere) return false;
      const Targets targets = targets_at({&run.target, 1});
      return std::ranges::includes(known, targets, kLower);
    });
  };
  confirm_in(0, outside_);
  for (auto& [address, holder] : holders_) confirm_in(address, holder);
}

void References::retract(std::uint64_t kernel) {
  const auto retract_in = [&](Holder& holder) {
    runs_ -= std::erase_if(holder.written, [kernel](const Run& run) { return run.kernel == kernel; });
  };
  retract_in(outside_);
  for (auto at = holders_.begin(); at != holders_.end();) {
    retract_in(at->second);
    at = at->second.empty() ? holders_.erase(at) : std::next(at);
  }
}

References::Targets References::targets_of(const Buffer& buffer, std::uint64_t but_by) const {
  const auto holder = holders_.find(buffer.address().value);
  if (holder == holders_.end() || holder->second.number != buffer.number()) return {};
  std::vector<DeviceAddress> addresses;
  for (const Run& run : holder->second.runs) addresses.push_back(run.target);
  for (const Run& run : holder->second.written) {
    if (but_by == 0 || run.kernel != but_by) addresses.push_back(run.target);
  }
  return targets_at(addresses);
}

template <class Written>
void References::visit(DeviceAddress address, Written written, std::vector<DeviceAddress>* out) {
  const MeantBuffers meant = heap_.meant_by(address);
  for (const Buffer* const buffer : {meant.within, meant.ended, meant.behind}) {
    if (buffer == nullptr) continue;
    const auto found = holders_.find(buffer->address().value);
    if (found == holders_.end() || found->second.number != buffer->number() || found->second.walk == walk_) continue;
    found->second.walk = walk_;
    for (const Run& run : found->second.runs) out->push_back(run.target);
    if (!found->second.written.empty()) written(found->second.written);
  }
}

template <class Written>
void References::walk(std::span<const MemoryAccess> accesses, Written written, std::vector<DeviceAddress>* out) {
  ++walk_;
  for (const Run& run : outside_.runs) out->push_back(run.target);
  if (!outside_.written.empty()) written(outside_.written);
  for (const MemoryAccess& access : accesses) {
    if (access.bytes == 0) visit(access.address, written, out);
  }
  for (std::size_t i = 0; i < out->size(); ++i) visit((*out)[i], written, out);
}

References::Followed References::follow(std::span<const MemoryAccess> accesses, std::vector<DeviceAddress>* out) {
  Followed followed;
  const auto written = [&](const std::vector<Run>& runs) {
    followed.by_tables = true;
    for (const Run& run : runs) {
      followed.anywhere |= run.target == kAnywhere;
      if (run.target != kAnywhere) out->push_back(run.target);
    }
  };
  walk(accesses, written, out);
  return followed;
}

bool References::follow_read(std::span<const MemoryAccess> accesses, const TableWords& read,
                             std::vector<DeviceAddress>* out, std::vector<AddressRange>* unread) {
  bool anywhere = false;
  const auto written = [&](const std::vector<Run>& runs) {
    if (&runs == &outside_.written) {
      for (const Run& run : runs) {
        anywhere |= run.target == kAnywhere;
        if (run.target != kAnywhere) out->push_back(run.target);
      }
      return;
    }
    std::set<TableWords::key_type> ranges;
    for (const Run& run : runs) ranges.emplace(run.begin.value, run.end.value);
    for (const auto& range : ranges) {
      if (const auto words = read.find(range); words != read.end()) {
        out->insert(out->end(), words->second.begin(), words->second.end());
      } else {
        unread->push_back({DeviceAddress{range.first}, range.second - range.first});
      }
    }
  };
  walk(accesses, written, out);
  return anywhere;
}

bool References::follow_certain(std::span<const MemoryAccess> accesses, std::vector<DeviceAddress>* out) {
  bool anywhere = false;
  const auto written = [&](const std::vector<Run>& runs) {
    if (&runs != &outside_.written) return;
    for (const Run& run : runs) {
      anywhere |= run.target == kAnywhere;
      if (run.target != kAnywhere) out->push_back(run.target);
    }
  };
  walk(accesses, written, out);
  return anywhere;
}

void References::validate() const {
  std::uint64_t runs = outside_.size();
  for (const auto& [address, holder] : holders_) {
    const Buffer* const buffer = heap_.find(DeviceAddress{address});
    THERMOCLINE_CHECK(buffer != nullptr && buffer->address().value == address && buffer->number() == holder.number,
                      "what holds addresses is a live buffer");
    THERMOCLINE_CHECK(
        !holder.empty() && holder.runs.size() <= holder.most && holder.written.size() <= kMostWritten + kMostAnywhere,
        "its runs are some, and not too many");
    for (const std::vector<Run>* all : {&holder.runs, &holder.written}) {
      for (const Run& run : *all) {
        THERMOCLINE_CHECK(run.begin >= buffer->address() && run.end <= buffer->end() && run.begin < run.end,
                          "addresses stand inside their holder");
        THERMOCLINE_CHECK(is_ours(run.target) || (run.target == kAnywhere && all == &holder.written),
                          "addresses that are followed are ours");
      }
    }
    runs += holder.size();
  }
  THERMOCLINE_CHECK(runs == runs_, "runs are counted");
}

}  // namespace thermocline
