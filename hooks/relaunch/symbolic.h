// SPDX-License-Identifier: Apache-2.0
// The values of a kernel's registers as linear forms of the thread's index and of the iteration numbers of its loops.
// Only registers that are written once are known, and counters of loops: written once before the loop, and added to
// once in each iteration.
//
// A 32-bit value is known only modulo 2^32. If it is widened to 64 bits, the form has to be between 0 and 2^31 - 1;
// each launch checks that (`widened`).
#pragma once

#include <cstdint>
#include <vector>

#include "hooks/relaunch/linear_form.h"
#include "hooks/relaunch/ptx_accesses.h"
#include "hooks/relaunch/ptx_blocks.h"
#include "hooks/relaunch/ptx_kernel.h"

namespace thermocline {

class Symbolic {
 public:
  struct Value {
    bool is_known = false;
    int word = -1;  // a parameter word: the value is this address plus `form`; -1: none
    LinearForm form;
    bool is_narrow = false;
    std::vector<int> widened;  // indices of widened()

    bool is_integer() const { return is_known && word < 0; }
    bool is_uniform() const { return is_integer() && form.axes() == 0; }
  };
  // A register that each iteration of a loop adds to. Counters that the same block adds to belong to one loop.
  struct Counter {
    int reg = -1;
    std::size_t before = 0, update = 0;  // instructions that write it
    int loop = 0;
    PtxOperand step;
  };

  Symbolic(const PtxKernel& kernel, const PtxAccesses& accesses, const PtxBlocks& blocks);

  Value of(const PtxOperand& operand) const;
  const Value& of_register(int reg) const { return values_[static_cast<std::size_t>(reg)]; }
  const std::vector<Counter>& counters() const { return counters_; }
  int loops() const { return loops_found_; }
  // The counter that the instruction writes before the loop, or adds to; null: none.
  const Counter* starts(std::size_t instruction) const { return counter_at(instruction, &Counter::before); }
  const Counter* adds_to(std::size_t instruction) const { return counter_at(instruction, &Counter::update); }
  // Whether the instruction is the first of its loop that adds to a counter.
  bool comes_around(std::size_t instruction) const;
  const std::vector<LinearForm>& widened() const { return widened_; }
  // A bit for each loop whose counters the register is computed from.
  std::uint64_t loops_of(int reg) const { return loops_[static_cast<std::size_t>(reg)]; }
  // The only instruction that writes the register; -1: there is none, or there are several.
  int definition(int reg) const;
  // The factor for an operand of an instruction of that type.
  static LinearForm::Factor factor_of(const PtxOperand& operand, std::string_view type);

 private:
  struct Defined {
    int first = -1, second = -1;  // instructions
    unsigned count = 0;
  };
  enum class Progress : std::uint8_t { kNone, kBegun, kDone };

  const Counter* counter_at(std::size_t instruction, std::size_t Counter::*which) const;
  void find_counters(const PtxBlocks& blocks);
  void find_loops();
  void find(int reg);
  Value found(const PtxOperand& operand);
  Value computed(const PtxInstruction& one, int reg);
  Value of_parameter(const PtxInstruction& one, const PtxOperand& to) const;
  Value converted(const PtxInstruction& one);
  Value sum(const Value& a, const Value& b, std::int64_t times, bool is_narrow) const;
  Value product(const PtxOperand& a, const PtxOperand& b, std::string_view type, bool is_wide);
  Value joined(const PtxInstruction& one);
  Value widen(Value value);
  bool is_uniform_result(const PtxInstruction& one);

  const PtxKernel& kernel_;
  const PtxAccesses& accesses_;
  std::vector<Defined> defined_;  // by register
  std::vector<Value> values_;
  std::vector<Progress> progress_;
  std::vector<Counter> counters_;
  std::vector<LinearForm> widened_;
  std::vector<std::uint64_t> loops_;  // by register
  int loops_found_ = 0;
};

}  // namespace thermocline
