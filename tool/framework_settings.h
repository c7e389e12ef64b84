// SPDX-License-Identifier: Apache-2.0
// What makes frameworks that would take most of the device at once, as memory of their own, leave it to the library
// (docs/frameworks.md): `run` sets it where the environment does not.
#pragma once

namespace thermocline {

struct FrameworkSetting {
  const char* framework;
  const char* variable;
  const char* value;
};

inline constexpr FrameworkSetting kFrameworkSettings[] = {
    {"JAX", "XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
    {"JAX", "XLA_PYTHON_CLIENT_ALLOCATOR", "platform"},
    {"TensorFlow", "TF_FORCE_GPU_ALLOW_GROWTH", "true"},
};

}  // namespace thermocline
