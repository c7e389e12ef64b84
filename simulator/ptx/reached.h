// SPDX-License-Identifier: Apache-2.0
// Records what a kernel accesses: pages of the device or, if its launch is traced, every byte. Generated code reads a
// table of rights that is empty when the kernel starts. So the first access to each page calls this class, and later
// ones cost nothing. For a trace the table stays empty, and every access calls this class. Several threads may run the
// kernel, unless it is traced.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "simulator/ptx/interface.h"
#include "simulator/ptx/trace.h"

namespace simulator::ptx {

class Reached {
 public:
  explicit Reached(const Launch& launch);
  ~Reached();  // the table is empty again
  Reached(const Reached&) = delete;
  Reached& operator=(const Reached&) = delete;

  const std::uint32_t* table() const { return table_; }
  // `kind`: as for BlockRun::access. False, and nothing has changed: the device's own table does not allow the access.
  bool add(std::uint64_t address, std::uint64_t bytes, std::uint32_t kind);
  // Notes an access to memory that is not in the table: host memory, surfaces.
  void trace(std::uint64_t address, std::uint64_t bytes, std::uint32_t kind);
  void add_texture(const Texture& texture);
  // Writes the pages to the outcome, and the trace to the launch's `traced`.
  void report(Outcome* out) const;

 private:
  void add_page(std::uint64_t page, std::uint32_t right);
  // The page is in pages_ with this right; false where that is not known at once.
  bool is_recent(std::uint64_t page, std::uint32_t right) const;

  const Launch& launch_;
  std::uint32_t* const table_;
  // For a traced launch, which runs on one thread: a cache of entries of pages_ (page number plus one) that were read,
  // and of those that were written, each indexed by its lowest bits.
  static constexpr std::size_t kRecent = 64;
  std::uint64_t recent_[2][kRecent] = {};
  std::mutex lock_;                                          // of the following
  std::set<std::pair<std::uint64_t, std::uint32_t>> pages_;  // and the right that was used
  Trace trace_;
};

}  // namespace simulator::ptx
