// SPDX-License-Identifier: Apache-2.0
#include "hooks/entry/children.h"

#include <algorithm>
#include <cstdlib>

#include "config/option_table.h"
#include "config/trusted_file.h"

namespace thermocline {
namespace {

constexpr std::string_view kLibrary = "libthermocline.so";
constexpr std::string_view kSeparators = ": ";  // ld.so(8)

bool is_this_library(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with(kLibrary);  // npos + 1 is 0
}

__attribute__((constructor)) void heed_the_variable() {
  try {
    const Option* const option = find_option("children");
    const char* const text = option == nullptr ? nullptr : variable_of_process(option->variable);
    const char* const preload = variable_of_process("LD_PRELOAD");
    Value value;
    ParseError error;
    if (text == nullptr || preload == nullptr || !parse_value(*option, text, &value, &error) || value.flag) return;
    const std::string others = preload_of_others(preload);
    if (others.empty()) {
      unsetenv("LD_PRELOAD");
    } else {
      setenv("LD_PRELOAD", others.c_str(), 1);
    }
  } catch (...) {
    return;  // no memory: child processes get the library after all
  }
}

}  // namespace

std::string preload_of_others(std::string_view preload) {
  std::string others;
  for (std::size_t begin = 0; begin < preload.size();) {
    const std::size_t end = std::min(preload.find_first_of(kSeparators, begin), preload.size());
    const std::string_view path = preload.substr(begin, end - begin);
    if (!path.empty() && !is_this_library(path)) others += (others.empty() ? "" : ":") + std::string(path);
    begin = end + 1;
  }
  return others;
}

}  // namespace thermocline
