// SPDX-License-Identifier: Apache-2.0
#include "simulator/cuda/module/host_implementation.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace simulator::cuda {

std::string plain_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || text == nullptr) return "";
  const std::string demangled = text.get();
  // "scale(float*, float, int)": if the part before the parenthesis is no identifier, it includes a type, a namespace
  // or a template.
  const std::string name = demangled.substr(0, demangled.find('('));
  const auto is_identifier = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '$'; };
  return name != demangled && std::all_of(name.begin(), name.end(), is_identifier) ? name : "";
}

KernelFunction find_host_implementation(const std::string& kernel) {
  void* found = dlsym(RTLD_DEFAULT, ("simulated_" + kernel).c_str());
  if (found == nullptr) {
    if (const std::string plain = plain_name(kernel); !plain.empty())
      found = dlsym(RTLD_DEFAULT, ("simulated_" + plain).c_str());
  }
  return reinterpret_cast<KernelFunction>(found);
}

}  // namespace simulator::cuda
