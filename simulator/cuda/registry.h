// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of one kind. A handle is its object's address, and is looked up before it is
// dereferenced: so any value that a program passes is harmless. The handle that was removed last is reused first: real
// drivers reuse handles too, and this reveals programs that use one after its object was destroyed.
#pragma once

#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace simulator::cuda {

template <typename T>
class Registry {
 public:
  T* add(T object) {
    Storage storage(spare_.empty() ? ::operator new(sizeof(T)) : spare_.back().release());
    if (!spare_.empty()) spare_.pop_back();
    std::unique_ptr<T> owned(std::construct_at(static_cast<T*>(storage.get()), std::move(object)));
    static_cast<void>(storage.release());
    const T* const handle = owned.get();
    return objects_.emplace(handle, std::move(owned)).first->second.get();
  }

  bool has(const T* handle) const { return objects_.count(handle) != 0; }
  void remove(const T* handle) {
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return;
    T* const object = found->second.release();
    objects_.erase(found);
    std::destroy_at(object);
    spare_.emplace_back(object);
  }
  void clear() { objects_.clear(); }
  std::size_t size() const { return objects_.size(); }

  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& [handle, object] : objects_) visit(*object);
  }

 private:
  struct Release {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  using Storage = std::unique_ptr<void, Release>;

  std::vector<Storage> spare_;  // of removed objects, the newest last
  std::unordered_map<const T*, std::unique_ptr<T>> objects_;
};

}  // namespace simulator::cuda
