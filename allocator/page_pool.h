// SPDX-License-Identifier: Apache-2.0
// Physical pages: driver handles of one size, created up to a limit and kept for reuse, because creating one is the
// dearest call of all (193 us for 2 MiB on an A100, against 1.5 us to map it; kvcached,
// benchmarks/bench_vmm/README.md).
//
// Not thread-safe: the owner locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

// Invariant: free + taken == created pages, and created_bytes <= limit; no more pages are created than device_pages_.
class PagePool {
 public:
  PagePool(const Driver& driver, int device, Bytes page_bytes, Bytes limit);
  // Destroys the pages that lie in the pool; all must have been given back.
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Appends `count` pages to `out`: from the pool, then new ones under the limit. All or none; out_of_memory when the
  // limit or the driver says so (what the driver did create stays in the pool).
  Status take(std::uint64_t count, std::vector<PageHandle>* out);
  void give(PageHandle page) { free_.push_back(page); }
  bool holds(PageHandle page) const { return std::find(free_.begin(), free_.end(), page) != free_.end(); }
  // This very page, which lies in the pool.
  void take(PageHandle page) { std::erase(free_, page); }

  // Creates up to `count` pages under the limit, into the pool; how many lie there afterwards may be less. The device
  // may hold less than the limit, because others use it, too: how many pages there were when it had no more is
  // remembered, and the driver is asked for another only now and then, or where the caller insists.
  enum class Ask { kUnlessKnown, kInsist };
  Status create(std::uint64_t count, Ask ask = Ask::kUnlessKnown);
  // Destroys pages of the pool until no more than `keep` bytes are created, or none is left in it.
  Status trim(Bytes keep);

  // False, and nothing changes, when more is created already. With a higher one the driver is asked again.
  bool set_limit(Bytes limit);

  Bytes page_bytes() const { return page_bytes_; }
  Bytes limit() const { return limit_; }
  std::uint64_t free_pages() const { return free_.size(); }
  std::uint64_t created_pages() const { return created_; }
  Bytes created_bytes() const { return created_ * page_bytes_; }
  Bytes peak_created_bytes() const { return peak_created_ * page_bytes_; }
  void reset_peak() { peak_created_ = created_; }
  // How many pages more the limit allows. The device may have less: what is known of that spares it questions, and
  // refuses nobody anything.
  std::uint64_t creatable_pages() const { return limit_ / page_bytes_ - created_; }
  std::uint64_t creates() const { return creates_; }
  std::uint64_t destroys() const { return destroys_; }
  const std::vector<PageHandle>& free_list() const { return free_; }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  // Requests that the device could not serve, as far as is known, before it is asked again; twice as many each time.
  static constexpr std::uint64_t kFirstPause = 64, kLongestPause = 4096;

  bool may_ask(Ask ask);
  std::uint64_t known_pages() const { return std::min(limit_ / page_bytes_, device_pages_) - created_; }

  const Driver* driver_;
  int device_;
  Bytes page_bytes_;
  Bytes limit_;
  std::vector<PageHandle> free_;
  std::uint64_t created_ = 0;
  std::uint64_t peak_created_ = 0;
  std::uint64_t creates_ = 0;
  std::uint64_t destroys_ = 0;
  std::uint64_t device_pages_ = kUnknown;  // that the device has for us; at least those that are created
  std::uint64_t turned_down_ = 0, pause_ = kFirstPause;
};

}  // namespace thermocline
