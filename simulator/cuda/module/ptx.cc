// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/module/ptx.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "simulator/core/execution/executor.h"
#include "simulator/core/execution/fault_guard.h"
#include "simulator/cuda/module/ptx_textures.h"
#include "simulator/ptx/context.h"
#include "simulator/ptx/interface.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

const char kHere = 0;  // any address in this library

// Opens the library beside this one; nullptr, with a reason, if it is not there, and then for the rest of the process.
const ptx::Interface* open_interface(std::string* reason) {
  Dl_info own{};
  std::string path = "libthermocline_ptx.so";
  if (dladdr(&kHere, &own) != 0 && own.dli_fname != nullptr) {
    const std::string file = own.dli_fname;
    path = file.substr(0, file.rfind('/') + 1) + path;
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    *reason = "this build can not run kernels, for libthermocline_ptx.so is not there (" +
              std::string(error == nullptr ? path : error) + ")";
    return nullptr;
  }
  using Ask = const ptx::Interface* (*)();
  const auto ask = reinterpret_cast<Ask>(dlsym(library, "thermocline_ptx_interface"));
  const ptx::Interface* const found = ask == nullptr ? nullptr : ask();
  if (found != nullptr && found->version == ptx::kInterfaceVersion) return found;
  *reason = path + " is of another version";
  return nullptr;
}

struct Plugin {
  std::string reason;
  const ptx::Interface* interface = open_interface(&reason);
};

// Never unloaded: destructors of others may still need its code.
const Plugin& plugin() {
  static const auto* const once = new Plugin;
  return *once;
}

CUresult error_of(ptx::Fault fault) {
  switch (fault) {
    case ptx::Fault::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::Fault::kMisaligned:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::Fault::kAssert:
      return CUDA_ERROR_ASSERT;
    case ptx::Fault::kStackOverflow:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case ptx::Fault::kTimeout:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

}  // namespace

namespace simulator::cuda {

// The code of one module. Its kernels hold references to it.
class PtxModule {
 public:
  PtxModule(const ptx::Interface& interface, void* loaded) : interface_(interface), loaded_(loaded) {}
  ~PtxModule() { interface_.unload(loaded_); }
  PtxModule(const PtxModule&) = delete;
  PtxModule& operator=(const PtxModule&) = delete;

  const ptx::Interface& interface() const { return interface_; }
  void* loaded() const { return loaded_; }

 private:
  const ptx::Interface& interface_;
  void* loaded_;
};

}  // namespace simulator::cuda

namespace {

class PtxKernel final : public RealKernel {
 public:
  PtxKernel(std::shared_ptr<PtxModule> module, void* code, const CodeLimits& limits)
      : module_(std::move(module)), code_(code), limits_(limits) {}

  bool needs_heap() const override { return module_->interface().needs_heap(code_); }

  std::array<std::uint32_t, 3> cluster() const override {
    std::array<std::uint32_t, 3> shape{};
    module_->interface().cluster_of(code_, shape.data());
    return shape;
  }

  std::optional<KernelFault> run(const Kernel& kernel, const PageTable& table, const MayTouch& may_touch,
                                 KernelCounts* counts, std::vector<AccessedRange>* ranges) const override {
    ptx::Launch launch{};
    const auto fill = [](std::uint32_t(&to)[3], Dim3 from) {
      to[0] = from.x;
      to[1] = from.y;
      to[2] = from.z;
    };
    fill(launch.grid, kernel.grid);
    fill(launch.block, kernel.block);
    fill(launch.cluster, kernel.cluster);
    launch.dynamic_shared = kernel.shared_bytes;
    launch.parameters = kernel.block_of_parameters.data();
    launch.parameter_bytes = kernel.block_of_parameters.size();
    launch.grid_id = kernel.ordinal;
    launch.is_cooperative = kernel.is_cooperative;
    launch.heap = kernel.heap;
    launch.heap_bytes = kernel.heap_bytes;
    launch.heap_generation = kernel.heap_generation;
    launch.find_texture = describe_texture;
    launch.set_condition = Executor::set_condition;
    launch.most_steps = limits_.most_steps;
    launch.cores = limits_.cores;
    launch.guarded = [](void (*body)(void*), void* data, std::uint64_t* at) {
      const std::optional<Address> faulted = run_guarded(body, data);
      *at = faulted.value_or(0);
      return !faulted;
    };
    launch.pages = table.entries();
    launch.asked = const_cast<MayTouch*>(&may_touch);
    launch.may_touch = [](void* asked, std::uint64_t at, std::uint64_t bytes, bool writes) {
      return (*static_cast<const MayTouch*>(asked))(at, bytes, writes ? Access::kReadWrite : Access::kRead);
    };
    if (ranges != nullptr) {
      static_assert(ptx::kMostTraced == kMostAccessedRanges);
      launch.traced_to = ranges;
      launch.traced = [](void* to, std::uint64_t at, std::uint64_t bytes, ptx::Traced how) {
        const RangeAccess kind = how == ptx::Traced::kRead    ? RangeAccess::kRead
                                 : how == ptx::Traced::kWrite ? RangeAccess::kWrite
                                                              : RangeAccess::kAtomic;
        static_cast<std::vector<AccessedRange>*>(to)->push_back({at, bytes, kind});
      };
    }
    ptx::Outcome outcome;
    module_->interface().run(code_, &launch, &outcome);
    *counts = {.instructions = outcome.instructions,
               .flops = outcome.counts.flops,
               .doubles = outcome.counts.doubles,
               .tensor_flops = outcome.counts.tensor_flops,
               .accessed = outcome.counts.accessed,
               .reached = (outcome.pages_read + outcome.pages_written) * kPageBytes,
               .of_host = outcome.counts.of_host};
    if (outcome.fault == ptx::Fault::kNone) return std::nullopt;
    return KernelFault{error_of(outcome.fault), outcome.address, outcome.message};
  }

 private:
  std::shared_ptr<PtxModule> module_;
  void* code_;
  CodeLimits limits_;
};

// Reported once for each kernel.
CUresult refuse(const CUfunc_st& function, const std::string& reason) {
  static auto* const said = new std::set<std::string>;  // guarded by the machine's lock, like everything in this folder
  if (!said->insert(function.kernel.name).second) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  std::fprintf(
      stderr,
      "simulated device: kernel %s can not be run: %s ('thermocline run --made-up' runs the program with made-up "
      "results)\n",
      function.kernel.name.c_str(), reason.c_str());
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

std::shared_ptr<PtxModule> load(const CUmod_st& module, const ptx::Interface& interface, std::string* reason) {
  std::vector<ptx::NamedAddress> variables;
  variables.reserve(module.variables.size());
  for (const auto& [name, variable] : module.variables) variables.push_back({name.c_str(), variable.address});
  char error[ptx::kMessageBytes] = {};
  void* const loaded =
      interface.load(module.text->data(), module.text->size(), variables.data(), variables.size(), error);
  if (loaded != nullptr) return std::make_shared<PtxModule>(interface, loaded);
  *reason = error;
  return nullptr;
}

}  // namespace

namespace simulator::cuda {

Address function_pointer(const Image& image, const std::string& name) {
  const auto found = std::find(image.functions.begin(), image.functions.end(), name);
  if (found == image.functions.end()) return 0;
  return ptx::kFunctionPointers + 16 * static_cast<Address>(found - image.functions.begin());
}

CUresult find_code(CUfunc_st& function, const CodeLimits& limits) {
  if (function.real != nullptr) return CUDA_SUCCESS;
  CUmod_st& module = *function.module;
  if (module.text == nullptr)
    return refuse(function,
                  "the program has no PTX of it, only code for one architecture; build it with PTX, such as "
                  "nvcc -gencode arch=compute_75,code=compute_75");
  const Plugin& library = plugin();
  if (library.interface == nullptr) return refuse(function, library.reason);
  std::string reason;
  if (module.code == nullptr) module.code = load(module, *library.interface, &reason);
  if (module.code == nullptr) return refuse(function, reason);
  char error[ptx::kMessageBytes] = {};
  std::vector<ptx::ParameterPlace> places;
  places.reserve(function.kernel.parameters.size());
  for (const ImageParameter& parameter : function.kernel.parameters)
    places.push_back({parameter.offset, parameter.size});
  void* const code =
      library.interface->find(module.code->loaded(), function.kernel.name.c_str(), places.data(), places.size(), error);
  if (code == nullptr) return refuse(function, error);
  function.real = std::make_shared<PtxKernel>(module.code, code, limits);
  return CUDA_SUCCESS;
}

}  // namespace simulator::cuda
