// SPDX-License-Identifier: Apache-2.0
// A pool of objects of one type; once there are enough, taking and returning one does not call malloc. Objects stay
// constructed while they are in the pool, so an object keeps the memory it holds (the spare capacity of a set). Whoever
// takes an object sets its fields.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace thermocline {

template <class T>
class ObjectPool {
 public:
  T* take() {
    if (spare_.empty()) {
      objects_.emplace_back();
      spare_.reserve(objects_.size());
      return &objects_.back();
    }
    T* object = spare_.back();
    spare_.pop_back();
    return object;
  }
  void give(T* object) { spare_.push_back(object); }
  std::size_t taken() const { return objects_.size() - spare_.size(); }

 private:
  std::deque<T> objects_;  // addresses are stable
  std::vector<T*> spare_;
};

}  // namespace thermocline
