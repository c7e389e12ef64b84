// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/trace.h"

#include <algorithm>
#include <bit>

namespace simulator::ptx {
namespace {

// Reports ranges of one kind. Adjacent ranges are merged; ranges beyond the limit are left out.
class Ranges {
 public:
  Ranges(const Launch& launch, Traced how) : launch_(launch), how_(how) {}
  ~Ranges() { flush(); }
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  bool is_full() const { return reported_ == kMostTraced; }

  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin != end_) {
      flush();
      begin_ = begin;
    }
    end_ = end;
  }

 private:
  void flush() {
    if (end_ > begin_ && !is_full()) {
      launch_.traced(launch_.traced_to, begin_, end_ - begin_, how_);
      ++reported_;
    }
    begin_ = end_ = 0;
  }

  const Launch& launch_;
  const Traced how_;
  std::uint64_t begin_ = 0, end_ = 0;
  std::size_t reported_ = 0;
};

void add_word(Ranges& to, std::uint64_t address, std::uint64_t bits) {
  while (bits != 0) {
    const auto skipped = static_cast<unsigned>(std::countr_zero(bits));
    const auto length = static_cast<unsigned>(std::countr_one(bits >> skipped));
    to.add(address + skipped, address + skipped + length);
    if (skipped + length >= Trace::kWord) return;
    bits &= ~std::uint64_t{0} << (skipped + length);
  }
}

}  // namespace

void Trace::add_slowly(std::uint64_t address, std::uint64_t bytes, Traced how) {
  for (const std::uint64_t end = address + bytes; address < end;) {
    const std::uint64_t stop = std::min(end, address / kPageBytes * kPageBytes + kPageBytes);
    add_within(address, stop - address, how);
    address = stop;
  }
}

void Trace::add_within(std::uint64_t address, std::uint64_t bytes, Traced how) {
  const std::uint64_t number = address / kPageBytes;
  Page& page = pages_[number];
  Bits& bits = page[static_cast<std::size_t>(how)];
  if (bits.empty()) bits.resize(kPageBytes / kWord);
  Recent& recent = recent_[number % kRecent];
  recent.number = number;
  for (std::size_t kind = 0; kind < page.size(); ++kind)
    recent.bits[kind] = page[kind].empty() ? nullptr : page[kind].data();
  const std::uint64_t end = address % kPageBytes + bytes;
  for (std::uint64_t at = address % kPageBytes; at < end;) {
    const std::uint64_t from = at % kWord, count = std::min(kWord - from, end - at);
    bits[at / kWord] |= (~std::uint64_t{0} >> (kWord - count)) << from;
    at += count;
  }
}

void Trace::report(const Launch& launch) const {
  for (const Traced how : {Traced::kRead, Traced::kWrite, Traced::kAtomic}) {
    Ranges ranges(launch, how);
    for (const auto& [number, page] : pages_) {
      const Bits& bits = page[static_cast<std::size_t>(how)];
      for (std::size_t word = 0; word < bits.size() && !ranges.is_full(); ++word)
        add_word(ranges, number * kPageBytes + word * kWord, bits[word]);
    }
  }
}

}  // namespace simulator::ptx
