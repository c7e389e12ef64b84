// SPDX-License-Identifier: Apache-2.0
// Our allocator as a peer: an engine over the null driver, with the default policy. THERMOCLINE_PEER_MIB sets the MiB
// of its pages (the setting page_bytes) at compile time; the default is the engine's for a large device.
#include <string>

#include "bench/peers/peer.h"
#include "bench/workloads.h"

#define THERMOCLINE_PEER extern "C" __attribute__((visibility("default")))

namespace {

using thermocline::DeviceAddress;

constexpr thermocline::StreamHandle kStream{0x100};

thermocline::StreamHandle stream_of(unsigned stream) {
  return thermocline::StreamHandle{0x100 + 16 * std::uintptr_t{stream}};
}

#ifdef THERMOCLINE_PEER_MIB
constexpr thermocline::Bytes kPageBytes = THERMOCLINE_PEER_MIB * thermocline::kMiB;
const std::string peer = "thermocline, " + std::to_string(THERMOCLINE_PEER_MIB) + " MiB pages";
#else
constexpr thermocline::Bytes kPageBytes = 0;
const std::string peer = "thermocline";
#endif

const std::unique_ptr<thermocline::Engine> owned = thermocline::bench::make_engine(kPageBytes);
// The pointer is not checked at every call: a program's own calls do not do so either.
thermocline::Engine* const engine = owned.get();

}  // namespace

THERMOCLINE_PEER const char* peer_name() { return peer.c_str(); }
THERMOCLINE_PEER void* peer_allocate(std::size_t bytes) {
  return reinterpret_cast<void*>(thermocline::bench::allocate(*engine, bytes, kStream).value);
}
THERMOCLINE_PEER void peer_free(void* buffer) {
  thermocline::bench::release(*engine, DeviceAddress{reinterpret_cast<std::uintptr_t>(buffer)}, kStream);
}
THERMOCLINE_PEER std::size_t peer_reserved() { return engine->statistics().peak_device_bytes; }
THERMOCLINE_PEER void* peer_allocate_on(std::size_t bytes, unsigned stream) {
  return reinterpret_cast<void*>(thermocline::bench::allocate(*engine, bytes, stream_of(stream)).value);
}
THERMOCLINE_PEER void peer_free_on(void* buffer, unsigned stream) {
  thermocline::bench::release(*engine, DeviceAddress{reinterpret_cast<std::uintptr_t>(buffer)}, stream_of(stream));
}
