// SPDX-License-Identifier: Apache-2.0
// Inputs that are kept past the program's free: something much larger is dropped that can be made of them. The gradient
// of a large layer's weights, for example, is made of two activations that the program frees long before the optimizer
// reads the gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/recompute/lineage.h"
#include "offload/recompute/recipe.h"

namespace thermocline {

struct Drop;

// An input is kept if it is at most this part of what is dropped. Planning and running have to agree on it.
inline constexpr Bytes kKeptPart = 8;
inline bool is_kept_for(Bytes input, Bytes dropped) { return input <= dropped / kKeptPart; }

class KeptInputs {
 public:
  explicit KeptInputs(const Lineage& lineage);

  // What the producer of the dropped version reads and the program frees while it is dropped, and what is kept of that.
  std::vector<VersionId> of(const Drop& drop) const;

 private:
  const Lineage& lineage_;
  std::vector<std::uint32_t> roles_;  // by buffer of the profile: how many buffers of the lineage it stands for
};

}  // namespace thermocline
