// SPDX-License-Identifier: Apache-2.0
// Numbers that generated code passes to the block (block.h).
#pragma once

#include <cstdint>

namespace simulator::ptx {

enum class WarpOperation : std::uint32_t {
  kSync,
  kShuffleUp,  // second: lane in the lower word, clamp and segment mask in the upper
  kShuffleDown,
  kShuffleXor,
  kShuffleIndex,
  kBallot,
  kAll,
  kAny,
  kUniform,
  kMatchAny,
  kMatchAll,
  kSum,
  kSignedMin,
  kSignedMax,
  kUnsignedMin,
  kUnsignedMax,
  kAnd,
  kOr,
  kXor,
  kElect,
  kMultiply,  // value: the lane's words (matrix.h), second: what to compute
  kRows,      // ldmatrix and stmatrix
  kActive,    // all lanes that wait here when no thread of the warp can continue
};

}  // namespace simulator::ptx
