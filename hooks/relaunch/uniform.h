// SPDX-License-Identifier: Apache-2.0
// Evaluates integers that are equal for all threads of a launch: computed only from its parameters and its shape.
#pragma once

#include <cstdint>
#include <string_view>

#include "hooks/relaunch/linear_form.h"
#include "hooks/relaunch/ptx_kernel.h"
#include "hooks/relaunch/used_parameters.h"

namespace thermocline {

class Symbolic;

struct LaunchShape {
  std::uint64_t threads[3] = {1, 1, 1};  // of a block
  std::uint64_t blocks[3] = {1, 1, 1};
  std::uint64_t shared_bytes = 0;  // dynamic
};

// Whether the type is an integer type of 32 or 64 bits.
bool is_integer_type(std::string_view type);
inline unsigned type_bytes(std::string_view type) { return ptx_type_bytes(type); }
// The value as an instruction of this type writes or reads it.
std::int64_t wrapped(std::int64_t value, std::string_view type);
// The axis of "%tid.x" or "%ctaid.x" and so on; -1: it is another register.
int axis_of(std::string_view special);
// "%ntid.x", "%nctaid.x" and so on.
bool is_uniform_special(std::string_view special);
// The index in the vector that is its first operand of the register that it writes; 0 if that is not a vector.
int part_of(const PtxInstruction& one, int reg);
// Whether Uniform can evaluate the instruction.
bool can_evaluate(const PtxInstruction& one);

// The evaluation of one launch.
class Uniform {
 public:
  // `parameters`: the address of each parameter. `used`: gets those that are read; null: nobody asks.
  Uniform(const PtxKernel& kernel, const Symbolic& symbolic, const LaunchShape& shape, void* const* parameters,
          UsedParameters* used = nullptr)
      : kernel_(kernel), symbolic_(symbolic), shape_(shape), parameters_(parameters), used_(used) {}

  const LaunchShape& shape() const { return shape_; }
  // False: the value is not known.
  bool evaluate(const LinearForm::Factor& factor, std::int64_t* out) const;
  // Evaluates the coefficient of a term; false: it is not known, or too large.
  bool evaluate(const LinearForm::Term& term, std::int64_t* out) const;

 private:
  bool evaluate(const PtxOperand& operand, unsigned depth, std::int64_t* out) const;
  bool of_special(std::string_view special, std::int64_t* out) const;
  bool load_parameter(const PtxInstruction& one, int reg, std::int64_t* out) const;

  const PtxKernel& kernel_;
  const Symbolic& symbolic_;
  LaunchShape shape_;
  void* const* parameters_;
  UsedParameters* used_;
};

}  // namespace thermocline
