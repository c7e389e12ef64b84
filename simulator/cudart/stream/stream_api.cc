// SPDX-License-Identifier: Apache-2.0
// Streams: creation, waits, queries. Handles and flags are the driver's own.
#include "simulator/cudart/session.h"

namespace simulator::cudart {
namespace {

static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue),
              "both interfaces share the layout of attributes");

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr) return record(cudaErrorInvalidValue);
  return api(
      [&](const Driver& table) { return CUDART_CALL(table, cuStreamCreateWithPriority, stream, flags, priority); });
}

cudaError_t synchronize(Rule rule, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamSynchronize, stream); });
}

cudaError_t query(Rule rule, cudaStream_t stream) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamQuery, stream); });
}

cudaError_t wait_event(Rule rule, cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamWaitEvent, stream, event, flags); });
}

// The driver's callbacks have its own error type. This adapter is called in between and deletes itself after its only
// call.
struct Callback {
  cudaStreamCallback_t function;
  void* data;

  static void CUDA_CB run(CUstream stream, CUresult result, void* self) {
    const Callback callback = *static_cast<Callback*>(self);
    delete static_cast<Callback*>(self);
    callback.function(stream, from_driver(result), callback.data);
  }
};

cudaError_t add_callback(Rule rule, cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags) {
  if (function == nullptr) return record(cudaErrorInvalidValue);
  return api(rule, [&](const Driver& table) {
    auto* callback = new Callback{function, data};
    const cudaError_t status = CUDART_CALL(table, cuStreamAddCallback, stream, &Callback::run, callback, flags);
    if (status != cudaSuccess) delete callback;
    return status;
  });
}

cudaError_t get_priority(Rule rule, cudaStream_t stream, int* priority) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamGetPriority, stream, priority); });
}

cudaError_t get_flags(Rule rule, cudaStream_t stream, unsigned* flags) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamGetFlags, stream, flags); });
}

cudaError_t get_id(Rule rule, cudaStream_t stream, unsigned long long* id) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamGetId, stream, id); });
}

cudaError_t get_device(Rule rule, cudaStream_t stream, int* device) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamGetDevice, stream, device); });
}

cudaError_t attach(Rule rule, cudaStream_t stream, void* begin, size_t bytes, unsigned flags) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamAttachMemAsync, stream, address(begin), bytes, flags);
  });
}

cudaError_t copy_attributes(Rule rule, cudaStream_t to, cudaStream_t from) {
  return api(rule, [&](const Driver& table) { return CUDART_CALL(table, cuStreamCopyAttributes, to, from); });
}

cudaError_t get_attribute(Rule rule, cudaStream_t stream, cudaLaunchAttributeID id, cudaLaunchAttributeValue* value) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamGetAttribute, stream, static_cast<CUstreamAttrID>(id),
                       reinterpret_cast<CUstreamAttrValue*>(value));
  });
}

cudaError_t set_attribute(Rule rule, cudaStream_t stream, cudaLaunchAttributeID id,
                          const cudaLaunchAttributeValue* value) {
  return api(rule, [&](const Driver& table) {
    return CUDART_CALL(table, cuStreamSetAttribute, stream, static_cast<CUstreamAttrID>(id),
                       reinterpret_cast<const CUstreamAttrValue*>(value));
  });
}

}  // namespace
}  // namespace simulator::cudart

using namespace simulator::cudart;

CUDART_BOTH(cudaStreamSynchronize, _ptsz, synchronize, (cudaStream_t stream), (stream))
CUDART_BOTH(cudaStreamQuery, _ptsz, query, (cudaStream_t stream), (stream))
CUDART_BOTH(cudaStreamWaitEvent, _ptsz, wait_event, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
            (stream, event, flags))
CUDART_BOTH(cudaStreamAddCallback, _ptsz, add_callback,
            (cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags),
            (stream, function, data, flags))
CUDART_BOTH(cudaStreamGetPriority, _ptsz, get_priority, (cudaStream_t stream, int* priority), (stream, priority))
CUDART_BOTH(cudaStreamGetFlags, _ptsz, get_flags, (cudaStream_t stream, unsigned* flags), (stream, flags))
CUDART_BOTH(cudaStreamGetId, _ptsz, get_id, (cudaStream_t stream, unsigned long long* id), (stream, id))
CUDART_BOTH(cudaStreamGetDevice, _ptsz, get_device, (cudaStream_t stream, int* device), (stream, device))
CUDART_BOTH(cudaStreamAttachMemAsync, _ptsz, attach, (cudaStream_t stream, void* begin, size_t bytes, unsigned flags),
            (stream, begin, bytes, flags))
CUDART_BOTH(cudaStreamCopyAttributes, _ptsz, copy_attributes, (cudaStream_t to, cudaStream_t from), (to, from))
CUDART_BOTH(cudaStreamGetAttribute, _ptsz, get_attribute,
            (cudaStream_t stream, cudaLaunchAttributeID id, cudaLaunchAttributeValue* value), (stream, id, value))
CUDART_BOTH(cudaStreamSetAttribute, _ptsz, set_attribute,
            (cudaStream_t stream, cudaLaunchAttributeID id, const cudaLaunchAttributeValue* value), (stream, id, value))

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(stream, cudaStreamDefault, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return create(stream, flags, 0); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create(stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api([&](const Driver& table) { return CUDART_CALL(table, cuStreamDestroy, stream); });
}

}  // extern "C"
