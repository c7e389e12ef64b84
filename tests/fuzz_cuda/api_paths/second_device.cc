// SPDX-License-Identifier: Apache-2.0
// A second device with memory of its own, through which a buffer's bytes are sent: copied there, changed by a kernel of
// that device in a stream of its own, or by one of the first device as its peer, and copied back. Each copy is in a
// stream of either device, and only events order them. Or the bytes are sent to the host, through a stream of the
// second device. Used only if the program is told that there are several devices: otherwise seeds keep their meaning.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

// The calls of the context are made while it is current.
class Current {
 public:
  explicit Current(CUcontext context) { CHECK_CUDA(cuCtxPushCurrent(context)); }
  ~Current() { CHECK_CUDA(cuCtxPopCurrent(nullptr)); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

struct SecondDevice {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;

  SecondDevice() {
    CHECK_CUDA(cuDevicePrimaryCtxRetain(&context, 1));
    CHECK_CUDA(cuCtxEnablePeerAccess(context, 0));  // to the first device, whose context is current
    const Current current(context);
    CHECK_CUDA(cuModuleLoadData(&module, kImage));
    CHECK_CUDA(cuModuleGetFunction(&kernel, module, "model_change_every_word"));
  }
  ~SecondDevice() {
    {
      const Current current(context);
      CHECK_CUDA(cuModuleUnload(module));
    }
    CHECK_CUDA(cuDevicePrimaryCtxRelease(1));
  }
  SecondDevice(const SecondDevice&) = delete;
  SecondDevice& operator=(const SecondDevice&) = delete;
};

const SecondDevice& second_device() {
  static const SecondDevice second;
  return second;
}

struct Visit {
  CUstream stream = nullptr;
  CUevent done = nullptr;
  CUdeviceptr memory = 0;

  Visit(const SecondDevice& second, std::uint64_t bytes) {
    const Current current(second.context);
    CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_CUDA(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    CHECK_CUDA(cuMemAlloc(&memory, bytes));
  }
  // All work in it has completed.
  void end(const SecondDevice& second) const {
    const Current current(second.context);
    CHECK_CUDA(cuMemFree(memory));
    CHECK_CUDA(cuEventDestroy(done));
    CHECK_CUDA(cuStreamDestroy(stream));
  }
};

// Orders one of the second device's streams after everything in ours, or ours after everything in it.
void go_there(World& world, unsigned stream, const Visit& visit) {
  CUevent here = nullptr;
  CHECK_CUDA(cuEventCreate(&here, CU_EVENT_DISABLE_TIMING));
  CHECK_CUDA(cuEventRecord(here, world.stream(stream)));
  CHECK_CUDA(cuStreamWaitEvent(visit.stream, here, 0));
  CHECK_CUDA(cuEventDestroy(here));
}
void come_back(World& world, unsigned stream, const SecondDevice& second, const Visit& visit) {
  const Current current(second.context);
  CHECK_CUDA(cuEventRecord(visit.done, visit.stream));
  CHECK_CUDA(cuStreamWaitEvent(world.stream(stream), visit.done, 0));
}

// A copy that names no contexts is done by the stream's device. That may access the other's allocations, but no other
// kinds of memory, so the first device's stream is used.
void copy(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, std::size_t bytes, CUstream stream,
          bool names_contexts) {
  if (names_contexts) {
    CHECK_CUDA(cuMemcpyPeerAsync(to, there, from, here, bytes, stream));
  } else {
    CHECK_CUDA(cuMemcpyDtoDAsync(to, from, bytes, stream));
  }
}

void change(World& world, unsigned stream, const SecondDevice& second, const Visit& visit, std::uint64_t words,
            std::uint64_t salt, bool as_peer) {
  CUdeviceptr at = visit.memory;
  void* parameters[] = {&at, &words, &salt};
  if (as_peer) {
    come_back(world, stream, second, visit);
    const CUfunction kernel = world.device.functions.find("model_change_every_word")->second.of_module;
    CHECK_CUDA(cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, world.stream(stream), parameters, nullptr));
    go_there(world, stream, visit);
  } else {
    const Current current(second.context);
    CHECK_CUDA(cuLaunchKernel(second.kernel, 1, 1, 1, 64, 1, 1, 0, visit.stream, parameters, nullptr));
  }
}

void visit(World& world) {
  if (world.buffers().empty()) return;
  const Slice slice = world.any_slice();
  if (slice.bytes() > kMiB) return;
  const unsigned stream = world.own_stream();
  const SecondDevice& second = second_device();
  const CUcontext first = world.device.context;
  const Visit visit(second, slice.bytes());
  const bool sends = world.random.one_in(2), fetches = world.random.one_in(2);
  const bool plain = world.random.one_in(3), as_peer = world.random.one_in(3);
  const CUdeviceptr theirs = visit.memory, ours = slice.address();
  world.before_write(stream, *slice.buffer);
  if (!sends) go_there(world, stream, visit);
  copy(theirs, second.context, ours, first, slice.bytes(), sends ? world.stream(stream) : visit.stream,
       !(plain && sends));
  if (sends) go_there(world, stream, visit);
  const std::uint64_t salt = world.random.next();
  change(world, stream, second, visit, slice.count, salt, as_peer);
  if (fetches) come_back(world, stream, second, visit);
  copy(ours, first, theirs, second.context, slice.bytes(), fetches ? world.stream(stream) : visit.stream,
       !(plain && fetches));
  if (!fetches) come_back(world, stream, second, visit);
  world.submitted(stream);
  world.after_write(stream, *slice.buffer);
  change_every_word(slice.words(), salt);
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  visit.end(second);
}

// Pageable or pinned, with either device's context current. Only for plain allocations: memory of pools, and mappings
// of the program's own, is accessible only to its own device.
void visit_host(World& world) {
  if (world.buffers().empty()) return;
  const Slice slice = world.any_slice();
  const std::string_view memory = slice.buffer->memory->name;
  if (slice.bytes() > kMiB || (memory != "plain" && memory != "pitched")) return;
  const unsigned stream = world.own_stream();
  const SecondDevice& second = second_device();
  const Visit visit(second, slice.bytes());
  const bool pinned = world.random.one_in(2), there = world.random.one_in(2);
  std::vector<std::uint64_t> pageable(slice.count);
  void* page_locked = nullptr;
  CHECK_CUDA(cuMemHostAlloc(&page_locked, slice.bytes(), CU_MEMHOSTALLOC_PORTABLE));
  auto* const host = pinned ? static_cast<std::uint64_t*>(page_locked) : pageable.data();
  const std::uint64_t salt = world.random.next();
  world.before_write(stream, *slice.buffer);
  go_there(world, stream, visit);
  {
    const Current current(there ? second.context : world.device.context);
    CHECK_CUDA(cuMemcpyDtoHAsync(host, slice.address(), slice.bytes(), visit.stream));
    CHECK_CUDA(cuStreamSynchronize(visit.stream));
    change_every_word({host, slice.count}, salt);
    CHECK_CUDA(cuMemcpyHtoDAsync(slice.address(), host, slice.bytes(), visit.stream));
  }
  come_back(world, stream, second, visit);
  world.submitted(stream);
  world.after_write(stream, *slice.buffer);
  change_every_word(slice.words(), salt);
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  CHECK_CUDA(cuMemFreeHost(page_locked));
  visit.end(second);
}

unsigned weight() {
  const char* const devices = std::getenv("THERMOCLINE_SIMULATE_DEVICES");
  return devices != nullptr && std::atoi(devices) > 1 ? 2 : 0;
}

const Registered<Step> step({{"second_device", weight()}, visit});
const Registered<Step> host_step({{"host_by_second_device", weight()}, visit_host});
}  // namespace
