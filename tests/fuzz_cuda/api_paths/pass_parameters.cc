// SPDX-License-Identifier: Apache-2.0
// Operands in the kernel's parameters: separate, in a structure, in a packed one at odd offsets.
#include <cstring>

#include "tests/fuzz_cuda/api_path.h"

namespace {
using namespace model;

Task one_by_one(World&, unsigned, const Operands& operands) {
  Task task{.kernel = "model_combine"};
  for (const std::uint64_t word : operands.table()) task.add(word);
  task.add(operands.salt);
  return task;
}

struct Description {
  std::array<std::uint64_t, kTableWords> table;
  std::uint64_t salt;
};

Task described(World&, unsigned, const Operands& operands) {
  Task task{.kernel = "model_combine_described"};
  task.add(Description{operands.table(), operands.salt});
  return task;
}

Task packed(World&, unsigned, const Operands& operands) {
  std::array<std::byte, 3 + sizeof(Description)> block{};
  const Description description{operands.table(), operands.salt};
  std::memcpy(block.data() + 3, &description, sizeof description);
  Task task{.kernel = "model_combine_packed"};
  task.add(block);
  return task;
}

const Registered<Passing> one({{"pass_parameters", 10}, one_by_one});
const Registered<Passing> two({{"pass_structure", 3}, described});
const Registered<Passing> three({{"pass_packed", 3}, packed});
}  // namespace
