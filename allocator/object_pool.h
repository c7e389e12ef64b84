// SPDX-License-Identifier: Apache-2.0
// A pool of objects of one type. Once there are enough, taking and returning one does not call malloc. Objects stay
// constructed while they are in the pool, so an object keeps the memory it holds (the spare capacity of a set). The
// caller that takes an object sets its fields.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace thermocline {

template <class T>
class ObjectPool {
 public:
  T* take() {
    if (spares_ == 0) [[unlikely]]
      return make();
    return spare_.data()[--spares_];
  }
  void give(T* object) { spare_.data()[spares_++] = object; }
  std::size_t taken() const { return objects_.size() - spares_; }

 private:
  [[gnu::noinline]] T* make() {
    // Room for all objects, so that returning one cannot fail.
    if (spare_.size() == objects_.size()) spare_.resize(2 * objects_.size() + 16);
    return &objects_.emplace_back();
  }

  std::deque<T> objects_;  // addresses are stable
  std::vector<T*> spare_;  // the first of these are spare
  std::size_t spares_ = 0;
};

}  // namespace thermocline
