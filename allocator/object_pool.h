// SPDX-License-Identifier: Apache-2.0
// Pools of objects of one type. Once there are enough, taking and returning one does not call malloc. Objects stay
// constructed while they are in the pool, so an object keeps the memory it holds (the spare capacity of a set). The
// caller that takes an object sets its fields.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
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

// A pool of many small objects: beside them it takes next to nothing, because the spare ones are linked through their
// member kNext.
template <class T, T* T::*kNext>
class LinkedPool {
 public:
  T* take() {
    if (spare_ == nullptr) [[unlikely]]
      make();
    return take_next();
  }
  // The object that take() will return; null: it will make one.
  T* next() const { return spare_; }
  // There must be one.
  T* take_next() {
    T* const object = spare_;
    spare_ = object->*kNext;
    return object;
  }
  void give(T* object) {
    object->*kNext = spare_;
    spare_ = object;
  }
  // Linear in the number of spare objects.
  std::size_t taken() const {
    std::size_t taken = runs_.size() * kRun;
    for (const T* object = spare_; object != nullptr; object = object->*kNext) --taken;
    return taken;
  }

 private:
  static constexpr std::size_t kRun = 64;

  [[gnu::noinline]] void make() {
    runs_.push_back(std::make_unique<T[]>(kRun));
    // In order of address.
    for (std::size_t i = kRun; i > 0; --i) give(&runs_.back()[i - 1]);
  }

  std::vector<std::unique_ptr<T[]>> runs_;
  T* spare_ = nullptr;
};

}  // namespace thermocline
