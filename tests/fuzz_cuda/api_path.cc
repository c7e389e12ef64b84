// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_cuda/api_path.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace model {

template <typename Kind>
std::vector<Registered<Kind>*>& all() {
  static std::vector<Registered<Kind>*> api_paths;
  return api_paths;
}

template <typename Kind>
Registered<Kind>::Registered(const Kind& described) : api_path(described) {
  auto& api_paths = all<Kind>();
  const auto before = [](const Registered* a, const Registered* b) {
    return std::string_view(a->api_path.name) < b->api_path.name;
  };
  api_paths.insert(std::upper_bound(api_paths.begin(), api_paths.end(), this, before), this);
}

template struct Registered<Step>;
template struct Registered<Memory>;
template struct Registered<Copying>;
template struct Registered<Passing>;
template struct Registered<Launching>;
template std::vector<Registered<Step>*>& all();
template std::vector<Registered<Memory>*>& all();
template std::vector<Registered<Copying>*>& all();
template std::vector<Registered<Passing>*>& all();
template std::vector<Registered<Launching>*>& all();

namespace {

template <typename Kind>
void print_kind() {
  for (const auto* one : all<Kind>())
    std::printf(" %s=%llu", one->api_path.name, static_cast<unsigned long long>(one->count));
}

}  // namespace

void print_api_paths() {
  std::printf("api_paths:");
  print_kind<Step>();
  print_kind<Memory>();
  print_kind<Copying>();
  print_kind<Passing>();
  print_kind<Launching>();
  std::printf("\n");
}

bool goes_with(Needs needs, unsigned stream) {
  switch (needs) {
    case Needs::kAnyStream:
      return true;
    case Needs::kOwnStream:
      return stream < kLegacy;
    case Needs::kLegacyStream:
      return stream == kLegacy;
    case Needs::kThreadStream:
      break;
  }
  return stream == kPerThread;
}

unsigned stream_for(World& world, Needs needs) {
  unsigned stream = world.any_stream();
  while (!goes_with(needs, stream)) stream = (stream + 1) % kStreams;
  return stream;
}

void Task::add_at(std::size_t at, const void* value, std::size_t bytes) {
  block.resize(at + bytes);
  std::memcpy(block.data() + at, value, bytes);
  offsets.push_back(at);
}

std::vector<void*> Task::parameters() {
  std::vector<void*> list;
  for (const std::size_t offset : offsets) list.push_back(block.data() + offset);
  return list;
}

void copy(World& world, unsigned stream, const CopyEnd& to, const CopyEnd& from, std::size_t bytes) {
  const auto* api_path = pick<Copying>(
      world, [&](const Copying& one) { return goes_with(one.needs, stream) && one.fits(to, from, bytes); });
  if (api_path == nullptr) world.fail("no api_path copies this", stream, bytes);
  api_path->copy(world, stream, to, from, bytes);
  world.submitted(stream);
}

void upload_table(World& world, unsigned stream, World::Table& table, std::span<const std::uint64_t> words,
                  CUdeviceptr at) {
  CopyEnd from{CopyEnd::Kind::kPinned, reinterpret_cast<std::uint64_t>(table.host)};
  if (world.random.one_in(3)) from = {CopyEnd::Kind::kPageable, reinterpret_cast<std::uint64_t>(world.pageable())};
  std::copy(words.begin(), words.end(), static_cast<std::uint64_t*>(from.host()));
  world.before_write(stream, table.buffer);
  copy(world, stream, {CopyEnd::Kind::kDevice, at}, from, words.size_bytes());
  if (from.kind == CopyEnd::Kind::kPinned) CHECK_CUDA(cuEventRecord(table.uploaded, world.stream(stream)));
  world.after_write(stream, table.buffer);
}

CUfunction function_of(const World& world, const Task& task) {
  return world.device.functions.find(std::string_view(task.kernel))->second.of_module;
}

}  // namespace model
