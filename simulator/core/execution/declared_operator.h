// SPDX-License-Identifier: Apache-2.0
// What a declared operator (control.h) computes: it fills what it writes with contents that its name, its ordinal and
// everything that it reads determine. An operator of slices computes each of them by itself, in order, so that its
// results do not depend on how many launches compute them.
#pragma once

#include "simulator/core/memory/contents.h"
#include "simulator/core/streams/operation.h"

namespace simulator {

// Whether the operands can be divided as they claim: operands that are one are all sliced or none, and slices are equal.
bool can_be_sliced(const Operator& op);

// Returns the operator's share of the checksum, a sum over its slices.
std::uint64_t compute(const Operator& op, Contents& contents);

}  // namespace simulator
