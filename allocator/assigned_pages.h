// SPDX-License-Identifier: Apache-2.0
// Static page assignment for an iteration that repeats: which physical page each page of addresses should get, and when
// it needs it. The assignment is advice: an address gets its assigned page if that page is free, and if the driver
// still maps the address to that page from before, no driver call is needed. So addresses that are never in use at the
// same time can share a page permanently. An address whose assigned page is not free takes the free page that will be
// needed last, because the address that this page is assigned to would otherwise have to take another one's page in
// turn.
//
// Times are nanoseconds from the beginning of the iteration, and wrap around at `period`. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "driver/driver.h"

namespace thermocline {

class AssignedPages {
 public:
  // Also true while the iteration is interrupted.
  bool empty() const { return rests_ || assigned_.empty(); }
  void clear();
  void set_period(std::uint64_t period) { period_ = period; }
  void now(std::uint64_t time) { now_ = time; }
  // The program is doing something else: until resume() no page of addresses has an assigned page.
  void rest() { rests_ = true; }
  bool rests() const { return rests_; }
  void resume() { rests_ = false; }

  // Between `from` and `to`, this page of addresses is assigned the page `physical`.
  void add(std::uint64_t page, std::uint64_t from, std::uint64_t to, PageHandle physical);
  // Called at the beginning of an iteration. `held`: the physical pages that are mapped at pages of addresses now.
  // `loose`: the free ones. An address that has a page now is assigned that page from now on, and all other addresses
  // that shared its former assigned page are moved to another free page together; if there is none, they lose their
  // assignment.
  struct Held {
    std::uint64_t page;
    PageHandle physical;
  };
  void rebind(std::span<const Held> held, std::span<const PageHandle> loose);
  // Removes the assignment of a page of addresses that is used for something else now.
  void forget(std::uint64_t page) { assigned_.erase(page); }
  bool has_any() const { return !assigned_.empty(); }
  bool is_assigned(std::uint64_t page) const { return assigned_.contains(page); }
  // The physical page assigned to this page of addresses if it is mapped now; none if it has no assignment.
  PageHandle physical_of(std::uint64_t page) const;
  // True if the address has its assigned page by now, or will need it before any other address does; also if it has no
  // assignment.
  bool is_next(std::uint64_t page) const;
  // Nanoseconds until any address needs this physical page; a whole period if none ever does.
  std::uint64_t idle_for(PageHandle physical) const;

 private:
  struct Visit {
    std::uint64_t from, to;
    PageHandle physical;
  };
  // Nanoseconds from `earlier` to `later`, with wrap-around.
  std::uint64_t between(std::uint64_t earlier, std::uint64_t later) const {
    return later >= earlier ? later - earlier : later + period_ - earlier;
  }

  bool is_assigned_to(std::uint64_t page, PageHandle physical) const;
  // The physical page assigned to the address at the current time; none if it should have none now.
  PageHandle assigned_now(std::uint64_t page) const;
  void rename(const std::unordered_map<PageHandle, PageHandle>& moved);

  std::unordered_map<std::uint64_t, std::vector<Visit>> assigned_;     // by page of addresses
  std::unordered_map<PageHandle, std::vector<std::uint64_t>> wanted_;  // times, ascending
  std::uint64_t period_ = 0, now_ = 0;
  bool rests_ = false;
};

}  // namespace thermocline
