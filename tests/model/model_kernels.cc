// SPDX-License-Identifier: Apache-2.0
// The kernel's body on the simulated device.
#include "tests/model/model_kernels.h"

#include <vector_types.h>

namespace {

template <class T>
T parameter(void** args, unsigned i) {
  return *static_cast<T*>(args[i]);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void simulated_model_combine(void** args, dim3 grid, dim3 block);

void simulated_model_combine(void** args, dim3 /*grid*/, dim3 /*block*/) {
  auto* out = parameter<std::uint64_t*>(args, 0);
  const auto out_words = parameter<std::uint64_t>(args, 1);
  const auto* a = parameter<const std::uint64_t*>(args, 2);
  const auto a_words = parameter<std::uint64_t>(args, 3);
  const auto* b = parameter<const std::uint64_t*>(args, 4);
  const auto b_words = parameter<std::uint64_t>(args, 5);
  const auto salt = parameter<std::uint64_t>(args, 6);
  std::uint64_t result[model::kSamples];
  for (unsigned i = 0; i < model::kSamples; ++i) {
    result[i] = model::combined(out[model::sample_at(out_words, i)], a[model::sample_at(a_words, i)],
                                b[model::sample_at(b_words, model::kSamples - 1 - i)], salt, i);
  }
  for (unsigned i = 0; i < model::kSamples; ++i) out[model::sample_at(out_words, i)] = result[i];
}
