// SPDX-License-Identifier: Apache-2.0
// One operation's access to a range, as stored in the shadow.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simulator/check/clock.h"

namespace simulator {

using Label = std::uint32_t;

// kAtomic: a kernel updates it with atomic operations, which may come between those of other kernels.
// kName: a parameter names the buffer, but it is unknown what the kernel does with it, and where.
enum class Accessed : std::uint8_t { kRead, kWrite, kAtomic, kName };

struct Mark {
  OperationId operation = 0;  // 0: none
  Chain chain = 0;
  StreamId stream = 0;
  Label label = 0;
  Accessed accessed = Accessed::kRead;
  bool certain = true;  // with kName: the kernel certainly uses the buffer in some way
  bool begins = false;  // the driver hands out the range here
  bool ends = false;    // the range is freed here: later accesses are to memory that nobody owns
  Address address = 0;  // beginning of the whole range, as the operation named it
  Bytes bytes = 0;

  bool known_to(const Clock& clock) const { return operation == 0 || clock.covers(chain, operation); }
  bool same_range(const Mark& other) const {
    return operation == other.operation && address == other.address && accessed == other.accessed;
  }
};

// Names of kernels and calls, each stored once.
class Labels {
 public:
  Label label(std::string_view name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    names_.push_back(std::make_unique<std::string>(name));
    return numbers_.emplace(*names_.back(), static_cast<Label>(names_.size() - 1)).first->second;
  }
  const std::string& name(Label label) const { return *names_[label]; }

 private:
  std::vector<std::unique_ptr<std::string>> names_;
  std::unordered_map<std::string_view, Label> numbers_;
};

}  // namespace simulator
