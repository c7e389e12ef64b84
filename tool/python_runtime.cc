// SPDX-License-Identifier: Apache-2.0
#include "tool/python_runtime.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
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

// A folder of packages may name others, a line each, in files of its own (site.py of Python).
void add_named_by_pth(const fs::path& folder, std::vector<fs::path>* folders) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".pth") continue;
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("import ") || line.starts_with("import\t")) continue;
      if (const fs::path named = folder / line; !line.empty() && fs::is_directory(named, error))
        folders->push_back(named);
    }
  }
}

// The folders in which the Python with the file `executable` finds packages.
std::vector<fs::path> search_folders(const fs::path& executable) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::vector<fs::path> folders;
  std::istringstream path(variable("PYTHONPATH"));
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  std::error_code error;
  std::vector<fs::path> prefixes;
  // A virtual environment's Python is a link to one elsewhere, whose packages it may have, too.
  for (const fs::path& file : {fs::absolute(executable, error), fs::canonical(executable, error)})
    prefixes.push_back(file.parent_path().parent_path());
  // Debian's pip installs there for all users; a user other than root installs at home.
  if (prefixes.back() == "/usr") prefixes.emplace_back("/usr/local");
  const std::string base = variable("PYTHONUSERBASE"), home = variable("HOME");
  if (!base.empty()) prefixes.emplace_back(base);
  if (base.empty() && !home.empty()) prefixes.emplace_back(fs::path(home) / ".local");
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& folder : package_folders(prefix)) {
      folders.push_back(folder);
      add_named_by_pth(folder, &folders);
    }
  }
  return folders;
}

}  // namespace

std::optional<PythonRuntime> find_python_runtime(const std::string& program) {
  if (!is_python_or_script(program)) return std::nullopt;
  std::error_code error;
  for (const fs::path& folder : search_folders(found_along_path(program))) {
    for (const RuntimeFile& place : kPlaces) {
      if (fs::exists(folder / place.file, error))
        return PythonRuntime{(folder / place.file).string(), place.is_replaceable};
    }
  }
  return std::nullopt;
}

}  // namespace thermocline
