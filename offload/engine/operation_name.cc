// SPDX-License-Identifier: Apache-2.0
#include "offload/engine/operation_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace thermocline {
namespace {

// Replaces characters that were left out.
constexpr std::string_view kLeftOut = "...";

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

// Whether a character opens (1) or closes (-1) a bracket. Names of operators contain angles that are not brackets.
int depth_of(char c) {
  if (c == '<' || c == '(' || c == '[' || c == '{') return 1;
  return c == '>' || c == ')' || c == ']' || c == '}' ? -1 : 0;
}

// The beginning of the parameter list: the last bracket that opens at depth 0.
std::size_t begin_of_parameters(std::string_view name) {
  std::size_t begin = name.size();
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '(' && depth == 0 && !name.substr(i).starts_with("(anonymous namespace)")) begin = i;
    depth = std::max(0, depth + depth_of(name[i]));
  }
  return begin;
}

// The position after the return type, which a demangled template has before its name.
std::size_t begin_of_name(std::string_view name) {
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == ' ' && depth == 0 && !name.substr(0, i).ends_with("operator")) begin = i + 1;
    depth = std::max(0, depth + depth_of(name[i]));
  }
  return begin;
}

// Keeps the name and the beginning of its template arguments, and their end.
std::string shortened(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  const std::size_t angle = name.find('<');
  const bool is_closed = angle != std::string::npos && angle + kLeftOut.size() < most && name.back() == '>';
  const std::string end = is_closed ? std::string(kLeftOut) + ">" : std::string(kLeftOut);
  std::size_t kept = most - end.size();
  // Cuts at the end of an argument, if one ends before.
  if (const std::size_t comma = name.rfind(", ", kept - 2); is_closed && comma != std::string::npos && comma > angle)
    kept = comma + 2;
  return name.substr(0, kept) + end;
}

}  // namespace

std::string readable_kernel_name(std::string_view name, std::size_t most) {
  std::string text(name);
  if (name.starts_with("_Z")) {
    text = demangled(text);
    text.resize(begin_of_parameters(text));
    text.erase(0, begin_of_name(text));
  }
  return shortened(text, most);
}

std::string operation_name(const OperationInfo& info) {
  if (info.name == nullptr) return !info.follows ? "" : info.kind == 0 ? "a CUDA graph" : "a kernel";
  const std::string_view name = info.name;
  // Names of operators that frameworks recorded have a namespace; they are no kernels.
  const bool is_operator = !name.starts_with("_Z") && name.find("::") != std::string_view::npos;
  const std::string text = readable_kernel_name(name);
  return info.is_kernel() && !is_operator ? "kernel " + text : text;
}

}  // namespace thermocline
