// SPDX-License-Identifier: Apache-2.0
// Kernels that are made to be recomputed wrongly, of kinds that recompute_traps.cu and recompute_kernels.cu do not have: whatever
// is proven of them, the results are those without the library.
//
//   recompute_adversaries [NAME...]    default: all. Prints "NAME DIGEST WRONG" for each, as recompute_traps.cu
#include <cstdint>

#include "tests/simulated_cudart/recompute_traps.h"

namespace traps {
namespace {

// Memory whose first contents can be made again.
struct Filled : Memory {
  Filled() {
    upload(from_, 41);
    twice<20><<<kBlocks, kThreads>>>(from_.at, at, kCount);
  }

 private:
  Memory from_;
};

template <class Launch>
void expect_each(Result* result, Launch launch) {
  const Memory in;
  const Filled out;
  upload(in, 40);
  launch(in.at, out.at);
  result->add(out.at);
  result->add(in.at);
}

__device__ float* stashed;
__global__ void stash(float* where) {
  if (own() == 0) stashed = where;
}
__global__ void through_stash(const float* in, int count) {
  const int i = own();
  if (i < count) stashed[i] = in[i] + 7.0f;
}
// Its third parameter is an address in two halves.
__global__ void halves(const float* in, std::uint32_t low, std::uint32_t high, int count) {
  const int i = own();
  float* const out = reinterpret_cast<float*>(static_cast<std::uint64_t>(high) << 32 | low);
  if (i < count) out[i] = in[i] + 8.0f;
}
// The lowest bits say what is added.
__global__ void tagged(const float* in, std::uintptr_t out, int count) {
  const int i = own();
  if (i < count) reinterpret_cast<float*>(out & ~std::uintptr_t{15})[i] = in[i] + static_cast<float>(out & 15);
}
__global__ void linked(const float* in, const float* key, std::uintptr_t both, int count) {
  const int i = own();
  float* const out = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(key) ^ both);
  if (i < count) out[i] = in[i] + 9.0f;
}
__global__ void either_by_contents(const float* in, float* one, float* other, int count) {
  const int i = own();
  if (i >= count) return;
  float* const to = in[i] > 500.0f ? one : other;
  to[i] = in[i];
}
// A structure whose member is found at run time.
struct Several {
  float* to[4];
};
__global__ void member(const float* in, Several several, int which, int count) {
  const int i = own();
  if (i < count) several.to[(which + i / kThreads) & 3][i] = in[i];
}

__global__ void shifted(float* values, int by, int count) {
  const int i = own();
  if (i + by < count) values[i] = values[i + by] + 1.0f;
}
__global__ void accumulate(const float* in, float* sums, int count) {
  const int i = own();
  if (i < count) sums[i] += in[i];
}
__global__ void keep_larger(const float* in, float* largest, int count) {
  const int i = own();
  if (i < count && in[i] > largest[i]) largest[i] = in[i];
}
// Two outputs that may overlap.
__global__ void both(const float* in, float* one, float* other, int count) {
  const int i = own();
  if (i >= count) return;
  one[i] = in[i] + 1.0f;
  other[i] = in[i] - 1.0f;
}
__global__ void swap_halves(float* one, float* other, int count) {
  const int i = own();
  if (i >= count) return;
  const float kept = one[i];
  one[i] = other[i];
  other[i] = kept;
}

__global__ void low_bytes(const float* in, unsigned char* out, int count) {
  const int i = own();
  if (i < count) out[4 * i] = static_cast<unsigned char>(in[i]);
}
__global__ void short_index(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[static_cast<unsigned short>(i)] = in[static_cast<unsigned short>(i)] + 1.0f;
}
__global__ void permuted(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i ^ 5] = in[i];
}
__global__ void overlapping(const float* in, float* out, int count) {
  const int i = own();
  if (3 * i + 3 >= count) return;
  for (int k = 0; k < 4; ++k) out[3 * i + k] = in[3 * i + k] + 4.0f;
}
// A counter of eight bits comes around.
__global__ void byte_counter(const float* in, float* out, int turns) {
  const int row = own();
  unsigned char column = 250;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn, ++column) out[256 * row + column] = in[256 * row + turn] + 1.0f;
}
__global__ void by_numbers_of_reals(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[static_cast<int>(static_cast<float>(i) * 0.5f)] = in[i / 2 * 2];
}

__global__ void tail_of_shared(const float* in, float* out, int filled, int count) {
  __shared__ float shared[kThreads];
  const int i = own();
  if (static_cast<int>(threadIdx.x) < filled) shared[threadIdx.x] = in[i];
  __syncthreads();
  if (i < count && static_cast<int>(threadIdx.x) < filled) out[i] = shared[filled - 1 - threadIdx.x];
}
__global__ void part_of_warp(const float* in, float* out, int count) {
  const int i = own();
  const float own_value = in[i];
  const float other = __shfl_down_sync(0xffffffff, own_value, 3, 8);
  if (i < count) out[i] = own_value + other;
}
// As many threads as the contents say wait.
__global__ void turns_of_contents(const float* in, float* out, int count) {
  __shared__ float shared[kThreads];
  const int i = own(), turns = static_cast<int>(in[0]) % 3 + 1;
  float sum = 0;
  for (int turn = 0; turn < turns; ++turn) {
    shared[threadIdx.x] = in[i] + static_cast<float>(turn);
    __syncthreads();
    sum += shared[(threadIdx.x + 1) % kThreads];
    __syncthreads();
  }
  if (i < count) out[i] = sum;
}
__global__ void neighbours_in_scratch(const float* in, float* scratch, float* out, int count) {
  const int i = own();
  if (i >= count) return;
  scratch[i] = in[i] * 2.0f;
  __syncthreads();
  out[i] = scratch[i ^ 1];
}
__global__ void size_of_shared(const float* in, float* out, int count) {
  unsigned bytes = 0;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  const int i = own();
  if (i < count) out[i] = in[i] + static_cast<float>(bytes);
}
__global__ void once(unsigned* done, const float* in, float* out, int count) {
  const int i = own();
  if (i < count && *done == 0) out[i] = in[i] + 3.0f;
}
__global__ void set_done(unsigned* done) {
  if (own() == 0) *done = 1;
}
__global__ void exchanged(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) atomicExch(&out[i], in[i] * 0.5f);
}

void stashed_pointers(Result* result) {
  expect_each(result, [](float* in, float* out) {
    stash<<<1, 1>>>(out);
    through_stash<<<kBlocks, kThreads>>>(in, kCount);
  });
}
void pointers_in_halves(Result* result) {
  expect_each(result, [](float* in, float* out) {
    const auto at = reinterpret_cast<std::uintptr_t>(out);
    halves<<<kBlocks, kThreads>>>(in, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), kCount);
  });
}
void tagged_pointers(Result* result) {
  expect_each(result, [](float* in, float* out) {
    tagged<<<kBlocks, kThreads>>>(in, reinterpret_cast<std::uintptr_t>(out) | 3, kCount);
  });
}
void linked_pointers(Result* result) {
  expect_each(result, [](float* in, float* out) {
    const auto both = reinterpret_cast<std::uintptr_t>(out) ^ reinterpret_cast<std::uintptr_t>(in);
    linked<<<kBlocks, kThreads>>>(in, in, both, kCount);
  });
}
void chosen_pointers(Result* result) {
  const Filled second, third;
  expect_each(result, [&](float* in, float* out) {
    either_by_contents<<<kBlocks, kThreads>>>(in, out, second.at, kCount);
    member<<<kBlocks, kThreads>>>(in, {{out, second.at, third.at, out}}, 1, kCount);
  });
  result->add(second.at);
  result->add(third.at);
}
void aliases(Result* result) {
  expect_each(result, [](float*, float* out) { shifted<<<kBlocks, kThreads>>>(out, kCount / 2, kCount); });
  expect_each(result, [](float*, float* out) { shifted<<<1, 1>>>(out, 1, kCount); });
  expect_each(result, [](float* in, float* out) {
    accumulate<<<kBlocks, kThreads>>>(in, out, kCount);
    accumulate<<<kBlocks, kThreads>>>(in, out, kCount / 2);
    accumulate<<<kBlocks, kThreads>>>(in, in, kCount);
    keep_larger<<<kBlocks, kThreads>>>(in, out, kCount);
  });
  expect_each(result, [](float* in, float* out) {
    both<<<kBlocks / 4, kThreads>>>(in, out, out + kCount / 8, kCount / 8);
    both<<<kBlocks / 4, kThreads>>>(in, out + kCount / 2, out, kCount / 4);
    swap_halves<<<kBlocks / 2, kThreads>>>(out, out + kCount / 2, kCount / 2);
  });
  expect_each(result, [](float* in, float* out) { swap_halves<<<kBlocks, kThreads>>>(in, out, kCount / 2 + 3); });
}
void indices(Result* result) {
  expect_each(result, [](float* in, float* out) {
    low_bytes<<<kBlocks, kThreads>>>(in, reinterpret_cast<unsigned char*>(out), kCount);
  });
  expect_each(result, [](float* in, float* out) { short_index<<<kBlocks, kThreads>>>(in, out, kCount); });
  expect_each(result, [](float* in, float* out) { permuted<<<kBlocks, kThreads>>>(in, out, kCount); });
  expect_each(result, [](float* in, float* out) { permuted<<<kBlocks, kThreads>>>(in, out, kCount - 3); });
  expect_each(result, [](float* in, float* out) { overlapping<<<kBlocks / 3, kThreads>>>(in, out, kCount); });
  for (const int turns : {6, 7, 200, 256})
    expect_each(result,
                [&](float* in, float* out) { byte_counter<<<kCount / 256 / kThreads, kThreads>>>(in, out, turns); });
  expect_each(result, [](float* in, float* out) { by_numbers_of_reals<<<kBlocks, kThreads>>>(in, out, kCount); });
}
void exchanges(Result* result) {
  for (const int filled : {kThreads, kThreads - 7, 1})
    expect_each(result, [&](float* in, float* out) { tail_of_shared<<<kBlocks, kThreads>>>(in, out, filled, kCount); });
  expect_each(result, [](float* in, float* out) { part_of_warp<<<kBlocks, kThreads>>>(in, out, kCount); });
  expect_each(result, [](float* in, float* out) { turns_of_contents<<<kBlocks, kThreads>>>(in, out, kCount); });
  const Filled scratch;
  expect_each(result, [&](float* in, float* out) {
    neighbours_in_scratch<<<kBlocks, kThreads>>>(in, scratch.at, out, kCount);
  });
}
void launches(Result* result) {
  for (const unsigned bytes : {0u, 512u})
    expect_each(result, [&](float* in, float* out) { size_of_shared<<<kBlocks, kThreads, bytes>>>(in, out, kCount); });
  const Memory done(256);
  require(cudaMemset(done.at, 0, 256));
  auto* const flag = reinterpret_cast<unsigned*>(done.at);
  expect_each(result, [&](float* in, float* out) {
    once<<<kBlocks, kThreads>>>(flag, in, out, kCount);
    set_done<<<1, 1>>>(flag);
    once<<<kBlocks, kThreads>>>(flag, in, in, kCount);
  });
  expect_each(result, [](float* in, float* out) { exchanged<<<kBlocks, kThreads>>>(in, out, kCount); });
}

// No adversary: code that the program loads itself, before it has allocated anything.
constexpr const char* kEarlyCode = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry early(.param .u64 early_in, .param .u64 early_out, .param .u32 early_count)
{
  .reg .pred %p<2>;
  .reg .f32 %f<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [early_in];
  ld.param.u64 %rd2, [early_out];
  ld.param.u32 %r1, [early_count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra END;
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.s32 %rd5, %r5, 4;
  add.s64 %rd6, %rd3, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.f32 %f1, [%rd6];
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd7], %f2;
END:
  ret;
}
)";
cudaKernel_t early = nullptr;
void load_early() {
  // The program may do with the text what it likes once it is loaded.
  std::vector<char> text(kEarlyCode, kEarlyCode + std::strlen(kEarlyCode) + 1);
  cudaLibrary_t library = nullptr;
  require(cudaLibraryLoadData(&library, text.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  require(cudaLibraryGetKernel(&early, library, "early"));
  std::memset(text.data(), 'x', text.size());
}
void early_code(Result* result) {
  expect_each(result, [](float* in, float* out) {
    int count = kCount;
    void* parameters[] = {&in, &out, &count};
    require(cudaLaunchKernel(early, dim3(kBlocks), dim3(kThreads), parameters, 0, nullptr));
  });
}

const std::vector<Trap> kAll = {{"early_code", early_code},
                                {"stashed_pointers", stashed_pointers},
                                {"pointers_in_halves", pointers_in_halves},
                                {"tagged_pointers", tagged_pointers},
                                {"linked_pointers", linked_pointers},
                                {"chosen_pointers", chosen_pointers},
                                {"aliases", aliases},
                                {"indices", indices},
                                {"exchanges", exchanges},
                                {"launches", launches}};

}  // namespace
}  // namespace traps

int main(int argc, char** argv) {
  traps::load_early();
  return traps::run(traps::kAll, argc, argv);
}
