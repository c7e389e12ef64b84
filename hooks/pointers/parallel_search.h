// SPDX-License-Identifier: Apache-2.0
// Searches large uploads for addresses on several threads. On the H200 machine, one core reads memory that a copy has
// just written at 5 GB/s, and the link carries 55 GB/s (docs/gpu.md): one core would take ten times as long as the
// copy. The threads exist only during the search. So a fork finds none, and a program without large uploads has none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hooks/operands/tensor_maps.h"
#include "hooks/pointers/word_scan.h"
#include "offload/access.h"

namespace thermocline {

// A thread searches at least this much: that takes 800 us at 5 GB/s; creating the thread takes less than 100 us.
inline constexpr Bytes kLeastBytesOfSearchThread = 4 * kMiB;
inline constexpr Bytes kMostSearchThreads = 8;

// At most half of the CPUs that this process may use, or two, so that its other threads can continue. At least 1.
Bytes search_threads(Bytes bytes);

// An upload as seen by the search: `bytes` at `from` are copied to `to`.
struct Upload {
  const unsigned char* from = nullptr;
  Bytes bytes = 0;
  std::uint64_t to = 0;
};

// Calls found(address, word) for words and tensor maps that begin in [begin, end) of the upload. A tensor map that is
// copied to memory counts as a word with the address of its tensor.
template <class Found>
void search_part(const WordScan& scan, const Upload& upload, Bytes begin, Bytes end, Found found) {
  const std::uint64_t to = upload.to + begin;
  const auto up_to = [&](Bytes beyond) { return std::min(end + beyond, upload.bytes) - begin; };
  scan(upload.from + begin, up_to(sizeof(std::uint64_t) - 1), to,
       [&](Bytes offset, std::uint64_t word) { found(DeviceAddress{to + offset}, word); });
  search_for_tensor_maps(upload.from + begin, up_to(TensorMaps::kBytes - 1), to,
                         [&](DeviceAddress at, DeviceAddress tensor) { found(at, tensor.value); });
}

// The findings of one thread in its part of an upload, in the order of addresses. A thread may stop early, at
// `searched` (too many words, or no memory for them): the caller has to search [searched, end).
struct SearchedPart {
  static constexpr std::size_t kMostWords = 65536;

  Bytes begin = 0;
  Bytes end = 0;
  Bytes searched = 0;
  std::vector<HeldWord> words;
};

// The parts follow each other and cover the whole upload. If a thread cannot be created, the caller does its work.
std::vector<SearchedPart> search_on_threads(const WordScan& scan, const Upload& upload, Bytes threads);

// Searches all of the upload on `threads` threads, in the order of addresses. Calls `found` on the calling thread.
template <class Found>
void search_upload(const WordScan& scan, const Upload& upload, Bytes threads, Found found) {
  if (threads < 2) return search_part(scan, upload, 0, upload.bytes, found);
  for (const SearchedPart& part : search_on_threads(scan, upload, threads)) {
    for (const HeldWord& word : part.words) found(word.at, word.value);
    search_part(scan, upload, part.searched, part.end, found);
  }
}

}  // namespace thermocline
