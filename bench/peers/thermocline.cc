// SPDX-License-Identifier: Apache-2.0
// Our own allocator as a peer: an engine over the null driver, with the default policy.
#include "bench/peers/peer.h"
#include "bench/workloads.h"

#define THERMOCLINE_PEER extern "C" __attribute__((visibility("default")))

namespace {

using thermocline::DeviceAddress;

constexpr thermocline::StreamHandle kStream{0x100};

const std::unique_ptr<thermocline::Engine> owned = thermocline::bench::make_engine();
// The pointer is not checked at every call: a program's own calls do not do so either.
thermocline::Engine* const engine = owned.get();

}  // namespace

THERMOCLINE_PEER const char* peer_name() { return "thermocline"; }
THERMOCLINE_PEER void* peer_allocate(std::size_t bytes) {
  return reinterpret_cast<void*>(thermocline::bench::allocate(*engine, bytes, kStream).value);
}
THERMOCLINE_PEER void peer_free(void* buffer) {
  thermocline::bench::release(*engine, DeviceAddress{reinterpret_cast<std::uintptr_t>(buffer)}, kStream);
}
THERMOCLINE_PEER std::size_t peer_reserved() { return engine->statistics().peak_device_bytes; }
