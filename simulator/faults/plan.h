// SPDX-License-Identifier: Apache-2.0
// A fault plan as text: one statement per line (or separated by semicolons); '#' begins a comment. docs/faults.md lists
// the statements for users; kStatements in plan.cc is the only table of them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/core/types.h"

namespace simulator {

inline constexpr int kDriverVersion = 13000;
// The version of a driver with newer variants of known functions.
inline constexpr int kNewerDriverVersion = 14000;

struct FaultRule {
  enum class When : std::uint8_t { kCall, kFrom, kEvery, kChance };

  std::string function;  // empty: every function that allocates
  When when = When::kCall;
  std::uint64_t number = 1;  // of calls; for kChance: parts per million
  CUresult error = CUDA_SUCCESS;
};

struct FaultPlan {
  std::vector<FaultRule> rules;
  std::set<std::string, std::less<>> without;    // excluded functions
  std::set<std::string, std::less<>> elsewhere;  // functions that cuGetProcAddress finds at addresses of no symbol
  std::set<std::string, std::less<>> newer;      // functions of which a later CUDA version has another variant
  bool no_virtual_memory = false;
  bool no_host_mappings = false;
  bool no_memory_pools = false;
  bool device_launches = false;  // graphs for launches from the device are accepted; kernels launch none
  int driver_version = kDriverVersion;
  std::optional<Bytes> granularity;
  std::optional<unsigned> address_bits;
  double link = 1;
  double mapping = 1;  // host cost of mapping, setting access and unmapping, relative to the profile's
  double jitter = 0;   // of kernels' durations, as a fraction
  std::uint64_t seed = 0;
};

// Reads a plan from text, or from the file of that name. Returns an error message of one line, or nothing.
std::string read_fault_plan(std::string_view text_or_path, FaultPlan* out);

}  // namespace simulator
