// SPDX-License-Identifier: Apache-2.0
#include "tool/places.h"

#include <filesystem>
#include <vector>

namespace thermocline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libthermocline.so.1";
constexpr const char* kSimulator = "thermocline/simulator";
constexpr const char* kSimulatedDriver = "libcuda.so.1";

std::vector<fs::path> library_folders() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path prefix = executable.parent_path().parent_path();
  std::vector<fs::path> folders{prefix / "lib"};
#ifdef THERMOCLINE_MULTIARCH
  folders.push_back(prefix / "lib" / THERMOCLINE_MULTIARCH);
#endif
  folders.push_back(prefix / "lib64");
  return folders;
}

std::optional<std::string> find(const std::string& name, std::string* looked) {
  std::string tried;
  for (const fs::path& folder : library_folders()) {
    const fs::path path = folder / name;
    if (std::error_code error; fs::exists(path, error)) return path.string();
    tried += (tried.empty() ? "" : ", ") + path.string();
  }
  if (looked != nullptr) *looked = tried;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_library(std::string* looked) { return find(kLibrary, looked); }

std::optional<std::string> find_simulator_folder(std::string* looked) { return find(kSimulator, looked); }

std::optional<std::string> find_simulator(std::string* looked) {
  return find(std::string(kSimulator) + "/" + kSimulatedDriver, looked);
}

}  // namespace thermocline
