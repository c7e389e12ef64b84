// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/device.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace ptx_test {
namespace {

constexpr std::size_t kTableBytes = std::size_t{4} << 26;  // one entry per page, for 47 bits of addresses

void* map(std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return at;
}

}  // namespace

Device::Device() {
  void* const library = dlopen(PTX_LIBRARY, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  interface_ = reinterpret_cast<decltype(&thermocline_ptx_interface)>(dlsym(library, "thermocline_ptx_interface"))();
  const auto first = reinterpret_cast<std::uintptr_t>(map(2 * kBytes));
  memory_ = reinterpret_cast<std::byte*>((first + kBytes - 1) / kBytes * kBytes);
  pages_ = static_cast<std::uint32_t*>(map(kTableBytes));
  pages_[reinterpret_cast<std::uintptr_t>(memory_) >> 21] = 3u << 28 | 1;  // readable and writable
}

Device::~Device() { munmap(pages_, kTableBytes); }

void Device::allow(std::uint64_t address, bool reads, bool writes) const {
  const std::uint32_t rights = (reads ? 1u : 0u) | (writes ? 2u : 0u);
  pages_[address >> 21] = rights << 28 | 1;
}

simulator::ptx::Launch Device::launch_of(std::uint32_t blocks, std::uint32_t threads, std::uint64_t most_steps) const {
  simulator::ptx::Launch launch{};
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
  launch.most_steps = most_steps;
  launch.pages = pages_;
  launch.may_touch = [](void*, std::uint64_t, std::uint64_t, bool) { return false; };
  launch.dynamic_shared = 1024;
  return launch;
}

Device::Result Device::run(const std::string& text, std::uint32_t blocks, std::uint32_t threads,
                           std::uint64_t most_steps) const {
  return Program(text).run(blocks, threads, most_steps);
}

namespace {

constexpr simulator::ptx::ParameterPlace kPointer{.offset = 0, .bytes = 8};

}  // namespace

Program::Program(const std::string& text) : Program(text, {&kPointer, 1}, {}) {}

Program::Program(const std::string& text, std::span<const simulator::ptx::ParameterPlace> parameters,
                 std::span<const simulator::ptx::NamedAddress> variables) {
  const simulator::ptx::Interface& interface = *device().interface_;
  char error[simulator::ptx::kMessageBytes] = {};
  module_ = interface.load(text.data(), text.size(), variables.data(), variables.size(), error);
  if (module_ != nullptr) kernel_ = interface.find(module_, "k", parameters.data(), parameters.size(), error);
  if (kernel_ == nullptr) refused_ = error;
}

Program::~Program() {
  if (module_ != nullptr) device().interface_->unload(module_);
}

Device::Result Program::run(std::uint32_t blocks, std::uint32_t threads, std::uint64_t most_steps,
                            std::uint32_t cores) const {
  return run_changed(blocks, threads, [&](simulator::ptx::Launch& launch) {
    launch.most_steps = most_steps;
    launch.cores = cores;
  });
}

Device::Result Program::run_changed(std::uint32_t blocks, std::uint32_t threads,
                                    const std::function<void(simulator::ptx::Launch&)>& change) const {
  const auto address = reinterpret_cast<std::uint64_t>(device().memory());
  unsigned char bytes[sizeof address];
  std::memcpy(bytes, &address, sizeof address);
  return run_with(bytes, [&](simulator::ptx::Launch& launch) {
    launch.grid[0] = blocks;
    launch.block[0] = threads;
    change(launch);
  });
}

Device::Result Program::run_with(std::span<const unsigned char> parameters,
                                 const std::function<void(simulator::ptx::Launch&)>& change) const {
  Device::Result result;
  result.refused = refused_;
  if (kernel_ == nullptr) return result;
  simulator::ptx::Launch launch = device().launch_of(1, 1, 1u << 20);
  change(launch);
  launch.parameters = parameters.data();
  launch.parameter_bytes = parameters.size();
  device().interface_->run(kernel_, &launch, &result.outcome);
  return result;
}

bool compiles(const std::string& text, const simulator::ptx::Module& module) {
  const simulator::ptx::Interface& interface = *device().interface_;
  char error[simulator::ptx::kMessageBytes] = {};
  void* const loaded = interface.load(text.data(), text.size(), nullptr, 0, error);
  bool all = loaded != nullptr;
  for (const simulator::ptx::Function& function : module.functions) {
    if (!function.is_entry || !all) continue;
    std::vector<simulator::ptx::ParameterPlace> places;
    std::uint32_t offset = 0;
    for (const simulator::ptx::Variable& parameter : function.parameters) {
      const auto bytes = static_cast<std::uint32_t>(parameter.bytes);
      offset = (offset + bytes - 1) / bytes * bytes;
      places.push_back({.offset = offset, .bytes = bytes});
      offset += bytes;
    }
    const std::string name(function.name);
    all = interface.find(loaded, name.c_str(), places.data(), places.size(), error) != nullptr;
  }
  if (loaded != nullptr) interface.unload(loaded);
  if (!all) std::fprintf(stderr, "%s\n", error);
  return all;
}

const Device& device() {
  static const auto& once = *new Device;
  return once;
}

std::string kernel_text(const std::string& body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in)\n{\n"
         ".reg .u64 %in;\nld.param.u64 %in, [in];\n" +
         body + "ret;\n}\n";
}

}  // namespace ptx_test
