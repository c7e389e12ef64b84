// SPDX-License-Identifier: Apache-2.0
// Searches large uploads for addresses on several threads. One core reads 5 GB/s of memory that a copy has just written, on the
// machine of an H200 whose link carries 55 (docs/gpu.md): alone it would take ten times as long as the copy. The threads exist
// during the search alone, so that a fork finds none and a program without large uploads has none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hooks/operands/tensor_maps.h"
#include "hooks/pointers/word_scan.h"
#include "offload/access.h"

namespace thermocline {

// A thread reads at least this much: 800 us at 5 GB/s, where its creation takes less than 100.
inline constexpr Bytes kLeastBytesOfSearchThread = 4 * kMiB;
inline constexpr Bytes kMostSearchThreads = 8;

// At most half of the CPUs that this process may use, or two: its other threads go on. At least 1.
Bytes search_threads(Bytes bytes);

// An upload, as it is read: `bytes` at `from`, copied to `to`.
struct Upload {
  const unsigned char* from = nullptr;
  Bytes bytes = 0;
  std::uint64_t to = 0;
};

// Calls found(place, address) for words and tensor maps that begin in [begin, end) of the upload. A tensor map that is copied to
// memory counts as a word with the address of its tensor.
template <class Found>
void search_part(const WordScan& scan, const Upload& upload, Bytes begin, Bytes end, Found found) {
  const std::uint64_t to = upload.to + begin;
  const auto up_to = [&](Bytes beyond) { return std::min(end + beyond, upload.bytes) - begin; };
  scan(upload.from + begin, up_to(sizeof(std::uint64_t) - 1), to,
       [&](Bytes offset, std::uint64_t word) { found(DeviceAddress{to + offset}, word); });
  search_for_tensor_maps(upload.from + begin, up_to(TensorMaps::kBytes - 1), to,
                         [&](DeviceAddress at, DeviceAddress tensor) { found(at, tensor.value); });
}

// What a thread found in its part of an upload, in the order of places. It stops at `searched` if it has found so much that
// somebody has to take it first; [searched, end) is for the caller to search.
struct SearchedPart {
  static constexpr std::size_t kMostWords = 65536;

  Bytes begin = 0;
  Bytes end = 0;
  Bytes searched = 0;
  std::vector<HeldWord> words;
};

// The parts follow each other and are the whole upload. Where no thread can be created, the calling one does its work.
std::vector<SearchedPart> search_on_threads(const WordScan& scan, const Upload& upload, Bytes threads);

// All of the upload, on as many threads as are of use, in the order of places. `found` is called on the calling thread.
template <class Found>
void search_upload(const WordScan& scan, const Upload& upload, Bytes threads, Found found) {
  if (threads < 2) return search_part(scan, upload, 0, upload.bytes, found);
  for (const SearchedPart& part : search_on_threads(scan, upload, threads)) {
    for (const HeldWord& word : part.words) found(word.at, word.value);
    search_part(scan, upload, part.searched, part.end, found);
  }
}

}  // namespace thermocline
