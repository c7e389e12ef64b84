// SPDX-License-Identifier: Apache-2.0
// Launches with separate parameters and with one block of them; cooperative; with attributes; of kernels without a
// context.
#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

void plain(World& world, unsigned stream, Task& task) {
  std::vector<void*> parameters = task.parameters();
  CHECK_CUDA(
      cuLaunchKernel(function_of(world, task), 1, 1, 1, 64, 1, 1, 0, world.stream(stream), parameters.data(), nullptr));
}

void one_block(World& world, unsigned stream, Task& task) {
  std::size_t bytes = task.block.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, task.block.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CHECK_CUDA(cuLaunchKernel(function_of(world, task), 2, 1, 1, 32, 1, 1, 0, world.stream(stream), nullptr, extra));
}

void cooperative(World& world, unsigned stream, Task& task) {
  std::vector<void*> parameters = task.parameters();
  CHECK_CUDA(cuLaunchCooperativeKernel(function_of(world, task), 1, 1, 1, 128, 1, 1, 0, world.stream(stream),
                                       parameters.data()));
}

void with_attributes(World& world, unsigned stream, Task& task) {
  std::vector<void*> parameters = task.parameters();
  CUlaunchAttribute attributes[2]{};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim = {2, 1, 1};
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
  attributes[1].value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
  CUlaunchConfig config{};
  config.gridDimX = 4;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.hStream = world.stream(stream);
  config.attrs = attributes;
  config.numAttrs = static_cast<unsigned>(world.random.below(3));
  CHECK_CUDA(cuLaunchKernelEx(&config, function_of(world, task), parameters.data(), nullptr));
}

// A kernel of the library has its own copy of the module's global variable.
void without_context(World& world, unsigned stream, Task& task) {
  std::vector<void*> parameters = task.parameters();
  const CUfunction handle = std::string_view(task.kernel) == "model_combine_by_root"
                                ? function_of(world, task)
                                : world.device.functions.find(std::string_view(task.kernel))->second.of_library;
  CHECK_CUDA(cuLaunchKernel(handle, 1, 1, 1, 64, 1, 1, 0, world.stream(stream), parameters.data(), nullptr));
}

const Registered<Launching> one({{"launch_plain", 10}, Needs::kAnyStream, plain});
const Registered<Launching> two({{"launch_one_block", 3}, Needs::kAnyStream, one_block});
const Registered<Launching> three({{"launch_cooperative", 3}, Needs::kAnyStream, cooperative});
const Registered<Launching> four({{"launch_with_attributes", 3}, Needs::kAnyStream, with_attributes});
const Registered<Launching> five({{"launch_without_context", 3}, Needs::kAnyStream, without_context});
}  // namespace
