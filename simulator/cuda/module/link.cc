// SPDX-License-Identifier: Apache-2.0
// The driver's linker: joins the PTX of its inputs. The result is PTX again, which cuModuleLoadData takes like the
// cubin of a real driver.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulator/cuda/call.h"
#include "simulator/cuda/module/module.h"
#include "simulator/image/fatbin.h"
#include "simulator/image/ptx_link.h"

using namespace simulator;
using namespace simulator::cuda;

namespace {

// An option's value is the pointer itself, or a number in its place.
void** find_option(unsigned count, const CUjit_option* options, void** values, CUjit_option wanted) {
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == wanted) return values + i;
  }
  return nullptr;
}

// No value: it contains no PTX.
std::string text_of(CUjitInputType type, std::span<const std::byte> data) {
  if (type == CU_JIT_INPUT_FATBINARY) return text_of_fatbin(data).value_or("");
  if (type != CU_JIT_INPUT_PTX) return {};
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  return std::string(text.substr(0, text.find('\0')));
}

CUresult refuse(CUlinkState_st& link, CUresult result, const std::string& reason) {
  std::fprintf(stderr, "simulated device: %s\n", reason.c_str());
  if (link.errors != nullptr && link.error_bytes != 0)
    std::snprintf(link.errors, link.error_bytes, "%s", reason.c_str());
  return result;
}

CUresult add(CUlinkState_st& link, CUjitInputType type, std::span<const std::byte> data, const std::string& name) {
  if (link.is_complete) return CUDA_ERROR_INVALID_VALUE;
  const std::string text = text_of(type, data);
  if (text.empty())
    return refuse(link, CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "input '" + name +
                      "' of cuLinkAddData or cuLinkAddFile can not be linked: it has no PTX; add PTX, or a " +
                      "fat binary with PTX");
  Image image;
  const ImageResult result = read_image(std::as_bytes(std::span(text)), &image);
  if (!result.ok()) return refuse(link, CUDA_ERROR_INVALID_PTX, "input '" + name + "': " + result.reason);
  link.texts.push_back(text);
  return CUDA_SUCCESS;
}

}  // namespace

SIMULATED_API CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  Call call;
  if (!call) return call.result();
  if (out == nullptr || (count != 0 && (options == nullptr || values == nullptr))) return CUDA_ERROR_INVALID_VALUE;
  CUlinkState_st link;
  void** const errors = find_option(count, options, values, CU_JIT_ERROR_LOG_BUFFER);
  void** const error_bytes = find_option(count, options, values, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  if (errors != nullptr && error_bytes != nullptr) {
    link.errors = static_cast<char*>(*errors);
    link.error_bytes = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(*error_bytes));
  }
  // Nothing is written to the logs, and no time passes.
  constexpr std::pair<CUjit_option, CUjit_option> kLogs[] = {
      {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES},
      {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES}};
  for (const auto& [log, size] : kLogs) {
    void** const buffer = find_option(count, options, values, log);
    void** const bytes = find_option(count, options, values, size);
    const bool has_room = bytes != nullptr && *bytes != nullptr;
    if (has_room && buffer != nullptr && *buffer != nullptr) *static_cast<char*>(*buffer) = '\0';
  }
  if (void** const time = find_option(count, options, values, CU_JIT_WALL_TIME)) *time = nullptr;
  *out = call.state().links.add(std::move(link));
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void* data, std::size_t bytes,
                                        const char* name, unsigned, CUjit_option*, void**) {
  Call call;
  if (!call) return call.result();
  if (!call.state().links.has(link)) return CUDA_ERROR_INVALID_HANDLE;
  if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return add(*link, type, {static_cast<const std::byte*>(data), bytes}, name == nullptr ? "" : name);
}

SIMULATED_API CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char* path, unsigned,
                                        CUjit_option*, void**) {
  Call call;
  if (!call) return call.result();
  if (!call.state().links.has(link)) return CUDA_ERROR_INVALID_HANDLE;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  // A directory can be opened, and not read.
  if (!file || !std::filesystem::is_regular_file(path, error)) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return add(*link, type, std::as_bytes(std::span(bytes)), path);
}

SIMULATED_API CUresult cuLinkComplete(CUlinkState link, void** cubin, std::size_t* bytes) {
  Call call;
  if (!call) return call.result();
  if (!call.state().links.has(link)) return CUDA_ERROR_INVALID_HANDLE;
  if (cubin == nullptr || link->texts.empty()) return CUDA_ERROR_INVALID_VALUE;
  // An earlier caller still has the address.
  if (!link->is_complete) link->linked = link_ptx(link->texts);
  link->is_complete = true;
  *cubin = link->linked.data();
  if (bytes != nullptr) *bytes = link->linked.size() + 1;
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuLinkDestroy(CUlinkState link) {
  Call call;
  if (!call) return call.result();
  if (!call.state().links.has(link)) return CUDA_ERROR_INVALID_HANDLE;
  call.state().links.remove(link);
  return CUDA_SUCCESS;
}
