// SPDX-License-Identifier: Apache-2.0
// Input: arbitrary text as PTX. It must be refused with one line, or give a module of which each kernel is refused with
// one line or compiled.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/check.h"
#include "simulator/ptx/emit.h"
#include "simulator/ptx/parser.h"

namespace thermocline::fuzz {
namespace {

void read(std::string_view input) {
  using namespace simulator::ptx;
  try {
    const auto module = parse(input);
    VariableAddresses addresses;
    for (const Variable& variable : module->variables) addresses[variable.name] = 0x7f0000000000;
    for (const Function& function : module->functions) {
      if (!function.is_entry || !function.has_body) continue;
      try {
        std::vector<ParameterPlace> places;
        for (const Variable& parameter : function.parameters)
          places.push_back({.offset = 0, .bytes = static_cast<std::uint32_t>(parameter.bytes)});
        THERMOCLINE_CHECK(!emit_kernel(*module, function, addresses, places).ir.empty(),
                          "a kernel that is taken has code");
      } catch (const Error& error) {
        THERMOCLINE_CHECK(error.what()[0] != '\0', "who refuses says why");
      }
    }
  } catch (const Error& error) {
    THERMOCLINE_CHECK(error.what()[0] != '\0', "who refuses says why");
  }
}

}  // namespace
}  // namespace thermocline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  thermocline::fuzz::read({reinterpret_cast<const char*>(data), size});
  return 0;
}
