// SPDX-License-Identifier: Apache-2.0
// The traps in which what was read is changed, freed or written in another order (recompute_traps.cu).
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/simulated_cudart/recompute_traps.h"

namespace traps {
namespace {

template <class Change>
void change_input(Result* result, Change change) {
  const Memory in, out, other;
  upload(in, 17);
  upload(other, 18);
  twice<17><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  change(in, other);
  result->add(out.at);
  result->add(in.at);
}
void overwritten(Result* result) {
  const Beside<17> beside(result);
  change_input(result, [](const Memory& in, const Memory&) { upload(in, 170); });
  change_input(result, [](const Memory& in, const Memory&) { require(cudaMemset(in.at, 1, kBytes)); });
  change_input(result, [](const Memory& in, const Memory&) { require(cudaMemset(in.at + 5, 1, 4)); });
  change_input(result, [](const Memory& in, const Memory& other) {
    require(cudaMemcpy(in.at, other.at, kBytes, cudaMemcpyDeviceToDevice));
  });
  change_input(result, [](const Memory& in, const Memory& other) {
    require(cudaMemcpy2DAsync(in.at + 3, 4096, other.at, 4096, 64, 100, cudaMemcpyDeviceToDevice));
  });
  change_input(result, [](const Memory& in, const Memory&) {
    add<1><<<kBlocks, kThreads>>>(in.at, in.at, in.at, kCount);
    count_launches<1><<<1, 1>>>(in.at, in.at + 1, 1);
  });
  change_input(result, [](const Memory& in, const Memory& other) {
    twice<17><<<kBlocks, kThreads>>>(other.at, in.at, kCount);
    every_other<1><<<1, kThreads>>>(in.at, 100);
  });
  std::vector<float> host = pattern(19);
  change_input(result, [&host](const Memory& in, const Memory&) {
    require(cudaMemcpyAsync(in.at, host.data(), kBytes, cudaMemcpyHostToDevice));
    require(cudaDeviceSynchronize());
    for (float& value : host) value = 0;
  });
}

void freed(Result* result) {
  const Beside<18> beside(result);
  const Memory out, last;
  for (int i = 0; i < 3; ++i) {
    Memory in;
    upload(in, 180 + i);
    twice<18><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
    in.release();
    const Memory other;  // at the same address
    upload(other, 190 + i);
    result->add(out.at);
  }
  float *in = nullptr, *other = nullptr;
  require(cudaMallocAsync(&in, kBytes, nullptr));
  require(cudaMemsetAsync(in, 1, kBytes, nullptr));
  twice<18><<<kBlocks, kThreads>>>(in, last.at, kCount);
  require(cudaFreeAsync(in, nullptr));
  require(cudaMallocAsync(&other, kBytes, nullptr));
  require(cudaMemsetAsync(other, 2, kBytes, nullptr));
  result->add(last.at);
  require(cudaFreeAsync(other, nullptr));
}

struct Streams {
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;

  Streams() {
    require(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    require(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    require(cudaEventCreate(&event));
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    require(cudaDeviceSynchronize());
    require(cudaStreamDestroy(a));
    require(cudaStreamDestroy(b));
    require(cudaEventDestroy(event));
  }
  // Work in the second stream waits for work in the first one.
  void order(cudaStream_t before, cudaStream_t after) const {
    require(cudaEventRecord(event, before));
    require(cudaStreamWaitEvent(after, event, 0));
  }
};

void other_stream(Result* result) {
  const Beside<19> beside(result);
  const Streams streams;
  const Memory in, out, last;
  upload(in, 20);
  require(cudaDeviceSynchronize());
  twice<19><<<kBlocks, kThreads, 0, streams.a>>>(in.at, out.at, kCount);
  streams.order(streams.a, streams.b);
  require(cudaMemsetAsync(in.at, 3, kBytes, streams.b));
  twice<19><<<kBlocks, kThreads, 0, streams.b>>>(out.at, last.at, kCount);
  streams.order(streams.b, streams.a);
  control<19><<<kBlocks, kThreads, 0, streams.a>>>(last.at, in.at, kCount);
  require(cudaStreamSynchronize(streams.a));
  result->add(out.at);
  result->add(last.at);
  result->add(in.at);
}

void wait_for(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}
// The work that is submitted first runs last: its stream waits for the host.
void late(Result* result) {
  const Beside<20> beside(result);
  const Streams streams;
  for (const bool writes_late : {false, true}) {
    const Memory first, second, in, out;
    upload(first, 21);
    upload(second, 22);
    twice<20><<<kBlocks, kThreads>>>(first.at, in.at, kCount);
    require(cudaDeviceSynchronize());
    std::atomic<bool> flag{false};
    const cudaStream_t late_one = streams.b, early = streams.a;
    require(cudaLaunchHostFunc(late_one, &wait_for, &flag));
    if (writes_late) {
      twice<20><<<kBlocks, kThreads, 0, late_one>>>(second.at, in.at, kCount);
      control<20><<<kBlocks, kThreads, 0, early>>>(in.at, out.at, kCount);
    } else {
      control<20><<<kBlocks, kThreads, 0, late_one>>>(in.at, out.at, kCount);
      twice<20><<<kBlocks, kThreads, 0, early>>>(second.at, in.at, kCount);
    }
    require(cudaStreamSynchronize(early));
    flag.store(true);
    require(cudaStreamSynchronize(late_one));
    // Written late: made of `first`; read late: made of `second`.
    const std::vector<float> of = pattern(writes_late ? 21 : 22), values = download(out.at);
    for (std::size_t i = 0; i < values.size(); ++i) result->expect(values[i] == (of[i] * 2.0f + 1.0f) * 1.5f + 20.0f);
    result->add(in.at);
  }
}

void two_threads(Result* result) {
  const Beside<21> beside(result);
  std::vector<float> made[2];
  const auto work = [&made](int who) {
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
      const Memory in, between, out;
      const std::vector<float> values = pattern(210 + who);
      for (int i = 0; i < 4; ++i) {
        require(cudaMemcpyAsync(in.at, values.data(), kBytes, cudaMemcpyHostToDevice, stream));
        twice<21><<<kBlocks, kThreads, 0, stream>>>(in.at, between.at, kCount);
        require(cudaMemsetAsync(in.at, 0, kBytes, stream));
        strided<21><<<9, kThreads, 0, stream>>>(between.at, out.at, kCount);
        twice<21><<<kBlocks, kThreads, 0, stream>>>(out.at, between.at, kCount);
      }
      made[who].resize(kCount);
      require(cudaMemcpyAsync(made[who].data(), between.at, kBytes, cudaMemcpyDeviceToHost, stream));
      require(cudaStreamSynchronize(stream));
    }
    require(cudaStreamDestroy(stream));
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  result->add(made[0]);
  result->add(made[1]);
}

cudaGraphExec_t recorded(cudaStream_t stream, const float* in, float* out) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  twice<22><<<kBlocks, kThreads, 0, stream>>>(in, out, kCount);
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiate(&exec, graph, 0));
  require(cudaGraphDestroy(graph));
  return exec;
}
// A graph writes what is read, reads what is written, and is launched again.
void graph(Result* result) {
  const Beside<22> beside(result);
  const Streams streams;
  const Memory first, in, out, last;
  upload(first, 23);
  upload(in, 24);
  const cudaGraphExec_t into_in = recorded(streams.a, first.at, in.at), of_out = recorded(streams.a, out.at, last.at);
  require(cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) {
    twice<22><<<kBlocks, kThreads, 0, streams.a>>>(in.at, out.at, kCount);
    require(cudaGraphLaunch(into_in, streams.a));
    require(cudaGraphLaunch(of_out, streams.a));
    require(cudaStreamSynchronize(streams.a));
    upload(first, 25 + i);
    require(cudaDeviceSynchronize());
    result->add(out.at);
    result->add(last.at);
  }
  require(cudaGraphExecDestroy(into_in));
  require(cudaGraphExecDestroy(of_out));
}

// A graph records copies and sets of what was made before: while it does, nothing can run again.
void recorded_copies(Result* result) {
  const Beside<26> beside(result);
  const Streams streams;
  const Memory in, out, copied;
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    upload(in, 31 + static_cast<int>(mode));
    require(cudaDeviceSynchronize());
    twice<26><<<kBlocks, kThreads, 0, streams.a>>>(in.at, out.at, kCount);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    require(cudaStreamBeginCapture(streams.a, mode));
    require(cudaMemcpyAsync(copied.at, out.at, kBytes, cudaMemcpyDeviceToDevice, streams.a));
    require(cudaMemsetAsync(out.at, 0, kBytes / 2, streams.a));
    require(cudaStreamEndCapture(streams.a, &graph));
    require(cudaGraphInstantiate(&exec, graph, 0));
    require(cudaGraphLaunch(exec, streams.a));
    require(cudaStreamSynchronize(streams.a));
    result->add(copied.at);
    result->add(out.at);
    require(cudaGraphExecDestroy(exec));
    require(cudaGraphDestroy(graph));
  }
}

// out[i] = in[i] * a + b, by the same name, with other numbers.
std::string loaded_text(const char* number) {
  return ".version 7.0\n.target sm_70\n.address_size 64\n"
         ".visible .entry scaled(.param .u64 scaled_0, .param .u64 scaled_1, .param .u32 scaled_2)\n{\n"
         ".reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<8>;\n"
         "ld.param.u64 %rd1, [scaled_0]; ld.param.u64 %rd2, [scaled_1]; ld.param.u32 %r2, [scaled_2];\n"
         "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;\n"
         "setp.ge.s32 %p1, %r1, %r2; @%p1 bra $END;\n"
         "cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;\n"
         "cvta.to.global.u64 %rd6, %rd2; add.s64 %rd7, %rd6, %rd4;\n"
         "ld.global.f32 %f1, [%rd5]; mul.f32 %f2, %f1, " +
         std::string(number) + "; st.global.f32 [%rd7], %f2;\n$END: ret;\n}\n";
}
void unloaded(Result* result) {
  const Beside<23> beside(result);
  const Memory in, first, second;
  upload(in, 26);
  int count = kCount;
  for (const bool is_first : {true, false}) {
    const std::string text = loaded_text(is_first ? "0f40400000" : "0f40A00000");
    const Memory& out = is_first ? first : second;
    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr;
    require(cudaLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    require(cudaLibraryGetKernel(&kernel, library, "scaled"));
    void* parameters[] = {const_cast<float**>(&in.at), const_cast<float**>(&out.at), &count};
    require(
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(kBlocks), dim3(kThreads), parameters, 0, nullptr));
    twice<23><<<kBlocks, kThreads>>>(in.at, beside.in.at, 0);
    require(cudaLibraryUnload(library));
  }
  upload(in, 27);
  result->add(first.at);
  result->add(second.at);
}

void reset(Result* result) {
  for (int i = 0; i < 2; ++i) {
    {
      const Beside<24> beside(result);
      const Memory in, out;
      upload(in, 28 + i);
      twice<24><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
      upload(in, 0);
      result->add(out.at);
      if (i > 0) continue;
    }
    Memory in, out;
    upload(in, 30);
    twice<24><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
    require(cudaDeviceReset());
    in.at = out.at = nullptr;
  }
}

}  // namespace

const std::vector<Trap> kTrapsOfOrder = {{"overwritten", overwritten},
                                         {"freed", freed},
                                         {"other_stream", other_stream},
                                         {"late", late},
                                         {"two_threads", two_threads},
                                         {"graph", graph},
                                         {"recorded_copies", recorded_copies},
                                         {"unloaded", unloaded},
                                         {"reset", reset}};

}  // namespace traps
