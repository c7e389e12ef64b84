// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory snapshot, in the layout of torch/csrc/cuda/memory_snapshot.cpp, as torch/utils/viz/MemoryViz.js
// reads it. All address ranges that buffers ever used are segments; a segment is divided into blocks: the buffers that
// are alive at the end, and the holes between them.
#include <algorithm>
#include <map>
#include <vector>

#include "tool/export_formats.h"
#include "tool/pickle.h"

namespace thermocline {
namespace {

class SnapshotWriter {
 public:
  SnapshotWriter(const TimelineReplay& replayed, OutputFile& out) : replayed_(replayed), out_(out) {}

  void write() {
    find_segments();
    p_.begin_dict();
    p_.string("segments");
    p_.begin_list();
    for (const auto& [begin, end] : segments_) segment(begin, end);
    p_.end_list();
    p_.string("device_traces");
    p_.begin_list();
    p_.begin_list();
    for (const auto& [begin, end] : segments_) event("segment_alloc", begin, end - begin, 0, nullptr);
    buffer_events();
    p_.end_list();
    p_.end_list();
    p_.string("allocator_settings");
    p_.begin_dict();
    p_.end_dict();
    p_.string("external_annotations");
    p_.begin_list();
    p_.end_list();
    p_.end_dict();
    p_.finish();
    out_.write(p_.take());
  }

 private:
  const std::vector<TimelineBuffer>& buffers() const { return replayed_.timeline.buffers; }

  void find_segments() {
    const Bytes page = replayed_.timeline.result.page_bytes;
    std::map<std::uint64_t, std::uint64_t> ranges;
    for (const TimelineBuffer& buffer : buffers()) {
      std::uint64_t& end = ranges[round_down(buffer.address, page)];
      end = std::max(end, round_up(buffer.address + buffer.bytes, page));
    }
    for (const auto& [begin, end] : ranges) {
      if (!segments_.empty() && begin <= segments_.back().second) {
        segments_.back().second = std::max(segments_.back().second, end);
      } else {
        segments_.emplace_back(begin, end);
      }
    }
    for (const TimelineBuffer& buffer : buffers()) {
      if (buffer.outlives_window) alive_[buffer.address] = &buffer;
    }
  }

  void number(const char* key, std::uint64_t value) {
    p_.string(key);
    p_.integer(static_cast<std::int64_t>(value));
  }
  void text(const char* key, std::string_view value) {
    p_.string(key);
    p_.string(value);
  }
  void frames(const TimelineBuffer* buffer) {
    p_.string("frames");
    p_.begin_list();
    if (buffer != nullptr) {
      const bool known = buffer->producer != kNoIndex;
      p_.begin_dict();
      text("filename", "operator");
      number("line", known ? buffer->producer : 0);
      text("name", known ? title_of(replayed_, replayed_.timeline.operators[buffer->producer]) : "from before");
      p_.end_dict();
      // The program's own name for it: `activation layers.0.attn` of a recording in PyTorch.
      if (buffer->tag != 0) {
        p_.begin_dict();
        text("filename", "buffer");
        number("line", 0);
        text("name", replayed_.trace.tags[buffer->tag]);
        p_.end_dict();
      }
    }
    p_.end_list();
  }
  void pool(const char* key) {
    p_.string(key);
    p_.integer(0);
    p_.integer(0);
    p_.pair();
  }

  void block(std::uint64_t address, Bytes bytes, const TimelineBuffer* buffer) {
    p_.begin_dict();
    number("address", address);
    number("size", bytes);
    number("requested_size", buffer == nullptr ? 0 : bytes);
    text("state", buffer == nullptr ? "inactive" : "active_allocated");
    frames(buffer);
    p_.end_dict();
  }

  void segment(std::uint64_t begin, std::uint64_t end) {
    Bytes active = 0;
    const auto first = alive_.lower_bound(begin), last = alive_.lower_bound(end);
    for (auto at = first; at != last; ++at) active += at->second->bytes;
    p_.begin_dict();
    number("device", 0);
    number("address", begin);
    number("total_size", end - begin);
    number("allocated_size", active);
    number("active_size", active);
    number("requested_size", active);
    number("stream", 0);
    text("segment_type", "large");
    pool("segment_pool_id");
    p_.string("is_expandable");
    p_.boolean(false);
    frames(nullptr);
    p_.string("blocks");
    p_.begin_list();
    std::uint64_t at = begin;
    for (auto live = first; live != last; ++live) {
      if (live->first > at) block(at, live->first - at, nullptr);
      block(live->first, live->second->bytes, live->second);
      at = live->first + live->second->bytes;
    }
    if (at < end) block(at, end - at, nullptr);
    p_.end_list();
    p_.end_dict();
  }

  void event(const char* action, std::uint64_t address, Bytes bytes, double at_us, const TimelineBuffer* buffer) {
    p_.begin_dict();
    text("action", action);
    number("addr", address);
    number("size", bytes);
    number("stream", 0);
    number("time_us", static_cast<std::uint64_t>(at_us));
    pool("pool_id");
    frames(buffer);
    p_.end_dict();
    constexpr std::size_t kEnough = 1 << 16;
    if (++events_ % kEnough == 0) out_.write(p_.take());
  }

  void buffer_events() {
    for (const TimelineChange& change : replayed_.timeline.changes) {
      const TimelineBuffer& b = buffers()[change.buffer];
      if (change.begins) {
        event("alloc", b.address, b.bytes, change.at_us, &b);
      } else {
        event("free_requested", b.address, b.bytes, change.at_us, &b);
        event("free_completed", b.address, b.bytes, change.at_us, &b);
      }
    }
  }

  const TimelineReplay& replayed_;
  OutputFile& out_;
  Pickle p_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> segments_;
  std::map<std::uint64_t, const TimelineBuffer*> alive_;  // at the end
  std::size_t events_ = 0;
};

}  // namespace

void export_memory_viz(const TimelineReplay& replayed, OutputFile& out) { SnapshotWriter(replayed, out).write(); }

}  // namespace thermocline
