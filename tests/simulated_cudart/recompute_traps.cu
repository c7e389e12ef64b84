// SPDX-License-Identifier: Apache-2.0
// Kernels and orders of calls made to have contents recomputed wrongly: what a kernel wrote depends on something else
// than what it read, or what it read is changed, freed or written late. Beside each is a harmless kernel, control<N>,
// whose result may be recomputed.
//
//   recompute_traps [NAME...]    default: all. Prints "NAME DIGEST WRONG" for each; WRONG counts
//                                values that differ from what the trap itself knows to be right.
#include <cstdint>
#include <string>

#include "tests/simulated_cudart/recompute_traps.h"

namespace traps {
namespace {

// ---- Results that depend on something else than what is read

void launch_count(Result* result) {
  const Beside<1> beside(result);
  const Memory counts, out, copy;
  require(cudaMemset(counts.at, 0, kBytes));
  for (int i = 0; i < 3; ++i) {
    count_launches<0><<<kBlocks, kThreads>>>(counts.at, out.at, kCount);
    twice<1><<<kBlocks, kThreads>>>(out.at, copy.at, kCount);
    result->add(copy.at);
  }
  for (const float value : download(counts.at)) result->expect(value == 3.0f);
  result->add(out.at);
}

__device__ float counter;
__global__ void count_in_variable() { counter += 1.0f; }
__global__ void read_variable(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i] + counter;
}
void variable(Result* result) {
  const Beside<2> beside(result);
  const Memory in, out;
  upload(in, 2);
  const float one = 1, nine = 9;
  require(cudaMemcpyToSymbol(counter, &one, sizeof one));
  read_variable<<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  count_in_variable<<<1, 1>>>();
  require(cudaMemcpyToSymbol(counter, &nine, sizeof nine));
  result->add(out.at);
}

__constant__ float factor;
__global__ void read_constant(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i] * factor;
}
void constant(Result* result) {
  const Beside<3> beside(result);
  const Memory in, out;
  upload(in, 3);
  const float two = 2, five = 5;
  require(cudaMemcpyToSymbol(factor, &two, sizeof two));
  read_constant<<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  require(cudaMemcpyToSymbol(factor, &five, sizeof five));
  result->add(out.at);
}

// Contents that were never written stay the same once somebody has read them.
void uninitialised(Result* result) {
  const Beside<4> beside(result);
  const Memory in, out, again;
  twice<4><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  twice<4><<<kBlocks, kThreads>>>(in.at, again.at, kCount);
  result->expect_equal(download(out.at), download(again.at));
}

__global__ void own_address(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i] + static_cast<float>(reinterpret_cast<std::uintptr_t>(out) >> 20 & 0xffff);
}
__global__ void low_address(const float* in, float* out, int count) {
  const int i = own();
  if (i < count)
    out[i] = in[i] + static_cast<float>(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(out)) >> 20);
}
struct Named {
  float* out;
  int count;
};
__global__ void low_address_of(const float* in, Named to) {
  const int i = own();
  unsigned low = 0;
  std::memcpy(&low, &to.out, sizeof low);
  if (i < to.count) to.out[i] = in[i] + static_cast<float>(low >> 20);
}
// Contents computed from it could be recomputed in scratch memory, which has another address.
void addresses(Result* result) {
  const Beside<5> beside(result);
  for (int how = 0; how < 3; ++how) {
    const Memory in, out;
    Memory between;
    upload(in, 5);
    if (how == 0) own_address<<<kBlocks, kThreads>>>(in.at, between.at, kCount);
    if (how == 1) low_address<<<kBlocks, kThreads>>>(in.at, between.at, kCount);
    if (how == 2) low_address_of<<<kBlocks, kThreads>>>(in.at, {between.at, kCount});
    twice<5><<<kBlocks, kThreads>>>(between.at, out.at, kCount);
    const auto at = reinterpret_cast<std::uintptr_t>(between.at);
    between.release();
    const Memory other;  // where `between` was
    upload(other, 55);
    const unsigned added = how == 0 ? static_cast<unsigned>(at >> 20 & 0xffff) : static_cast<unsigned>(at) >> 20;
    const std::vector<float> values = download(out.at), from = pattern(5);
    for (std::size_t i = 0; i < values.size(); ++i)
      result->expect(values[i] == (from[i] + static_cast<float>(added)) * 2.0f + 1.0f);
  }
}

__global__ void take_tickets(unsigned* next, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = static_cast<float>(atomicAdd(next, 1u));
}
void atomic_order(Result* result) {
  const Beside<6> beside(result);
  const Memory next(256), out, copy;
  require(cudaMemset(next.at, 0, 256));
  take_tickets<<<kBlocks, kThreads>>>(reinterpret_cast<unsigned*>(next.at), out.at, kCount);
  twice<6><<<kBlocks, kThreads>>>(out.at, copy.at, kCount);
  const std::vector<float> before = download(copy.at), values = download(out.at);
  for (std::size_t i = 0; i < values.size(); ++i) result->expect(before[i] == values[i] * 2.0f + 1.0f);
  unsigned drawn = 0;
  require(cudaMemcpy(&drawn, next.at, sizeof drawn, cudaMemcpyDeviceToHost));
  result->expect(drawn == kCount);
}

__global__ void read_clock(float* out, int count) {
  const int i = own();
  if (i < count) out[i] = static_cast<float>(clock64() & 0xffff);
}
__global__ void read_timer(float* out, int count) {
  const int i = own();
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  if (i < count) out[i] = static_cast<float>(now & 0xffff);
}
void clocks(Result* result) {
  const Beside<7> beside(result);
  for (const bool is_timer : {false, true}) {
    const Memory out, copy;
    if (is_timer) read_timer<<<kBlocks, kThreads>>>(out.at, kCount);
    if (!is_timer) read_clock<<<kBlocks, kThreads>>>(out.at, kCount);
    twice<7><<<kBlocks, kThreads>>>(out.at, copy.at, kCount);
    const std::vector<float> before = download(copy.at), values = download(out.at);
    for (std::size_t i = 0; i < values.size(); ++i) result->expect(before[i] == values[i] * 2.0f + 1.0f);
  }
}

__global__ void leave_in_shared(int value) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = value;
}
__global__ void read_shared(float* out, int count) {
  extern __shared__ int shared[];
  const int i = own();
  if (i < count) out[i] = static_cast<float>(shared[threadIdx.x] & 0xffff);
}
void dynamic_shared(Result* result) {
  const Beside<8> beside(result);
  const Memory out, copy;
  leave_in_shared<<<kBlocks, kThreads, kThreads * 4>>>(3);
  read_shared<<<kBlocks, kThreads, kThreads * 4>>>(out.at, kCount);
  leave_in_shared<<<kBlocks, kThreads, kThreads * 4>>>(4);
  twice<8><<<kBlocks, kThreads>>>(out.at, copy.at, kCount);
  const std::vector<float> before = download(copy.at), values = download(out.at);
  for (std::size_t i = 0; i < values.size(); ++i) result->expect(before[i] == values[i] * 2.0f + 1.0f);
}

__global__ void read_texture(cudaTextureObject_t in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = tex1Dfetch<float>(in, i) + 1.0f;
}
void texture(Result* result) {
  const Beside<9> beside(result);
  const Memory in, out;
  upload(in, 9);
  cudaResourceDesc of{};
  of.resType = cudaResourceTypeLinear;
  of.res.linear = {in.at, cudaCreateChannelDesc<float>(), kBytes};
  cudaTextureDesc how{};
  how.readMode = cudaReadModeElementType;
  cudaTextureObject_t object = 0;
  require(cudaCreateTextureObject(&object, &of, &how, nullptr));
  read_texture<<<kBlocks, kThreads>>>(object, out.at, kCount);
  upload(in, 99);
  result->add(out.at);
  require(cudaDestroyTextureObject(object));
}

__global__ void read_volatile(const volatile float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i];
}
// Memory of the host, which the program changes without a call.
void host_memory(Result* result) {
  const Beside<10> beside(result);
  const Memory out, other;
  for (const bool is_managed : {false, true}) {
    float* in = nullptr;
    if (is_managed) require(cudaMallocManaged(&in, kBytes));
    if (!is_managed) require(cudaHostAlloc(&in, kBytes, cudaHostAllocMapped));
    for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i % 100);
    twice<10><<<kBlocks, kThreads>>>(in, out.at, kCount);
    read_volatile<<<kBlocks, kThreads>>>(in, other.at, kCount);
    require(cudaDeviceSynchronize());
    for (int i = 0; i < kCount; ++i) in[i] = -1.0f;
    result->add(out.at);
    result->add(other.at);
    require(is_managed ? cudaFree(in) : cudaFreeHost(in));
  }
}

// ---- Writes to other places than the thread's own element

__global__ void poke(float* const* table, int count) {
  const int i = own();
  if (i < count) table[0][2 * i] = 77.0f;
}
void stored_pointer(Result* result) {
  const Beside<11> beside(result);
  const Memory in, out, table(256);
  upload(in, 11);
  require(cudaMemcpy(table.at, &out.at, sizeof out.at, cudaMemcpyHostToDevice));
  twice<11><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  poke<<<1, kThreads>>>(reinterpret_cast<float* const*>(table.at), kThreads);
  result->add(out.at);
  float* in_again = in.at;
  require(cudaMemcpy(table.at, &in_again, sizeof in_again, cudaMemcpyHostToDevice));
  twice<11><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  poke<<<1, kThreads>>>(reinterpret_cast<float* const*>(table.at), kThreads);
  result->add(out.at);
}

// In place, although the code does not tell.
void aliased(Result* result) {
  const Beside<12> beside(result);
  const Memory values;
  upload(values, 12);
  for (int i = 0; i < 3; ++i) add<0><<<kBlocks, kThreads>>>(values.at, values.at, values.at, kCount);
  result->add(values.at);
}

// From one half of a buffer to the other, and to what overlaps with it by all but an element.
void overlapping(Result* result) {
  const Beside<13> beside(result);
  const Memory values, whole;
  upload(values, 13);
  twice<13><<<kBlocks / 2, kThreads>>>(values.at, values.at + kCount / 2, kCount / 2);
  twice<13><<<kBlocks / 2, kThreads>>>(values.at + kCount / 2, values.at, kCount / 2);
  result->add(values.at);
  upload(values, 14);
  // One thread, so that the order is known.
  twice<13><<<1, 1>>>(values.at, values.at + 1, 1);
  twice<13><<<1, 1>>>(values.at + 1, values.at + 2, 1);
  result->add(values.at);
}

__global__ void positive(const float* in, float* out, int count) {
  const int i = own();
  if (i < count && in[i] > 500.0f) out[i] = in[i];
}
__global__ void as_many_as(const float* in, const int* bound, float* out) {
  const int i = own();
  if (i < *bound) out[i] = in[i];
}
// Some of the earlier contents stay.
void in_part(Result* result) {
  const Beside<14> beside(result);
  const Memory in, out, bound(256);
  upload(in, 14);
  const int few = 100, more = 1000;
  upload(out, 140);
  every_other<0><<<kBlocks / 2, kThreads>>>(out.at, kCount);
  positive<<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  twice<14><<<kBlocks / 2, kThreads>>>(in.at, out.at, kCount / 2);
  result->add(out.at);
  upload(out, 141);
  require(cudaMemcpy(bound.at, &few, sizeof few, cudaMemcpyHostToDevice));
  as_many_as<<<kBlocks, kThreads>>>(in.at, reinterpret_cast<const int*>(bound.at), out.at);
  require(cudaMemcpy(bound.at, &more, sizeof more, cudaMemcpyHostToDevice));
  result->add(out.at);
}

__global__ void raise_every_other(float* out, int count) {
  const int i = own();
  if (2 * i < count) atomicAdd(&out[2 * i], 1.0f);
}
// Kernels that may not run again change a part of what a harmless kernel made: the rest has to be there before.
void in_part_of_what_was_dropped(Result* result) {
  const Beside<25> beside(result);
  const Memory in, out, others[4];
  upload(in, 25);
  const std::vector<float> from = pattern(25);
  const auto check = [&](auto even) {
    const std::vector<float> values = download(out.at);
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float made = from[at] * 2.0f + 1.0f;
      result->expect(values[at] == (i % 2 == 0 ? even(i, made) : made));
    }
  };
  // Others get the pages of what is dropped meanwhile.
  const auto make = [&] {
    twice<25><<<kBlocks, kThreads>>>(in.at, out.at, kCount);
    for (const Memory& one : others) require(cudaMemset(one.at, 0x7f, kBytes));
  };
  make();
  every_other<25><<<kBlocks / 2, kThreads>>>(out.at, kCount);
  check([](int i, float) { return static_cast<float>(i / 2); });
  make();
  raise_every_other<<<kBlocks / 2, kThreads>>>(out.at, kCount);
  check([](int, float made) { return made + 1.0f; });
  make();
  positive<<<kBlocks, kThreads>>>(in.at, out.at, kCount);
  const std::vector<float> values = download(out.at);
  for (std::size_t i = 0; i < values.size(); ++i)
    result->expect(values[i] == (from[i] > 500.0f ? from[i] : from[i] * 2.0f + 1.0f));
}

__global__ void by_rows(const float* in, float* out, int width) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), y = static_cast<int>(blockIdx.y);
  out[y * width + x] = in[y * width + x] + 3.0f;
}
void shapes(Result* result) {
  const Beside<15> beside(result);
  const Memory in, out, other;
  upload(in, 15);
  by_rows<<<dim3(2, kCount / 2 / kThreads), kThreads>>>(in.at, out.at, 2 * kThreads);
  strided<15><<<7, 192>>>(in.at, other.at, kCount);
  upload(in, 16);
  result->add(out.at);
  result->add(other.at);
}

constexpr int kFew = 1024;
__global__ void repeated(const float* in, float* out, int count) {
  const int i = own();
  if (i < count) out[i] = in[i & (kFew - 1)];
}
// The small buffers lie next to one another: where one begins another ends.
void neighbours(Result* result) {
  const Beside<16> beside(result);
  // The first has no neighbor before it.
  const Memory small[3] = {Memory(kFew * 4), Memory(kFew * 4), Memory(kFew * 4)}, from(kFew * 4), other(kFew * 4);
  upload(from, 158, kFew);
  upload(other, 159, kFew);
  for (const Memory& written : small) {
    const Memory made[3];
    for (int i = 0; i < 3; ++i) upload(small[i], 160 + i, kFew);
    twice<16><<<kFew / kThreads, kThreads>>>(from.at, written.at, kFew);
    for (int i = 0; i < 3; ++i) repeated<<<kBlocks, kThreads>>>(small[i].at, made[i].at, kCount);
    // By kernels, of which it is known that they write nothing else of what the small buffers lie in.
    for (const Memory& one : small) twice<16><<<kFew / kThreads, kThreads>>>(other.at, one.at, kFew);
    for (int i = 0; i < 3; ++i) {
      std::vector<float> should = pattern(160 + i, kFew);
      const std::vector<float> source = pattern(158, kFew), values = download(made[i].at);
      for (std::size_t k = 0; k < kFew && &small[i] == &written; ++k) should[k] = source[k] * 2.0f + 1.0f;
      for (std::size_t k = 0; k < values.size(); ++k) result->expect(values[k] == should[k & (kFew - 1)]);
    }
  }
}

const std::vector<Trap> kTrapsOfValue = {{"launch_count", launch_count},
                                         {"variable", variable},
                                         {"constant", constant},
                                         {"uninitialised", uninitialised},
                                         {"addresses", addresses},
                                         {"atomic_order", atomic_order},
                                         {"clocks", clocks},
                                         {"dynamic_shared", dynamic_shared},
                                         {"texture", texture},
                                         {"host_memory", host_memory},
                                         {"stored_pointer", stored_pointer},
                                         {"aliased", aliased},
                                         {"overlapping", overlapping},
                                         {"in_part", in_part},
                                         {"in_part_of_what_was_dropped", in_part_of_what_was_dropped},
                                         {"shapes", shapes},
                                         {"neighbours", neighbours}};

}  // namespace
}  // namespace traps

int main(int argc, char** argv) {
  std::vector<traps::Trap> all = traps::kTrapsOfValue;
  all.insert(all.end(), traps::kTrapsOfOrder.begin(), traps::kTrapsOfOrder.end());
  return traps::run(all, argc, argv);
}
