// SPDX-License-Identifier: Apache-2.0
#include "tool/framework_settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tool/message.h"

namespace thermocline {

bool is_python_or_script(const std::string& program) {
  const std::string file = found_along_path(program);
  if (file.substr(file.rfind('/') + 1).starts_with("python")) return true;
  char begin[2] = {};
  std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
  return begin[0] == '#' && begin[1] == '!';
}

const std::vector<FrameworkSetting>& framework_settings() {
  static const std::vector<FrameworkSetting> all = {
      {"PyTorch",
       "PYTORCH_NO_CUDA_MEMORY_CACHING",
       "1",
       {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"},
       "CUDA graphs in which tensors are allocated need --no-frameworks (docs/pytorch.md)"},
      {"TensorFlow", "TF_GPU_ALLOCATOR", "cuda_malloc_async"},
      {"TensorFlow", "TF_FORCE_GPU_ALLOW_GROWTH", "true"},
      // XLA's other allocators map memory themselves, which cannot be evicted (seen with jaxlib 0.11 on an H200).
      {"JAX", "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
      {"JAX", "XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
      // All that a graph uses has to fit at once, and XLA makes one of nearly a whole step.
      {"JAX", "XLA_FLAGS", "--xla_gpu_enable_command_buffer="},
  };
  return all;
}

const char* users_own(const FrameworkSetting& setting) {
  if (std::getenv(setting.variable) != nullptr) return setting.variable;
  const auto other =
      std::ranges::find_if(setting.others, [](const char* name) { return std::getenv(name) != nullptr; });
  return other == setting.others.end() ? nullptr : *other;
}

void apply_frameworks(const std::string& program, std::map<std::string, std::string>* changes) {
  std::string names;
  for (const FrameworkSetting& setting : framework_settings()) {
    if (users_own(setting) != nullptr) continue;
    (*changes)[setting.variable] = setting.value;
    if (names.find(setting.framework) == std::string::npos)
      names += std::string(names.empty() ? "" : ", ") + setting.framework;
  }
  if (names.empty() || !is_python_or_script(program)) return;
  say(names + " are told to allocate tensor by tensor ('thermocline doctor' says how; --no-frameworks: not)");
}

std::string found_along_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    std::string file = folders.substr(begin, end - begin) + "/" + program;
    if (access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return program;
}

}  // namespace thermocline
