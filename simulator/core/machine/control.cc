// SPDX-License-Identifier: Apache-2.0
// Implements the C table of simulator/control.h. Tools look it up by name in the simulator's shared library; nothing
// refers to it.
#include "simulator/control.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "simulator/core/execution/declared_operator.h"
#include "simulator/core/execution/executor.h"
#include "simulator/core/machine/machine.h"
#include "simulator/core/memory/tensor_map.h"

namespace simulator {
namespace {

constexpr std::size_t kMostOperands = 65536;

const char* configure(const char* key, const char* value) { return Machine::enter()->configure(key, value); }

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

bool describe(const char* name, double flops, double bytes, double microseconds,
              std::span<const SimulatedOperand> operands, Operator* out) {
  if (name == nullptr || operands.size() > kMostOperands) return false;
  const bool timed = !std::isnan(microseconds);
  if (timed ? !is_amount(microseconds) : !is_amount(flops) || !is_amount(bytes)) return false;
  out->name = name;
  out->flops = flops;
  out->bytes = bytes;
  out->microseconds = timed ? microseconds : -1;
  constexpr std::uint32_t known = SIMULATED_OPERAND_READ | SIMULATED_OPERAND_WRITE | SIMULATED_OPERAND_FRESH |
                                  SIMULATED_OPERAND_CONTINUES | SIMULATED_OPERAND_SLICED;
  for (const SimulatedOperand& operand : operands) {
    const auto has = [&operand](std::uint32_t flag) { return (operand.flags & flag) != 0; };
    if (has(~known) || operand.address + operand.bytes < operand.address) return false;
    out->operands.push_back({operand.address, operand.bytes, has(SIMULATED_OPERAND_READ), has(SIMULATED_OPERAND_WRITE),
                             has(SIMULATED_OPERAND_FRESH), has(SIMULATED_OPERAND_CONTINUES),
                             has(SIMULATED_OPERAND_SLICED)});
  }
  return operands.empty() || !out->operands.front().continues;
}

int submit_operator(void* stream, Operator op) {
  const auto machine = Machine::enter();
  if (!machine->initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (const CUresult error = machine->error(); error != CUDA_SUCCESS) return error;
  StreamId id = kLegacyStream;
  if (const CUresult result = machine->resolve_stream(stream, &id); result != CUDA_SUCCESS) return result;
  machine->submit(id, std::move(op));
  return CUDA_SUCCESS;
}

int described(const char* name, double flops, double bytes, double microseconds, const SimulatedOperand* operands,
              size_t count, Operator* out) {
  if (Machine::in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  if (operands == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
  return describe(name, flops, bytes, microseconds, {operands, count}, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int launch_operator(void* stream, const char* name, double flops, double bytes, double microseconds,
                    const SimulatedOperand* operands, size_t count) {
  Operator op;
  const int result = described(name, flops, bytes, microseconds, operands, count, &op);
  return result == CUDA_SUCCESS ? submit_operator(stream, std::move(op)) : result;
}

int relaunch_operator(void* stream, const char* name, double flops, double bytes, double microseconds,
                      const SimulatedOperand* operands, size_t count, uint64_t ordinal) {
  Operator op;
  const int result = described(name, flops, bytes, microseconds, operands, count, &op);
  if (result != CUDA_SUCCESS) return result;
  if (ordinal == 0) return CUDA_ERROR_INVALID_VALUE;
  op.ordinal = ordinal;
  op.is_relaunch = true;
  return submit_operator(stream, std::move(op));
}

int launch_slices(void* stream, const char* name, double flops, double bytes, double microseconds,
                  const SimulatedOperand* operands, size_t count, const SimulatedSlices* slices) {
  Operator op;
  const int result = described(name, flops, bytes, microseconds, operands, count, &op);
  if (result != CUDA_SUCCESS) return result;
  const bool is_part = slices != nullptr && slices->count > 0 && slices->first < slices->all &&
                       slices->count <= slices->all - slices->first;
  if (!is_part || (slices->ordinal == 0 && (slices->first > 0 || slices->is_relaunch != 0)))
    return CUDA_ERROR_INVALID_VALUE;
  op.slices = {slices->all, slices->first, slices->count};
  if (!can_be_sliced(op)) return CUDA_ERROR_INVALID_VALUE;
  op.ordinal = slices->ordinal;
  op.is_relaunch = slices->is_relaunch != 0;
  return submit_operator(stream, std::move(op));
}

int64_t now_ns() { return Machine::enter()->now(); }
int64_t device_now_ns() { return Machine::enter()->device_now(); }
uint64_t checksum() { return Machine::enter()->checksum(); }
uint64_t order_hash() { return Machine::enter()->order_hash(); }
void statistics(SimulatedStatistics* out) { Machine::enter()->statistics(out); }
void reset() { Machine::enter()->reset(); }

int tensor_map(const void* map, SimulatedTensorMap* out) {
  TensorMap known;
  if (map == nullptr || out == nullptr || !decode(map, &known)) return 0;
  *out = {known.address, known.rank, known.element_bytes, {}, {}, {}};
  std::copy(known.extents.begin(), known.extents.end(), out->extents);
  std::copy(known.strides.begin(), known.strides.end(), out->strides);
  std::copy(known.box.begin(), known.box.end(), out->box);
  return 1;
}

int set_condition(uint64_t handle, uint32_t value) { return Executor::set_condition(handle, value) ? 1 : 0; }

}  // namespace
}  // namespace simulator

extern "C" __attribute__((visibility("default"))) const SimulatedDeviceControl* simulated_device_control(void) {
  static const SimulatedDeviceControl table = {SIMULATED_DEVICE_CONTROL_VERSION,
                                               sizeof(SimulatedDeviceControl),
                                               simulator::configure,
                                               simulator::launch_operator,
                                               simulator::now_ns,
                                               simulator::device_now_ns,
                                               simulator::checksum,
                                               simulator::order_hash,
                                               simulator::statistics,
                                               simulator::reset,
                                               simulator::tensor_map,
                                               simulator::set_condition,
                                               simulator::relaunch_operator,
                                               simulator::launch_slices};
  return &table;
}
