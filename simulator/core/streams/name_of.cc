// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/name_of.h"

namespace simulator {
namespace {

struct Namer {
  std::string_view operator()(const Marker&) const { return "marker"; }
  std::string_view operator()(const Record&) const { return "event record"; }
  std::string_view operator()(const Kernel& kernel) const { return kernel.name; }
  std::string_view operator()(const Operator& op) const { return op.name; }
  std::string_view operator()(const Set&) const { return "set"; }
  std::string_view operator()(const HostFunction&) const { return "host function"; }
  std::string_view operator()(const Internal&) const { return "driver"; }
  std::string_view operator()(const WriteValue&) const { return "write of a value"; }
  std::string_view operator()(const WaitValue&) const { return "wait for a value"; }
  std::string_view operator()(const Conditional&) const { return "conditional node"; }
  std::string_view operator()(const Lifetime& lifetime) const {
    return lifetime.begins ? "stream-ordered allocation" : "stream-ordered free";
  }
  std::string_view operator()(const Copy& copy) const {
    switch (copy.direction) {
      case Direction::kToDevice:
        return "copy to device";
      case Direction::kToHost:
        return "copy to host";
      case Direction::kOnDevice:
        return "copy on device";
      case Direction::kOnHost:
        break;
    }
    return "copy on host";
  }
};

}  // namespace

std::string_view name_of(const Work& work) { return std::visit(Namer{}, work); }

}  // namespace simulator
