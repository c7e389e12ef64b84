// SPDX-License-Identifier: Apache-2.0
// What can be queued in a stream. An operation is a description: nothing happens before the timeline completes it.
// Everything that it needs is in it by value, except device memory and pinned host memory, which are read and written
// when it completes.
#pragma once

#include <boost/container/small_vector.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "simulator/core/memory/buffers.h"
#include "simulator/core/streams/real_kernel.h"
#include "simulator/core/types.h"

namespace simulator {

// A rectangle in memory: `depth` slices of `height` rows of `width` bytes. Rows of one row or slice ignore the pitches.
struct Shape {
  Bytes width = 0;
  Bytes height = 1;
  Bytes depth = 1;
  Bytes row_pitch = 0;
  Bytes slice_pitch = 0;

  Bytes bytes() const { return width * height * depth; }
};

enum class Direction : std::uint8_t { kToDevice, kToHost, kOnDevice, kOnHost };

// `from` and `to` have the same width, height and depth.
struct Copy {
  Direction direction = Direction::kOnDevice;
  Address to = 0;
  Address from = 0;
  Shape to_shape;
  Shape from_shape;
  std::vector<std::byte>
      staged;  // pageable source, rows packed, taken at submission; where not empty it replaces `from`
  // As which device each end is accessed. Not given: memory of a device's heap by that device, other memory by the
  // stream's. Source: PyTorch's allocators, which copy across devices by cudaMemcpyPeerAsync wherever memory is mapped
  // or a pool's and is not accessible to both.
  std::optional<DeviceId> to_as = std::nullopt, from_as = std::nullopt;
  bool is_between_devices = false;   // filled in at submission
  bool reads_without_order = false;  // others may write there meanwhile: the race checker says nothing
};

// Fills with `value`, `element` bytes (1, 2, 4, 8) at a time; widths are multiples of it.
struct Set {
  Address to = 0;
  Shape shape;
  std::uint64_t value = 0;
  std::uint32_t element = 1;
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;  // same layout and calling convention as CUDA's dim3
};

// args[i] points at parameter i.
using KernelFunction = void (*)(void** args, Dim3 grid, Dim3 block);

struct Parameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

// What counts of a byte of the parameters where a kernel mixes (mixing.h).
enum class CountedByte : std::uint8_t { kNo, kInAnAddress, kYes };

// What a texture reads, row by row.
struct Fetch {
  Address address = 0;
  Shape shape;
};

// Values by handle, of one launchable graph; the kernels of its launches set them (control.h: set_condition).
using Conditions = std::map<std::uint64_t, std::uint32_t>;

struct Kernel {
  std::string name;
  Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
  std::vector<Parameter> parameters;
  std::vector<std::byte> block_of_parameters;                 // packed, by the offsets above
  std::shared_ptr<const std::vector<CountedByte>> counted{};  // of each byte; nullptr: all count
  KernelFunction function = nullptr;                          // of the host, in place of the kernel's code
  std::shared_ptr<const RealKernel> real{};                   // its code; neither: it mixes the buffers that it names

  bool is_cooperative = false;  // its blocks wait for one another
  // All that it accesses of the device's memory, where whoever launched it says so. Then it is no work of the
  // program's: it counts neither among the ordinals nor in the checksum.
  std::optional<Fetch> declared{};
  // What its code's malloc takes from, where it has one. Another generation is another heap.
  Address heap = 0;
  Bytes heap_bytes = 0;
  std::uint64_t heap_generation = 0;

  // Filled in at submission.
  std::uint64_t ordinal = 0;
  std::vector<Buffer> named;         // buffers that the parameters name, each once, in order of first mention
  std::vector<bool> named_directly;  // of each: a parameter of its own points into it
  std::vector<Fetch> fetched;        // what its textures read
  std::uint64_t identity = 0;        // hash of name, grid, block and parameters, independent of addresses

  std::shared_ptr<Conditions> conditions{};  // of a graph that has some (conditional.h)
};

struct Operand {
  Address address = 0;
  Bytes bytes = 0;
  bool read = false;
  bool write = false;
  bool fresh = false;
};

// An operator that declares what it does (control.h). Negative microseconds: not given.
struct Operator {
  std::string name;
  double flops = 0;
  double bytes = 0;
  double microseconds = -1;
  boost::container::small_vector<Operand, 8> operands;

  std::uint64_t ordinal = 0;  // filled in at submission; of a relaunch: the first launch's
  bool is_relaunch = false;
};

// Runs on the thread that completes the operation, with the machine's lock held: it must not call the driver.
struct HostFunction {
  std::function<void()> function;
};

// Like a host function, but the simulator's own: it may call the machine (give memory back, ...), not submit or wait.
struct Internal {
  std::function<void()> function;
};

struct Record {
  EventId event = 0;
  std::uint32_t generation = 0;
};

// Nothing happens; orders what comes behind it.
struct Marker {};

// Memory that the driver hands out, or takes back, at this place of the stream. Nothing happens; the race checker knows
// who may access it from the one to the other.
struct Lifetime {
  Address address = 0;
  Bytes bytes = 0;
  bool begins = true;
};

// A word of 4 or 8 bytes that a stream writes; whoever finds it there comes behind what the stream did before.
struct WriteValue {
  Address to = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
};

// CUstreamWaitValue_flags, in words.
enum class Until : std::uint8_t { kReaches, kEquals, kHasAnyOf, kLacksAnyOutside };

// The stream stands until the word there is what it waits for.
struct WaitValue {
  Address at = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
  Until until = Until::kReaches;
};

// A node of a graph that decides what it runs (conditional.h).
struct ConditionalNode;
struct Conditional {
  std::shared_ptr<ConditionalNode> node;
};

using Work = std::variant<Marker, Record, Copy, Set, Kernel, Operator, HostFunction, Internal, Lifetime, WriteValue,
                          WaitValue, Conditional>;

}  // namespace simulator
