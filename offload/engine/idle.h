// SPDX-License-Identifier: Apache-2.0
// Decides when an idle program gives unused memory back. It has to be created again when it is wanted (a page costs 193
// us, 100 MB of pinned memory 30 ms). So if the program continues soon after, the required idle time doubles: the cost
// of creating memory again stays small compared with the idle time before it.
//
// Reads no clock: the caller passes the time.
#pragma once

#include <cstdint>
#include <optional>

namespace thermocline {

class IdleWatch {
 public:
  // after_ns 0: is_due() is never true.
  explicit IdleWatch(std::uint64_t after_ns) : after_ns_(after_ns), required_idle_ns_(after_ns) {}

  // `activity`: a number that changes with each allocation, free and move. True when it has been constant for the
  // required time, until given_back() is called.
  bool is_due(std::uint64_t now_ns, std::uint64_t activity);
  // Everything has been given back: is_due() is false until the program continues.
  void given_back(std::uint64_t now_ns) { given_back_ns_ = now_ns; }

  // How long the program has to be idle the next time.
  std::uint64_t required_idle_ns() const { return required_idle_ns_; }

 private:
  void goes_on(std::uint64_t now_ns);

  const std::uint64_t after_ns_;
  std::uint64_t required_idle_ns_;
  std::uint64_t activity_ = 0;
  std::optional<std::uint64_t> since_ns_;       // since when the activity has been constant
  std::optional<std::uint64_t> given_back_ns_;  // none: not since the program went on
};

}  // namespace thermocline
