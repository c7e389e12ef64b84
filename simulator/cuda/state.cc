// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/state.h"

#include <atomic>

#include "simulator/cuda/graph/graph_memory.h"
#include "simulator/cuda/memory/array.h"

namespace simulator::cuda {

State::State() = default;
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

const std::pair<const Address, Allocation>* State::allocation_at(Address at) const {
  auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return nullptr;
  --next;
  return at - next->first < next->second.bytes ? &*next : nullptr;
}

unsigned long long State::number_of(StreamId stream) {
  const auto [found, is_new] = stream_numbers.try_emplace(stream, next_id);
  if (is_new) ++next_id;
  return found->second;
}

State& state() {
  static State* const instance = new State;  // never destroyed, like the machine
  return *instance;
}

void reset_state() {
  state() = State();
  thread_contexts() = {};
}

ThreadContexts& thread_contexts() {
  static thread_local ThreadContexts contexts = {};
  return contexts;
}

unsigned long long thread_number() {
  static std::atomic<unsigned long long> last = 0;
  static thread_local unsigned long long number = 0;
  if (number == 0) number = ++last;
  return number;
}

}  // namespace simulator::cuda
