// SPDX-License-Identifier: Apache-2.0
// The operations that can be queued in a stream. An operation is a description: nothing happens before the timeline
// completes it. It contains everything that it needs by value, except device memory and pinned host memory, which are
// read and written when it completes.
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

// A box in memory: `depth` slices of `height` rows of `width` bytes. With a single row or slice the pitches are
// ignored.
struct Shape {
  Bytes width = 0;
  Bytes height = 1;
  Bytes depth = 1;
  Bytes row_pitch = 0;
  Bytes slice_pitch = 0;

  Bytes bytes() const { return width * height * depth; }
};

enum class Direction : std::uint8_t { kToDevice, kToHost, kOnDevice, kOnHost };

// `from` and `to` must have the same width, height and depth.
struct Copy {
  Direction direction = Direction::kOnDevice;
  Address to = 0;
  Address from = 0;
  Shape to_shape;
  Shape from_shape;
  // The contents of a pageable source, rows packed, read at submission; if there, it replaces `from`.
  std::shared_ptr<const std::byte[]> staged;
  // The device whose access rights apply to each end. If not set: for memory of a device's heap, that device; for other
  // memory, the stream's device. Source: PyTorch's allocators, which copy across devices by cudaMemcpyPeerAsync if the
  // memory is mapped, or a pool's, and not accessible to both devices.
  std::optional<DeviceId> to_as = std::nullopt, from_as = std::nullopt;
  bool is_between_devices = false;   // set at submission
  bool reads_without_order = false;  // others may write there meanwhile: the race checker ignores these reads
};

// Fills with `value`, `element` bytes (1, 2, 4, 8) at a time; widths are multiples of `element`.
struct Set {
  Address to = 0;
  Shape shape;
  std::uint64_t value = 0;
  std::uint32_t element = 1;
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;  // same layout and calling convention as CUDA's dim3
};

// args[i] points to parameter i.
using KernelFunction = void (*)(void** args, Dim3 grid, Dim3 block);

struct Parameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

// How a byte of the parameters counts if a kernel mixes (mixing.h).
enum class CountedByte : std::uint8_t { kNo, kInAnAddress, kYes };

// The memory that a texture reads, row by row.
struct Fetch {
  Address address = 0;
  Shape shape;
};

// A kernel's accesses, if its launcher declares them: it reads `read`, and no other memory of the device, and writes no
// device memory. `may_write`: host memory that it either writes completely or leaves unchanged.
struct Declared {
  Fetch read;
  std::optional<Fetch> may_write{};
};

// By handle: the values of conditions of one executable graph. Kernels of its launches set them (control.h:
// set_condition).
using Conditions = std::map<std::uint64_t, std::uint32_t>;

struct Kernel {
  std::string name;
  Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
  std::vector<Parameter> parameters;
  std::vector<std::byte> block_of_parameters;                 // packed, by the offsets above
  std::shared_ptr<const std::vector<CountedByte>> counted{};  // for each byte; nullptr: all count
  KernelFunction function = nullptr;                          // a host function that replaces the kernel's code
  std::shared_ptr<const RealKernel> real{};  // its code; if neither is set, it mixes the buffers that it names

  Dim3 cluster{0, 0, 0};        // blocks of each cluster, if the launch says so
  bool is_cooperative = false;  // its blocks may wait for one another
  // If set, the kernel is not work of the program: it counts neither among the ordinals nor in the checksum.
  std::optional<Declared> declared{};
  // The heap for malloc in the kernel's code, if any. A new generation means a different heap.
  Address heap = 0;
  Bytes heap_bytes = 0;
  std::uint64_t heap_generation = 0;

  // Set at submission.
  std::uint64_t ordinal = 0;
  std::vector<Buffer> named;         // buffers that the parameters name, each once, in order of first mention
  std::vector<bool> named_directly;  // for each: a whole parameter points into it
  std::vector<Fetch> fetched;        // the memory that its textures read
  std::uint64_t identity = 0;        // hash of name, grid, block and parameters, independent of addresses
  Time writing = 0;                  // how long the link takes for `declared->may_write`
  bool is_counted = false;           // its duration follows from what it executes
  Bytes external = 0;                // bytes of other devices' memory that it names

  // Set when it has run.
  bool wrote = false;  // whether it wrote the memory that it may write
  Time took = 0;       // if it is counted

  std::shared_ptr<Conditions> conditions{};  // of a graph that has any (conditional.h)
};

struct Operand {
  Address address = 0;
  Bytes bytes = 0;
  bool read = false;
  bool write = false;
  bool fresh = false;
  bool continues = false;  // with the operand before it, it is one
  bool sliced = false;     // each slice of the operator accesses its own
};

// The slices of an operator; this launch computes [first, first + count).
struct Slices {
  std::uint32_t all = 0;  // 0: the operator has none
  std::uint32_t first = 0, count = 0;
};

// An operator that declares what it does (control.h). Negative microseconds: not given.
struct Operator {
  std::string name;
  double flops = 0;
  double bytes = 0;
  double microseconds = -1;
  boost::container::small_vector<Operand, 8> operands;

  Slices slices{};
  std::uint64_t ordinal = 0;  // set at submission; for a relaunch or a later part: that of the first launch
  bool is_relaunch = false;
};

// Runs on a thread of its own (execution/host_threads.h) and must not call the driver. The operation is blocked until
// it returns.
struct HostCall;
struct HostFunction {
  std::function<void()> function;
  std::shared_ptr<HostCall> call = nullptr;  // null: it has not begun
};

// Like a host function, but internal to the simulator: it may call the machine (for example to free memory), but must
// not submit or wait.
struct Internal {
  std::function<void()> function;
};

struct Record {
  EventId event = 0;
  std::uint32_t generation = 0;
};

// Does nothing; orders what is ordered after it.
struct Marker {};

// The driver hands out memory, or takes it back, at this point of the stream. No effect; tells the race checker who may
// access the memory in between.
struct Lifetime {
  Address address = 0;
  Bytes bytes = 0;
  bool begins = true;
};

// A stream writes a word of 4 or 8 bytes. Work that reads that value is ordered after the stream's earlier work.
struct WriteValue {
  Address to = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
};

// The condition of CUstreamWaitValue_flags, in words.
enum class Until : std::uint8_t { kReaches, kEquals, kHasAnyOf, kLacksAnyOutside };

// The stream is blocked until the word there fulfils the condition.
struct WaitValue {
  Address at = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
  Until until = Until::kReaches;
};

// A conditional node of a graph (conditional.h).
struct ConditionalNode;
struct Conditional {
  std::shared_ptr<ConditionalNode> node;
};

using Work = std::variant<Marker, Record, Copy, Set, Kernel, Operator, HostFunction, Internal, Lifetime, WriteValue,
                          WaitValue, Conditional>;

}  // namespace simulator
