// SPDX-License-Identifier: Apache-2.0
// The interface between the simulated driver and libthermocline_ptx.so, which the driver opens when the first kernel
// without a host implementation is launched. Both are built and installed together; the version detects a mismatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simulator::ptx {

inline constexpr unsigned kInterfaceVersion = 6;
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

// kAtomic: also a volatile store, or one with an order. Such loads are not traced, because they poll.
enum class Traced : std::uint8_t { kRead, kWrite, kAtomic };
inline constexpr std::size_t kMostTraced = 4096;

struct Launch {
  std::uint32_t grid[3], block[3];
  std::uint32_t dynamic_shared = 0;
  bool is_cooperative = false;  // blocks may wait for one another
  // The shape of each cluster; zeros: the launch gives none, and the kernel's own is used, or 1. Divides the grid.
  std::uint32_t cluster[3] = {};
  const void* parameters = nullptr;
  std::size_t parameter_bytes = 0;
  std::uint64_t grid_id = 0;
  std::uint64_t most_steps = 0;  // of a thread in one loop, before the loop is considered endless
  // The most threads of the host that may run blocks at the same time. Only blocks that cannot tell run so: no atomic
  // or volatile access to memory that others see, no clock, no printing, no allocation.
  std::uint32_t cores = 1;
  // Runs the body on another thread of the host. False: it made a wrong access, at `at`. nullptr: the body is called.
  bool (*guarded)(void (*body)(void*), void* data, std::uint64_t* at) = nullptr;
  // The device's page table (simulator/core/memory/page_table.h). may_touch is called for accesses that it does not
  // allow.
  const std::uint32_t* pages = nullptr;
  bool (*may_touch)(void* asked, std::uint64_t at, std::uint64_t bytes, bool writes) = nullptr;
  void* asked = nullptr;
  // If not null, it is called for every byte that the kernel accesses in memory of the device or of the host: when the
  // kernel has ended, in ascending ranges, at most kMostTraced of each kind.
  void (*traced)(void* to, std::uint64_t address, std::uint64_t bytes, Traced how) = nullptr;
  void* traced_to = nullptr;
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

// Counts over all threads together; a multiply-add counts as two operations.
struct Counts {
  std::uint64_t flops = 0;         // on numbers of up to 32 bits
  std::uint64_t doubles = 0;       // on numbers of 64 bits
  std::uint64_t tensor_flops = 0;  // of products of matrices
  std::uint64_t accessed = 0;      // bytes of global memory read and written, each time
  std::uint64_t of_host = 0;       // bytes of pinned host memory, read or written

  Counts& operator+=(const Counts& other) {
    flops += other.flops;
    doubles += other.doubles;
    tensor_flops += other.tensor_flops;
    accessed += other.accessed;
    of_host += other.of_host;
    return *this;
  }
};

struct Outcome {
  Fault fault = Fault::kNone;
  std::uint64_t address = 0;
  std::uint64_t instructions = 0;
  Counts counts;
  std::uint64_t pages_read = 0, pages_written = 0;  // of the device, each once
  char message[kMessageBytes] = {};                 // one sentence about the fault
};

// The place of a parameter in what a launch passes.
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
  // Whether a launch of the kernel must provide a heap.
  bool (*needs_heap)(void* kernel);
  // The shape of its clusters, if its code specifies one; else zeros.
  void (*cluster_of)(void* kernel, std::uint32_t* shape);
  // Runs to the end or to a fault, on this thread or on several of its own; all call may_touch and find_texture.
  // Only one kernel at a time.
  void (*run)(void* kernel, const Launch* launch, Outcome* outcome);
};

}  // namespace simulator::ptx

// The function that the library exports.
extern "C" const simulator::ptx::Interface* thermocline_ptx_interface();
