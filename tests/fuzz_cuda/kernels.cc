// SPDX-License-Identifier: Apache-2.0
// The kernels' bodies on the simulated device.
#include "tests/fuzz_cuda/kernels.h"

#include <dlfcn.h>
#include <vector_types.h>

#include <cstdlib>

#include "simulator/control.h"

namespace {

template <class T>
T parameter(void** args, unsigned i) {
  return *static_cast<T*>(args[i]);
}

std::uint64_t word(const unsigned char* at) {
  std::uint64_t value = 0;
  for (unsigned i = 8; i-- > 0;) value = value << 8 | at[i];
  return value;
}

model::Words words_at(std::uint64_t address, std::uint64_t count) {
  return {reinterpret_cast<std::uint64_t*>(address), count};
}

void combine_by(const std::uint64_t* table, std::uint64_t salt) {
  combine(words_at(table[0], table[1]), words_at(table[2], table[3]), words_at(table[4], table[5]), salt);
}

void combine_described_at(const unsigned char* block) {
  std::uint64_t words[model::kTableWords + 1];
  for (unsigned i = 0; i < model::kTableWords + 1; ++i) words[i] = word(block + std::size_t{i} * 8);
  combine_by(words, words[model::kTableWords]);
}

void set_condition(std::uint64_t handle, std::uint32_t value) {
  static const auto control =
      reinterpret_cast<const SimulatedDeviceControl* (*)()>(dlsym(RTLD_DEFAULT, "simulated_device_control"));
  if (control == nullptr || control()->set_condition(handle, value) == 0) std::abort();
}

}  // namespace

#define KERNEL(name)                                                                                           \
  extern "C" __attribute__((visibility("default"))) void simulated_##name(void** args, dim3 grid, dim3 block); \
  void simulated_##name(void** args, dim3 /*grid*/, dim3 /*block*/)

KERNEL(model_combine) {
  const auto at = [args](unsigned i) { return parameter<std::uint64_t>(args, i); };
  combine(words_at(at(0), at(1)), words_at(at(2), at(3)), words_at(at(4), at(5)), at(6));
}

KERNEL(model_combine_described) { combine_described_at(static_cast<const unsigned char*>(args[0])); }

// Three bytes precede the words, so that every word is at an odd address.
KERNEL(model_combine_packed) { combine_described_at(static_cast<const unsigned char*>(args[0]) + 3); }

KERNEL(model_combine_by_table) {
  combine_by(parameter<const std::uint64_t*>(args, 0), parameter<std::uint64_t>(args, 1));
}

KERNEL(model_combine_by_chain) {
  combine_by(*parameter<const std::uint64_t* const*>(args, 0), parameter<std::uint64_t>(args, 1));
}

KERNEL(model_combine_by_root) {
  combine_by(reinterpret_cast<const std::uint64_t*>(model::roots[parameter<unsigned>(args, 0)]),
             parameter<std::uint64_t>(args, 1));
}

KERNEL(model_write_table) {
  auto* table = parameter<std::uint64_t*>(args, 0);
  for (unsigned i = 0; i < model::kTableWords; ++i) table[i] = parameter<std::uint64_t>(args, i + 1);
}

// Sets a graph's conditions: the first by whether the word is odd, the second until the counter is 0.
KERNEL(model_decide) {
  set_condition(parameter<std::uint64_t>(args, 0), *parameter<const std::uint64_t*>(args, 1) & 1);
}

KERNEL(model_count_down) { set_condition(parameter<std::uint64_t>(args, 0), --*parameter<std::uint32_t*>(args, 1)); }

KERNEL(model_change_every_word) {
  model::change_every_word(words_at(parameter<std::uint64_t>(args, 0), parameter<std::uint64_t>(args, 1)),
                           parameter<std::uint64_t>(args, 2));
}
