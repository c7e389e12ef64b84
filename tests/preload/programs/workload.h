// SPDX-License-Identifier: Apache-2.0
// Work that needs more memory than the tests' budgets allow, accesses it by copies, sets and kernels of all forms, and
// computes a digest of every byte that it reads back. The digest must not depend on whether a library interposes the
// driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/preload/programs/cuda_table.h"

namespace program {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

// FNV-1a, 64 bits.
class Digest {
 public:
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

// How buffers are allocated, and how kernels are launched.
enum class Memory { kPlain, kInOrder, kPool };
enum class Launch { kParameters, kExtra, kConfigured };

struct Plan {
  Memory memory = Memory::kPlain;
  Launch launch = Launch::kParameters;
  std::size_t buffers = 12;
  std::size_t buffer_bytes = 4 * kMiB;
  int rounds = 3;
  // The simulated device numbers buffers in order of allocation, and mixes the numbers: only if that order is fixed.
  bool mix = true;
  std::uint64_t seed = 1;
};

class Workload {
 public:
  // A context must be current. `stream` null: the default stream, as the API path defines it.
  Workload(const Cuda& cuda, const Plan& plan, CUmodule module, CUstream stream);
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  // The digest of everything at the end.
  std::uint64_t run();

 private:
  struct Buffer {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
  };

  std::uint64_t random();
  Buffer& any();
  void allocate_all();
  void free_all();
  void fill(const Buffer& buffer);
  void round();
  void launch(CUfunction function, void** parameters, const void* block, std::size_t block_bytes);
  void combine(const Buffer& to, const Buffer& a, const Buffer& b);
  void scatter(const Buffer& to, const Buffer& from);
  void mix(const Buffer& to, const Buffer& from);
  void copy_rows(const Buffer& to, const Buffer& from);
  void replace(Buffer& buffer);

  const Cuda& cuda_;
  const Plan plan_;
  CUstream stream_;
  CUmemoryPool pool_ = nullptr;
  CUfunction combine_ = nullptr, scatter_ = nullptr, mix_ = nullptr;
  std::vector<Buffer> buffers_;
  std::vector<unsigned char> host_;
  void* pinned_ = nullptr;
  std::uint64_t state_;
};

// PTX of the kernels. `combine` and `scatter` have host implementations (kernels.cc); `mix` has none, so the simulated
// device mixes everything that its parameters name.
extern const char kKernels[];

}  // namespace program
