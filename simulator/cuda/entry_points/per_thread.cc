// SPDX-License-Identifier: Apache-2.0
// The forms whose stream 0 is the calling thread's own: each calls the plain form with another stream. The forms of
// synchronous copies and sets, which have no stream parameter, are beside the plain ones.
#include "simulator/cuda/api.h"

namespace {

CUstream own(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

}  // namespace

#define SIMULATED_PER_THREAD(name, parameters, ...) \
  SIMULATED_API CUresult name##_ptsz parameters { return name(__VA_ARGS__); }

SIMULATED_PER_THREAD(cuEventRecord, (CUevent event, CUstream s), event, own(s))
SIMULATED_PER_THREAD(cuEventRecordWithFlags, (CUevent event, CUstream s, unsigned flags), event, own(s), flags)

SIMULATED_PER_THREAD(cuLaunchHostFunc, (CUstream s, CUhostFn function, void* data), own(s), function, data)
SIMULATED_PER_THREAD(cuLaunchKernel,
                     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, CUstream s, void** parameters, void** extra),
                     f, gx, gy, gz, bx, by, bz, shared, own(s), parameters, extra)
SIMULATED_PER_THREAD(cuLaunchCooperativeKernel,
                     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, CUstream s, void** parameters),
                     f, gx, gy, gz, bx, by, bz, shared, own(s), parameters)

SIMULATED_API CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** parameters,
                                             void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig own_config = *config;
  own_config.hStream = own(config->hStream);
  return cuLaunchKernelEx(&own_config, f, parameters, extra);
}

SIMULATED_PER_THREAD(cuMemAllocAsync, (CUdeviceptr * out, std::size_t bytes, CUstream s), out, bytes, own(s))
SIMULATED_PER_THREAD(cuMemAllocFromPoolAsync, (CUdeviceptr * out, std::size_t bytes, CUmemoryPool pool, CUstream s),
                     out, bytes, pool, own(s))
SIMULATED_PER_THREAD(cuMemFreeAsync, (CUdeviceptr at, CUstream s), at, own(s))
SIMULATED_PER_THREAD(cuMemPrefetchAsync, (CUdeviceptr at, std::size_t bytes, CUdevice device, CUstream s), at, bytes,
                     device, own(s))
SIMULATED_PER_THREAD(cuMemPrefetchAsync_v2,
                     (CUdeviceptr at, std::size_t bytes, CUmemLocation location, unsigned flags, CUstream s), at, bytes,
                     location, flags, own(s))

SIMULATED_PER_THREAD(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream s), to, from, bytes,
                     own(s))
SIMULATED_PER_THREAD(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream s), to, from,
                     bytes, own(s))
SIMULATED_PER_THREAD(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, std::size_t bytes, CUstream s), to, from, bytes,
                     own(s))
SIMULATED_PER_THREAD(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream s), to, from,
                     bytes, own(s))
SIMULATED_PER_THREAD(cuMemcpyPeerAsync,
                     (CUdeviceptr to, CUcontext c, CUdeviceptr from, CUcontext d, std::size_t bytes, CUstream s), to, c,
                     from, d, bytes, own(s))
SIMULATED_PER_THREAD(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* copy, CUstream s), copy, own(s))
SIMULATED_PER_THREAD(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* copy, CUstream s), copy, own(s))
SIMULATED_PER_THREAD(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* copy, CUstream s), copy, own(s))
SIMULATED_PER_THREAD(cuMemcpyBatchAsync,
                     (CUdeviceptr * to, CUdeviceptr* from, std::size_t* sizes, std::size_t n, CUmemcpyAttributes* a,
                      std::size_t* i, std::size_t m, std::size_t* failed, CUstream s),
                     to, from, sizes, n, a, i, m, failed, own(s))
SIMULATED_PER_THREAD(cuMemcpyBatchAsync_v2,
                     (CUdeviceptr * to, CUdeviceptr* from, std::size_t* sizes, std::size_t n, CUmemcpyAttributes* a,
                      std::size_t* i, std::size_t m, CUstream s),
                     to, from, sizes, n, a, i, m, own(s))
SIMULATED_PER_THREAD(cuMemcpy3DBatchAsync,
                     (std::size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, std::size_t* failed, unsigned long long flags,
                      CUstream s),
                     n, ops, failed, flags, own(s))
SIMULATED_PER_THREAD(cuMemcpy3DBatchAsync_v2,
                     (std::size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, unsigned long long flags, CUstream s), n, ops, flags,
                     own(s))

SIMULATED_PER_THREAD(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, std::size_t n, CUstream s), to, value, n,
                     own(s))
SIMULATED_PER_THREAD(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, std::size_t n, CUstream s), to, value, n,
                     own(s))
SIMULATED_PER_THREAD(cuMemsetD32Async, (CUdeviceptr to, unsigned value, std::size_t n, CUstream s), to, value, n,
                     own(s))
SIMULATED_PER_THREAD(cuMemsetD2D8Async,
                     (CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t w, std::size_t h, CUstream s),
                     to, pitch, value, w, h, own(s))
SIMULATED_PER_THREAD(cuMemsetD2D16Async,
                     (CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t w, std::size_t h,
                      CUstream s),
                     to, pitch, value, w, h, own(s))
SIMULATED_PER_THREAD(cuMemsetD2D32Async,
                     (CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t w, std::size_t h, CUstream s), to,
                     pitch, value, w, h, own(s))

SIMULATED_PER_THREAD(cuStreamAddCallback, (CUstream s, CUstreamCallback callback, void* data, unsigned flags), own(s),
                     callback, data, flags)
SIMULATED_PER_THREAD(cuStreamAttachMemAsync, (CUstream s, CUdeviceptr at, std::size_t bytes, unsigned flags), own(s),
                     at, bytes, flags)
SIMULATED_PER_THREAD(cuStreamCopyAttributes, (CUstream to, CUstream from), own(to), own(from))
SIMULATED_PER_THREAD(cuStreamGetAttribute, (CUstream s, CUstreamAttrID id, CUstreamAttrValue* value), own(s), id, value)
SIMULATED_PER_THREAD(cuStreamSetAttribute, (CUstream s, CUstreamAttrID id, const CUstreamAttrValue* value), own(s), id,
                     value)
SIMULATED_PER_THREAD(cuStreamGetCtx, (CUstream s, CUcontext* context), own(s), context)
SIMULATED_PER_THREAD(cuStreamGetCtx_v2, (CUstream s, CUcontext* context, CUgreenCtx* green), own(s), context, green)
SIMULATED_PER_THREAD(cuStreamGetDevice, (CUstream s, CUdevice* device), own(s), device)
SIMULATED_PER_THREAD(cuStreamGetFlags, (CUstream s, unsigned* flags), own(s), flags)
SIMULATED_PER_THREAD(cuStreamGetId, (CUstream s, unsigned long long* id), own(s), id)
SIMULATED_PER_THREAD(cuStreamGetPriority, (CUstream s, int* priority), own(s), priority)
SIMULATED_PER_THREAD(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus* status), own(s), status)
SIMULATED_PER_THREAD(cuStreamGetCaptureInfo, (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id), own(s),
                     status, id)
SIMULATED_PER_THREAD(cuStreamGetCaptureInfo_v2,
                     (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** nodes, std::size_t* n),
                     own(s), status, id, graph, nodes, n)
SIMULATED_PER_THREAD(cuStreamGetCaptureInfo_v3,
                     (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** nodes, const CUgraphEdgeData** edges, std::size_t* n),
                     own(s), status, id, graph, nodes, edges, n)
SIMULATED_PER_THREAD(cuStreamBeginCapture, (CUstream s), own(s))
SIMULATED_PER_THREAD(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode mode), own(s), mode)
SIMULATED_PER_THREAD(cuStreamBeginCaptureToGraph,
                     (CUstream s, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* edges, std::size_t n,
                      CUstreamCaptureMode mode),
                     own(s), graph, nodes, edges, n, mode)
SIMULATED_PER_THREAD(cuStreamEndCapture, (CUstream s, CUgraph* graph), own(s), graph)
SIMULATED_PER_THREAD(cuStreamUpdateCaptureDependencies, (CUstream s, CUgraphNode* nodes, std::size_t n, unsigned flags),
                     own(s), nodes, n, flags)
SIMULATED_PER_THREAD(cuStreamUpdateCaptureDependencies_v2,
                     (CUstream s, CUgraphNode* nodes, const CUgraphEdgeData* edges, std::size_t n, unsigned flags),
                     own(s), nodes, edges, n, flags)
SIMULATED_PER_THREAD(cuGraphUpload, (CUgraphExec graph, CUstream s), graph, own(s))
SIMULATED_PER_THREAD(cuGraphLaunch, (CUgraphExec graph, CUstream s), graph, own(s))

SIMULATED_API CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                                         CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return cuGraphInstantiateWithParams(out, graph, params);  // uploading does nothing there
}
SIMULATED_PER_THREAD(cuStreamQuery, (CUstream s), own(s))
SIMULATED_PER_THREAD(cuStreamSynchronize, (CUstream s), own(s))
SIMULATED_PER_THREAD(cuStreamWaitEvent, (CUstream s, CUevent event, unsigned flags), own(s), event, flags)
