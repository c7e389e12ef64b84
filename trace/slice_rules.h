// SPDX-License-Identifier: Apache-2.0
// Marks operators of a recorded trace that may be split (trace/slices.h). A trace has no shapes, so the rules use what
// it does have: names, sizes, the batch size in its header, and which buffers outlive a step. An operator for which
// that is not enough gets no mark. docs/recording.md has the rules, each with its reason.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "trace/trace.h"

namespace thermocline {

class SliceRules {
 public:
  // `trace`: the same file, as it was recorded.
  explicit SliceRules(const Trace& trace);

  // False: the header has no usable "batch", and nothing is marked.
  bool knows_batch() const { return batch_ > 0; }

  // Marks the operator if a rule allows it. Operators that have a mark keep it.
  bool mark(EventFields* op) const;

 private:
  using Ids = std::vector<std::int64_t>;

  void add_scores(const Ids& reads);
  bool mark_rows(EventFields* op) const;
  bool mark_convolution(EventFields* op) const;
  bool mark_convolution_backward(EventFields* op) const;
  bool mark_images(EventFields* op) const;
  bool mark_product(EventFields* op) const;
  bool mark_concatenation(EventFields* op) const;
  bool is_fresh_result(const EventFields& op) const;
  std::int64_t slices_within(std::int64_t rows) const;
  bool divide(EventFields* op, std::int64_t slices, const Ids& split) const;

  std::int64_t bytes_of(std::int64_t id) const;
  // The subset of these buffers that are freed in the step that allocates them.
  Ids within_step(const Ids& ids) const;
  Ids of_images(const Ids& ids) const;
  // The largest operand that outlives its step.
  std::int64_t weight_bytes(const EventFields& op) const;

  std::int64_t batch_ = 0;  // 0: not known
  struct BufferFacts {
    std::int64_t bytes;
    std::size_t order;  // of allocation
  };
  std::unordered_map<std::int64_t, BufferFacts> known_;  // by id
  std::unordered_set<std::int64_t> within_;
  std::unordered_set<std::int64_t> scores_;  // log-probabilities, [rows, classes]
  std::unordered_set<std::int64_t> images_;  // batches of images: operands of convolutions and pools
};

}  // namespace thermocline
