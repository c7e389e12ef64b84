// SPDX-License-Identifier: Apache-2.0
#include "hooks/runtime/all_devices.h"

#include <algorithm>
#include <optional>

#include "allocator/host_account.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/interpose/symbols.h"

namespace thermocline {
namespace {

struct AllDevices {
  std::optional<HostAccount> host;
};

}  // namespace

void share_host_limit_of_devices(EngineOptions* options) {
  if (options->host_limit_bytes == 0) return;
  std::optional<HostAccount>& host = process_lifetime<AllDevices>().host;
  if (!host.has_value()) {
    int devices = 0;
    if (real<Function::cuDeviceGetCount>(&devices) != CUDA_SUCCESS) devices = 1;
    host.emplace(options->host_limit_bytes, static_cast<unsigned>(std::max(devices, 1)));
  }
  options->host_account = &*host;
}

}  // namespace thermocline
