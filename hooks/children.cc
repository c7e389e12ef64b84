// SPDX-License-Identifier: Apache-2.0
#include "hooks/children.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/option_table.h"

namespace thermocline {
namespace {

constexpr std::string_view kLibrary = "libthermocline.so";
constexpr std::string_view kSeparators = ": ";  // ld.so(8)

bool is_this_library(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with(kLibrary);  // npos + 1 is 0
}

// What the variable says counts from the first program that main() starts; a settings file is read with the first
// call of the driver.
__attribute__((constructor)) void heed_the_variable() {
  try {
    const Option* const option = find_option("children");
    const char* const text = option == nullptr ? nullptr : std::getenv(option->variable);
    Value value;
    ParseError error;
    if (text != nullptr && parse_value(*option, text, &value, &error) && !value.flag) leave_children_alone();
  } catch (...) {
    return;  // settings say what is wrong when they are loaded
  }
}

}  // namespace

void leave_children_alone() noexcept {
  const char* const preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr) return;
  try {
    const std::string_view all = preload;
    std::string others;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = std::min(all.find_first_of(kSeparators, begin), all.size());
      const std::string_view path = all.substr(begin, end - begin);
      if (!path.empty() && !is_this_library(path)) others += (others.empty() ? "" : ":") + std::string(path);
      begin = end + 1;
    }
    if (others.empty()) {
      unsetenv("LD_PRELOAD");
    } else {
      setenv("LD_PRELOAD", others.c_str(), 1);
    }
  } catch (...) {
    return;  // no memory: the children get the library
  }
}

}  // namespace thermocline
