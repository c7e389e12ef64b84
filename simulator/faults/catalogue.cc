// SPDX-License-Identifier: Apache-2.0
#include "simulator/faults/catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace simulator {
namespace {

constexpr MayFail kCatalogue[] = {
#define SIMULATED_MAY_FAIL(function, errors) {#function, errors},
#include "simulator/faults/catalogue.def"
#undef SIMULATED_MAY_FAIL
};

struct Named {
  std::string_view name;
  CUresult error;
};

constexpr Named kErrors[] = {
#define SIMULATED_ERROR(name, sentence) {#name, name},
#include "simulator/cuda/errors.def"
#undef SIMULATED_ERROR
};

constexpr std::string_view kPrefix = "CUDA_ERROR_";

}  // namespace

std::span<const MayFail> fault_catalogue() { return kCatalogue; }

const MayFail* find_may_fail(std::string_view function) {
  const auto* const found =
      std::find_if(std::begin(kCatalogue), std::end(kCatalogue), [&](const auto& e) { return e.function == function; });
  return found == std::end(kCatalogue) ? nullptr : found;
}

std::vector<std::string_view> errors_of(const MayFail& function) {
  std::vector<std::string_view> errors;
  for (std::string_view rest = function.errors; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    errors.push_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return errors;
}

bool may_answer(const MayFail& function, std::string_view error) {
  if (error.starts_with(kPrefix)) error.remove_prefix(kPrefix.size());
  const std::vector<std::string_view> errors = errors_of(function);
  return std::find(errors.begin(), errors.end(), error) != errors.end();
}

std::optional<CUresult> error_named(std::string_view name) {
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const Named& known : kErrors) {
    if (known.name.starts_with(kPrefix) && known.name.substr(kPrefix.size()) == name) return known.error;
  }
  return std::nullopt;
}

std::string_view name_of(CUresult error) {
  for (const Named& known : kErrors) {
    if (known.error == error) return known.name;
  }
  return "an unknown error";
}

std::string_view plain_name(std::string_view symbol) {
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (symbol.ends_with(suffix)) symbol.remove_suffix(suffix.size());
  }
  const std::size_t version = symbol.rfind("_v");
  if (version != std::string_view::npos && version + 2 < symbol.size() &&
      std::all_of(symbol.begin() + static_cast<std::ptrdiff_t>(version) + 2, symbol.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    symbol.remove_suffix(symbol.size() - version);
  }
  return symbol;
}

}  // namespace simulator
