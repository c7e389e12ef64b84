// SPDX-License-Identifier: Apache-2.0
// Inputs that are kept although the program frees them, so that something much larger that is computed from them can be
// dropped. The gradient of a large layer's weights, for example, is computed from two activations that the program
// frees long before the optimizer reads the gradient.
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

  // The inputs of the dropped version's producer that the program frees during the drop and that are kept.
  std::vector<VersionId> of(const Drop& drop) const;

 private:
  const Lineage& lineage_;
  std::vector<std::uint32_t> roles_;  // by buffer of the profile: how many buffers of the lineage it stands for
};

}  // namespace thermocline
