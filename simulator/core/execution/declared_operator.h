// SPDX-License-Identifier: Apache-2.0
// Computes the result of a declared operator (control.h): it fills what the operator writes with contents determined by
// its name, its ordinal and everything that it reads. If the operator has slices, each is computed separately, in
// order, so that the results do not depend on how many launches compute them.
#pragma once

#include "simulator/core/memory/contents.h"
#include "simulator/core/streams/operation.h"

namespace simulator {

// Whether the operands can be sliced as they claim: parts of one operand are all sliced or none; slices are equal.
bool can_be_sliced(const Operator& op);

// Returns the operator's share of the checksum, a sum over its slices.
std::uint64_t compute(const Operator& op, Contents& contents);

}  // namespace simulator
