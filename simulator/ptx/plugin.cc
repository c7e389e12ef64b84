// SPDX-License-Identifier: Apache-2.0
// The functions that the simulated driver calls.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/ptx/block.h"
#include "simulator/ptx/grid.h"
#include "simulator/ptx/independent_blocks.h"
#include "simulator/ptx/interface.h"
#include "simulator/ptx/kernel.h"
#include "simulator/ptx/parser.h"

namespace simulator::ptx {
namespace {

struct Loaded {
  std::unique_ptr<Module> module;
  VariableAddresses addresses;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
};

void say(char* error, const std::string& text) { std::snprintf(error, kMessageBytes, "%s", text.c_str()); }

void* load(const char* text, std::size_t bytes, const NamedAddress* variables, std::size_t count, char* error) {
  try {
    auto loaded = std::make_unique<Loaded>();
    loaded->module = parse({text, bytes});
    for (std::size_t i = 0; i < count; ++i) loaded->addresses[variables[i].name] = variables[i].address;
    return loaded.release();
  } catch (const Error& problem) {
    say(error, problem.what());
    return nullptr;
  }
}

void unload(void* module) { delete static_cast<Loaded*>(module); }

void* find(void* module, const char* name, const ParameterPlace* parameters, std::size_t count, char* error) {
  auto* const loaded = static_cast<Loaded*>(module);
  if (const auto known = loaded->kernels.find(name); known != loaded->kernels.end()) return known->second.get();
  const Function* const function = loaded->module->find(name);
  if (function == nullptr || !function->is_entry || !function->has_body) {
    say(error, "its PTX does not have it");
    return nullptr;
  }
  try {
    auto kernel = std::make_unique<Kernel>();
    kernel->name = name;
    std::ranges::copy(function->cluster, kernel->cluster);
    kernel->emitted = emit_kernel(*loaded->module, *function, loaded->addresses, {parameters, count});
    kernel->code = compile(kernel->emitted.ir);
    kernel->entry = kernel->code->entry();
    kernel->emitted.ir.clear();
    return (loaded->kernels[name] = std::move(kernel)).get();
  } catch (const Error& problem) {
    say(error, problem.what());
    return nullptr;
  }
}

constexpr std::size_t kSmallStack = std::size_t{128} << 10;
constexpr std::size_t kLargeStack = std::size_t{4} << 20;

// Kept between launches and until the process ends, because destructors of a program may launch kernels. Kernels with
// more local memory get stacks of their own.
StackPools& stacks_for(const Emitted& emitted, std::unique_ptr<StackPools>* own) {
  static auto& small = *new StackPools(kSmallStack);
  static auto& large = *new StackPools(kLargeStack);
  const std::size_t needed = kSmallStack + 2 * emitted.stack_bytes;
  StackPools& usual = emitted.needs_fibers ? small : large;
  if (needed <= usual.bytes() || (emitted.needs_fibers && emitted.stack_bytes < kSmallStack / 4)) return usual;
  *own = std::make_unique<StackPools>(needed);
  return **own;
}

void run(void* kernel, const Launch* launch, Outcome* outcome) {
  Reached reached(*launch);
  GridRun grid{*static_cast<Kernel*>(kernel), *launch, *outcome, reached, {}};
  std::unique_ptr<StackPools> own;
  StackPools& stacks = stacks_for(grid.kernel.emitted, &own);
  run_grid(grid, stacks);
  reached.report(outcome);
  if (!grid.printed.empty()) {
    std::fwrite(grid.printed.data(), 1, grid.printed.size(), stdout);
    std::fflush(stdout);
  }
}

bool needs_heap(void* kernel) { return static_cast<Kernel*>(kernel)->emitted.needs_heap; }

void cluster_of(void* kernel, std::uint32_t* shape) { std::ranges::copy(static_cast<Kernel*>(kernel)->cluster, shape); }

constexpr Interface kInterface{kInterfaceVersion, load, unload, find, needs_heap, cluster_of, run};

}  // namespace
}  // namespace simulator::ptx

extern "C" __attribute__((visibility("default"))) const simulator::ptx::Interface* thermocline_ptx_interface() {
  return &simulator::ptx::kInterface;
}
