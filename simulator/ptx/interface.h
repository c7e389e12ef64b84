// SPDX-License-Identifier: Apache-2.0
// Between the simulated driver and libthermocline_ptx.so, which it opens when the first kernel is launched that has no
// host implementation. Both are built and installed together; the version is there for those that are not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simulator::ptx {

inline constexpr unsigned kInterfaceVersion = 1;
inline constexpr std::size_t kMessageBytes = 1024;

struct NamedAddress {
  const char* name;
  std::uint64_t address;
};

struct Launch {
  std::uint32_t grid[3], block[3];
  std::uint32_t dynamic_shared = 0;
  const void* parameters = nullptr;
  std::size_t parameter_bytes = 0;
  std::uint64_t grid_id = 0;
  std::uint64_t most_steps = 0;  // of a thread in one loop, before that is taken for one that never ends
  // The device's page table (simulator/core/page_table.h). What it does not allow, may_touch is asked about.
  const std::uint32_t* pages = nullptr;
  bool (*may_touch)(void* asked, std::uint64_t at, std::uint64_t bytes, bool writes) = nullptr;
  void* asked = nullptr;
};

enum class Fault : std::uint32_t {
  kNone,
  kIllegalAddress,
  kMisaligned,
  kTrap,
  kAssert,
  kStackOverflow,
  kTimeout,  // an endless loop, or threads that wait for one another
};

struct Outcome {
  Fault fault = Fault::kNone;
  std::uint64_t address = 0;
  std::uint64_t instructions = 0;
  char message[kMessageBytes] = {};  // one sentence about the fault
};

struct Interface {
  unsigned version;
  // nullptr with a sentence in `error` (kMessageBytes) where the text is not understood.
  void* (*load)(const char* text, std::size_t bytes, const NamedAddress* variables, std::size_t count, char* error);
  void (*unload)(void* module);
  // The kernel, compiled; it lives as long as its module. nullptr with a sentence where it can not be run.
  void* (*find)(void* module, const char* name, char* error);
  // On this thread, to its end or a fault. One at a time.
  void (*run)(void* kernel, const Launch* launch, Outcome* outcome);
};

}  // namespace simulator::ptx

// What the library exports.
extern "C" const simulator::ptx::Interface* thermocline_ptx_interface();
