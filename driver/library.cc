// SPDX-License-Identifier: Apache-2.0
#include "driver/library.h"

#include <dlfcn.h>

#include "driver/table.h"

namespace thermocline {
namespace {

constexpr const char* kDefaultName = "libcuda.so.1";

Status status_of(CUresult result) { return Status(static_cast<int>(result)); }

// Looks up a function that only tools need and that therefore is not in the table.
template <class Function>
Function entry(const DriverLibrary& library, const char* name) {
  return reinterpret_cast<Function>(library.symbol(name));
}

bool has(const DriverTable& table, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  return table.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

}  // namespace

std::unique_ptr<DriverLibrary> DriverLibrary::open(const char* path, std::string* why) {
  auto table = std::make_unique<DriverTable>();
  if (!open_driver(path, table.get(), why).ok()) return nullptr;
  // open_driver has left the library loaded, so this returns the same handle.
  void* handle = dlopen(path != nullptr ? path : kDefaultName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    *why = dlerror();
    return nullptr;
  }
  return std::unique_ptr<DriverLibrary>(new DriverLibrary(handle, std::move(table)));
}

DriverLibrary::DriverLibrary(void* handle, std::unique_ptr<DriverTable> table)
    : handle_(handle), table_(std::move(table)), driver_(*table_) {}

// Never unloads the driver: its threads may still be running.
DriverLibrary::~DriverLibrary() = default;

void* DriverLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

std::string DriverLibrary::path() const {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(table_->cuCtxGetCurrent), &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

Status DriverLibrary::initialise() const {
  const auto init = entry<decltype(&::cuInit)>(*this, "cuInit");
  return init == nullptr ? Status::not_found() : status_of(init(0));
}

Status DriverLibrary::version(int* out) const {
  const auto get = entry<decltype(&::cuDriverGetVersion)>(*this, "cuDriverGetVersion");
  return get == nullptr ? Status::not_found() : status_of(get(out));
}

Status DriverLibrary::device_count(int* out) const {
  const auto get = entry<decltype(&::cuDeviceGetCount)>(*this, "cuDeviceGetCount");
  return get == nullptr ? Status::not_found() : status_of(get(out));
}

Status DriverLibrary::summary(int ordinal, DeviceSummary* out) const {
  const auto get = entry<decltype(&::cuDeviceGet)>(*this, "cuDeviceGet");
  const auto get_name = entry<decltype(&::cuDeviceGetName)>(*this, "cuDeviceGetName");
  if (get == nullptr || get_name == nullptr) return Status::not_found();
  CUdevice device = 0;
  if (const CUresult r = get(&device, ordinal); r != CUDA_SUCCESS) return status_of(r);
  char name[256] = "";
  if (const CUresult r = get_name(name, sizeof name, device); r != CUDA_SUCCESS) return status_of(r);
  std::size_t total = 0;
  if (const CUresult r = table_->cuDeviceTotalMem(&total, device); r != CUDA_SUCCESS) return status_of(r);
  int major = 0;
  int minor = 0;
  for (const auto& [value, attribute] : {std::pair{&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
                                         std::pair{&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR}}) {
    const CUresult r = table_->cuDeviceGetAttribute(value, attribute, device);
    if (r != CUDA_SUCCESS) return status_of(r);
  }
  *out = {.name = name,
          .total_memory = total,
          .compute_capability = 10 * major + minor,
          .has_virtual_memory = has(*table_, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
          .can_map_host = has(*table_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device)};
  return Status();
}

Status DriverLibrary::make_current(int ordinal) const {
  const auto get = entry<decltype(&::cuDeviceGet)>(*this, "cuDeviceGet");
  const auto retain = entry<decltype(&::cuDevicePrimaryCtxRetain)>(*this, "cuDevicePrimaryCtxRetain");
  const auto set_current = entry<decltype(&::cuCtxSetCurrent)>(*this, "cuCtxSetCurrent");
  if (get == nullptr || retain == nullptr || set_current == nullptr) return Status::not_found();
  CUdevice device = 0;
  if (const CUresult r = get(&device, ordinal); r != CUDA_SUCCESS) return status_of(r);
  CUcontext context = nullptr;
  if (const CUresult r = retain(&context, device); r != CUDA_SUCCESS) return status_of(r);
  return status_of(set_current(context));
}

std::string DriverLibrary::error_name(Status status) const {
  const char* name = nullptr;
  const auto get = entry<decltype(&::cuGetErrorName)>(*this, "cuGetErrorName");
  const bool known =
      get != nullptr && get(static_cast<CUresult>(status.code()), &name) == CUDA_SUCCESS && name != nullptr;
  return known ? name : "error " + std::to_string(status.code());
}

}  // namespace thermocline
