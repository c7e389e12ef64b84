// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/interpreter.h"

#include <sstream>
#include <stdexcept>

#include "tests/ptx/rules.h"

namespace ptx_test {
namespace {

std::uint64_t truncated(std::uint64_t bits, Kind kind) {
  return bits_of(kind) == 64 ? bits : bits & ((std::uint64_t{1} << bits_of(kind)) - 1);
}

// By name; rules with an immediate operand by name and operand.
const std::map<std::string, const Rule*>& index() {
  static const auto& all = *new std::map<std::string, const Rule*>([] {
    std::map<std::string, const Rule*> made;
    for (const Rule& rule : rules()) made[rule.name + rule.suffix] = &rule;
    return made;
  }());
  return all;
}

const Rule& find(const std::string& name, const std::vector<std::string>& operands) {
  auto found = index().find(name);
  if (found == index().end() && !operands.empty()) found = index().find(name + ", " + operands.back());
  if (found == index().end()) throw std::runtime_error("no such instruction: " + name);
  return *found->second;
}

void execute(std::string line, Registers* registers) {
  if (line.empty() || line.back() != ';') throw std::runtime_error("no instruction: " + line);
  line.pop_back();
  std::istringstream words(line);
  std::string name;
  words >> name;
  if (name[0] == '@') {
    const bool negated = name[1] == '!';
    const bool holds = registers->at(name.substr(negated ? 2 : 1)) != 0;
    if (holds == negated) return;
    words >> name;
  }
  std::vector<std::string> operands;
  for (std::string operand; words >> operand;) {
    if (operand.back() == ',') operand.pop_back();
    operands.push_back(operand);
  }
  const Rule& rule = find(name, operands);
  std::uint64_t values[8] = {};
  for (std::size_t i = 0; i < rule.in.size(); ++i) {
    const std::string& operand = operands.at(i + 1);
    values[i] = truncated(operand[0] == '%' ? registers->at(operand) : std::stoull(operand, nullptr, 0), rule.in[i]);
  }
  registers->at(operands.at(0)) = truncated(rule.compute(values), rule.out);
}

}  // namespace

void interpret(const std::string& text, Registers* registers) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) execute(line, registers);
}

}  // namespace ptx_test
