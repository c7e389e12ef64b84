// SPDX-License-Identifier: Apache-2.0
// Events.
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

cudaError_t create(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return record(cudaErrorInvalidValue);
  return api([&](const Driver& table) { return CUDART_CALL(table, cuEventCreate, event, flags); });
}

cudaError_t record_event(Rule rule, cudaEvent_t event, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuEventRecord, event, stream); });
}

cudaError_t record_with_flags(Rule rule, cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return api(rule,
             [&](const Driver& table) { return CUDART_CALL(table, cuEventRecordWithFlags, event, stream, flags); });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaEventRecord, _ptsz, record_event, (cudaEvent_t event, cudaStream_t stream), (event, stream))
CUDART_BOTH(cudaEventRecordWithFlags, _ptsz, record_with_flags,
            (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags))

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return create(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) { return create(event, flags); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuEventDestroy, event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuEventQuery, event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuEventSynchronize, event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuEventElapsedTime, milliseconds, start, end); });
}

}  // extern "C"
