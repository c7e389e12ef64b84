// SPDX-License-Identifier: Apache-2.0
// Integers that are the same for all threads of a launch: made of its parameters and its shape alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "hooks/relaunch/linear_form.h"
#include "hooks/relaunch/ptx_kernel.h"

namespace thermocline {

class Symbolic;

struct LaunchShape {
  std::uint64_t threads[3] = {1, 1, 1};  // of a block
  std::uint64_t blocks[3] = {1, 1, 1};
  std::uint64_t shared_bytes = 0;  // dynamic
};

// Types of 32 and 64 bits.
bool is_integer_type(std::string_view type);
inline unsigned type_bytes(std::string_view type) { return ptx_type_bytes(type); }
// As an instruction of this type leaves or reads it.
std::int64_t wrapped(std::int64_t value, std::string_view type);
// Of "%tid.x" or "%ctaid.x"; -1: it is none of them.
int axis_of(std::string_view special);
// "%ntid.x", "%nctaid.x" and so on.
bool is_uniform_special(std::string_view special);
// Which part of its first operand the instruction writes to the register; 0 if that is no vector.
int part_of(const PtxInstruction& one, int reg);
// Whether Uniform follows the instruction.
bool can_evaluate(const PtxInstruction& one);

// Of one launch.
class Uniform {
 public:
  // `parameters`: where each is.
  Uniform(const PtxKernel& kernel, const Symbolic& symbolic, const LaunchShape& shape, void* const* parameters)
      : kernel_(kernel), symbolic_(symbolic), shape_(shape), parameters_(parameters) {}

  const LaunchShape& shape() const { return shape_; }
  // False: it is not known.
  bool evaluate(const LinearForm::Factor& factor, std::int64_t* out) const;
  // What a term is multiplied by; false: it is not known, or too large.
  bool evaluate(const LinearForm::Term& term, std::int64_t* out) const;

 private:
  bool evaluate(const PtxOperand& operand, unsigned depth, std::int64_t* out) const;
  bool of_special(std::string_view special, std::int64_t* out) const;
  bool load_parameter(const PtxInstruction& one, int reg, std::int64_t* out) const;

  const PtxKernel& kernel_;
  const Symbolic& symbolic_;
  LaunchShape shape_;
  void* const* parameters_;
};

}  // namespace thermocline
