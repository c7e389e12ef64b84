// SPDX-License-Identifier: Apache-2.0
// What is known of an iteration that repeats: at which page of memory each page of addresses has its home, and when it
// comes there. Homes are advice: an address gets that page where nobody has it, and where it leads there still, since
// it had it before, no call of the driver is needed. So addresses that are never in use at the same time can share a
// page for good. Who has to take another page than his own takes the one that is missed latest: else its owner takes
// another's in turn.
//
// Times go round: nanoseconds from the beginning of the iteration, up to `period`. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "driver/driver.h"

namespace thermocline {

class Timetable {
 public:
  // True as well while what repeats has been interrupted.
  bool empty() const { return rests_ || homes_.empty(); }
  void clear();
  void set_period(std::uint64_t period) { period_ = period; }
  void now(std::uint64_t time) { now_ = time; }
  // Something else goes on: until resume() nobody has a home.
  void rest() { rests_ = true; }
  bool rests() const { return rests_; }
  void resume() { rests_ = false; }

  // From `from` to `to` this page of addresses has its home there.
  void add(std::uint64_t page, std::uint64_t from, std::uint64_t to, PageHandle home);
  // At the beginning: `held` are the pages of memory that stand behind pages of addresses, `loose` those that are
  // nobody's. Whoever is there is at home from now on, and all others that had their home there move together, to
  // another page that is as good; where there is none they have none.
  struct Held {
    std::uint64_t page;
    PageHandle home;
  };
  void rebind(std::span<const Held> held, std::span<const PageHandle> loose);
  // The page of addresses means something else now.
  void forget(std::uint64_t page) { homes_.erase(page); }
  bool has_homes() const { return !homes_.empty(); }
  bool has_home(std::uint64_t page) const { return homes_.contains(page); }
  // Where it has its home when it comes now; none: it has none.
  PageHandle home_of(std::uint64_t page) const;
  // It is there by now, or will be before anybody else comes to its home. True where it has none.
  bool is_next(std::uint64_t page) const;
  // How long nobody comes for this page of memory; a whole period where nobody ever does.
  std::uint64_t idle_for(PageHandle home) const;

 private:
  struct Visit {
    std::uint64_t from, to;
    PageHandle home;
  };
  // From the earlier to the later, going round.
  std::uint64_t between(std::uint64_t earlier, std::uint64_t later) const {
    return later >= earlier ? later - earlier : later + period_ - earlier;
  }

  bool is_home(std::uint64_t page, PageHandle home) const;
  // Its home, if it is there now.
  PageHandle is_there(std::uint64_t page) const;
  void rename(const std::unordered_map<PageHandle, PageHandle>& moved);

  std::unordered_map<std::uint64_t, std::vector<Visit>> homes_;        // by page of addresses
  std::unordered_map<PageHandle, std::vector<std::uint64_t>> wanted_;  // times, ascending
  std::uint64_t period_ = 0, now_ = 0;
  bool rests_ = false;
};

}  // namespace thermocline
