// SPDX-License-Identifier: Apache-2.0
// Includes no CUDA header: only the addresses of the symbols matter.
// Compiled alone: where the headers were read before, these are other declarations of the same functions.
#include "simulator/cuda/entry_points/entry_points.h"

#include <algorithm>
#include <cstring>
#include <span>

#define SIMULATED_ENTRY(name, version, symbol) extern "C" __attribute__((visibility("default"))) int symbol();
#define SIMULATED_ALIAS(name, version, symbol)
#include "simulator/cuda/entry_points/entry_points.def"
#include "simulator/cuda/entry_points/entry_points_per_thread.def"
#undef SIMULATED_ENTRY
#undef SIMULATED_ALIAS

namespace simulator::cuda {
namespace {

struct Form {
  const char* name;
  int version;
  int (*symbol)();
};

// In order of name, then version; both files are kept in this order.
#define SIMULATED_ENTRY(name, version, symbol) {#name, version, &symbol},
#define SIMULATED_ALIAS(name, version, symbol) {#name, version, &symbol},
constexpr Form kLegacy[] = {
#include "simulator/cuda/entry_points/entry_points.def"
};
constexpr Form kPerThread[] = {
#include "simulator/cuda/entry_points/entry_points_per_thread.def"
};
#undef SIMULATED_ENTRY
#undef SIMULATED_ALIAS

EntryPoint find(std::span<const Form> forms, const char* name, int version) {
  EntryPoint found;
  const auto before = [](const Form& form, const char* wanted) { return std::strcmp(form.name, wanted) < 0; };
  for (auto form = std::lower_bound(forms.begin(), forms.end(), name, before);
       form != forms.end() && std::strcmp(form->name, name) == 0; ++form) {
    found.is_known = true;
    if (form->version <= version) found.address = reinterpret_cast<void*>(form->symbol);
  }
  return found;
}

}  // namespace

EntryPoint find_entry_point(const char* name, int version, bool per_thread) {
  if (per_thread) {
    if (const EntryPoint found = find(kPerThread, name, version); found.address != nullptr) return found;
  }
  return find(kLegacy, name, version);
}

}  // namespace simulator::cuda
