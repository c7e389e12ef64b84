// SPDX-License-Identifier: Apache-2.0
// Kernels that use more of a device than arithmetic: tensor cores, barriers in memory, textures, surfaces, blocks that
// wait for one another, memory that kernels allocate. The program checks each of them; the argument says which.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

// Device memory with these values.
template <typename T>
T* on_device(const std::vector<T>& values) {
  T* at = nullptr;
  require(cudaMalloc(&at, sizeof(T) * values.size()));
  require(cudaMemcpy(at, values.data(), sizeof(T) * values.size(), cudaMemcpyHostToDevice));
  return at;
}

template <typename T>
std::vector<T> read_back(const T* from, std::size_t count) {
  std::vector<T> host(count);
  require(cudaMemcpy(host.data(), from, sizeof(T) * count, cudaMemcpyDeviceToHost));
  return host;
}

// Small whole numbers: their products and sums are exact in all formats used here.
int small(int i) { return (i * 7 + i / 5) % 9 - 4; }

template <typename T>
std::vector<T> small_matrix(int count, int from) {
  std::vector<T> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<float>(small(i + from)));
  return values;
}

template <typename T, typename Sum>
int compare_product(const std::vector<T>& a, const std::vector<T>& b, const std::vector<Sum>& d, int m, int n, int k,
                    bool b_by_columns) {
  int wrong = 0;
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      float sum = 1;
      for (int i = 0; i < k; ++i)
        sum += static_cast<float>(a[row * k + i]) *
               static_cast<float>(b_by_columns ? b[column * k + i] : b[i * n + column]);
      wrong += static_cast<float>(d[row * n + column]) != sum;
    }
  }
  return wrong;
}

// ---- wmma

template <typename T, typename Sum, int M, int N, int K, typename ByB>
__global__ void multiply_fragments(const T* a, const T* b, Sum* d) {
  using namespace nvcuda;
  __shared__ Sum staged[M * N];
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, ByB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> sums;
  wmma::fill_fragment(sums, static_cast<Sum>(1));
  wmma::load_matrix_sync(fa, a, K);
  wmma::load_matrix_sync(fb, b, std::is_same<ByB, wmma::col_major>::value ? K : N);
  wmma::mma_sync(sums, fa, fb, sums);
  wmma::store_matrix_sync(staged, sums, N, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < M * N; i += 32) d[i] = staged[i];
}

template <typename T, typename Sum, int M, int N, int K, typename ByB>
int run_fragments() {
  const std::vector<T> a = small_matrix<T>(M * K, 0), b = small_matrix<T>(K * N, 3);
  Sum* const d = on_device(std::vector<Sum>(M * N));
  multiply_fragments<T, Sum, M, N, K, ByB><<<1, 32>>>(on_device(a), on_device(b), d);
  return compare_product(a, b, read_back(d, M * N), M, N, K, std::is_same<ByB, nvcuda::wmma::col_major>::value);
}

int run_wmma() {
  using nvcuda::wmma::col_major;
  using nvcuda::wmma::row_major;
  return run_fragments<__half, float, 16, 16, 16, row_major>() + run_fragments<__half, __half, 32, 8, 16, col_major>() +
         run_fragments<__half, float, 8, 32, 16, col_major>() +
         run_fragments<__nv_bfloat16, float, 16, 16, 16, row_major>() +
         run_fragments<signed char, int, 16, 16, 16, col_major>() +
         run_fragments<unsigned char, int, 8, 32, 16, row_major>() +
         run_fragments<double, double, 8, 8, 4, col_major>();
}

// ---- mma with ldmatrix: 16 x 8 of 16

__global__ void multiply_rows(const __half* a, const __half* b, float* d) {
  __shared__ alignas(16) __half sa[16 * 16], sb[8 * 16];
  for (int i = threadIdx.x; i < 256; i += 32) sa[i] = a[i];
  for (int i = threadIdx.x; i < 128; i += 32) sb[i] = b[i];
  __syncwarp();
  const int lane = threadIdx.x;
  unsigned ra[4], rb[2];
  const auto at = [](const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); };
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(at(&sa[lane % 16 * 16 + lane / 16 * 8])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(at(&sb[lane % 8 * 16 + lane / 8 % 2 * 8])));
  float c[4] = {1, 1, 1, 1};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i];
}

// Integers and doubles, each in the layout that PTX specifies for them.
__global__ void multiply_bytes(const signed char* a, const signed char* b, int* d) {
  const int group = threadIdx.x / 4, within = threadIdx.x % 4;
  unsigned ra[4], rb[2];
  for (int i = 0; i < 4; ++i) memcpy(&ra[i], a + (group + i % 2 * 8) * 32 + within * 4 + i / 2 * 16, 4);
  for (int i = 0; i < 2; ++i) memcpy(&rb[i], b + group * 32 + within * 4 + i * 16, 4);
  int c[4] = {1, 1, 1, 1};
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 8 + within * 2 + i % 2] = c[i];
}

int run_mma() {
  const std::vector<__half> a = small_matrix<__half>(256, 0), b = small_matrix<__half>(128, 3);
  float* const d = on_device(std::vector<float>(128));
  multiply_rows<<<1, 32>>>(on_device(a), on_device(b), d);
  const int halves = compare_product(a, b, read_back(d, 128), 16, 8, 16, true);
  const std::vector<signed char> x = small_matrix<signed char>(512, 1), y = small_matrix<signed char>(256, 2);
  int* const sums = on_device(std::vector<int>(128));
  multiply_bytes<<<1, 32>>>(on_device(x), on_device(y), sums);
  return halves + compare_product(x, y, read_back(sums, 128), 16, 8, 32, true);
}

// ---- a barrier in memory: a round of a sum is read when all have added to it

__global__ void rounds(int* out) {
  __shared__ unsigned long long barrier;
  __shared__ int sums[4];
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x < 4) sums[threadIdx.x] = 0;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x));
  __syncthreads();
  for (int round = 0; round < 4; ++round) {
    atomicAdd(&sums[round], static_cast<int>(threadIdx.x));
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    unsigned done = 0;
    while (done == 0)
      asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(at), "l"(state)
                   : "memory");
    out[round * blockDim.x + threadIdx.x] = sums[round];
  }
}

int run_mbarrier() {
  constexpr int kThreads = 96;
  int* const out = on_device(std::vector<int>(4 * kThreads));
  rounds<<<1, kThreads>>>(out);
  int wrong = 0;
  for (const int sum : read_back(out, 4 * kThreads)) wrong += sum != kThreads * (kThreads - 1) / 2;
  return wrong;
}

// ---- textures and surfaces

__global__ void sample(cudaTextureObject_t plain, cudaTextureObject_t between, cudaTextureObject_t linear, float* out) {
  const int x = threadIdx.x, y = blockIdx.x;
  float* const mine = out + (y * blockDim.x + x) * 4;
  mine[0] = tex2D<float>(plain, static_cast<float>(x), static_cast<float>(y));
  mine[1] = tex2D<float>(between, (x + 1.0f) / blockDim.x, (y + 0.5f) / gridDim.x);
  mine[2] = static_cast<float>(tex1Dfetch<int>(linear, x - 1));
  mine[3] = tex2D<float>(plain, x - 100.0f, y + 100.0f);
}

cudaTextureObject_t texture_over(cudaArray_t array, cudaTextureFilterMode filter, bool normalized) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = normalized ? cudaAddressModeWrap : cudaAddressModeClamp;
  how.filterMode = filter;
  how.normalizedCoords = normalized;
  cudaTextureObject_t object = 0;
  require(cudaCreateTextureObject(&object, &resource, &how, nullptr));
  return object;
}

constexpr int kWidth = 32, kHeight = 8;

int run_textures() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  require(cudaMallocArray(&array, &format, kWidth, kHeight));
  std::vector<float> texels(kWidth * kHeight);
  for (int i = 0; i < kWidth * kHeight; ++i) texels[i] = static_cast<float>(i * i % 100);
  require(cudaMemcpy2DToArray(array, 0, 0, texels.data(), kWidth * 4, kWidth * 4, kHeight, cudaMemcpyHostToDevice));
  std::vector<int> words(kWidth - 2);
  for (int i = 0; i < kWidth - 2; ++i) words[i] = 100 + i;
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {on_device(words), cudaCreateChannelDesc<int>(), words.size() * 4};
  const cudaTextureDesc how = {};
  cudaTextureObject_t linear = 0;
  require(cudaCreateTextureObject(&linear, &resource, &how, nullptr));
  float* const out = on_device(std::vector<float>(kWidth * kHeight * 4));
  sample<<<kHeight, kWidth>>>(texture_over(array, cudaFilterModePoint, false),
                              texture_over(array, cudaFilterModeLinear, true), linear, out);
  const std::vector<float> found = read_back(out, kWidth * kHeight * 4);
  int wrong = 0;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const float* const mine = &found[(y * kWidth + x) * 4];
      const float here = texels[y * kWidth + x], next = texels[y * kWidth + (x + 1) % kWidth];
      const bool is_inside = x >= 1 && x < kWidth - 1;
      wrong += mine[0] != here;
      wrong += mine[1] != (here + next) / 2;  // half way, around the edge
      wrong += mine[2] != (is_inside ? static_cast<float>(99 + x) : 0);
      wrong += mine[3] != texels[(kHeight - 1) * kWidth];
    }
  }
  return wrong;
}

__global__ void mark_layers(cudaSurfaceObject_t surface) {
  surf2DLayeredwrite(static_cast<float>(100 * blockIdx.y + 10 * blockIdx.x + threadIdx.x), surface, threadIdx.x * 4,
                     blockIdx.x, blockIdx.y);
}
__global__ void read_layers(cudaTextureObject_t texture, float* out) {
  out[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] =
      tex2DLayered<float>(texture, threadIdx.x + 0.5f, blockIdx.x + 0.5f, blockIdx.y);
}
// The middle of each face.
__global__ void read_cube(cudaTextureObject_t texture, float* out) {
  const float sign = threadIdx.x % 2 == 0 ? 1.0f : -1.0f;
  const int axis = threadIdx.x / 2;
  out[threadIdx.x] =
      texCubemap<float>(texture, axis == 0 ? sign : 0.1f, axis == 1 ? sign : 0.1f, axis == 2 ? sign : 0.1f);
}

int run_surfaces() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  require(cudaMalloc3DArray(&array, &format, make_cudaExtent(8, 4, 3), cudaArrayLayered | cudaArraySurfaceLoadStore));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  require(cudaCreateSurfaceObject(&surface, &resource));
  float* const out = on_device(std::vector<float>(8 * 4 * 3));
  mark_layers<<<dim3(4, 3), 8>>>(surface);
  read_layers<<<dim3(4, 3), 8>>>(texture_over(array, cudaFilterModePoint, false), out);
  int wrong = 0;
  const std::vector<float> layers = read_back(out, 8 * 4 * 3);
  for (int i = 0; i < 8 * 4 * 3; ++i) wrong += layers[i] != static_cast<float>(i / 32 * 100 + i / 8 % 4 * 10 + i % 8);

  cudaArray_t cube = nullptr;
  require(cudaMalloc3DArray(&cube, &format, make_cudaExtent(4, 4, 6), cudaArrayCubemap));
  std::vector<float> faces(4 * 4 * 6);
  for (int i = 0; i < 4 * 4 * 6; ++i) faces[i] = static_cast<float>(i / 16);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(faces.data(), 16, 4, 4);
  copy.dstArray = cube;
  copy.extent = make_cudaExtent(4, 4, 6);
  copy.kind = cudaMemcpyHostToDevice;
  require(cudaMemcpy3D(&copy));
  read_cube<<<1, 6>>>(texture_over(cube, cudaFilterModeLinear, true), out);
  const std::vector<float> seen = read_back(out, 6);
  for (int i = 0; i < 6; ++i) wrong += seen[i] != static_cast<float>(i);
  return wrong;
}

// ---- all blocks of a grid wait for one another

__global__ void turns(int* values, int* seen, int rounds) {
  const auto grid = cooperative_groups::this_grid();
  const int self = blockIdx.x, count = gridDim.x;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) values[self] = round * count + self;
    grid.sync();
    if (threadIdx.x == 0) seen[round * count + self] = values[count - 1 - self];
    grid.sync();
  }
}

int run_grid() {
  constexpr int kBlocks = 40, kRounds = 3;
  int* values = on_device(std::vector<int>(kBlocks));
  int* seen = on_device(std::vector<int>(kBlocks * kRounds));
  int rounds = kRounds;
  void* arguments[] = {&values, &seen, &rounds};
  require(cudaLaunchCooperativeKernel(turns, dim3(kBlocks), dim3(64), arguments, 0, nullptr));
  const std::vector<int> found = read_back(seen, kBlocks * kRounds);
  int wrong = 0;
  for (int i = 0; i < kBlocks * kRounds; ++i) wrong += found[i] != i / kBlocks * kBlocks + kBlocks - 1 - i % kBlocks;
  return wrong;
}

// ---- memory that one kernel allocates and another one frees

__global__ void take(int** kept) {
  auto* const mine = static_cast<int*>(malloc(64 * sizeof(int)));
  for (int i = 0; mine != nullptr && i < 64; ++i) mine[i] = static_cast<int>(threadIdx.x) * 1000 + i;
  kept[threadIdx.x] = mine;
}
__global__ void give(int** kept, int* wrong) {
  int* const theirs = kept[blockDim.x - 1 - threadIdx.x];
  const int from = static_cast<int>(blockDim.x - 1 - threadIdx.x);
  if (theirs == nullptr) atomicAdd(wrong, 1);
  for (int i = 0; theirs != nullptr && i < 64; ++i) atomicAdd(wrong, theirs[i] != from * 1000 + i);
  free(theirs);
}
__global__ void take_too_much(int* wrong) {
  if (malloc(std::size_t{1} << 40) != nullptr) *wrong += 1;
}

int run_heap() {
  require(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4 << 20));
  int** const kept = on_device(std::vector<int*>(128));
  int* const wrong = on_device(std::vector<int>(1));
  // More in total than would fit if nothing were freed.
  for (int round = 0; round < 200; ++round) {
    take<<<1, 128>>>(kept);
    give<<<1, 128>>>(kept, wrong);
  }
  take_too_much<<<1, 1>>>(wrong);
  return read_back(wrong, 1)[0];
}

// ---- launched only to be refused

__global__ void outside_of_a_surface(cudaSurfaceObject_t surface) { surf2Dwrite(1.0f, surface, 4 * 1000, 0); }
__global__ void frees_what_is_not_its(int* at) { free(at + 1); }

int run_outside() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array = nullptr;
  require(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface = 0;
  require(cudaCreateSurfaceObject(&surface, &resource));
  outside_of_a_surface<<<1, 1>>>(surface);
  return 0;
}

int run_wrong_free() {
  frees_what_is_not_its<<<1, 1>>>(on_device(std::vector<int>(4)));
  return 0;
}

__global__ void adds_one(int* at) { *at += 1; }

int* counted = nullptr;

// Its thread's objects are gone by then; what they leave is overwritten in between.
void launch_at_exit() {
  std::vector<std::vector<int>> kept;
  for (int i = 0; i < 20; ++i) {
    kept.emplace_back(4 + i % 7);
    adds_one<<<1, 1>>>(counted);
  }
  int found = 0, wrong = 0;
  require(cudaMemcpy(&found, counted, sizeof found, cudaMemcpyDeviceToHost));
  for (const std::vector<int>& one : kept) wrong += one == std::vector<int>(one.size()) ? 0 : 1;
  std::printf("at exit: %d added, %d wrong\n", found, wrong);
}

int run_at_exit() {
  counted = on_device(std::vector<int>(1));
  adds_one<<<1, 1>>>(counted);
  std::atexit(launch_at_exit);
  return 0;
}

__global__ void never_runs(int* value) { *value = 0; }

// Also by the first launch of a kernel that was not loaded before the fault.
int run_after_a_fault() {
  adds_one<<<1, 1>>>(reinterpret_cast<int*>(16));
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  for (int i = 0; i < 2; ++i) {
    never_runs<<<1, 1>>>(nullptr);
    std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  }
  std::exit(0);
}

}  // namespace

int main(int, char** arguments) {
  const char* const which = arguments[1];
  const auto is = [&](const char* name) { return std::strcmp(which, name) == 0; };
  int wrong = -1;
  if (is("wmma")) wrong = run_wmma();
  if (is("mma")) wrong = run_mma();
  if (is("mbarrier")) wrong = run_mbarrier();
  if (is("textures")) wrong = run_textures();
  if (is("surfaces")) wrong = run_surfaces();
  if (is("grid")) wrong = run_grid();
  if (is("heap")) wrong = run_heap();
  if (is("at_exit")) wrong = run_at_exit();
  if (is("after_a_fault")) wrong = run_after_a_fault();
  if (is("outside")) wrong = run_outside();
  if (is("wrong_free")) wrong = run_wrong_free();
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  std::printf("wrong %d\n", wrong);
  return wrong == 0 ? 0 : 2;
}
