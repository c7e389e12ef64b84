// SPDX-License-Identifier: Apache-2.0
// What the registers of a kernel hold, as linear forms of where the thread is and of how often its loops have come
// around. Only registers that are written once are known, and counters of loops: written once before, and added to once
// each time around.
//
// A value of 32 bits is known modulo 2^32 alone. Where it is widened to 64 bits the form has to be within 0 and
// 2^31 - 1, which is left to the launch (`widened`).
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
    int word = -1;  // of the parameters: `form` is added to this address
    LinearForm form;
    bool is_narrow = false;
    std::vector<int> widened;  // indices of widened()

    bool is_integer() const { return is_known && word < 0; }
    bool is_uniform() const { return is_integer() && form.axes() == 0; }
  };
  // A register that each time around a loop adds to. Those that the same block adds to are of one loop.
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
  // That the instruction writes before the loop, or adds to; null: none.
  const Counter* starts(std::size_t instruction) const { return counter_at(instruction, &Counter::before); }
  const Counter* adds_to(std::size_t instruction) const { return counter_at(instruction, &Counter::update); }
  // Whether it is the first of its loop that adds to a counter.
  bool comes_around(std::size_t instruction) const;
  const std::vector<LinearForm>& widened() const { return widened_; }
  // A bit for each loop whose counters the register is made of.
  std::uint64_t loops_of(int reg) const { return loops_[static_cast<std::size_t>(reg)]; }
  // The instruction that alone writes the register; -1: none, or several do.
  int definition(int reg) const;
  // As the operand of an instruction of that type.
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
