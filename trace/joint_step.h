// SPDX-License-Identifier: Apache-2.0
// A steady step (trace/steady_step.h) in terms of *versions*: a version is the contents that a write gives a buffer.
// Updating a buffer in place ends one version and begins another. Recomputation recreates a version, by running the
// operator that wrote it on the versions that it read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/steady_step.h"

namespace thermocline {

struct StepVersion {
  std::uint32_t buffer;  // index into the step's buffers
  Bytes bytes;
  int producer;                        // operator; kBeforeStep if the version existed before the step
  std::vector<std::uint32_t> readers;  // operators, ascending
  int wanted_until;                    // the last operator that uses it, or anything that may be recomputed from it
  int heir = -1;  // for a version from before the step: its buffer's last version, if that outlives the step
  static constexpr int kBeforeStep = -1;
};

// The operands of an operator, as indices of versions.
struct StepOperator {
  std::vector<std::uint32_t> reads;
  std::vector<std::uint32_t> writes;
};

struct JointStep {
  // Buffers smaller than `smallest` are left out.
  JointStep(const SteadyStep& step, Bytes smallest);

  std::vector<StepVersion> versions;
  std::vector<StepOperator> operators;

  // The last operator that uses anything that operator `op` writes.
  int wanted_until(std::size_t op) const;

 private:
  void add_versions(const SteadyStep& step, std::uint32_t buffer);
  void find_wanted();
};

}  // namespace thermocline
