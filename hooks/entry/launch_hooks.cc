// SPDX-License-Identifier: Apache-2.0
// Kernel launches. The accesses of a kernel are read from its parameters, at every launch.
// Compiled alone: its instructions are counted (scripts/count_instructions.sh), so inlining must be as in a package.
#include <algorithm>
#include <new>
#include <optional>

#include "hooks/capture/captures.h"
#include "hooks/diagnostics/recorder.h"
#include "hooks/graphs/graph_execs.h"
#include "hooks/interpose/nccl.h"
#include "hooks/operands/host_allocations.h"
#include "hooks/operands/layouts.h"
#include "hooks/operands/tensor_maps.h"
#include "hooks/pointers/tables_in_place.h"
#include "hooks/relaunch/known_launch.h"
#include "hooks/relaunch/loaded_code.h"
#include "hooks/runtime/guarded.h"
#include "hooks/submit/driver_room.h"
#include "hooks/submit/each_engine.h"
#include "hooks/submit/kernels.h"
#include "hooks/submit/launch.h"
#include "hooks/submit/macros.h"
#include "hooks/submit/multi_device.h"
#include "hooks/submit/unwaited.h"

namespace thermocline {

namespace {

// The driver reuses the handles of unloaded functions for others, which may have the same names. `handle`: the module
// or library. Returns an error if it must not be unloaded now.
CUresult forget_functions(const void* handle, bool* are_forgotten) {
  const EngineSet* const engines = engines_now();
  // In a host function the driver refuses to unload any function.
  if (engines != nullptr && place_of(*engines, {}).refused) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for_each_engine([&result](const EngineSet&, const ActiveEngine& active) {
    const Status status = active.engine->kernels_may_be_others();
    if (!status.ok()) result = static_cast<CUresult>(status.code());
  });
  if (result != CUDA_SUCCESS) return result;
  layouts().forget();
  note_unloaded(handle);
  *are_forgotten = true;
  return result;
}

}  // namespace

bool add_arguments(const EngineSet& engines, CUfunction function, KernelArguments arguments, AccessList* accesses) {
  // Without arguments the driver need not be asked for the layout.
  if (arguments.parameters == nullptr && arguments.extra == nullptr) return true;
  const ParameterLayout* const layout = layouts().of(function);
  scan_tensor_maps(tensor_maps(), layout, arguments, accesses);
  return scan_arguments(layout, arguments, engines.hull(), accesses);
}

namespace {

struct Shape {
  unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z;
};

struct Launch {
  CUfunction function = nullptr;
  Shape shape;
  unsigned int shared_bytes = 0;
  bool is_special = false;  // LaunchedKernel::is_special
  KernelArguments arguments;
};

// Equal for launches of one function with the same shape, as long as the process lives.
OperationInfo info_of(CUfunction function, const Layouts::Facts& facts, const Shape& shape) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(function);
  // The multiplier of 64-bit FNV-1a.
  const auto add = [&hash](unsigned int size) { hash = (hash ^ size) * 0x100000001B3u; };
  add(shape.grid_x), add(shape.grid_y), add(shape.grid_z);
  add(shape.block_x), add(shape.block_y), add(shape.block_z);
  return OperationInfo{.kind = hash | 1, .operator_class = facts.operator_class, .name = facts.name, .follows = true};
}

bool any_wants_relaunches(const EngineSet& engines) {
  return std::ranges::any_of(engines, [](const ActiveEngine* one) { return one->engine->wants_relaunches(); });
}

// Only if contents may be recomputed, or if a recording tells how kernels access memory.
[[gnu::noinline]] CUresult launch_known(const EngineSet& engines, StreamHandle stream, const Launch& launch,
                                        const Layouts::Facts& facts, AccessList& accesses, Call call) {
  const Shape& shape = launch.shape;
  const LaunchedKernel kernel{.function = launch.function,
                              .name = facts.name,
                              .layout = facts.layout,
                              .grid = {shape.grid_x, shape.grid_y, shape.grid_z},
                              .block = {shape.block_x, shape.block_y, shape.block_z},
                              .shared_bytes = launch.shared_bytes,
                              .is_special = launch.is_special,
                              .arguments = launch.arguments};
  const LaunchAskedBy asker = recompute_is_on.load(std::memory_order_relaxed) && any_wants_relaunches(engines)
                                  ? LaunchAskedBy::kEngine
                                  : LaunchAskedBy::kRecording;
  OperationInfo info = info_of(launch.function, facts, shape);
  std::optional<KnownLaunch> known;
  const CUresult read = guarded([&] {
    if (asker == LaunchAskedBy::kEngine) {
      known.emplace(engines, kernel, info.kind, asker, &accesses);
    } else {
      AccessList copy;
      copy.join(accesses);
      known.emplace(engines, kernel, info.kind, asker, &copy);
    }
    return CUDA_SUCCESS;
  });
  if (read != CUDA_SUCCESS && asker == LaunchAskedBy::kEngine) {
    captures().refuse(stream);
    return read;
  }
  // A recording goes on without facts that could not be found out.
  if (asker == LaunchAskedBy::kEngine) info.relaunch = known->info();
  if (read == CUDA_SUCCESS) info.seen = known->seen();
  return submit_launch(engines, stream, accesses, info, {}, call);
}

// NCCL's queue in pinned memory has operands of earlier collectives, too; its hooks have pinned this one's operands.
bool is_pinned(const Layouts::Facts& facts) { return facts.is_of_nccl && nccl_launches(); }

// not_found: the parameters can not be read.
[[gnu::noinline]] CUresult read_all_accesses(const EngineSet& engines, const Launch& launch,
                                             const Layouts::Facts& facts, AccessList* accesses) {
  const bool has_arguments = launch.arguments.parameters != nullptr || launch.arguments.extra != nullptr;
  const CUresult read = with_host_memory([&] {
    if (const TensorMaps& maps = tensor_maps(); has_arguments && !maps.empty()) [[unlikely]] {
      scan_tensor_maps(maps, facts.layout, launch.arguments, accesses);
      // Other memory that the launch is given does not matter.
      accesses->filter([&engines](DeviceAddress address) { return engines.hull()(address); });
    }
    const bool is_read = !has_arguments || scan_arguments(facts.layout, launch.arguments, engines.hull(), accesses);
    return is_read ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
  if (read == CUDA_SUCCESS && any_host_allocation.load(std::memory_order_relaxed) && !is_pinned(facts)) [[unlikely]] {
    return guarded([&] {
      add_tables_in_place(engines, facts.layout, launch.arguments, accesses);
      return CUDA_SUCCESS;
    });
  }
  return read;
}

[[gnu::always_inline]] inline CUresult read_accesses(const EngineSet& engines, const Launch& launch,
                                                     const Layouts::Facts& facts, AccessList* accesses) {
  const bool are_in_parameters = launch.arguments.parameters != nullptr && facts.layout != nullptr &&
                                 tensor_maps().empty() && !any_host_allocation.load(std::memory_order_relaxed);
  if (!are_in_parameters) [[unlikely]]
    return read_all_accesses(engines, launch, facts, accesses);
  try {
    scan_parameters(*facts.layout, launch.arguments.parameters, engines.hull(), accesses);
    return CUDA_SUCCESS;
  } catch (const std::bad_alloc&) {
    return host_memory_is_exhausted();
  }
}

// `read`: why the accesses are not known.
[[gnu::noinline]] CUresult launch_unread(StreamHandle stream, CUresult read, Call call) {
  if (read == CUDA_ERROR_NOT_FOUND) return submit_unknown(stream, call);
  captures().refuse(stream);
  return read;
}

template <class Submit>
[[gnu::always_inline]] inline CUresult launch_once(StreamHandle stream, const Launch& launch, const Submit& call) {
  const Inside::Depth depth;
  const EngineSet* const engines = engines_now(depth);
  if (engines == nullptr) return call();
  const Layouts::Facts& facts = layouts().facts(launch.function);
  AccessList accesses;
  const CUresult read = read_accesses(*engines, launch, facts, &accesses);
  if (read != CUDA_SUCCESS) [[unlikely]]
    return launch_unread(stream, read, call);
  const bool is_asked_for = code_is_read.load(std::memory_order_relaxed) && !is_pinned(facts);
  if (is_asked_for && (any_wants_relaunches(*engines) || Recorder::get() != nullptr)) [[unlikely]]
    return launch_known(*engines, stream, launch, facts, accesses, call);
  return submit_launch(*engines, stream, accesses, info_of(launch.function, facts, launch.shape), depth, call);
}

// Lazily loaded code takes device memory at its first launch.
template <class Submit>
[[gnu::always_inline]] inline CUresult submit_kernel(StreamHandle stream, const Launch& launch, const Submit& call) {
  const CUresult result = launch_once(stream, launch, call);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) [[likely]]
    return result;
  return again_with_driver_room([&] { return launch_once(stream, launch, call); });
}

// Parameters that were set one by one, as before CUDA 4 (cuParamSetv), are not tracked.
CUresult launch_unseen(CUstream stream, Call call) {
  return with_driver_room([&] { return submit_unknown(legacy(stream), [&] { return heard(call()); }); });
}

bool has_attributes(const CUlaunchConfig& config) {
  return config.numAttrs > 0 && config.attrs != nullptr &&
         std::any_of(config.attrs, config.attrs + config.numAttrs,
                     [](const CUlaunchAttribute& one) { return one.id != CU_LAUNCH_ATTRIBUTE_IGNORE; });
}

void look_at_attributes(const CUlaunchConfig& config) {
  if (config.attrs == nullptr) return;
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& one = config.attrs[i];
    if (one.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE &&
        one.value.deviceUpdatableKernelNode.deviceUpdatable != 0)
      nodes_change_on_the_device();
  }
}

}  // namespace
}  // namespace thermocline

THERMOCLINE_HOOK_PAIR(
    cuLaunchKernel, _ptsz,
    (CUfunction f, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX, unsigned int blockY,
     unsigned int blockZ, unsigned int sharedBytes, CUstream hStream, void** kernelParams, void** extra),
    {
      const Launch launch{f, {gridX, gridY, gridZ, blockX, blockY, blockZ}, sharedBytes, false, {kernelParams, extra}};
      return submit_kernel(stream_of(hStream), launch, [&] {
        const Shape& shape = launch.shape;
        return heard(real<kFunction>(launch.function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
                                     shape.block_y, shape.block_z, launch.shared_bytes, hStream, kernelParams, extra));
      });
    })

THERMOCLINE_HOOK_PAIR(
    cuLaunchKernelEx, _ptsz, (const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra), {
      if (config == nullptr) return real<kFunction>(config, f, kernelParams, extra);
      look_at_attributes(*config);
      const Shape shape{config->gridDimX,  config->gridDimY,  config->gridDimZ,
                        config->blockDimX, config->blockDimY, config->blockDimZ};
      const Launch launch{f, shape, config->sharedMemBytes, has_attributes(*config), {kernelParams, extra}};
      return submit_kernel(stream_of(config->hStream), launch,
                           [&] { return heard(real<kFunction>(config, f, kernelParams, extra)); });
    })

THERMOCLINE_HOOK_PAIR(
    cuLaunchCooperativeKernel, _ptsz,
    (CUfunction f, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX, unsigned int blockY,
     unsigned int blockZ, unsigned int sharedBytes, CUstream hStream, void** kernelParams),
    {
      const Launch launch{f, {gridX, gridY, gridZ, blockX, blockY, blockZ}, sharedBytes, true, {kernelParams, nullptr}};
      return submit_kernel(stream_of(hStream), launch, [&] {
        const Shape& shape = launch.shape;
        return heard(real<kFunction>(launch.function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x,
                                     shape.block_y, shape.block_z, launch.shared_bytes, hStream, kernelParams));
      });
    })

extern "C" {

// One kernel for each of several devices, each in its own stream. Too rare for more than pinning what they access.
CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList, unsigned int numDevices,
                                                      unsigned int flags) {
  using namespace thermocline;
  const auto call = [&] {
    return real<Function::cuLaunchCooperativeKernelMultiDevice>(launchParamsList, numDevices, flags);
  };
  const EngineSet* const engines = engines_now();
  if (engines == nullptr || launchParamsList == nullptr) return call();
  bool reached = false;
  AccessList accesses;
  const CUresult result = guarded([&]() -> CUresult {
    for (unsigned int i = 0; i < numDevices; ++i) {
      const CUDA_LAUNCH_PARAMS& one = launchParamsList[i];
      if (!add_arguments(*engines, one.function, {one.kernelParams, nullptr}, &accesses))
        return CUDA_ERROR_NOT_SUPPORTED;
      add_tables_in_place(*engines, layouts().of(one.function), {one.kernelParams, nullptr}, &accesses);
    }
    accesses.filter([engines](DeviceAddress address) { return engines->owner(address) != nullptr; });
    return keep(accesses, "a launch on several devices", [&] {
      reached = true;
      return call();
    });
  });
  for (unsigned int i = 0; i < numDevices; ++i) {
    const CUstream stream = launchParamsList[i].hStream;
    if (!reached) captures().refuse(legacy(stream));
    // The launch's streams are not tracked, so it must have completed before anything else is done with the buffers.
    if (result != CUDA_SUCCESS || accesses.empty()) continue;
    if (real<Function::cuStreamSynchronize>(stream) == CUDA_SUCCESS) continue;
    const CUcontext home = place_of(*engines, legacy(stream)).context;
    for (const ActiveEngine* active : *engines) remember_unwaited(*active, part_of(accesses, *active), home);
  }
  return result;
}

CUresult CUDAAPI cuLaunch(CUfunction f) {
  using namespace thermocline;
  return launch_unseen(nullptr, [&] { return real<Function::cuLaunch>(f); });
}

CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  using namespace thermocline;
  return launch_unseen(nullptr, [&] { return real<Function::cuLaunchGrid>(f, grid_width, grid_height); });
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  using namespace thermocline;
  return launch_unseen(hStream, [&] { return real<Function::cuLaunchGridAsync>(f, grid_width, grid_height, hStream); });
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
  using namespace thermocline;
  bool are_forgotten = false;
  if (const CUresult result = forget_functions(hmod, &are_forgotten); result != CUDA_SUCCESS) return result;
  return real<Function::cuModuleUnload>(hmod);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  using namespace thermocline;
  const CUresult result = real<Function::cuLibraryGetKernel>(pKernel, library, name);
  if (result != CUDA_SUCCESS || pKernel == nullptr) return result;
  return guarded([&] {
    layouts().note_kernel(*pKernel, library);
    note_function(*pKernel, library, name);
    return result;
  });
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
  using namespace thermocline;
  const CUresult result = real<Function::cuLibraryEnumerateKernels>(kernels, numKernels, lib);
  if (result != CUDA_SUCCESS || kernels == nullptr) return result;
  return guarded([&] {
    // A library with fewer kernels leaves the rest of the array unchanged.
    unsigned int count = 0;
    if (real<Function::cuLibraryGetKernelCount>(&count, lib) != CUDA_SUCCESS) return result;
    for (unsigned int i = 0; i < std::min(count, numKernels); ++i) layouts().note_kernel(kernels[i], lib);
    return result;
  });
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  using namespace thermocline;
  bool are_forgotten = false;
  if (const CUresult result = forget_functions(library, &are_forgotten); result != CUDA_SUCCESS) return result;
  if (are_forgotten) layouts().forget_kernels(library);
  return real<Function::cuLibraryUnload>(library);
}

}  // extern "C"
