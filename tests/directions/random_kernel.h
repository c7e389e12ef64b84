// SPDX-License-Identifier: Apache-2.0
// Random kernels, as PTX text with the parameters of one launch, that load, store and compute addresses in the ways of
// compilers and of people: to compare what the library says of their accesses with what they do.
//
// They keep to what docs/recompute.md assumes: an address that is computed from a pointer and indices lies in the
// pointer's buffer, and nothing that is multiplied or shifted to the left is an address, unless all of it is put
// together again from its parts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/ptx/interface.h"

namespace directions {

// Each buffer has a page of the device to itself; pointers to it are near its middle.
inline constexpr std::size_t kBuffers = 6;
inline constexpr std::size_t kPointerPage = kBuffers;       // pointers to buffers, at kTable; room for more, at kSlots
inline constexpr std::size_t kVariablePage = kBuffers + 1;  // the module's variables
inline constexpr std::size_t kPages = kBuffers + 2;
inline constexpr std::size_t kPageBytes = std::size_t{2} << 20;
inline constexpr std::uint64_t kMiddle = kPageBytes / 2;
inline constexpr std::uint64_t kMostReach = 32768;  // bytes from the middle, to either side
inline constexpr std::uint64_t kTable = kMiddle, kTableEntries = 32, kSlots = kMiddle + 4096;

struct RandomKernel {
  std::string text;
  std::vector<simulator::ptx::ParameterPlace> places;
  std::vector<unsigned char> parameters;
  std::vector<simulator::ptx::NamedAddress> variables;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::vector<const char*> steps;  // how its addresses were computed, and accessed
};

// `memory`: the address of the first page.
RandomKernel random_kernel(std::uint64_t seed, std::uint64_t memory);

}  // namespace directions
