// SPDX-License-Identifier: Apache-2.0
#include "config/rank.h"

#include <charconv>

#include "config/trusted_file.h"

namespace thermocline {
namespace {

struct Launcher {
  const char* rank;
  const char* local;
  const char* size;
  bool needs_size;  // the variable's name alone is too common to be a launcher's
};

constexpr Launcher kLaunchers[] = {
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", true},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", false},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", false},
    {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", false},
    {"PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_SIZE", false},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", false},
};

std::optional<int> number(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  const std::string& text = found->second;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Rank> rank_in(const std::map<std::string, std::string>& variables) {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> rank = number(variables, launcher.rank);
    const std::optional<int> size = number(variables, launcher.size);
    if (!rank || (launcher.needs_size && !size)) continue;
    return Rank{*rank, number(variables, launcher.local), size};
  }
  return std::nullopt;
}

std::optional<Rank> rank_of_process() {
  std::map<std::string, std::string> variables;
  for (const Launcher& launcher : kLaunchers) {
    for (const char* name : {launcher.rank, launcher.local, launcher.size}) {
      if (const char* text = variable_of_process(name)) variables.emplace(name, text);
    }
  }
  return rank_in(variables);
}

}  // namespace thermocline
