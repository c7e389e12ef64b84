// SPDX-License-Identifier: Apache-2.0
// Pointer tables that kernels read in place in host memory (hooks/operands/host_allocations.h), such as the arrays of
// pointers of batched matrix products in cudaMallocManaged or cudaMallocHost memory. The library cannot see when the
// host writes there. So such memory that a kernel is given is read at every launch, and the engines' addresses found
// there count as accesses of the launch. Writes of the host between the launch and its turn in the stream are not seen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hooks/operands/accesses.h"
#include "hooks/operands/parameters.h"

namespace thermocline {

class EngineSet;

// Returns the words among a kernel's arguments that may be addresses of host allocations. For graphs, whose tables are
// read at each launch. May throw bad_alloc.
std::vector<std::uint64_t> words_in_place(const ParameterLayout* layout, KernelArguments arguments);

// For a launch: finds the words, and reads the tables.
[[gnu::noinline]] void add_tables_in_place(const EngineSet& engines, const ParameterLayout* layout,
                                           KernelArguments arguments, AccessList* accesses);

// Reads the tables at these addresses, and tables whose addresses they contain; adds the memory that they point into.
// Calls the driver. May throw bad_alloc.
void add_tables_in_place(const EngineSet& engines, std::span<const std::uint64_t> words, AccessList* accesses);

}  // namespace thermocline
