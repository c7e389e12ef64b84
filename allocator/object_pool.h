// SPDX-License-Identifier: Apache-2.0
// Objects of one type, taken and given back without malloc once there are enough. Objects stay constructed while they
// wait, so an object that comes back keeps what memory it holds (a set's spare capacity); whoever takes one sets its
// fields.
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
  std::deque<T> objects_;  // addresses stay
  std::vector<T*> spare_;
};

}  // namespace thermocline
