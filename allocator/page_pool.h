// SPDX-License-Identifier: Apache-2.0
// Physical pages: driver handles of one size, created up to a limit and kept for reuse. Creating a page is the most
// expensive call of all: 193 us for 2 MiB on an A100, against 1.5 us to map it (kvcached,
// benchmarks/bench_vmm/README.md).
//
// Not thread-safe: the owner locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "driver/driver.h"
#include "driver/status.h"
#include "driver/units.h"

namespace thermocline {

// Invariant: free + taken == created pages; created_bytes <= limit; created pages <= device_pages_.
class PagePool {
 public:
  PagePool(const Driver& driver, int device, Bytes page_bytes, Bytes limit);
  // Destroys the pages in the pool; all pages must have been returned.
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Appends `count` pages to `out`: from the pool, then new ones under the limit. All or none; out_of_memory when the
  // limit or the driver refuses (pages that the driver did create stay in the pool).
  Status take(std::uint64_t count, std::vector<PageHandle>* out);
  void give(PageHandle page) {
    free_.push_back(page);
    if (is_indexed_) [[unlikely]]
      add_to_index(page);
  }
  // Whether the page is in the pool. Who never asks pays nothing for the index that answers.
  bool holds(PageHandle page);
  // Takes this page, which must be in the pool.
  void take(PageHandle page);

  // Creates pages until up to `count` are in the pool, within the limit; there may be fewer afterwards. The device may
  // have less memory than the limit, because other processes use it too. When the device is full, the number of pages
  // is remembered; after that the driver is asked for more only now and then, or if the caller insists.
  enum class Ask { kUnlessKnown, kInsist };
  Status create(std::uint64_t count, Ask ask = Ask::kUnlessKnown);
  // Destroys pages of the pool until at most `keep` bytes are created, or the pool is empty.
  Status trim(Bytes keep);

  // False, and nothing changes, when more than that is created already. After an increase the driver is asked again.
  bool set_limit(Bytes limit);

  Bytes page_bytes() const { return page_bytes_; }
  Bytes limit() const { return limit_; }
  std::uint64_t free_pages() const { return free_.size(); }
  std::uint64_t created_pages() const { return created_; }
  Bytes created_bytes() const { return created_ * page_bytes_; }
  Bytes peak_created_bytes() const { return peak_created_ * page_bytes_; }
  void reset_peak() { peak_created_ = created_; }
  // How many more pages the limit allows. The device may have fewer: what is known of that only saves calls, and never
  // refuses a request.
  std::uint64_t creatable_pages() const { return limit_ / page_bytes_ - created_; }
  std::uint64_t creates() const { return creates_; }
  std::uint64_t destroys() const { return destroys_; }
  const std::vector<PageHandle>& free_list() const { return free_; }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  // After the device has refused, this many requests pass before it is asked again; the number doubles each time.
  static constexpr std::uint64_t kFirstPause = 64, kLongestPause = 4096;

  bool may_ask(Ask ask);
  void add_to_index(PageHandle page) noexcept;
  void remove_from_index(std::span<const PageHandle> pages);
  std::uint64_t known_pages() const { return std::min(limit_ / page_bytes_, device_pages_) - created_; }

  const Driver* driver_;
  int device_;
  Bytes page_bytes_;
  Bytes limit_;
  std::vector<PageHandle> free_;
  std::unordered_set<PageHandle> index_;  // of free_, if is_indexed_; else empty
  bool is_indexed_ = false;               // since holds() was called, and there was memory for it
  std::uint64_t created_ = 0;
  std::uint64_t peak_created_ = 0;
  std::uint64_t creates_ = 0;
  std::uint64_t destroys_ = 0;
  std::uint64_t device_pages_ = kUnknown;  // how many the device can provide; at least those created
  std::uint64_t turned_down_ = 0, pause_ = kFirstPause;
};

}  // namespace thermocline
