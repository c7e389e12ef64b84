// SPDX-License-Identifier: Apache-2.0
// The kernel's body on the simulated device.
#include "tests/model/model_kernels.h"

#include <vector_types.h>

namespace {

template <class T>
T parameter(void** args, unsigned i) {
  return *static_cast<T*>(args[i]);
}

struct Words {
  std::uint64_t* at;
  std::uint64_t count;
  std::uint64_t& sample(unsigned i) const { return at[model::sample_at(count, i)]; }
};

void combine(const Words& out, const Words& a, const Words& b, std::uint64_t salt) {
  std::uint64_t result[model::kSamples];
  for (unsigned i = 0; i < model::kSamples; ++i) {
    result[i] = model::combined(out.sample(i), a.sample(i), b.sample(model::kSamples - 1 - i), salt, i);
  }
  for (unsigned i = 0; i < model::kSamples; ++i) out.sample(i) = result[i];
}

Words words_at(std::uint64_t address, std::uint64_t count) {
  return {reinterpret_cast<std::uint64_t*>(address), count};
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void simulated_model_combine(void** args, dim3 grid, dim3 block);
__attribute__((visibility("default"))) void simulated_model_combine_by_table(void** args, dim3 grid, dim3 block);
}

void simulated_model_combine(void** args, dim3 /*grid*/, dim3 /*block*/) {
  const auto word = [args](unsigned i) { return parameter<std::uint64_t>(args, i); };
  combine(words_at(word(0), word(1)), words_at(word(2), word(3)), words_at(word(4), word(5)), word(6));
}

void simulated_model_combine_by_table(void** args, dim3 /*grid*/, dim3 /*block*/) {
  const auto* table = parameter<const std::uint64_t*>(args, 0);
  combine(words_at(table[0], table[1]), words_at(table[2], table[3]), words_at(table[4], table[5]),
          parameter<std::uint64_t>(args, 1));
}
