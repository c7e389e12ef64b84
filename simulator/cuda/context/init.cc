// SPDX-License-Identifier: Apache-2.0
// Initialization, version, entry points, profiler switches.
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "simulator/cuda/call.h"
#include "simulator/cuda/context/leftovers.h"
#include "simulator/cuda/entry_points/entry_points.h"

using simulator::Machine;
using simulator::cuda::Call;
using simulator::cuda::EntryPoint;
using simulator::cuda::Needs;

namespace {

// For operators that tools declare. A per-thread default stream is found only after the thread has used it.
bool resolve_stream(const void* handle, simulator::StreamId* out) {
  const auto stream = const_cast<CUstream>(static_cast<const CUstream_st*>(handle));
  const simulator::cuda::State& state = simulator::cuda::state();
  CUcontext context = nullptr;
  simulator::cuda::current_context(&context);
  if (stream == CU_STREAM_PER_THREAD) {
    const auto found = state.thread_streams.find({simulator::cuda::thread_number(), context});
    if (found == state.thread_streams.end()) return false;
    *out = found->second;
    return true;
  }
  if (stream != nullptr && stream != CU_STREAM_LEGACY && !state.streams.has(stream)) return false;
  const simulator::StreamId legacy =
      Machine::legacy_stream(context == nullptr ? simulator::DeviceId{0} : context->device);
  *out = stream == nullptr || stream == CU_STREAM_LEGACY ? legacy : stream->id;
  return true;
}

// Host functions run with the lock held; their queries are answered as before they ran, without the fault plan.
int driver_version() {
  return Machine::in_host_function() ? simulator::kDriverVersion : Machine::enter()->fault_plan().driver_version;
}

bool is_missing(const char* symbol) {
  return !Machine::in_host_function() && Machine::enter()->fault_plan().without.count(symbol) != 0;
}

// The symbol is not the function: always, or only for the variant that this version requests.
bool is_elsewhere(const char* symbol, int version) {
  if (Machine::in_host_function()) return false;
  const auto machine = Machine::enter();
  const simulator::FaultPlan& plan = machine->fault_plan();
  return plan.elsewhere.count(symbol) != 0 ||
         (version >= simulator::kNewerDriverVersion && plan.newer.count(symbol) != 0);
}

// Creates a few instructions that jump to the function, at a new address each time. They are never freed.
void* way_to(void* function) {
#if defined(__x86_64__)
  const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *[rip]
#elif defined(__aarch64__)
  const std::uint32_t jump[] = {0x58000050, 0xd61f0200};  // ldr x16, #8; br x16
#else
  return function;
#endif
  constexpr std::size_t kBytes = 64;
  void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return function;
  std::memcpy(at, jump, sizeof jump);
  std::memcpy(static_cast<unsigned char*>(at) + sizeof jump, &function, sizeof function);
  return mprotect(at, kBytes, PROT_READ | PROT_EXEC) == 0 ? at : function;
}

CUresult proc_address(const char* symbol, void** pfn, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status, bool per_thread_by_default) {
  constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || pfn == nullptr || version < 0 || version > driver_version() ||
      (flags & ~(kLegacy | kPerThread)) != 0 || flags == (kLegacy | kPerThread)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool per_thread = flags == kPerThread || (flags == 0 && per_thread_by_default);
  const EntryPoint found =
      is_missing(symbol) ? EntryPoint() : simulator::cuda::find_entry_point(symbol, version, per_thread);
  *pfn = found.address != nullptr && is_elsewhere(symbol, version) ? way_to(found.address) : found.address;
  if (status != nullptr) {
    *status = found.address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : found.is_known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

// The first form had no status argument, and returned an error if nothing was found.
CUresult proc_address_v1(const char* symbol, void** pfn, int version, cuuint64_t flags, bool per_thread_by_default) {
  const CUresult result = proc_address(symbol, pfn, version, flags, nullptr, per_thread_by_default);
  return result == CUDA_SUCCESS && *pfn == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}

}  // namespace

SIMULATED_API CUresult cuInit(unsigned int flags) {
  Call call(Needs::kNothing);
  if (!call) return call.result();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  call.machine().set_on_reset(&simulator::cuda::reset_state);
  call.machine().set_stream_resolver(&resolve_stream);
  call.machine().set_leftovers(&simulator::cuda::leftovers);
  const bool is_first = !call.machine().initialized();
  const CUresult result = call.machine().initialize();
  return result == CUDA_SUCCESS && is_first ? call.machine().fault("cuInit") : result;
}

SIMULATED_API CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version();
  return CUDA_SUCCESS;
}

SIMULATED_API CUresult cuGetProcAddress(const char* symbol, void** pfn, int version, cuuint64_t flags) {
  return proc_address_v1(symbol, pfn, version, flags, false);
}

SIMULATED_API CUresult cuGetProcAddress_ptsz(const char* symbol, void** pfn, int version, cuuint64_t flags) {
  return proc_address_v1(symbol, pfn, version, flags, true);
}

SIMULATED_API CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int version, cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* status) {
  return proc_address(symbol, pfn, version, flags, status, false);
}

SIMULATED_API CUresult cuGetProcAddress_v2_ptsz(const char* symbol, void** pfn, int version, cuuint64_t flags,
                                                CUdriverProcAddressQueryResult* status) {
  return proc_address(symbol, pfn, version, flags, status, true);
}

// Undocumented tables are not simulated; a message tells this to whoever depends on one. NVIDIA's runtime does, and
// turns this error into "named symbol not found", which is misleading.
SIMULATED_API CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static std::atomic_flag said;
  if (!said.test_and_set()) {
    std::fprintf(
        stderr,
        "simulated device: an undocumented driver table was asked for, as NVIDIA's CUDA runtime does; programs run "
        "here "
        "over the simulated runtime: build with nvcc -cudart shared, and with no path to NVIDIA's libcudart.so.13\n");
  }
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

SIMULATED_API CUresult cuProfilerStart() { return Call().result(); }
SIMULATED_API CUresult cuProfilerStop() { return Call().result(); }
