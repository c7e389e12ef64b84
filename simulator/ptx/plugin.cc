// SPDX-License-Identifier: Apache-2.0
// The functions that the simulated driver calls.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulator/ptx/block.h"
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
Stacks& stacks_for(const Emitted& emitted, std::unique_ptr<Stacks>* own) {
  static auto& small = *new Stacks(kSmallStack);
  static auto& large = *new Stacks(kLargeStack);
  const std::size_t needed = kSmallStack + 2 * emitted.stack_bytes;
  Stacks& usual = emitted.needs_fibers ? small : large;
  if (needed <= usual.bytes() || (emitted.needs_fibers && emitted.stack_bytes < kSmallStack / 4)) return usual;
  *own = std::make_unique<Stacks>(needed);
  return **own;
}

// Calls `body` with the position of each block, until it returns false.
template <typename Body>
void for_blocks(const Launch& launch, Body body) {
  std::uint32_t at[3] = {};
  for (at[2] = 0; at[2] < launch.grid[2]; ++at[2]) {
    for (at[1] = 0; at[1] < launch.grid[1]; ++at[1]) {
      for (at[0] = 0; at[0] < launch.grid[0]; ++at[0]) {
        if (!body(at)) return;
      }
    }
  }
}

// Blocks that may wait for one another: each runs until all of its threads wait, then the next one.
void run_in_company(GridRun& grid, Stacks& stacks) {
  std::vector<std::unique_ptr<BlockRun>> blocks;
  bool has_room = true;
  for_blocks(grid.launch, [&](const std::uint32_t(&at)[3]) {
    const std::size_t first = blocks.empty() ? 0 : blocks.size() * blocks[0]->stacks();
    blocks.push_back(std::make_unique<BlockRun>(grid, stacks, first, true));
    return has_room = blocks.back()->begin(at);
  });
  std::size_t live = has_room ? blocks.size() : 0;
  while (live > 0) {
    for (std::unique_ptr<BlockRun>& block : blocks) {
      if (block == nullptr) continue;
      const BlockRun::Progress progress = block->go_on();
      if (progress == BlockRun::Progress::kPaused) continue;
      if (progress == BlockRun::Progress::kFailed) return;
      grid.outcome.instructions += block->take_steps();
      block.reset();
      --live;
    }
  }
}

void run(void* kernel, const Launch* launch, Outcome* outcome) {
  GridRun grid{*static_cast<Kernel*>(kernel), *launch, *outcome, {}};
  std::unique_ptr<Stacks> own;
  Stacks& stacks = stacks_for(grid.kernel.emitted, &own);
  if (launch->is_cooperative && grid.kernel.emitted.needs_fibers) {
    run_in_company(grid, stacks);
  } else {
    BlockRun block(grid, stacks);
    for_blocks(*launch, [&](const std::uint32_t(&at)[3]) { return block.run(at); });
  }
  if (!grid.printed.empty()) {
    std::fwrite(grid.printed.data(), 1, grid.printed.size(), stdout);
    std::fflush(stdout);
  }
}

bool needs_heap(void* kernel) { return static_cast<Kernel*>(kernel)->emitted.needs_heap; }

bool uses_clusters(void* kernel) { return static_cast<Kernel*>(kernel)->emitted.uses_clusters; }

constexpr Interface kInterface{kInterfaceVersion, load, unload, find, needs_heap, uses_clusters, run};

}  // namespace
}  // namespace simulator::ptx

extern "C" __attribute__((visibility("default"))) const simulator::ptx::Interface* thermocline_ptx_interface() {
  return &simulator::ptx::kInterface;
}
