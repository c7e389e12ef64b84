// SPDX-License-Identifier: Apache-2.0
// Plans one iteration on a thread of its own, so that the thread that launches goes on meanwhile.
//
// The plan depends on the arguments of start() alone, and the caller decides where in the stream of operations it takes
// it: so decisions do not depend on how fast this thread was. Guarded by the engine's lock.
#pragma once

#include <thread>

#include "offload/planner.h"

namespace thermocline {

class Planning {
 public:
  Planning() = default;
  // Waits for a plan that nobody took.
  ~Planning();
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  // What was begun before is given up, once it has ended. `profile` must stay unchanged until take() or the next
  // start(). Where no thread can be had, plans on this one.
  void start(const Profile& profile, Bytes limit, Link link);
  bool begun() const { return begun_; }
  // Waits for the plan that was begun.
  Plan take();

 private:
  void wait();

  std::thread thread_;
  Plan plan_;
  bool begun_ = false;
};

}  // namespace thermocline
