// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of one kind. A handle is its object's address, and is looked up before it is followed:
// whatever a program passes is harmless.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>

namespace simulator::cuda {

template <typename T>
class Registry {
 public:
  T* add(T object) {
    auto owned = std::make_unique<T>(std::move(object));
    const T* const handle = owned.get();
    return objects_.emplace(handle, std::move(owned)).first->second.get();
  }

  bool has(const T* handle) const { return objects_.count(handle) != 0; }
  void remove(const T* handle) { objects_.erase(handle); }
  void clear() { objects_.clear(); }
  std::size_t size() const { return objects_.size(); }

  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& [handle, object] : objects_) visit(*object);
  }

 private:
  std::unordered_map<const T*, std::unique_ptr<T>> objects_;
};

}  // namespace simulator::cuda
