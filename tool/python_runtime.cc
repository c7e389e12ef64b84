// SPDX-License-Identifier: Apache-2.0
#include "tool/python_runtime.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "tool/framework_settings.h"

namespace thermocline {
namespace {

namespace fs = std::filesystem;

struct RuntimeFile {
  const char* file;
  bool is_replaceable;
};
constexpr std::array kPlaces = {RuntimeFile{"nvidia/cu13/lib/libcudart.so.13", true},
                                RuntimeFile{"nvidia/cuda_runtime/lib/libcudart.so.12", false}};

// The folders of packages below a prefix: lib/python3.11/site-packages, and Debian's own name of it.
std::vector<fs::path> package_folders(const fs::path& prefix) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* const name : {"site-packages", "dist-packages"}) folders.push_back(entry.path() / name);
  }
  return folders;
}

}  // namespace

std::optional<PythonRuntime> find_python_runtime(const std::string& program) {
  if (!is_python_or_script(program)) return std::nullopt;
  std::error_code error;
  const fs::path file = found_along_path(program);
  // A virtual environment's Python is a link to one elsewhere, whose packages it may have, too.
  for (const fs::path& executable : {fs::absolute(file, error), fs::canonical(file, error)}) {
    for (const fs::path& folder : package_folders(executable.parent_path().parent_path())) {
      for (const RuntimeFile& place : kPlaces) {
        if (fs::exists(folder / place.file, error))
          return PythonRuntime{(folder / place.file).string(), place.is_replaceable};
      }
    }
  }
  return std::nullopt;
}

}  // namespace thermocline
