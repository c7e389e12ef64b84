// SPDX-License-Identifier: Apache-2.0
// Contents as tags: each byte of a page is (tag, offset), meaning "byte `offset` of the data named `tag`". A page that
// is covered by one piece is stored as such, others as a sorted list of pieces.
//
// Normal form: tag 0 is zero. A constant tag (0, or the lowest bit set) is the same everywhere, and its offset is 0.
// Two adjacent pieces are merged if they are the same constant, or the same tag with contiguous offsets. So in which
// parts, and to which pages, a range was written never shows in the pieces that are read.
#pragma once

#include <vector>

#include "simulator/core/types.h"

namespace simulator {

using Tag = std::uint64_t;

constexpr bool is_constant(Tag tag) { return tag == 0 || (tag & 1) != 0; }

struct Piece {
  Bytes length = 0;
  Tag tag = 0;
  Bytes offset = 0;
};

// Appends a piece, merging it with the last one if possible.
inline void append(std::vector<Piece>& pieces, Piece piece) {
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    if (last.tag == piece.tag && (is_constant(piece.tag) || last.offset + last.length == piece.offset)) {
      last.length += piece.length;
      return;
    }
  }
  pieces.push_back(piece);
}

class TagStore {
 public:
  // The page's tag and the offset of its first byte, if the page is one piece; pages that were never written are. Large
  // buffers consist of such pages: these two functions determine the cost of operators on them.
  bool whole(std::uint32_t page, Tag* tag, Bytes* offset) const {
    if (page >= pages_.size()) {
      *tag = *offset = 0;
      return true;
    }
    const Page& at = pages_[page];
    *tag = at.whole.tag;
    *offset = at.whole.offset;
    return at.marks == 0;
  }
  // False: the page must be written with write().
  bool write_whole(std::uint32_t page, Tag tag, Bytes offset) {
    if (page >= pages_.size() || pages_[page].marks != 0) return false;
    pages_[page].whole = {0, tag, is_constant(tag) ? 0 : offset};
    return true;
  }

  // Pages are created, as zero, when they are first written.
  void read(std::uint32_t page, Bytes begin, Bytes end, std::vector<Piece>& out) const;
  void write(std::uint32_t page, Bytes begin, Bytes end, Tag tag, Bytes offset);
  void clear(std::uint32_t page);

 private:
  struct Mark {  // valid from `begin` to the next mark
    Bytes begin = 0;
    Tag tag = 0;
    Bytes offset = 0;
    // Offset of the byte at `position` of the page.
    Bytes offset_at(Bytes position) const { return is_constant(tag) ? 0 : offset + (position - begin); }
  };
  using Marks = std::vector<Mark>;
  struct Page {
    Mark whole;               // if `marks` is kWhole
    std::uint32_t marks = 0;  // index into marks_; 0: one piece
  };

  Marks& split(Page& page);
  void join(Page& page);

  std::vector<Page> pages_;
  std::vector<Marks> marks_{Marks{}};  // [0] unused
  std::vector<std::uint32_t> free_marks_;
};

}  // namespace simulator
