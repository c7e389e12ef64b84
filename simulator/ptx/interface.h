// SPDX-License-Identifier: Apache-2.0
// Between the simulated driver and libthermocline_ptx.so, which it opens when the first kernel is launched that has no
// host implementation. Both are built and installed together; the version is there for those that are not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simulator::ptx {

inline constexpr unsigned kInterfaceVersion = 2;
inline constexpr std::size_t kMessageBytes = 1024;

struct NamedAddress {
  const char* name;
  std::uint64_t address;
};

// What a texture or a surface leads to, and how it is sampled.
struct Texture {
  enum class Channel : std::uint8_t { kUnsigned, kSigned, kFloat };
  std::uint64_t address = 0;
  std::uint64_t row_pitch = 0, slice_pitch = 0;  // bytes
  std::uint32_t extent[3] = {1, 1, 1};           // texels; the third counts slices, layers or faces
  std::uint32_t bits = 32;                       // of a channel
  std::uint32_t channels = 1;
  Channel channel = Channel::kUnsigned;
  bool is_surface = false;
  bool is_linear = false;               // plain memory: outside of it there are zeros
  bool interpolates = false;            // else the nearest texel
  bool normalized_coordinates = false;  // 0 to 1
  bool reads_normalized = false;        // integers as numbers from 0 or -1 to 1
  bool is_srgb = false;
  std::uint32_t addressing[3] = {};  // CUaddress_mode: wrap, clamp, mirror, border
  float border[4] = {};
  std::uint64_t bytes() const { return slice_pitch * extent[2]; }
};

struct Launch {
  std::uint32_t grid[3], block[3];
  std::uint32_t dynamic_shared = 0;
  bool is_cooperative = false;  // blocks wait for one another
  const void* parameters = nullptr;
  std::size_t parameter_bytes = 0;
  std::uint64_t grid_id = 0;
  std::uint64_t most_steps = 0;  // of a thread in one loop, before that is taken for one that never ends
  // The device's page table (simulator/core/memory/page_table.h). What it does not allow, may_touch is asked about.
  const std::uint32_t* pages = nullptr;
  bool (*may_touch)(void* asked, std::uint64_t at, std::uint64_t bytes, bool writes) = nullptr;
  void* asked = nullptr;
  // False where no texture or surface has this handle.
  bool (*find_texture)(std::uint64_t handle, Texture* out) = nullptr;
  // Of a graph's conditional node; false where the kernel's graph has none of this handle.
  bool (*set_condition)(std::uint64_t handle, std::uint32_t value) = nullptr;
  // Memory that a kernel's malloc takes from, where it has one; a new generation knows nothing of what was allocated.
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

struct Interface {
  unsigned version;
  // nullptr with a sentence in `error` (kMessageBytes) where the text is not understood.
  void* (*load)(const char* text, std::size_t bytes, const NamedAddress* variables, std::size_t count, char* error);
  void (*unload)(void* module);
  // The kernel, compiled; it lives as long as its module. nullptr with a sentence where it can not be run.
  void* (*find)(void* module, const char* name, char* error);
  // What its launch must provide.
  bool (*needs_heap)(void* kernel);
  // Whether it asks for its cluster: a cluster of several blocks can not be launched then.
  bool (*uses_clusters)(void* kernel);
  // On this thread, to its end or a fault. One at a time.
  void (*run)(void* kernel, const Launch* launch, Outcome* outcome);
};

}  // namespace simulator::ptx

// What the library exports.
extern "C" const simulator::ptx::Interface* thermocline_ptx_interface();
