// SPDX-License-Identifier: Apache-2.0
// The interface between the simulated driver and libthermocline_ptx.so, which the driver opens when the first kernel
// without a host implementation is launched. Both are built and installed together; the version detects a mismatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simulator::ptx {

inline constexpr unsigned kInterfaceVersion = 4;
inline constexpr std::size_t kMessageBytes = 1024;

struct NamedAddress {
  const char* name;
  std::uint64_t address;
};

// The memory of a texture or a surface, and how it is sampled.
struct Texture {
  enum class Channel : std::uint8_t { kUnsigned, kSigned, kFloat };
  std::uint64_t address = 0;
  std::uint64_t row_pitch = 0, slice_pitch = 0;  // bytes
  std::uint32_t extent[3] = {1, 1, 1};           // texels; the third counts slices, layers or faces
  std::uint32_t bits = 32;                       // per channel
  std::uint32_t channels = 1;
  Channel channel = Channel::kUnsigned;
  bool is_surface = false;
  bool is_linear = false;               // linear memory: reads outside of it return zeros
  bool interpolates = false;            // false: nearest texel
  bool normalized_coordinates = false;  // from 0 to 1
  bool reads_normalized = false;        // integers are returned as numbers from 0 or -1 to 1
  bool is_srgb = false;
  std::uint32_t addressing[3] = {};  // CUaddress_mode: wrap, clamp, mirror, border
  float border[4] = {};
  std::uint64_t bytes() const { return slice_pitch * extent[2]; }
};

struct Launch {
  std::uint32_t grid[3], block[3];
  std::uint32_t dynamic_shared = 0;
  bool is_cooperative = false;  // blocks may wait for one another
  const void* parameters = nullptr;
  std::size_t parameter_bytes = 0;
  std::uint64_t grid_id = 0;
  std::uint64_t most_steps = 0;  // of a thread in one loop, before the loop is considered endless
  // The device's page table (simulator/core/memory/page_table.h). may_touch is called for accesses that it does not
  // allow.
  const std::uint32_t* pages = nullptr;
  bool (*may_touch)(void* asked, std::uint64_t at, std::uint64_t bytes, bool writes) = nullptr;
  void* asked = nullptr;
  // False if no texture or surface has this handle.
  bool (*find_texture)(std::uint64_t handle, Texture* out) = nullptr;
  // For a graph's conditional node; false if the kernel's graph has no such handle.
  bool (*set_condition)(std::uint64_t handle, std::uint32_t value) = nullptr;
  // The region for the kernel's malloc, if it has one; with a new generation the region has no allocations yet.
  std::uint64_t heap = 0, heap_bytes = 0, heap_generation = 0;
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

// A parameter in what a launch passes.
struct ParameterPlace {
  std::uint32_t offset, bytes;
};

struct Interface {
  unsigned version;
  // nullptr, with a message in `error` (kMessageBytes), if the text is not understood.
  void* (*load)(const char* text, std::size_t bytes, const NamedAddress* variables, std::size_t count, char* error);
  void (*unload)(void* module);
  // The compiled kernel, valid as long as its module. nullptr, with a message, if it can not be run.
  void* (*find)(void* module, const char* name, const ParameterPlace* parameters, std::size_t count, char* error);
  // What its launch must provide.
  bool (*needs_heap)(void* kernel);
  // Whether it uses its cluster: then it can not be launched with a cluster of several blocks.
  bool (*uses_clusters)(void* kernel);
  // Runs on this thread, to the end or to a fault. Only one kernel at a time.
  void (*run)(void* kernel, const Launch* launch, Outcome* outcome);
};

}  // namespace simulator::ptx

// What the library exports.
extern "C" const simulator::ptx::Interface* thermocline_ptx_interface();
