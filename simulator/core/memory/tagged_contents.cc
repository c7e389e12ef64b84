// SPDX-License-Identifier: Apache-2.0
// Contents as tags (core/memory/tag_store.h): no byte of device or host memory is accessed. Host memory is tracked by
// its address, one page at a time from its first write on; host memory that was never written counts as zero.
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulator/core/check.h"
#include "simulator/core/hash.h"
#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/tag_store.h"

namespace simulator {
namespace {

class TaggedContents final : public Contents {
 public:
  explicit TaggedContents(PageTable& table) : table_(table) {}

  bool show(Address, PageRun, Access) override { return true; }
  void hide(Address, Bytes) override {}

  void discard(PageRun run) override {
    for (std::uint32_t i = 0; i < run.count; ++i) device_.clear(run.first + i);
  }

  bool adopt(PageRun, int, Bytes) override { return false; }
  int file_of(PageRun, Bytes*) const override { return -1; }

  void forget_host(Address at, Bytes bytes) override {
    write_piece(at, {bytes, 0, 0});
    // Only pages that are completely inside the range belong to it alone.
    for (Address page = round_up(at, kPageBytes); page + kPageBytes <= at + bytes; page += kPageBytes) {
      const PageTable::Entry entry = table_.entry(page);
      if (entry == 0) continue;
      free_host_.push_back(PageTable::page(entry));
      table_.clear(page);
    }
  }

  void zero(Address at, Bytes bytes) override { write_piece(at, {bytes, 0, 0}); }

  void fill(Address at, Bytes bytes, std::uint64_t value, std::uint32_t element) override {
    std::uint64_t pattern = 0;  // equal bytes give equal tags, whatever element size they were written with
    for (std::uint32_t shift = 0; shift < 64; shift += element * 8) {
      const std::uint64_t part = element == 8 ? value : value & ((std::uint64_t{1} << (element * 8)) - 1);
      pattern |= part << shift;
    }
    write_piece(at, {bytes, pattern == 0 ? 0 : mix(pattern) | 1, 0});
  }

  void copy(Address to, Address from, Bytes bytes) override {
    read(from, bytes);
    for (const Piece& piece : pieces_) {
      write_piece(to, piece);
      to += piece.length;
    }
  }

  void write(Address to, const void* from, Bytes bytes) override {
    // Bytes from outside have no tag: their hash becomes one, which is contiguous with nothing.
    write_piece(to, {bytes, hash_bytes(from, bytes, 0) & ~std::uint64_t{1}, 0});
  }

  // The value of a word can not be derived from its tag, so the values that were written are remembered.
  std::uint64_t word(Address at, std::uint32_t bytes) override {
    const auto known = words_.find(digest(at, bytes));
    return known == words_.end() ? 0 : known->second;
  }
  void write_word(Address to, std::uint64_t value, std::uint32_t bytes) override {
    fill(to, bytes, value, bytes);
    words_[digest(to, bytes)] = bytes == 8 ? value : value & 0xffffffff;
  }

  using Contents::derive;
  using Contents::digest;

  std::uint64_t digest(std::span<const ByteRange> ranges) override {
    pieces_.clear();
    for (const ByteRange range : ranges) read_more(range.address, range.bytes);
    std::uint64_t hash = kGolden;
    for (const Piece& piece : pieces_) hash = combine(combine(combine(hash, piece.length), piece.tag), piece.offset);
    return hash;
  }

  void derive(std::span<const ByteRange> ranges, std::uint64_t seed) override {
    Bytes offset = 0;
    for (const ByteRange range : ranges) {
      write_piece(range.address, {range.bytes, mix(seed ^ kGolden) & ~std::uint64_t{1}, offset});
      offset += range.bytes;
    }
  }

 private:
  void read(Address at, Bytes bytes) {
    pieces_.clear();
    read_more(at, bytes);
  }

  // Behind what has been read.
  void read_more(Address at, Bytes bytes) {
    Piece last;  // not in pieces_ yet
    for (const Address end = at + bytes; at < end;) {
      const Address stop = std::min(end, round_down(at, kPageBytes) + kPageBytes);
      const PageTable::Entry entry = table_.entry(at);
      const Bytes begin = at % kPageBytes;
      Piece next{stop - at, 0, 0};
      if (entry != 0 && !store(entry).whole(PageTable::page(entry), &next.tag, &next.offset)) {
        if (last.length > 0) append(pieces_, std::exchange(last, Piece()));
        store(entry).read(PageTable::page(entry), begin, begin + (stop - at), pieces_);
        at = stop;
        continue;
      }
      if (!is_constant(next.tag)) next.offset += begin;
      if (next.tag == last.tag && (is_constant(next.tag) || last.offset + last.length == next.offset)) {
        last.length += next.length;
      } else {
        if (last.length > 0) append(pieces_, last);
        last = next;
      }
      at = stop;
    }
    if (last.length > 0) append(pieces_, last);
  }

  void write_piece(Address at, Piece piece) {
    for (const Address end = at + piece.length; at < end;) {
      const Address stop = std::min(end, round_down(at, kPageBytes) + kPageBytes);
      PageTable::Entry entry = table_.entry(at);
      if (entry == 0 && piece.tag != 0) entry = adopt_host_page(at);
      if (entry != 0) write_page(entry, at % kPageBytes, stop - at, piece);
      piece.offset += stop - at;
      at = stop;
    }
  }

  void write_page(PageTable::Entry entry, Bytes begin, Bytes length, const Piece& piece) {
    TagStore& pages = store(entry);
    const std::uint32_t page = PageTable::page(entry);
    if (length == kPageBytes && pages.write_whole(page, piece.tag, piece.offset)) return;
    pages.write(page, begin, begin + length, piece.tag, piece.offset);
  }

  PageTable::Entry adopt_host_page(Address at) {
    std::uint32_t page = host_pages_;
    if (free_host_.empty()) {
      ++host_pages_;
    } else {
      page = free_host_.back();
      free_host_.pop_back();
    }
    host_.clear(page);
    table_.set_host(at, page);
    return table_.entry(at);
  }

  TagStore& store(PageTable::Entry entry) { return PageTable::is_host(entry) ? host_ : device_; }

  PageTable& table_;
  TagStore device_;
  TagStore host_;
  std::uint32_t host_pages_ = 0;
  std::vector<std::uint32_t> free_host_;
  std::unordered_map<std::uint64_t, std::uint64_t> words_;  // values, by digest of their tag
  std::vector<Piece> pieces_;                               // of the last read; kept for its capacity
};

}  // namespace

std::unique_ptr<Contents> make_tagged_contents(PageTable& table) { return std::make_unique<TaggedContents>(table); }

}  // namespace simulator
