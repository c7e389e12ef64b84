// SPDX-License-Identifier: Apache-2.0
// ApiPaths: the ways in which a random program reaches memory. Each is a file in api_paths/ that registers itself; no
// other file refers to it. The kinds combine: any step that copies uses any API path of copies; any launch uses any API
// path of passing operands and any API path of launching.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/fuzz_cuda/world.h"

namespace model {

struct ApiPath {
  const char* name;
  unsigned weight;  // among API paths of its kind
};

// A step of the program.
struct Step : ApiPath {
  void (*run)(World&);
};

// Where a buffer comes from. `allocate` sets the address; false: not possible now.
struct Memory : ApiPath {
  bool (*allocate)(World&, Buffer&);
  void (*release)(World&, Buffer&);  // uses of the buffer may still be running
  bool may_be_recorded = true;       // in a graph
};

// The streams with which a call can be used.
enum class Needs : std::uint8_t { kAnyStream, kOwnStream, kLegacyStream, kThreadStream };
bool goes_with(Needs needs, unsigned stream);
unsigned stream_for(World& world, Needs needs);

// How bytes are copied. The caller takes care of the order and of the model.
struct Copying : ApiPath {
  Needs needs;
  bool (*fits)(const CopyEnd& to, const CopyEnd& from, std::size_t bytes);
  void (*copy)(World&, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes);
};

// The operands of a launch: combine(out, a, b, salt).
struct Operands {
  Slice out, a, b;
  std::uint64_t salt = 0;
  std::array<std::uint64_t, kTableWords> table() const {
    return {out.address(), out.count, a.address(), a.count, b.address(), b.count};
  }
};

// A kernel with its parameters.
struct Task {
  const char* kernel = "";
  std::vector<std::byte> block{};      // the parameters, packed
  std::vector<std::size_t> offsets{};  // of each
  std::vector<Buffer*> tables{};       // read by the kernel, in addition to the operands
  std::function<void()> afterwards{};  // after the launch; may be empty

  template <typename T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t at = (block.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    add_at(at, &value, sizeof value);
  }
  void add_at(std::size_t at, const void* value, std::size_t bytes);
  std::vector<void*> parameters();
};

// How a kernel is given its operands. Uploads what it needs in the stream.
struct Passing : ApiPath {
  Task (*prepare)(World&, unsigned stream, const Operands&);
};

// How a kernel is launched.
struct Launching : ApiPath {
  Needs needs;
  void (*launch)(World&, unsigned stream, Task&);
  bool records = false;  // into a graph
};

// All of one kind, by name: the meaning of a seed must not depend on the order in which files are linked.
template <typename Kind>
struct Registered {
  Registered(const Kind& api_path);
  Kind api_path;
  std::atomic<std::uint64_t> count = 0;  // how often it was used
};
template <typename Kind>
std::vector<Registered<Kind>*>& all();

// Chosen by weight among those for which `fits` is true; nullptr if there is none.
template <typename Kind, typename Fits>
const Kind* pick(World& world, Fits fits) {
  std::uint64_t total = 0;
  for (const auto* one : all<Kind>()) total += fits(one->api_path) ? one->api_path.weight : 0;
  if (total == 0) return nullptr;
  std::uint64_t left = world.random.below(total);
  for (auto* one : all<Kind>()) {
    if (!fits(one->api_path)) continue;
    if (left < one->api_path.weight) {
      one->count.fetch_add(1, std::memory_order_relaxed);
      return &one->api_path;
    }
    left -= one->api_path.weight;
  }
  return nullptr;
}

// Prints name=count of every API path, and the number of API paths that were never used.
void print_api_paths();

// --- What API paths have in common ---
//
// Copies by any API path that can be used with the stream. The caller has established the order; afterwards the work
// counts as submitted.
void copy(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes);
// Copies words into a small buffer (a table), from pinned or pageable memory, ordered with all uses of the table.
void upload_table(World& world, unsigned stream, World::Table& table, std::span<const std::uint64_t> words,
                  CUdeviceptr at);
CUfunction function_of(const World& world, const Task& task);

}  // namespace model
