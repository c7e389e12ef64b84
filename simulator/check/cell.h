// SPDX-License-Identifier: Apache-2.0
// The access history of a range of bytes: the newest write, and since then the newest access of each kind on each
// chain.
//
// Why that is enough: marks are added in an order in which the operations may have happened. A mark is dropped only for
// a newer one of the same or a stronger kind that is ordered after it. So every operation that is unordered with the
// dropped mark is also unordered with the newer one (Flanagan and Freund, FastTrack, PLDI 2009).
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "simulator/check/mark.h"

namespace simulator {

// Whether these two conflict if nothing orders them.
constexpr bool against(const Mark& earlier, const Mark& later) {
  const bool named = earlier.accessed == Accessed::kName || later.accessed == Accessed::kName;
  if (!named) return earlier.accessed != later.accessed || earlier.accessed == Accessed::kWrite;
  if (earlier.accessed == later.accessed) return false;
  // A kernel may use any part of a buffer that it is given, and may only read it. So a conflict is certain only with a
  // write of the whole buffer.
  const Mark& name = earlier.accessed == Accessed::kName ? earlier : later;
  const Mark& other = earlier.accessed == Accessed::kName ? later : earlier;
  if (!name.certain || other.accessed != Accessed::kWrite) return false;
  return other.ends || (other.address <= name.address && name.address + name.bytes <= other.address + other.bytes);
}

class Cell {
 public:
  using Marks = boost::container::small_vector<Mark, 1>;
  using Conflicts = std::vector<Mark>;

  bool empty() const { return write_.operation == 0 && reads_.empty() && atomics_.empty() && names_.empty(); }

  // Appends to `out` the accesses that conflict with `mark` and are not ordered before it; `clock` is the mark's.
  void find_conflicts(const Mark& mark, const Clock& clock, Conflicts& out) const {
    if (write_.operation != 0 && (write_.ends || (against(write_, mark) && !write_.known_to(clock))))
      out.push_back(write_);
    for (const Marks* marks : {&reads_, &atomics_, &names_}) {
      for (const Mark& earlier : *marks) {
        if (against(earlier, mark) && !earlier.known_to(clock)) out.push_back(earlier);
      }
    }
  }

  void add(const Mark& mark, const Clock& clock) {
    if (mark.accessed == Accessed::kWrite) {
      write_ = mark;
      drop_known(reads_, clock);
      drop_known(atomics_, clock);
      // A name is weaker than a write of a part of its buffer, but what is ordered after the write is ordered after the
      // name too.
      drop_known(names_, clock);
      return;
    }
    Marks& marks = mark.accessed == Accessed::kRead ? reads_ : mark.accessed == Accessed::kAtomic ? atomics_ : names_;
    drop_known(marks, clock);
    marks.push_back(mark);
  }

  void forget_known(const Clock& clock) {
    if (!write_.ends && write_.known_to(clock)) write_ = Mark();
    drop_known(reads_, clock);
    drop_known(atomics_, clock);
    drop_known(names_, clock);
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    if (write_.operation != 0) visit(write_);
    for (const Marks* marks : {&reads_, &atomics_, &names_}) {
      for (const Mark& mark : *marks) visit(mark);
    }
  }

  bool same(const Cell& other) const {
    const auto equal = [](const Marks& a, const Marks& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](const Mark& x, const Mark& y) { return x.same_range(y); });
    };
    return write_.same_range(other.write_) && equal(reads_, other.reads_) && equal(atomics_, other.atomics_) &&
           equal(names_, other.names_);
  }

 private:
  static void drop_known(Marks& marks, const Clock& clock) {
    marks.erase(std::remove_if(marks.begin(), marks.end(), [&](const Mark& mark) { return mark.known_to(clock); }),
                marks.end());
  }

  Mark write_;
  Marks reads_;
  Marks atomics_;
  Marks names_;
};

}  // namespace simulator
