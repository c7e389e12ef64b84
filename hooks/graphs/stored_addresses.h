// SPDX-License-Identifier: Apache-2.0
// Addresses that the nodes of a graph store in its buffers, or move on: kernels may store those that they are given, and
// copies take along what they find. In which order the nodes run is not known.
#pragma once

#include "hooks/graphs/graph_execs.h"

namespace thermocline {

class EngineSet;

// Whether buffers whose addresses may be stored may stay on the device, so that no tables have to be read.
enum class MayKeep { kYes, kNo };

// Before a launch: adds sources of copies in which kernels may have stored addresses. If the tables that the copies fill
// are read, these have to be read with them: the copies have not run by then.
void name_stored_sources(const EngineSet& engines, GraphAccess& access);

// After it.
void note_stored_addresses(const GraphAccess& access, MayKeep may_keep);

}  // namespace thermocline
