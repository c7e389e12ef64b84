// SPDX-License-Identifier: Apache-2.0
// Runs PTX text through libthermocline_ptx.so, without a driver: a kernel `k` with one parameter, the address of memory
// that belongs to the test; or with other parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "simulator/ptx/interface.h"
#include "simulator/ptx/module.h"

namespace ptx_test {

class Device {
 public:
  static constexpr std::size_t kBytes = std::size_t{2} << 20;  // one page of the device

  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The only memory that kernels may access, besides pages of the test.
  std::byte* memory() const { return memory_; }
  // Sets what kernels may do with the page of kBytes there. It has memory of the test.
  void allow(std::uint64_t address, bool reads, bool writes) const;

  struct Result {
    std::string refused;  // why the text, or its kernel, was refused; empty: it ran
    simulator::ptx::Outcome outcome;
    bool ran() const { return refused.empty() && outcome.fault == simulator::ptx::Fault::kNone; }
  };
  Result run(const std::string& text, std::uint32_t blocks, std::uint32_t threads,
             std::uint64_t most_steps = 1u << 20) const;

 private:
  friend class Program;
  friend bool compiles(const std::string& text, const simulator::ptx::Module& module);
  simulator::ptx::Launch launch_of(std::uint32_t blocks, std::uint32_t threads, std::uint64_t most_steps) const;

  const simulator::ptx::Interface* interface_;
  std::byte* memory_;
  std::uint32_t* pages_;
};

// One for the whole process, because the library stays loaded.
const Device& device();

// A text that is compiled once and runs often.
class Program {
 public:
  explicit Program(const std::string& text);
  // The kernel `k` has these parameters, and the module variables at these addresses.
  Program(const std::string& text, std::span<const simulator::ptx::ParameterPlace> parameters,
          std::span<const simulator::ptx::NamedAddress> variables);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Device::Result run(std::uint32_t blocks, std::uint32_t threads, std::uint64_t most_steps = 1u << 20,
                     std::uint32_t cores = 1) const;
  // With these parameters, after `change` has modified the launch.
  Device::Result run_with(std::span<const unsigned char> parameters,
                          const std::function<void(simulator::ptx::Launch&)>& change) const;
  // Runs the program after `change` has modified the launch.
  Device::Result run_changed(std::uint32_t blocks, std::uint32_t threads,
                             const std::function<void(simulator::ptx::Launch&)>& change) const;

 private:
  std::string refused_;
  void* module_ = nullptr;
  void* kernel_ = nullptr;
};

// Whether all kernels of the text, which has been parsed to `module`, can be compiled.
bool compiles(const std::string& text, const simulator::ptx::Module& module);

// The head of a module, and a kernel `k` with these lines; %in is the address of the memory.
std::string kernel_text(const std::string& body);

}  // namespace ptx_test
