// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/no_device/log.h"

#define NO_DEVICE_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kNoDevice = 100, kNotFound = 500;
constexpr int kVersion = 13050;
// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND.
constexpr std::uint64_t kPerThread = 2;
constexpr int kSymbolNotFound = 1;

// The newest form of the function. The requested version matters only to cuGetProcAddress, which has four arguments in
// CUDA 11; the others ignore their arguments.
void* newest(const std::string& base, int version, bool per_thread) {
  if (base == "cuGetProcAddress" && version < 12000) return no_device::exported("cuGetProcAddress");
  static constexpr std::array kVersions = {"_v4", "_v3", "_v2", ""};
  static constexpr std::array kVariants = {"_ptsz", "_ptds", ""};
  for (const char* const variant : kVariants) {
    if (*variant != '\0' && !per_thread) continue;
    for (const char* const form : kVersions) {
      if (void* const found = no_device::exported((base + form + variant).c_str())) return found;
    }
  }
  return nullptr;
}

int proc_address(const char* symbol, void** out, int version, std::uint64_t flags, int* status) {
  if (symbol == nullptr || out == nullptr) return kInvalidValue;
  char more[64];
  std::snprintf(more, sizeof more, " %d %llu", version, static_cast<unsigned long long>(flags));
  *out = newest(symbol, version, flags == kPerThread);
  no_device::write_line(*out == nullptr ? "unknown" : "ask", symbol, more);
  if (status != nullptr) *status = *out == nullptr ? kSymbolNotFound : 0;
  return kSuccess;
}

}  // namespace

// NO_DEVICE_INIT=hang or crash: a defective driver.
NO_DEVICE_API int cuInit(unsigned) {
  no_device::write_line("call", "cuInit");
  const char* const defect = std::getenv("NO_DEVICE_INIT");
  if (defect != nullptr && std::string(defect) == "hang") pause();
  if (defect != nullptr && std::string(defect) == "crash") std::abort();
  return kNoDevice;
}

NO_DEVICE_API int cuDriverGetVersion(int* version) {
  no_device::write_line("call", "cuDriverGetVersion");
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

NO_DEVICE_API int cuGetProcAddress(const char* symbol, void** out, int version, std::uint64_t flags) {
  const int result = proc_address(symbol, out, version, flags, nullptr);
  return result == kSuccess && *out == nullptr ? kNotFound : result;
}

NO_DEVICE_API int cuGetProcAddress_v2(const char* symbol, void** out, int version, std::uint64_t flags, int* status) {
  return proc_address(symbol, out, version, flags, status);
}

NO_DEVICE_API int cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_NO_DEVICE";
  return kSuccess;
}

NO_DEVICE_API int cuGetErrorString(int, const char** text) {
  *text = "no CUDA-capable device is detected";
  return kSuccess;
}
