// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_cuda/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz_cuda/api_path.h"

namespace model {

World::World(std::uint64_t seed, unsigned own_slot, const Options& what, const Device& on)
    : random(seed), options(what), device(on), slot(own_slot), seed_(seed), pageable_(what.largest / 8) {
  for (Table& table : tables_) {
    CHECK_CUDA(cuMemAlloc(&table.buffer.address, kTableBytes));
    CHECK_CUDA(cuMemAllocHost(reinterpret_cast<void**>(&table.host), kTableBytes));
    CHECK_CUDA(cuEventCreate(&table.uploaded, CU_EVENT_DISABLE_TIMING));
  }
  CHECK_CUDA(cuMemAllocHost(reinterpret_cast<void**>(&root_.host), kTableBytes));
  CHECK_CUDA(cuEventCreate(&root_.uploaded, CU_EVENT_DISABLE_TIMING));
  for (unsigned i = 0; i < kLegacy; ++i) streams_[i] = create_stream();
  streams_[kPerThread] = CU_STREAM_PER_THREAD;
  for (Staging& staging : staging_) {
    CHECK_CUDA(cuMemAllocHost(&staging.host, options.largest));
    CHECK_CUDA(cuEventCreate(&staging.done, CU_EVENT_DISABLE_TIMING));
  }
}

World::~World() {
  while (!graphs_.empty()) drop(graphs_.size() - 1);
  while (!buffers_.empty()) free(*buffers_.back());
  for (unsigned i = 0; i < kStreams; ++i) CHECK_CUDA(cuStreamSynchronize(streams_[i]));
  for (Table& table : tables_) {
    CHECK_CUDA(cuMemFree(table.buffer.address));
    CHECK_CUDA(cuMemFreeHost(table.host));
    CHECK_CUDA(cuEventDestroy(table.uploaded));
  }
  CHECK_CUDA(cuMemFreeHost(root_.host));
  CHECK_CUDA(cuEventDestroy(root_.uploaded));
  for (Staging& staging : staging_) {
    CHECK_CUDA(cuEventDestroy(staging.done));
    CHECK_CUDA(cuMemFreeHost(staging.host));
  }
  for (unsigned i = 0; i < kLegacy; ++i) CHECK_CUDA(cuStreamDestroy(streams_[i]));
}

std::uint64_t World::run() {
  const auto any_api_path = [](const Step&) { return true; };
  current_seed = seed_;
  for (step_ = 0; step_ < options.operations; ++step_) {
    current_step = step_;
    pick<Step>(*this, any_api_path)->run(*this);
  }
  finish();
  return digest_;
}

void World::finish() {
  for (const auto& buffer : buffers_) {
    if (!buffer->defined) continue;
    host_waits(*buffer);
    void* const to = staging();
    CHECK_CUDA(cuMemcpyDtoH(to, buffer->address, buffer->bytes()));
    expect({buffer.get(), 0, buffer->model.size()}, to);
  }
}

// Orders `stream`'s next work after the moment; uses an event only if nothing orders them yet.
void World::order(unsigned stream, Moment moment) {
  if (moment.stream == stream || known_[stream][moment.stream] >= moment.ordinal) return;
  CUevent event = nullptr;
  CHECK_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuEventRecord(event, streams_[moment.stream]));
  CHECK_CUDA(cuStreamWaitEvent(streams_[stream], event, 0));
  CHECK_CUDA(cuEventDestroy(event));
  for (unsigned i = 0; i < kStreams; ++i) known_[stream][i] = std::max(known_[stream][i], known_[moment.stream][i]);
  known_[stream][moment.stream] = done_[moment.stream];
}

void World::before_read(unsigned stream, const Buffer& buffer) {
  for (const Moment& write : buffer.writes) order(stream, write);
}

void World::before_write(unsigned stream, const Buffer& buffer) {
  before_read(stream, buffer);
  for (const Moment& read : buffer.reads) order(stream, read);
}

void World::after_write(unsigned stream, Buffer& buffer) const {
  buffer.reads.clear();
  buffer.writes.assign(1, now(stream));
}

void World::host_waits(const Buffer& buffer) {
  bool waited[kStreams] = {};
  for (const auto* moments : {&buffer.writes, &buffer.reads}) {
    for (const Moment& moment : *moments) {
      if (std::exchange(waited[moment.stream], true)) continue;
      CHECK_CUDA(cuStreamSynchronize(streams_[moment.stream]));
    }
  }
}

// If other threads use the legacy stream, a stream that waits for it must not capture.
CUstream World::create_stream() {
  const bool blocking = random.one_in(2) && options.threads == 1;
  CUstream created = nullptr;
  CHECK_CUDA(cuStreamCreate(&created, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  return created;
}

// Work in the old stream still runs, but other streams can be ordered after it only by events recorded before.
void World::replace_stream(unsigned index) {
  CUstream fresh = create_stream();
  CUevent last = nullptr;
  CHECK_CUDA(cuEventCreate(&last, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuEventRecord(last, streams_[index]));
  CHECK_CUDA(cuStreamDestroy(streams_[index]));
  CHECK_CUDA(cuStreamWaitEvent(fresh, last, 0));
  CHECK_CUDA(cuEventDestroy(last));
  streams_[index] = fresh;
}

std::uint64_t World::any_size() {
  // Half of the buffers fill pages of their own; the sizes of the others are log-uniform from 512 bytes on.
  if (random.one_in(2)) return (options.largest - random.below(options.largest / 16)) / 8 * 8;
  unsigned octaves = 0;
  while ((std::uint64_t{1024} << octaves) <= options.largest) ++octaves;
  const std::uint64_t scale = std::uint64_t{512} << random.below(octaves);
  return (scale + random.below(scale)) / 8 * 8;
}

Buffer* World::allocate(std::uint64_t bytes) {
  if (live_ + bytes > options.live) return nullptr;
  auto buffer = std::make_unique<Buffer>();
  buffer->model.resize(bytes / 8);
  const auto enabled = [](const Memory&) { return true; };
  buffer->memory = pick<Memory>(*this, enabled);
  if (!buffer->memory->allocate(*this, *buffer)) return nullptr;
  live_ += bytes;
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

Buffer& World::any() { return *buffers_[random.below(buffers_.size())]; }

Buffer& World::any_defined() {
  for (int attempt = 0; attempt < 16; ++attempt) {
    if (Buffer& buffer = any(); buffer.defined) return buffer;
  }
  Buffer& buffer = any();
  if (buffer.defined) return buffer;
  const unsigned stream = any_stream();
  const auto value = static_cast<unsigned>(random.next());
  before_write(stream, buffer);
  CHECK_CUDA(cuMemsetD32Async(buffer.address, value, buffer.bytes() / 4, streams_[stream]));
  submitted(stream);
  after_write(stream, buffer);
  std::fill(buffer.model.begin(), buffer.model.end(), std::uint64_t{value} << 32 | value);
  buffer.defined = true;
  return buffer;
}

Slice World::any_slice() {
  Buffer& buffer = any_defined();
  const std::uint64_t words = buffer.model.size();
  if (!random.one_in(3)) return {&buffer, 0, words};
  const std::uint64_t first = random.below(words);
  return {&buffer, first, 1 + random.below(words - first)};
}

void World::free(Buffer& buffer) {
  const auto names = [&](const std::vector<Buffer*>& list) {
    return std::find(list.begin(), list.end(), &buffer) != list.end();
  };
  for (std::size_t i = graphs_.size(); i-- > 0;) {
    if (names(graphs_[i]->reads) || names(graphs_[i]->writes)) drop(i);
  }
  buffer.memory->release(*this, buffer);
  live_ -= buffer.bytes();
  held_ -= buffer.held ? buffer.bytes() : 0;
  const auto at = std::find_if(buffers_.begin(), buffers_.end(), [&](const auto& one) { return one.get() == &buffer; });
  *at = std::move(buffers_.back());
  buffers_.pop_back();
}

bool World::may_hold(std::span<Buffer* const> buffers) const {
  std::uint64_t more = 0;
  for (const Buffer* buffer : buffers) {
    if (buffer->memory != nullptr && !buffer->memory->may_be_recorded) return false;
    more += buffer->held ? 0 : buffer->bytes();
  }
  return held_ + more <= options.held;
}

void World::hold(std::span<Buffer* const> buffers) {
  for (Buffer* buffer : buffers) held_ += std::exchange(buffer->held, true) ? 0 : buffer->bytes();
}

void World::expect(const Slice& slice, const void* found) {
  const std::uint64_t* const expected = slice.buffer->model.data() + slice.first;
  if (std::memcmp(found, expected, slice.bytes()) != 0) {
    const auto* words = static_cast<const std::uint64_t*>(found);
    const auto at = static_cast<std::size_t>(std::mismatch(expected, expected + slice.count, words).first - expected);
    std::fprintf(stderr, "random_program: word %zu of %llu, in a buffer of %llu bytes at %llx (%s)\n", at,
                 static_cast<unsigned long long>(slice.count), static_cast<unsigned long long>(slice.buffer->bytes()),
                 static_cast<unsigned long long>(slice.buffer->address), slice.buffer->memory->name);
    fail("contents differ from the model", words[at], expected[at]);
  }
  digest(static_cast<const std::uint64_t*>(found)[slice.count / 2]);
}

void World::fail(const char* what, std::uint64_t found, std::uint64_t expected) const {
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::fprintf(stderr,
               "random_program: seed %llu, operation %llu: %s: %016llx, expected %016llx\n"
               "  repeat: random_program --programs 1 --first %llu --operations %llu --repeat %llu --live %llu --held "
               "%llu --largest %llu --unseen %llu --sleeps %llu\n",
               number(seed_), number(step_), what, number(found), number(expected), number(seed_),
               number(options.operations), number(options.repeat), number(options.live), number(options.held),
               number(options.largest), number(options.unseen), number(options.sleeps));
  std::fflush(stderr);
  std::_Exit(1);
}

void* World::staging() {
  next_staging_ = (next_staging_ + 1) % staging_.size();
  CHECK_CUDA(cuEventSynchronize(staging_[next_staging_].done));
  return staging_[next_staging_].host;
}

void World::staging_used(unsigned stream) { CHECK_CUDA(cuEventRecord(staging_[next_staging_].done, streams_[stream])); }

const std::uint64_t* World::noise(std::uint64_t words) {
  static const std::vector<std::uint64_t> noise = [] {
    Random source(1);
    std::vector<std::uint64_t> made(std::size_t{3} << 20);
    for (std::uint64_t& word : made) word = source.next() | 1;
    return made;
  }();
  return noise.data() + random.below(noise.size() - words);
}

World::Table& World::table() {
  Table& one = tables_[next_table_++ % tables_.size()];
  CHECK_CUDA(cuEventSynchronize(one.uploaded));
  return one;
}

World::Table& World::root() {
  CHECK_CUDA(cuEventSynchronize(root_.uploaded));
  return root_;
}

std::vector<Slice> World::pick_held(std::size_t count) {
  std::vector<Slice> slices;
  std::vector<Buffer*> named;
  for (int attempt = 0; attempt < 32 && slices.size() < count; ++attempt) {
    const Slice slice = any_slice();
    named.push_back(slice.buffer);
    if (std::find(named.begin(), named.end() - 1, slice.buffer) != named.end() - 1 || !may_hold(named)) {
      named.pop_back();
    } else {
      slices.push_back(slice);
    }
  }
  if (slices.size() < count) return {};
  hold(named);
  return slices;
}

void World::launch(Graph& graph, unsigned stream) {
  for (const Buffer* buffer : graph.reads) before_read(stream, *buffer);
  for (const Buffer* buffer : graph.writes) before_write(stream, *buffer);
  order(stream, graph.used);
  CHECK_CUDA(cuGraphLaunch(graph.exec, streams_[stream]));
  submitted(stream);
  for (Buffer* buffer : graph.reads) after_read(stream, *buffer);
  for (Buffer* buffer : graph.writes) after_write(stream, *buffer);
  graph.used = now(stream);
  graph.effect();
}

void World::drop(std::size_t index) {
  Graph& graph = *graphs_[index];
  CHECK_CUDA(cuStreamSynchronize(streams_[graph.used.stream]));
  CHECK_CUDA(cuGraphExecDestroy(graph.exec));
  if (graph.graph != nullptr) CHECK_CUDA(cuGraphDestroy(graph.graph));
  graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace model
