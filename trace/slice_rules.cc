// SPDX-License-Identifier: Apache-2.0
#include "trace/slice_rules.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>

namespace thermocline {
namespace {

// Elements are float32 or larger, so that slices are whole elements.
constexpr std::int64_t kElement = 4;
// The most slices of a result that has no batch.
constexpr std::int64_t kMostOwnSlices = 64;

constexpr std::string_view kPools[] = {"max_pool2d_with_indices",
                                       "max_pool2d_with_indices_backward",
                                       "max_pool3d_with_indices",
                                       "max_pool3d_with_indices_backward",
                                       "avg_pool2d",
                                       "avg_pool2d_backward"};
// Products of matrices.
constexpr std::string_view kProducts[] = {"mm", "addmm", "bmm"};
// Element-wise operators, if all operands are of the same size.
constexpr std::string_view kPointwise[] = {"relu", "relu_", "threshold_backward", "add", "add_", "clone"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

bool is_convolution(std::string_view name) { return name == "convolution" || name == "convolution_backward"; }

// 0: there is none, or it is too large for any device.
std::int64_t batch_of(const std::string& header) {
  const nlohmann::json json = nlohmann::json::parse(header, nullptr, false);
  if (!json.is_object() || !json.contains("batch") || !json["batch"].is_number_integer()) return 0;
  constexpr std::int64_t kMostBatch = 1'000'000'000;
  // In JSON, numbers above the largest signed one are unsigned.
  const double batch = json["batch"].get<double>();
  return batch >= 1 && batch <= kMostBatch ? static_cast<std::int64_t>(batch) : 0;
}

// The quotient if it is a whole number; else 0.
std::int64_t whole(double dividend, double divisor) {
  if (divisor <= 0) return 0;
  const double quotient = dividend / divisor;
  return quotient >= 1 && quotient < 1e15 && quotient == std::floor(quotient) ? static_cast<std::int64_t>(quotient) : 0;
}

void add(std::vector<std::int64_t>* ids, std::int64_t id) {
  if (std::ranges::find(*ids, id) == ids->end()) ids->push_back(id);
}

std::vector<std::int64_t> operands_of(const EventFields& op) {
  std::vector<std::int64_t> all;
  for (const std::int64_t id : op.reads) add(&all, id);
  for (const std::int64_t id : op.writes) add(&all, id);
  return all;
}

}  // namespace

SliceRules::SliceRules(const Trace& trace) : batch_(batch_of(trace.header)) {
  const auto id_of = [&trace](std::uint32_t b) { return static_cast<std::int64_t>(trace.buffers[b].id); };
  for (std::size_t b = 0; b < trace.buffers.size(); ++b) {
    const TraceBuffer& buffer = trace.buffers[b];
    known_[static_cast<std::int64_t>(buffer.id)] = {static_cast<std::int64_t>(buffer.bytes), b};
  }
  for (const StepSpan& step : trace.steps) {
    std::unordered_set<std::uint32_t> begun;
    for (std::size_t e = step.begin; e < step.end; ++e) {
      const TraceEvent& event = trace.events[e];
      if (event.kind == EventKind::kAllocate) begun.insert(event.index);
      if (event.kind == EventKind::kFree && begun.contains(event.index)) within_.insert(id_of(event.index));
    }
  }
  for (const TraceOperator& op : trace.operators) {
    const std::string_view name = trace.names[op.name];
    if (name.starts_with("nll_loss")) {
      Ids reads;
      for (const std::uint32_t b : trace.reads(op)) add(&reads, id_of(b));
      add_scores(reads);
    }
    if (!is_convolution(name) && !is_one_of(kPools, name)) continue;
    for (const auto operands : {trace.reads(op), trace.writes(op)}) {
      for (const std::uint32_t b : operands) images_.insert(id_of(b));
    }
  }
}

// Beside the log-probabilities the operator reads one target of eight bytes for each row, and scalars. So rows are
// counted; a loss of some rows of a batch is not split unless their number is a multiple of the batch.
void SliceRules::add_scores(const Ids& reads) {
  const auto scores = std::ranges::max_element(reads, {}, [this](std::int64_t id) { return bytes_of(id); });
  constexpr std::int64_t kTarget = 8;
  for (const std::int64_t id : reads) {
    if (id == *scores || bytes_of(id) <= kTarget) continue;
    const std::int64_t rows = bytes_of(id) / kTarget;
    if (batch_ < 2 || bytes_of(id) % (kTarget * batch_) != 0 || bytes_of(*scores) % (kElement * rows) != 0) return;
  }
  if (scores != reads.end()) scores_.insert(*scores);
}

bool SliceRules::mark(EventFields* op) const {
  if (op->kind != "op" || op->slices || !op->split.empty() || !op->flops || batch_ < 1) return false;
  if (op->name == "_log_softmax" || op->name == "_log_softmax_backward_data" || op->name == "nll_loss_backward")
    return mark_rows(op);
  if (op->name == "convolution") return mark_convolution(op);
  if (op->name == "convolution_backward") return mark_convolution_backward(op);
  if (is_one_of(kProducts, op->name)) return mark_product(op);
  if (op->name == "cat") return mark_concatenation(op);
  if (is_one_of(kPools, op->name) || is_one_of(kPointwise, op->name)) return mark_images(op);
  return false;
}

// The classes are the second dimension of the input of nll_loss, so the first one, a multiple of the batch size, can be
// split. Targets and weights are not split.
bool SliceRules::mark_rows(EventFields* op) const {
  const Ids all = operands_of(*op);
  if (batch_ < 2 || op->writes.size() != 1) return false;
  const std::int64_t bytes = bytes_of(op->writes[0]);
  Ids rows;
  bool is_of_loss = false;
  for (const std::int64_t id : all) {
    if (bytes_of(id) == bytes) rows.push_back(id);
    is_of_loss |= bytes_of(id) == bytes && scores_.contains(id);
  }
  const std::size_t others = op->name == "nll_loss_backward" ? all.size() - rows.size() : 0;
  if (!is_of_loss || rows.size() + others != all.size() || rows.size() < 2) return false;
  return divide(op, batch_, rows);
}

// An image of the output depends on the image of the input and the weights; a channel of it on the whole input and its
// own weights.
bool SliceRules::mark_convolution(EventFields* op) const {
  const Ids in = within_step(op->reads);
  if (in.size() != 1 || op->writes.size() != 1 || in[0] == op->writes[0]) return false;
  const std::int64_t out = op->writes[0];
  // flops = 2 x positions x weights. If this does not hold, the buffers that outlive the step are not the weights, and
  // others may be.
  const std::int64_t positions = whole(2 * *op->flops, static_cast<double>(weight_bytes(*op)));
  if (batch_ > 1) {
    const bool is_consistent = positions > 0 && positions % batch_ == 0 && bytes_of(out) % (kElement * positions) == 0;
    return is_consistent && divide(op, batch_, {in[0], out});
  }
  return positions > 0 &&
         divide(op, whole(static_cast<double>(bytes_of(out)), static_cast<double>(kElement * positions)), {out});
}

// The gradient of an input image depends on the gradient of its output image and on the weights. The gradient of an
// input channel depends on the whole gradient of the output; the channel's part of the weights' gradient depends on the
// channel and on that whole gradient.
bool SliceRules::mark_convolution_backward(EventFields* op) const {
  const Ids read = within_step(op->reads);
  if (read.size() != 2) return false;
  // The gradient is made after the input.
  const bool in_order = known_.at(read[0]).order < known_.at(read[1]).order;
  const std::int64_t input = read[in_order ? 0 : 1], gradient = read[in_order ? 1 : 0];
  Ids split{input};
  if (batch_ > 1) split.push_back(gradient);
  Ids like_input;
  for (const std::int64_t id : op->writes) {
    if (id == input || id == gradient) return false;
    if (bytes_of(id) == bytes_of(input)) add(&like_input, id);
  }
  // It is not known which of two is the input's gradient, nor whether one is the weights' gradient.
  if (like_input.size() > 1 || bytes_of(input) == weight_bytes(*op)) return false;
  split.insert(split.end(), like_input.begin(), like_input.end());
  if (batch_ > 1) return divide(op, batch_, split);
  // flops = 4 x positions x weights.
  const std::int64_t positions = whole(*op->flops, static_cast<double>(weight_bytes(*op)));
  return positions > 0 && !like_input.empty() &&
         divide(op, whole(static_cast<double>(bytes_of(input)), static_cast<double>(kElement * positions)), split);
}

// The batch is the first dimension of operands of convolutions and pools. Operands of equal sizes are not broadcast.
bool SliceRules::mark_images(EventFields* op) const {
  const Ids all = operands_of(*op);
  if (batch_ < 2 || all.empty() || of_images(within_step(all)).size() != all.size()) return false;
  const bool is_pointwise = is_one_of(kPointwise, op->name);
  for (const std::int64_t id : all) {
    if (is_pointwise && bytes_of(id) != bytes_of(all[0])) return false;
  }
  return divide(op, batch_, all);
}

// Splits only the result: it is not known which operand has its rows, nor the order in which operands lie in memory,
// but each slice of the result depends on operands only. flops = 2 x elements of the result x the length of each sum.
// Slices are whole rows, whichever dimension is the first.
bool SliceRules::mark_product(EventFields* op) const {
  if (op->writes.size() != 1 || !is_fresh_result(*op)) return false;
  const std::int64_t result = bytes_of(op->writes[0]) / kElement;
  const std::int64_t sum = whole(*op->flops, 2 * static_cast<double>(result));
  Ids matrices = op->reads;
  std::ranges::sort(matrices, std::greater<>(), [this](std::int64_t id) { return bytes_of(id); });
  if (sum == 0 || matrices.size() < 2) return false;
  // The rows of one, the columns of the other; for `bmm`, both times the number of products.
  const double first = static_cast<double>(bytes_of(matrices[0])) / static_cast<double>(kElement * sum);
  const double second = static_cast<double>(bytes_of(matrices[1])) / static_cast<double>(kElement * sum);
  const std::int64_t products = whole(first * second, static_cast<double>(result));
  const std::int64_t rows = whole(first, 1), columns = whole(second, 1);
  if (rows == 0 || columns == 0 || products == 0 || (op->name != "bmm" && products > 1)) return false;
  return divide(op, slices_within(std::gcd(rows, columns)), {op->writes[0]});
}

// Each element of the result is an element of an operand, whatever its position.
bool SliceRules::mark_concatenation(EventFields* op) const {
  if (op->writes.size() != 1 || !is_fresh_result(*op)) return false;
  return divide(op, slices_within(bytes_of(op->writes[0]) / kElement), {op->writes[0]});
}

// Whether the result belongs to the step, and this operator makes it.
bool SliceRules::is_fresh_result(const EventFields& op) const {
  const std::int64_t id = op.writes[0];
  return within_.contains(id) && std::ranges::find(op.reads, id) == op.reads.end();
}

// Uses the same number of slices as others if it divides the rows: pieces then have the same sizes.
std::int64_t SliceRules::slices_within(std::int64_t rows) const {
  if (batch_ > 1 && rows % batch_ == 0) return batch_;
  for (std::int64_t slices = std::min(rows, kMostOwnSlices); slices > 1; --slices) {
    if (rows % slices == 0) return slices;
  }
  return 0;
}

bool SliceRules::divide(EventFields* op, std::int64_t slices, const Ids& split) const {
  if (slices < 2 || slices > kMostSlices) return false;
  for (const std::int64_t id : split) {
    if (bytes_of(id) == 0 || bytes_of(id) % (kElement * slices) != 0) return false;
  }
  op->slices = slices;
  op->split = split;
  return true;
}

std::int64_t SliceRules::bytes_of(std::int64_t id) const {
  const auto known = known_.find(id);
  return known == known_.end() ? 0 : known->second.bytes;
}

SliceRules::Ids SliceRules::within_step(const Ids& ids) const {
  Ids out;
  for (const std::int64_t id : ids) {
    if (within_.contains(id)) add(&out, id);
  }
  return out;
}

SliceRules::Ids SliceRules::of_images(const Ids& ids) const {
  Ids out;
  for (const std::int64_t id : ids) {
    if (images_.contains(id)) out.push_back(id);
  }
  return out;
}

std::int64_t SliceRules::weight_bytes(const EventFields& op) const {
  std::int64_t most = 0;
  for (const std::int64_t id : op.reads) {
    if (!within_.contains(id)) most = std::max(most, bytes_of(id));
  }
  return most;
}

}  // namespace thermocline
