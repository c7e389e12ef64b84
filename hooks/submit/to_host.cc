// SPDX-License-Identifier: Apache-2.0
#include "hooks/submit/to_host.h"

#include <cstring>
#include <memory>

#include "hooks/pointers/uploads.h"
#include "hooks/runtime/guarded.h"

namespace thermocline {
namespace {

struct CopyOnHost {
  void* to;
  const void* from;
  std::size_t bytes;
};

void CUDA_CB copy_on_host(void* data) {
  const std::unique_ptr<CopyOnHost> copy(static_cast<CopyOnHost*>(data));
  std::memcpy(copy->to, copy->from, copy->bytes);
}

// CUDA driver API, "API synchronization behavior": a copy from host memory to host memory is synchronous, even if it is
// asynchronous by name. But a copy to pinned memory that the program requested in a stream must not wait: the stream
// may be waiting for what the program's thread does next.
CUresult submit_on_host(StreamHandle stream, Host host, const CopyOnHost& copy) {
  if (host == Host::kGoesOn && is_pinned(reinterpret_cast<CUdeviceptr>(copy.to))) {
    auto data = std::make_unique<CopyOnHost>(copy);
    const CUresult result = real<Function::cuLaunchHostFunc>(to_cu(stream), copy_on_host, data.get());
    if (result == CUDA_SUCCESS) static_cast<void>(data.release());
    if (result != CUDA_ERROR_NOT_SUPPORTED) return result;
  }
  return real<Function::cuMemcpyAsync>(reinterpret_cast<CUdeviceptr>(copy.to), reinterpret_cast<CUdeviceptr>(copy.from),
                                       copy.bytes, to_cu(stream));
}

std::size_t run_from(CUdeviceptr from, std::size_t bytes) {
  const HeldEngines engines;
  if (engines.none() || Runtime::get().broken()) return bytes;
  const ActiveEngine* const owner = engines->owner(DeviceAddress{from});
  return owner == nullptr ? bytes : owner->engine->host_copy_run({DeviceAddress{from}, bytes});
}

}  // namespace

bool is_copy_to_host(CUdeviceptr to, CUdeviceptr from) {
  const EngineSet* const engines = engines_now();
  return engines != nullptr && engines->owner(DeviceAddress{from}) != nullptr &&
         engines->owner(DeviceAddress{to}) == nullptr;
}

CUresult copy_to_host(StreamHandle stream, Host host, void* to, CUdeviceptr from, std::size_t bytes, OperationInfo info,
                      RunOfCopy run) {
  for (std::size_t done = 0; done < bytes; info.again = true) {
    std::size_t now = bytes - done;
    const CUresult asked = guarded([&] {
      now = run_from(from + done, bytes - done);
      return CUDA_SUCCESS;
    });
    if (asked != CUDA_SUCCESS) return asked;
    const CUresult result = run(done, now, info, [&](const void* copy) {
      return submit_on_host(stream, host, {.to = static_cast<char*>(to) + done, .from = copy, .bytes = now});
    });
    if (result != CUDA_SUCCESS) return result;
    done += now;
  }
  return CUDA_SUCCESS;
}

}  // namespace thermocline
