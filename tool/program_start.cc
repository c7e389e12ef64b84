// SPDX-License-Identifier: Apache-2.0
#include "tool/program_start.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tool/framework_settings.h"
#include "tool/message.h"

namespace thermocline {
namespace {

namespace fs = std::filesystem;

bool is_on_path(const std::string& name) { return found_along_path(name) != name; }

// Debian and Ubuntu have no `python` by default.
std::string python() { return is_on_path("python") || !is_on_path("python3") ? "python" : "python3"; }

// The likely meaning; empty if it is not known.
std::string meant(const std::string& program) {
  std::error_code error;
  if (program == "python" && is_on_path("python3")) return "python3";
  if (!fs::is_regular_file(program, error)) return "";
  if (program.ends_with(".py")) return python() + " " + shell_word(program);
  const bool is_name = program.find('/') == std::string::npos;
  return is_name && access(program.c_str(), X_OK) == 0 ? "./" + shell_word(program) : "";
}

// The reason why an existing file does not start; empty if it is not known.
std::string reason(const std::string& program, int error) {
  std::error_code ignored;
  const bool is_path = program.find('/') != std::string::npos;
  if (fs::is_directory(program, ignored)) return is_path ? "it is a folder" : "";
  if (!fs::is_regular_file(program, ignored)) return "";
  if (error == ENOENT && is_path) return "the file is there, but not the interpreter or loader that it names";
  if (access(program.c_str(), X_OK) == 0) return "";
  return "the file " + std::string(is_path ? "" : "in this folder ") + "is not executable (chmod +x)";
}

// Whether a 64-bit ELF program names no loader, which does the preloading, and is not a loader itself.
bool is_static(const std::string& path) {
  if (fs::path(path).filename().string().starts_with("ld-")) return false;
  std::ifstream file(path, std::ios::binary);
  const auto read = [&file](std::uint64_t at, auto* out) {
    return static_cast<bool>(
        file.seekg(static_cast<std::streamoff>(at)).read(reinterpret_cast<char*>(out), sizeof *out));
  };
  Elf64_Ehdr header{};
  if (!read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read(header.e_phoff + i * sizeof segment, &segment) || segment.p_type == PT_INTERP) return false;
  }
  return true;
}

}  // namespace

std::string not_started(const std::string& program, int error) {
  std::string line = "can not start '" + program + "': " + std::strerror(error);
  if (const std::string other = meant(program); !other.empty()) return line + did_you_mean(other);
  if (const std::string why = reason(program, error); !why.empty()) return line + "; " + why;
  return line;
}

void remark_on_missing_driver(const std::string& program) {
  // Device files of NVIDIA's driver, of WSL and of Jetson boards. If one exists, the driver library is not loaded for a
  // test: a real one is large.
  constexpr std::array kDevices = {"/dev/nvidiactl", "/dev/dxg", "/dev/nvmap"};
  if (access(found_along_path(program).c_str(), X_OK) != 0) return;
  if (std::ranges::any_of(kDevices, [](const char* file) { return access(file, F_OK) == 0; })) return;
  if (void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); driver != nullptr) {
    dlclose(driver);
    return;
  }
  say("note: this machine has no NVIDIA driver (libcuda.so.1), so the program finds no device; --simulate DEVICE needs "
      "none");
}

void remark_on_static_program(const std::string& program) {
  if (is_static(found_along_path(program)))
    say("note: '" + program + "' is linked statically, so it can not be given the library: no budget holds for it");
}

}  // namespace thermocline
