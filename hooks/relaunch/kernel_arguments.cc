// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/kernel_arguments.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

namespace thermocline {
namespace {

using Access = KernelArgument::Access;

const char* word_of(Access access) {
  switch (access) {
    case Access::kUnknown:
      return "unknown";
    case Access::kNone:
      return "not accessed";
    case Access::kRead:
      return "read";
    case Access::kWritten:
      return "written";
    case Access::kBoth:
      return "both";
  }
  return "";
}

// "k(float const*, int)": the types between the last parentheses, one by one.
std::vector<std::string_view> parameter_types(std::string_view prototype) {
  std::vector<std::string_view> types;
  if (!prototype.ends_with(')')) return types;
  std::size_t begin = prototype.size() - 1;
  for (int depth = 0; begin > 0; --begin) {
    if (prototype[begin] == ')') ++depth;
    if (prototype[begin] == '(' && --depth == 0) break;
  }
  const std::string_view all = prototype.substr(begin + 1, prototype.size() - begin - 2);
  int depth = 0;
  for (std::size_t at = 0, from = 0; at <= all.size(); ++at) {
    const char c = at < all.size() ? all[at] : ',';
    if (c == '(' || c == '<' || c == '[') ++depth;
    if (c == ')' || c == '>' || c == ']') --depth;
    if (c != ',' || (depth > 0 && at < all.size())) continue;
    std::string_view type = all.substr(from, at - from);
    while (type.starts_with(' ')) type.remove_prefix(1);
    if (!type.empty()) types.push_back(type);
    from = at + 1;
  }
  return types;
}

// Reads the accesses from a mangled name (Itanium C++ ABI); other names contain no prototype.
std::vector<Access> accesses_by_prototype(std::string_view name) {
  std::vector<Access> accesses;
  if (!name.starts_with("_Z")) return accesses;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  if (text == nullptr) return accesses;
  for (const std::string_view type : parameter_types(text.get())) {
    const bool is_const = type.ends_with(" const*"), is_pointer = type.ends_with('*');
    accesses.push_back(is_const ? Access::kRead : is_pointer ? Access::kBoth : Access::kNone);
  }
  return accesses;
}

Access access_of(const ParameterWord& word) {
  if (word.reads && word.writes) return Access::kBoth;
  return word.reads ? Access::kRead : word.writes ? Access::kWritten : Access::kNone;
}

}  // namespace

std::vector<KernelArgument> arguments_of(const AnalysedCode& code, std::string_view name) {
  const std::vector<Access> by_prototype = accesses_by_prototype(name);
  const auto said = [&](unsigned parameter) {
    return parameter < by_prototype.size() ? by_prototype[parameter] : Access::kUnknown;
  };
  std::vector<KernelArgument> arguments;
  if (!code.unknown && !code.kernels.empty()) {
    for (const ParameterWord& word : code.kernels[0]->accesses().words) {
      const KernelArgument one{word.parameter, word.offset, access_of(word), said(word.parameter)};
      // Eight bytes that are not an address: a number.
      const bool is_number =
          one.by_code == Access::kNone && one.by_prototype != Access::kRead && one.by_prototype != Access::kBoth;
      if (!is_number) arguments.push_back(one);
    }
  } else {
    for (unsigned i = 0; i < by_prototype.size(); ++i) {
      if (by_prototype[i] != Access::kNone) arguments.push_back({i, 0, Access::kUnknown, by_prototype[i]});
    }
  }
  std::ranges::sort(arguments, {}, [](const KernelArgument& one) { return std::pair(one.parameter, one.offset); });
  return arguments;
}

std::string arguments_json(const std::vector<KernelArgument>& arguments) {
  std::string text = "\"arguments\": [";
  for (const KernelArgument& one : arguments) {
    if (text.back() != '[') text += ", ";
    text += "{\"parameter\": " + std::to_string(one.parameter + 1) + ", \"offset\": " + std::to_string(one.offset) +
            ", \"access\": \"" + word_of(one.by_code) + "\", \"prototype\": " +
            (one.by_prototype == Access::kRead   ? "\"const\""
             : one.by_prototype == Access::kBoth ? "\"not const\""
                                                 : "null") +
            "}";
  }
  return text + "]";
}

}  // namespace thermocline
