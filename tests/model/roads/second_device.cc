// SPDX-License-Identifier: Apache-2.0
// A second device has memory of its own, which a buffer's bytes visit: copied there, changed by a kernel of that device
// in a stream of its own, copied back. Each copy is in a stream of the one device or of the other, and events alone put
// them in order. Drawn only where the program is told that there are several devices: elsewhere seeds mean what they
// did.
#include <cstdlib>

#include "tests/model/road.h"

namespace {
using namespace model;

// The context's calls are made with it current.
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
  // All of it is over.
  void end(const SecondDevice& second) const {
    const Current current(second.context);
    CHECK_CUDA(cuMemFree(memory));
    CHECK_CUDA(cuEventDestroy(done));
    CHECK_CUDA(cuStreamDestroy(stream));
  }
};

// One of the second device's streams comes behind all that ours was given, or ours behind all of its.
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

void visit(World& world) {
  if (world.buffers().empty()) return;
  const Slice slice = world.any_slice();
  if (slice.bytes() > kMiB) return;
  const unsigned stream = world.own_stream();
  const SecondDevice& second = second_device();
  const CUcontext first = world.device.context;
  const Visit visit(second, slice.bytes());
  const bool sends = world.random.one_in(2), fetches = world.random.one_in(2);
  CUdeviceptr theirs = visit.memory, ours = slice.address();
  world.before_write(stream, *slice.buffer);
  if (!sends) go_there(world, stream, visit);
  CHECK_CUDA(cuMemcpyPeerAsync(theirs, second.context, ours, first, slice.bytes(),
                               sends ? world.stream(stream) : visit.stream));
  if (sends) go_there(world, stream, visit);
  std::uint64_t count = slice.count, salt = world.random.next();
  {
    const Current current(second.context);
    void* parameters[] = {&theirs, &count, &salt};
    CHECK_CUDA(cuLaunchKernel(second.kernel, 1, 1, 1, 64, 1, 1, 0, visit.stream, parameters, nullptr));
  }
  if (fetches) come_back(world, stream, second, visit);
  CHECK_CUDA(cuMemcpyPeerAsync(ours, first, theirs, second.context, slice.bytes(),
                               fetches ? world.stream(stream) : visit.stream));
  if (!fetches) come_back(world, stream, second, visit);
  world.submitted(stream);
  world.after_write(stream, *slice.buffer);
  change_every_word(slice.words(), salt);
  CHECK_CUDA(cuStreamSynchronize(world.stream(stream)));
  visit.end(second);
}

unsigned weight() {
  const char* const devices = std::getenv("THERMOCLINE_SIMULATE_DEVICES");
  return devices != nullptr && std::atoi(devices) > 1 ? 2 : 0;
}

const Registered<Step> step({{"second_device", weight()}, visit});
}  // namespace
