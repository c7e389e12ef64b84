// SPDX-License-Identifier: Apache-2.0
// When a program that does nothing gives back what it does not use. What is given back has to be made again when it is
// wanted (a page costs 193 us, 100 MB of pinned memory 30 ms), so if the program goes on soon after, the time without
// work that is required doubles: what is made again costs little against the rest that came before it.
//
// Reads no clock: the time is its caller's.
#pragma once

#include <cstdint>
#include <optional>

namespace thermocline {

class IdleWatch {
 public:
  // after_ns 0: it is never due.
  explicit IdleWatch(std::uint64_t after_ns) : after_ns_(after_ns), required_idle_ns_(after_ns) {}

  // `activity`: a number that changes with each allocation, free and move. True when it has been the same for
  // long enough, until given_back() is called.
  bool is_due(std::uint64_t now_ns, std::uint64_t activity);
  // Nothing is left to be given back before the program goes on.
  void given_back(std::uint64_t now_ns) { given_back_ns_ = now_ns; }

  // How long the program has to be idle the next time.
  std::uint64_t required_idle_ns() const { return required_idle_ns_; }

 private:
  void goes_on(std::uint64_t now_ns);

  const std::uint64_t after_ns_;
  std::uint64_t required_idle_ns_;
  std::uint64_t activity_ = 0;
  std::optional<std::uint64_t> since_ns_;       // the activity has been seen as it is since then
  std::optional<std::uint64_t> given_back_ns_;  // none: not since the program went on
};

}  // namespace thermocline
