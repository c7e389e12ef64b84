// SPDX-License-Identifier: Apache-2.0
// What the registers of a kernel hold, in terms of the thread's *item*: blockIdx.x * blockDim.x + threadIdx.x, or what
// a loop makes of it that adds the number of threads until a bound is reached. Only registers that are written once,
// and the counter of such a loop, are known.
#pragma once

#include <cstdint>
#include <vector>

#include "hooks/relaunch/ptx_accesses.h"
#include "hooks/relaunch/ptx_kernel.h"

namespace thermocline {

// An integer that is the same for all threads of a launch: its instructions are evaluated for the launch.
struct LaunchShape {
  std::uint64_t threads_per_block = 0, blocks = 0;  // along x; the others are 1

  std::uint64_t threads() const { return threads_per_block * blocks; }
};

class Symbolic {
 public:
  struct Value {
    enum class Kind : std::uint8_t {
      kUnknown,
      kUniform,  // evaluate() gives it
      kThread,   // threadIdx.x
      kBlock,    // blockIdx.x * of_block
      kItem,     // item * scale + offset
      kAddress,  // words[word] + item * scale + offset
    };
    Kind kind = Kind::kUnknown;
    int word = -1;
    std::int64_t scale = 0, offset = 0;
    // kBlock, and kItem made of it: what blockIdx.x is multiplied by. It has to be blockDim.x.
    PtxOperand of_block{};
    bool is_narrow = false;  // computed in 32 bits
    bool counts = false;     // made of the counter: only good until its next update
  };

  Symbolic(const PtxKernel& kernel, const PtxAccesses& accesses);

  Value of(const PtxOperand& operand) const;
  // The register that loops count items in; -1: there is no such loop. `step`: what it adds, which has to be the
  // number of threads; `update`: the instruction.
  int counter() const { return counter_; }
  const PtxOperand& step() const { return step_; }
  int update() const { return update_; }
  // Whether the register is made of the counter, and is not the counter.
  bool is_stale_after_update(int reg) const { return reg != counter_ && values_[static_cast<std::size_t>(reg)].counts; }
  // What has to be blockDim.x.
  const std::vector<PtxOperand>& block_sizes() const { return block_sizes_; }

  // The value of a uniform operand. `parameters`: where each is. False: it is not known.
  bool evaluate(const PtxOperand& operand, const LaunchShape& shape, void* const* parameters, std::int64_t* out) const;

 private:
  struct Defined {
    int first = -1, second = -1;  // instructions
    unsigned count = 0;
  };

  void find_counter();
  Value computed(const PtxInstruction& one);
  Value sum(const Value& a, const Value& b, bool narrow);
  Value product(const PtxOperand& a, const PtxOperand& b, bool narrow);
  bool evaluate_at(const PtxOperand& operand, const LaunchShape& shape, void* const* parameters, unsigned depth,
                   std::int64_t* out) const;
  bool load_parameter(const PtxInstruction& one, void* const* parameters, std::int64_t* out) const;

  const PtxKernel& kernel_;
  const PtxAccesses& accesses_;
  std::vector<Defined> defined_;  // by register
  std::vector<Value> values_;
  int counter_ = -1, update_ = -1;
  PtxOperand step_;
  std::vector<PtxOperand> block_sizes_;
};

}  // namespace thermocline
