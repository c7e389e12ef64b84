// SPDX-License-Identifier: Apache-2.0
// Functions that write tensor maps. The maps are remembered (tensor_maps.h), so that kernels that are given a map count
// as accessing the tensor's buffer. Creating a map accesses no memory.
#include "hooks/operands/tensor_maps.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/submit.h"

namespace thermocline {
namespace {

// The number of the buffer at the address, unique in its engine. 0: there is none.
std::uint64_t number_of(const EngineSet& engines, DeviceAddress at) {
  const ActiveEngine* const owner = engines.owner(at);
  const std::optional<BufferFacts> facts = owner == nullptr ? std::nullopt : owner->engine->find(at);
  return facts.has_value() ? facts->number : 0;
}

static_assert(sizeof(CUtensorMap) == TensorMaps::kBytes);

// The buffer stays on the device from then on, so the map need not be remembered.
CUresult keep_tensor(DeviceAddress address, const char* why, Call call) {
  return keep(AccessList().word(address.value), why, call);
}

CUresult remember(const CUtensorMap* map, DeviceAddress address) {
  const bool known = tensor_maps().remember(map, address, [](DeviceAddress at) {
    const HeldEngines engines;
    return !engines.none() && number_of(*engines, at) != 0;
  });
  if (known) return CUDA_SUCCESS;
  return keep_tensor(address, "one tensor map of too many names it", [] { return CUDA_SUCCESS; });
}

CUresult encode(const CUtensorMap* map, const void* address, Call call) {
  const DeviceAddress at{reinterpret_cast<std::uintptr_t>(address)};
  const ActiveEngine* active = owner_now(at);
  if (active == nullptr || map == nullptr) return call();
  return guarded([&] {
    CUresult result = call();
    // It is not documented that drivers do not check the memory; if this one does, the buffer is fetched and the call
    // repeated.
    if (const auto buffer = active->engine->find(at); result != CUDA_SUCCESS && buffer && !buffer->resident) {
      result = keep_tensor(at, "a tensor map could be made only while it was there", call);
    }
    return result == CUDA_SUCCESS ? remember(map, at) : result;
  });
}

// Changes the description in the map, but not the address.
CUresult change(const CUtensorMap* map, Call call) {
  if (engines_now() == nullptr || map == nullptr || tensor_maps().empty()) return call();
  return guarded([&] {
    const auto address = tensor_maps().find(map);
    const CUresult result = call();
    return result == CUDA_SUCCESS && address ? remember(map, *address) : result;
  });
}

}  // namespace
}  // namespace thermocline

extern "C" {

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                        cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                        const cuuint64_t* globalStrides, const cuuint32_t* boxDim,
                                        const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                        CUtensorMapFloatOOBfill oobFill) {
  using namespace thermocline;
  return encode(tensorMap, globalAddress, [&] {
    return real<Function::cuTensorMapEncodeTiled>(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                                                  globalStrides, boxDim, elementStrides, interleave, swizzle,
                                                  l2Promotion, oobFill);
  });
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                         cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                         const cuuint64_t* globalStrides, const int* pixelBoxLowerCorner,
                                         const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                         cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                         CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                         CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  using namespace thermocline;
  return encode(tensorMap, globalAddress, [&] {
    return real<Function::cuTensorMapEncodeIm2col>(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                                                   globalStrides, pixelBoxLowerCorner, pixelBoxUpperCorner,
                                                   channelsPerPixel, pixelsPerColumn, elementStrides, interleave,
                                                   swizzle, l2Promotion, oobFill);
  });
}

CUresult CUDAAPI cuTensorMapEncodeIm2colWide(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                             cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                             const cuuint64_t* globalStrides, int pixelBoxLowerCornerWidth,
                                             int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
                                             cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                             CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                             CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                             CUtensorMapFloatOOBfill oobFill) {
  using namespace thermocline;
  return encode(tensorMap, globalAddress, [&] {
    return real<Function::cuTensorMapEncodeIm2colWide>(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                                                       globalStrides, pixelBoxLowerCornerWidth,
                                                       pixelBoxUpperCornerWidth, channelsPerPixel, pixelsPerColumn,
                                                       elementStrides, interleave, mode, swizzle, l2Promotion, oobFill);
  });
}

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress) {
  using namespace thermocline;
  return encode(tensorMap, globalAddress,
                [&] { return real<Function::cuTensorMapReplaceAddress>(tensorMap, globalAddress); });
}

CUresult CUDAAPI cuTensorMapSetAllocationClass(CUtensorMap* tensorMap, CUtensorMapAllocClass allocClass,
                                               CUtensorMapAllocClass* outAllocClass) {
  using namespace thermocline;
  return change(tensorMap,
                [&] { return real<Function::cuTensorMapSetAllocationClass>(tensorMap, allocClass, outAllocClass); });
}

}  // extern "C"
