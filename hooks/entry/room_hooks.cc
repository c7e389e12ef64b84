// SPDX-License-Identifier: Apache-2.0
// Calls for which the driver allocates device memory of its own. The library does not track what they create, but if
// the device is out of memory, it makes room and repeats the call.
#include "hooks/relaunch/loaded_code.h"
#include "hooks/runtime/caching_heaps.h"
#include "hooks/submit/driver_room.h"

#define THERMOCLINE_HOOK_WITH_ROOM(name, parameters, arguments)                     \
  extern "C" CUresult CUDAAPI name parameters {                                     \
    using namespace thermocline; /* NOLINT: the scope of one function */            \
    return with_driver_room([&] { return heard(real<Function::name> arguments); }); \
  }
// `note` is executed after success.
#define THERMOCLINE_HOOK_OF_CODE(name, parameters, arguments, note)                                  \
  extern "C" CUresult CUDAAPI name parameters {                                                      \
    using namespace thermocline; /* NOLINT: the scope of one function */                             \
    const CUresult result = with_driver_room([&] { return heard(real<Function::name> arguments); }); \
    if (result == CUDA_SUCCESS) note;                                                                \
    return result;                                                                                   \
  }
#define THERMOCLINE_HOOK_OF_A_CONTEXT(name, parameters, arguments)                                   \
  extern "C" CUresult CUDAAPI name parameters {                                                      \
    using namespace thermocline; /* NOLINT: the scope of one function */                             \
    const CUresult result = with_driver_room([&] { return heard(real<Function::name> arguments); }); \
    if (result == CUDA_SUCCESS && pctx != nullptr) note_context(*pctx);                              \
    return result;                                                                                   \
  }

// Loads code, and the variables that belong to it. With lazy loading, code is loaded at its first use.
THERMOCLINE_HOOK_OF_CODE(cuModuleLoad, (CUmodule * module, const char* fname), (module, fname),
                         note_code(*module, nullptr))
THERMOCLINE_HOOK_OF_CODE(cuModuleLoadData, (CUmodule * module, const void* image), (module, image),
                         note_code(*module, image))
THERMOCLINE_HOOK_OF_CODE(cuModuleLoadDataEx,
                         (CUmodule * module, const void* image, unsigned int numOptions, CUjit_option* options,
                          void** optionValues),
                         (module, image, numOptions, options, optionValues), note_code(*module, image))
THERMOCLINE_HOOK_OF_CODE(cuModuleLoadFatBinary, (CUmodule * module, const void* fatCubin), (module, fatCubin),
                         note_code(*module, fatCubin))
THERMOCLINE_HOOK_OF_CODE(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char* name),
                         (hfunc, hmod, name), note_function(*hfunc, hmod, name))
THERMOCLINE_HOOK_WITH_ROOM(cuModuleGetGlobal_v2, (CUdeviceptr * dptr, size_t* bytes, CUmodule hmod, const char* name),
                           (dptr, bytes, hmod, name))
THERMOCLINE_HOOK_OF_CODE(cuLibraryLoadData,
                         (CUlibrary * library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                          unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                          unsigned int numLibraryOptions),
                         (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                          libraryOptionValues, numLibraryOptions),
                         note_code(*library, code))
THERMOCLINE_HOOK_OF_CODE(cuLibraryLoadFromFile,
                         (CUlibrary * library, const char* fileName, CUjit_option* jitOptions, void** jitOptionsValues,
                          unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                          unsigned int numLibraryOptions),
                         (library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                          libraryOptionValues, numLibraryOptions),
                         note_code(*library, nullptr))
THERMOCLINE_HOOK_OF_CODE(cuLibraryGetModule, (CUmodule * pMod, CUlibrary library), (pMod, library),
                         note_same_code(*pMod, library))
THERMOCLINE_HOOK_WITH_ROOM(cuLibraryGetGlobal, (CUdeviceptr * dptr, size_t* bytes, CUlibrary library, const char* name),
                           (dptr, bytes, library, name))
THERMOCLINE_HOOK_WITH_ROOM(cuLibraryGetManaged,
                           (CUdeviceptr * dptr, size_t* bytes, CUlibrary library, const char* name),
                           (dptr, bytes, library, name))
THERMOCLINE_HOOK_OF_CODE(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel),
                         note_same_function(*pFunc, kernel))
THERMOCLINE_HOOK_WITH_ROOM(cuFuncLoad, (CUfunction function), (function))

// Queries and settings of functions, for which the code may have to be loaded.
THERMOCLINE_HOOK_WITH_ROOM(cuFuncSetAttribute, (CUfunction hfunc, CUfunction_attribute attrib, int value),
                           (hfunc, attrib, value))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                           (int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize),
                           (numBlocks, func, blockSize, dynamicSMemSize))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                           (int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags),
                           (numBlocks, func, blockSize, dynamicSMemSize, flags))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyMaxPotentialBlockSize,
                           (int* minGridSize, int* blockSize, CUfunction func,
                            CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit),
                           (minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyMaxPotentialBlockSizeWithFlags,
                           (int* minGridSize, int* blockSize, CUfunction func,
                            CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
                            unsigned int flags),
                           (minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit,
                            flags))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyAvailableDynamicSMemPerBlock,
                           (size_t * dynamicSmemSize, CUfunction func, int numBlocks, int blockSize),
                           (dynamicSmemSize, func, numBlocks, blockSize))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyMaxActiveClusters,
                           (int* numClusters, CUfunction func, const CUlaunchConfig* config),
                           (numClusters, func, config))
THERMOCLINE_HOOK_WITH_ROOM(cuOccupancyMaxPotentialClusterSize,
                           (int* clusterSize, CUfunction func, const CUlaunchConfig* config),
                           (clusterSize, func, config))

// Allocates memory that is not the engine's (cuMemAllocManaged: host_memory_hooks.cc).
THERMOCLINE_HOOK_WITH_ROOM(cuMipmappedArrayCreate,
                           (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                            unsigned int numMipmapLevels),
                           (pHandle, pMipmappedArrayDesc, numMipmapLevels))

// Sets the sizes of stacks, heaps and queues.
THERMOCLINE_HOOK_WITH_ROOM(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
THERMOCLINE_HOOK_OF_A_CONTEXT(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
THERMOCLINE_HOOK_OF_A_CONTEXT(cuCtxCreate_v3,
                              (CUcontext * pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                               CUdevice dev),
                              (pctx, paramsArray, numParams, flags, dev))
THERMOCLINE_HOOK_OF_A_CONTEXT(cuCtxCreate_v4,
                              (CUcontext * pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev),
                              (pctx, ctxCreateParams, flags, dev))
THERMOCLINE_HOOK_WITH_ROOM(cuStreamCreate, (CUstream * phStream, unsigned int Flags), (phStream, Flags))
THERMOCLINE_HOOK_WITH_ROOM(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority),
                           (phStream, flags, priority))
THERMOCLINE_HOOK_WITH_ROOM(cuEventCreate, (CUevent * phEvent, unsigned int Flags), (phEvent, Flags))
