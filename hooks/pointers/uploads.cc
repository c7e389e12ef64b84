// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/uploads.h"

#include <algorithm>
#include <iterator>

#include "hooks/interpose/own_memory.h"
#include "hooks/interpose/symbols.h"
#include "hooks/operands/tensor_maps.h"
#include "hooks/pointers/parallel_search.h"
#include "hooks/pointers/word_scan.h"
#include "hooks/pointers/write_combined.h"
#include "hooks/runtime/counters.h"

namespace thermocline {
namespace {

// Pointers that are collected until the copy has been submitted. Above this number they are reported before; then they
// exist beside the pointers that the copy overwrites.
constexpr std::size_t kMostWords = 65536;

// Reading less is faster than asking the driver what memory it is in.
constexpr Bytes kWorthAsking = 4096;

// Above this number of rows a copy is treated as one range from the first row to the last, and earlier pointers in that
// range stay recorded.
constexpr Bytes kMostRows = 256;

struct MemoryKind {
  bool known = false;
  bool device = false;
};

// Memory of any engine is device memory, whatever the driver reports for an evicted range.
MemoryKind kind_of(CUdeviceptr at) {
  const EngineSet* const engines = engines_now();
  if (engines != nullptr && engines->owner(DeviceAddress{at}) != nullptr) return {.known = true, .device = true};
  const Inside inside;
  unsigned int type = 0;
  if (real<Function::cuPointerGetAttribute>(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS) return {};
  return {.known = true, .device = type == CU_MEMORYTYPE_DEVICE};
}

}  // namespace

bool is_pageable(CUdeviceptr at) { return !kind_of(at).known; }
bool is_host_memory(CUdeviceptr at) { return !kind_of(at).device; }
bool is_pinned(CUdeviceptr at) {
  const MemoryKind kind = kind_of(at);
  return kind.known && !kind.device;
}

namespace {

template <class Visit>
void for_each_row(const Move& move, Visit visit) {
  for (Bytes layer = 0; layer < move.layers; ++layer) {
    for (Bytes row = 0; row < move.rows; ++row) {
      visit(move.to + layer * move.to_layer + row * move.to_pitch,
            move.from + layer * move.from_layer + row * move.from_pitch);
    }
  }
}

bool has_many_rows(const Move& move) { return move.rows > kMostRows || move.layers > kMostRows / move.rows; }

AddressRange span_of(CUdeviceptr at, const Move& move, Bytes layer, Bytes pitch) {
  return {DeviceAddress{at}, (move.layers - 1) * layer + (move.rows - 1) * pitch + move.bytes};
}

// Carries stored pointers along in a copy on the device.
void take_along(Engine& engine, const Move& move, bool exact) {
  if (has_many_rows(move)) {
    engine.copied(span_of(move.to, move, move.to_layer, move.to_pitch),
                  span_of(move.from, move, move.from_layer, move.from_pitch), false);
    return;
  }
  for_each_row(move, [&](CUdeviceptr to, CUdeviceptr from) {
    engine.copied({DeviceAddress{to}, move.bytes}, {DeviceAddress{from}, move.bytes}, exact);
  });
}

OwnRange range_of(const Engine& engine) { return {engine.range_begin(), engine.range_bytes()}; }

// Whether plain loads from the source take far longer than its copy (write_combined.h).
bool is_slow_to_read(const Move& move) {
  return span_of(move.from, move, move.from_layer, move.from_pitch).bytes >= kWorthAsking &&
         is_write_combined(reinterpret_cast<const void*>(move.from));
}

// Size of the read buffer. It is not on the stack, because some threads have a stack of about that size.
constexpr std::size_t kBlockBytes = 16384;

// The memory may have been freed if its graph was destroyed; but not if the driver has just told its kind (`slow`).
Reading read_as_it_is(CUdeviceptr from, bool slow, void* to, Bytes bytes) {
  if (!slow) return read_own_memory(from, to, bytes);
  read_write_combined(to, reinterpret_cast<const void*>(from), bytes);
  return Reading::kRead;
}

void search_as_it_is(Engine& engine, CUdeviceptr to, CUdeviceptr from, Bytes bytes, bool slow) {
  std::vector<unsigned char> block(kBlockBytes);
  std::vector<HeldWord> words;
  const WordScan scan(range_of(engine));
  // Blocks overlap, so that nothing that spans two of them is missed.
  for (Bytes done = 0; done < bytes; done += block.size() - TensorMaps::kBytes) {
    const Bytes part = std::min<Bytes>(block.size(), bytes - done);
    const Reading reading = read_as_it_is(from + done, slow, block.data(), part);
    if (reading == Reading::kRefused) {
      count(Counter::kUntrackedUploads);
      engine.hold_unknown({DeviceAddress{to + done}, bytes - done});
    }
    if (reading != Reading::kRead) return;
    scan(block.data(), part, to + done, [&](Bytes offset, std::uint64_t word) {
      words.push_back({DeviceAddress{to + done + offset}, word});
    });
    search_for_tensor_maps(block.data(), part, to + done, [&](DeviceAddress at, DeviceAddress tensor) {
      words.push_back({at, tensor.value});
    });
    if (!words.empty()) engine.hold(words);
    words.clear();
    if (part < block.size()) return;
  }
}

}  // namespace

EngineBits changing_references(const EngineSet& engines, EngineBits bits, const AccessList& accesses) {
  if (!accesses.moves().empty()) return bits;
  EngineBits changing = 0;
  engines.for_each(bits, [&](const ActiveEngine& active) {
    if (active.engine->has_references()) changing |= engines.bit_of(&active);
  });
  if (changing == 0) return 0;
  const std::span<const MemoryAccess> all = accesses.all();
  const bool writes =
      std::any_of(all.begin(), all.end(), [](const MemoryAccess& access) { return access.access == Access::kWrite; });
  return writes ? changing : 0;
}

Changes::Changes(const ActiveEngine& active, const AccessList& accesses)
    : engine_(*active.engine), accesses_(accesses) {
  for (const Move& move : accesses.moves()) {
    const SourcedMove known{move, source_of(move)};
    if (known.source == Source::kPinned) search(move);
    moves_.push_back(known);
  }
}

// Copies to the host do not matter, and neither do sources about which nothing is known.
Changes::Source Changes::source_of(const Move& move) const {
  const bool has_references = engine_.has_references();
  if (engine_.owns(DeviceAddress{move.from})) {
    return has_references && kind_of(move.to).device ? Source::kDevice : Source::kNothing;
  }
  if (!kind_of(move.to).device) return Source::kNothing;
  const MemoryKind kind = kind_of(move.from);
  if (kind.device) return has_references ? Source::kDevice : Source::kNothing;
  // If only the beginning is pinned, the driver decides what happens to the copy before anything is read.
  const AddressRange all = span_of(move.from, move, move.from_layer, move.from_pitch);
  return kind.known && kind_of((all.end() - 1).value).known ? Source::kPinned : Source::kPageable;
}

void Changes::found(DeviceAddress at, std::uint64_t word) {
  if (words_.size() == kMostWords) {
    give_in();
    has_given_in_ = true;
  }
  words_.push_back({at, word});
}

void Changes::give_in() {
  if (!words_.empty()) engine_.hold(words_);
  words_.clear();
}

// Blocks overlap, so that nothing that spans two of them is missed. `found` may be called twice for one word.
void Changes::search_write_combined(const WordScan& scan, CUdeviceptr to, CUdeviceptr from, Bytes bytes,
                                    std::vector<unsigned char>& block) {
  for (Bytes done = 0; done < bytes; done += block.size() - TensorMaps::kBytes) {
    const Bytes part = std::min<Bytes>(block.size(), bytes - done);
    read_write_combined(block.data(), reinterpret_cast<const void*>(from + done), part);
    scan(block.data(), part, to + done,
         [&](Bytes offset, std::uint64_t word) { found(DeviceAddress{to + done + offset}, word); });
    search_for_tensor_maps(block.data(), part, to + done,
                           [&](DeviceAddress at, DeviceAddress tensor) { found(at, tensor.value); });
    if (part < block.size()) return;
  }
}

void Changes::search(const Move& move) {
  const WordScan scan(range_of(engine_));
  const bool is_slow = is_slow_to_read(move);
  std::vector<unsigned char> block(is_slow ? kBlockBytes : 0);
  for_each_row(move, [&](CUdeviceptr to, CUdeviceptr from) {
    if (is_slow) return search_write_combined(scan, to, from, move.bytes, block);
    const Upload upload{.from = reinterpret_cast<const unsigned char*>(from), .bytes = move.bytes, .to = to};
    search_upload(scan, upload, search_threads(move.bytes),
                  [this](DeviceAddress at, std::uint64_t word) { found(at, word); });
  });
}

void Changes::happened(bool may_be_late) {
  const bool replaces = engine_.has_references(), with_pinned = !has_given_in_;
  if (replaces) {
    for_each_replaced(with_pinned, [&](AddressRange range) {
      may_be_late ? engine_.will_be_overwritten(range) : engine_.overwritten(range);
    });
  }
  for (const SourcedMove& known : moves_) {
    const Move& move = known.move;
    if (known.source == Source::kPageable) search(move);
    if (known.source == Source::kDevice) take_along(engine_, move, !may_be_late);
  }
  give_in();
  if (replaces && may_be_late) {
    for_each_replaced(with_pinned, [&](AddressRange range) { engine_.told_what_overwrites(range); });
  }
}

template <class Visit>
void Changes::for_each_replaced(bool with_pinned, Visit visit) const {
  for (const MemoryAccess& access : accesses_.all()) {
    if (access.access == Access::kWrite && moves_.empty()) visit(AddressRange{access.address, access.bytes});
  }
  for (const SourcedMove& known : moves_) {
    // Words that a copy on the device replaces are removed when its own words are added (Engine::copied).
    if (known.source == Source::kDevice || has_many_rows(known.move)) continue;
    if (known.source == Source::kPinned && !with_pinned) continue;
    for_each_row(known.move, [&](CUdeviceptr to, CUdeviceptr) {
      visit(AddressRange{DeviceAddress{to}, known.move.bytes});
    });
  }
}

AddressRange span_of_source(const Move& move) { return span_of(move.from, move, move.from_layer, move.from_pitch); }

namespace {

template <class Visit>
void for_each_engine_of(const EngineSet& engines, Visit visit) {
  for (const ActiveEngine* active : engines) visit(*active->engine);
}

void search_from_host(const EngineSet& engines, const Move& move) {
  const bool is_slow = is_slow_to_read(move);
  for_each_engine_of(engines, [&](Engine& engine) {
    for_each_row(move,
                 [&](CUdeviceptr to, CUdeviceptr from) { search_as_it_is(engine, to, from, move.bytes, is_slow); });
  });
}

AddressRange destination_of(const Move& move) { return span_of(move.to, move, move.to_layer, move.to_pitch); }

// The destinations of some of these copies, to test whether a range overlaps them.
class Destinations {
 public:
  explicit Destinations(std::span<const Move> moves) {
    for (const Move& move : moves) ranges_.push_back(destination_of(move));
    std::ranges::sort(ranges_, {}, [](const AddressRange& range) { return range.at.value; });
    DeviceAddress end{0};
    for (const AddressRange& range : ranges_) ends_.push_back(end = std::max(end, range.end()));
  }
  bool overlap(AddressRange range) const {
    const auto behind =
        std::ranges::lower_bound(ranges_, range.end().value, {}, [](const AddressRange& one) { return one.at.value; });
    return behind != ranges_.begin() && ends_[static_cast<std::size_t>(behind - ranges_.begin()) - 1] > range.at;
  }

 private:
  std::vector<AddressRange> ranges_;
  std::vector<DeviceAddress> ends_;  // the highest end of all ranges up to each
};

// The order of the copies is not known, and a copy may read what another one has written. Such copies are repeated, as
// often as the longest chain could need it. Another node of the graph may have written a source on the device.
void take_all_along(const EngineSet& engines, std::span<const Move> moves) {
  std::vector<Move> next(moves.begin(), moves.end());
  for (std::size_t pass = 0; pass < moves.size() && !next.empty(); ++pass) {
    for (const Move& move : next) {
      for_each_engine_of(engines, [&](Engine& engine) {
        if (engine.has_references()) take_along(engine, move, false);
      });
    }
    const Destinations changed(next);
    next.clear();
    std::ranges::copy_if(moves, std::back_inserter(next),
                         [&](const Move& move) { return changed.overlap(span_of_source(move)); });
  }
}

// Visits rows whose contents before and after the launch are uncertain. Rows that adjoin are one range: many small
// copies often fill one table.
template <class Tell>
void for_each_overwritten(const EngineSet& engines, std::span<const Move> moves, Tell tell) {
  for_each_engine_of(engines, [&](Engine& engine) {
    if (!engine.has_references()) return;
    std::vector<AddressRange> rows;
    for (const Move& move : moves) {
      if (has_many_rows(move) || !engine.owns(DeviceAddress{move.to})) continue;
      for_each_row(move, [&](CUdeviceptr to, CUdeviceptr) { rows.push_back({DeviceAddress{to}, move.bytes}); });
    }
    std::ranges::sort(rows, {}, [](const AddressRange& row) { return row.at.value; });
    for (std::size_t i = 0; i < rows.size();) {
      const DeviceAddress begin = rows[i].at;
      DeviceAddress end = rows[i].end();
      for (++i; i < rows.size() && rows[i].at <= end; ++i) end = std::max(end, rows[i].end());
      tell(engine, AddressRange{begin, end - begin});
    }
  });
}

}  // namespace

bool write_their_sources(const EngineSet& engines, std::span<const Move> moves) {
  const Destinations written(moves);
  return std::ranges::any_of(moves, [&](const Move& move) {
    const bool is_upload = kind_of(move.to).device && engines.owner(DeviceAddress{move.from}) == nullptr;
    return is_upload && written.overlap(span_of_source(move));
  });
}

void carry_along(const EngineSet& engines, std::span<const Move> moves) {
  std::vector<Move> on_device;
  std::ranges::copy_if(moves, std::back_inserter(on_device),
                       [](const Move& move) { return kind_of(move.to).device && kind_of(move.from).device; });
  take_all_along(engines, on_device);
}

void search_moves(const EngineSet& engines, std::span<const Move> moves, std::span<const Move> beyond,
                  bool sources_may_change) {
  std::vector<Move> uploads, on_device, all;
  for (const Move& move : moves) {
    // Words that a copy brings to the host do not matter.
    if (!kind_of(move.to).device) continue;
    const bool is_ours = engines.owner(DeviceAddress{move.from}) != nullptr;
    // Managed memory is both.
    if (kind_of(move.from).device) on_device.push_back(move);
    if (!is_ours) uploads.push_back(move);
    all.push_back(move);
  }
  sources_may_change = sources_may_change || write_their_sources(engines, moves);
  const auto before = [](Engine& engine, AddressRange range) { engine.will_be_overwritten(range); };
  const auto after = [](Engine& engine, AddressRange range) { engine.told_what_overwrites(range); };
  if (!sources_may_change) for_each_overwritten(engines, all, before);
  for (const Move& move : uploads) search_from_host(engines, move);
  take_all_along(engines, on_device);
  if (!sources_may_change) for_each_overwritten(engines, all, after);
  for (const Move& move : beyond) {
    if (!kind_of(move.to).device) continue;
    for_each_engine_of(engines, [&](Engine& engine) { engine.hold_unknown(destination_of(move)); });
  }
}

namespace {

template <class Tell>
void for_each_outside(const EngineSet& engines, std::span<const Move> moves, Tell tell) {
  for (const Move& move : moves) {
    if (has_many_rows(move) || engines.owner(DeviceAddress{move.to}) != nullptr) continue;
    if (kind_of(move.from).device) continue;
    for_each_engine_of(engines, [&](Engine& engine) {
      if (!engine.has_global_references()) return;
      for_each_row(move, [&](CUdeviceptr to, CUdeviceptr) {
        tell(engine, AddressRange{DeviceAddress{to}, move.bytes});
      });
    });
  }
}

}  // namespace

void expect_moves_outside(const EngineSet& engines, std::span<const Move> moves) {
  for_each_outside(engines, moves, [](Engine& engine, AddressRange range) { engine.will_be_overwritten(range); });
}

void moved_outside(const EngineSet& engines, std::span<const Move> moves) {
  for_each_outside(engines, moves, [](Engine& engine, AddressRange range) { engine.forget_former(range); });
}

}  // namespace thermocline
