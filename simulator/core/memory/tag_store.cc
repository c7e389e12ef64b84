// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/tag_store.h"

#include <algorithm>
#include <iterator>

namespace simulator {

void TagStore::read(std::uint32_t page, Bytes begin, Bytes end, std::vector<Piece>& out) const {
  if (page >= pages_.size()) {
    append(out, {end - begin, 0, 0});
    return;
  }
  const Page& at = pages_[page];
  if (at.marks == 0) {
    append(out, {end - begin, at.whole.tag, at.whole.offset_at(begin)});
    return;
  }
  const Marks& marks = marks_[at.marks];
  auto mark = std::upper_bound(marks.begin(), marks.end(), begin, [](Bytes b, const Mark& m) { return b < m.begin; });
  for (--mark; begin < end; ++mark) {
    const auto next = std::next(mark);
    const Bytes stop = next == marks.end() ? end : std::min(end, next->begin);
    append(out, {stop - begin, mark->tag, mark->offset_at(begin)});
    begin = stop;
  }
}

TagStore::Marks& TagStore::split(Page& page) {
  if (page.marks == 0) {
    if (free_marks_.empty()) {
      page.marks = static_cast<std::uint32_t>(marks_.size());
      marks_.emplace_back();
    } else {
      page.marks = free_marks_.back();
      free_marks_.pop_back();
    }
    marks_[page.marks].assign(1, page.whole);
  }
  return marks_[page.marks];
}

void TagStore::join(Page& page) {
  if (page.marks == 0) return;
  marks_[page.marks].clear();
  free_marks_.push_back(page.marks);
  page.marks = 0;
}

void TagStore::write(std::uint32_t page, Bytes begin, Bytes end, Tag tag, Bytes offset) {
  if (page >= pages_.size()) {
    if (tag == 0) return;
    pages_.resize(std::max<std::size_t>(page + 1, pages_.size() * 2));
  }
  Page& at = pages_[page];
  const Mark mark{begin, tag, is_constant(tag) ? 0 : offset};
  if (begin == 0 && end == kPageBytes) {
    join(at);
    at.whole = mark;
    return;
  }
  Marks& marks = split(at);
  const auto earlier = [](const Mark& m, Bytes b) { return m.begin < b; };
  auto first = std::lower_bound(marks.begin(), marks.end(), begin, earlier);
  auto last = std::lower_bound(first, marks.end(), end, earlier);
  // The end of the last overlapped piece remains after the new one.
  const Mark& covering = *std::prev(last);  // the first mark begins at 0, before any end
  const Mark rest{end, covering.tag, covering.offset_at(end)};
  const bool has_rest = end < kPageBytes && (last == marks.end() || last->begin > end);
  const std::size_t needed = has_rest ? 2 : 1;
  const auto present = static_cast<std::size_t>(last - first);
  if (present < needed) {
    const auto position = first - marks.begin();
    marks.insert(first, needed - present, Mark{});
    first = marks.begin() + position;
  } else if (present > needed) {
    marks.erase(first + static_cast<std::ptrdiff_t>(needed), last);
  }
  *first = mark;
  if (has_rest) *std::next(first) = rest;
}

void TagStore::clear(std::uint32_t page) {
  if (page >= pages_.size()) return;
  join(pages_[page]);
  pages_[page].whole = Mark{};
}

}  // namespace simulator
