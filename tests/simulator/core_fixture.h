// SPDX-License-Identifier: Apache-2.0
// A new simulated device for each test, and the few calls that most tests make.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "simulator/core/machine/machine.h"

namespace simulator {

struct Setting {
  const char* key;
  const char* value;
};

class CoreTest : public testing::Test {
 protected:
  // progress is off, so that nothing depends on the speed of this machine.
  static void start(std::initializer_list<Setting> settings = {}) {
    const auto machine = Machine::enter();
    machine->reset();
    for (const Setting& standard : {Setting{"device", "reference"}, Setting{"memory", "real"}, Setting{"seed", "time"},
                                    Setting{"progress", "off"}, Setting{"memory-bytes", "1073741824"}}) {
      ASSERT_EQ(machine->configure(standard.key, standard.value), nullptr);
    }
    for (const Setting& setting : settings) ASSERT_EQ(machine->configure(setting.key, setting.value), nullptr);
    ASSERT_EQ(machine->initialize(), CUDA_SUCCESS);
  }

  void SetUp() override { start(); }
  void TearDown() override { Machine::enter()->reset(); }

  // A registered buffer in memory as cuMemAlloc allocates it.
  static Address buffer(Machine& machine, Bytes bytes) {
    Address at = 0;
    EXPECT_EQ(machine.allocate(bytes, false, &at), CUDA_SUCCESS);
    EXPECT_EQ(machine.register_buffer(at, bytes, Fresh::kYes), CUDA_SUCCESS);
    return at;
  }

  static void drop(Machine& machine, Address at) {
    EXPECT_EQ(machine.unregister_buffer(at), CUDA_SUCCESS);
    EXPECT_EQ(machine.free(at), CUDA_SUCCESS);
  }

  // A reservation with one mapped, accessible run.
  static Address mapped(Machine& machine, Bytes bytes, PhysicalId* id) {
    Address at = 0;
    EXPECT_EQ(machine.reserve(bytes, 0, 0, &at), CUDA_SUCCESS);
    EXPECT_EQ(machine.create_physical(bytes, id), CUDA_SUCCESS);
    EXPECT_EQ(machine.map(at, bytes, 0, *id), CUDA_SUCCESS);
    EXPECT_EQ(machine.set_access(at, bytes, Access::kReadWrite), CUDA_SUCCESS);
    return at;
  }

  static Operator timed(double microseconds, std::initializer_list<Operand> operands = {}) {
    Operator op;
    op.name = "timed";
    op.microseconds = microseconds;
    op.operands.assign(operands.begin(), operands.end());
    return op;
  }

  static Copy copy(Direction direction, Address to, Address from, Bytes bytes) {
    return {direction, to, from, Shape{bytes}, Shape{bytes}, {}};
  }

  static Copy to_host(void* to, Address from, Bytes bytes) {
    return copy(Direction::kToHost, reinterpret_cast<Address>(to), from, bytes);
  }

  static Copy to_device(Address to, const void* from, Bytes bytes) {
    return copy(Direction::kToDevice, to, reinterpret_cast<Address>(from), bytes);
  }

  static Set set(Address to, Bytes bytes, std::uint64_t value) { return {to, Shape{bytes}, value, 1}; }

  // A kernel without an implementation, with one pointer parameter for each address.
  static Kernel mixing(const std::vector<Address>& arguments) {
    Kernel kernel;
    kernel.name = "mixing";
    for (const Address argument : arguments) {
      kernel.parameters.push_back({static_cast<std::uint32_t>(kernel.block_of_parameters.size()), sizeof argument});
      const auto* const bytes = reinterpret_cast<const std::byte*>(&argument);
      kernel.block_of_parameters.insert(kernel.block_of_parameters.end(), bytes, bytes + sizeof argument);
    }
    return kernel;
  }
};

}  // namespace simulator
