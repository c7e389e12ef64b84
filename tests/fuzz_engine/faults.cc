// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_engine/faults.h"

#include <array>

#include "driver/check.h"

namespace thermocline::fuzz_engine {
namespace {

// Errors that most functions may return, according to cuda.h.
constexpr std::array kCommon = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_CONTEXT};
constexpr std::array kTaking = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
                                CUDA_ERROR_NOT_SUPPORTED};

template <std::size_t n>
bool answers_error(const char* function, const std::array<CUresult, n>& errors, CUresult* out) {
  FaultyDriver& faulty = *FaultyDriver::current;
  if (!faulty.fails(function)) return false;
  *out = faulty.some_error(errors.data(), n);
  return true;
}

const DriverTable& below() { return FaultyDriver::current->below; }
FaultyDriver& counts() { return *FaultyDriver::current; }

// For calls that neither acquire nor release anything.
template <auto member>
struct Plain;
template <class... Arguments, CUresult (*DriverTable::*member)(Arguments...)>
struct Plain<member> {
  static inline const char* name = "";
  static CUresult call(Arguments... arguments) {
    CUresult error{};
    if (answers_error(name, kCommon, &error)) return error;
    return (below().*member)(arguments...);
  }
};

CUresult reserve(CUdeviceptr* at, std::size_t bytes, std::size_t alignment, CUdeviceptr wish,
                 unsigned long long flags) {
  CUresult result{};
  if (answers_error("reserve", kTaking, &result)) return result;
  result = below().cuMemAddressReserve(at, bytes, alignment, wish, flags);
  counts().reservations += result == CUDA_SUCCESS;
  return result;
}
CUresult release(CUdeviceptr at, std::size_t bytes) {
  CUresult result{};
  if (answers_error("release", kCommon, &result)) return result;
  result = below().cuMemAddressFree(at, bytes);
  counts().reservations -= result == CUDA_SUCCESS;
  return result;
}
CUresult create_page(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  CUresult result{};
  if (answers_error("create page", kTaking, &result)) return result;
  result = below().cuMemCreate(handle, bytes, properties, flags);
  counts().pages += result == CUDA_SUCCESS;
  return result;
}
CUresult destroy_page(CUmemGenericAllocationHandle handle) {
  CUresult result{};
  if (answers_error("destroy page", kCommon, &result)) return result;
  result = below().cuMemRelease(handle);
  counts().pages -= result == CUDA_SUCCESS;
  return result;
}
CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags) {
  CUresult result{};
  if (answers_error("map", kTaking, &result)) return result;
  result = below().cuMemMap(at, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) counts().mapped_bytes += static_cast<std::int64_t>(bytes);
  return result;
}
CUresult unmap(CUdeviceptr at, std::size_t bytes) {
  CUresult result{};
  if (answers_error("unmap", kCommon, &result)) return result;
  result = below().cuMemUnmap(at, bytes);
  if (result == CUDA_SUCCESS) counts().mapped_bytes -= static_cast<std::int64_t>(bytes);
  return result;
}
CUresult create_stream(CUstream* stream, unsigned flags) {
  CUresult result{};
  if (answers_error("create stream", kTaking, &result)) return result;
  result = below().cuStreamCreate(stream, flags);
  counts().streams += result == CUDA_SUCCESS;
  return result;
}
CUresult destroy_stream(CUstream stream) {
  CUresult result{};
  if (answers_error("destroy stream", kCommon, &result)) return result;
  result = below().cuStreamDestroy(stream);
  counts().streams -= result == CUDA_SUCCESS;
  return result;
}
CUresult create_event(CUevent* event, unsigned flags) {
  CUresult result{};
  if (answers_error("create event", kTaking, &result)) return result;
  result = below().cuEventCreate(event, flags);
  counts().events += result == CUDA_SUCCESS;
  return result;
}
// If the driver refuses to destroy an event, the event is not counted as leaked: nobody could do anything about it.
CUresult destroy_event(CUevent event) {
  CUresult result{};
  if (answers_error("destroy event", kCommon, &result)) {
    --counts().events;
    return result;
  }
  result = below().cuEventDestroy(event);
  counts().events -= result == CUDA_SUCCESS;
  return result;
}
CUresult allocate_host(void** at, std::size_t bytes, unsigned flags) {
  CUresult result{};
  if (answers_error("allocate host", kTaking, &result)) return result;
  result = below().cuMemHostAlloc(at, bytes, flags);
  counts().host += result == CUDA_SUCCESS;
  return result;
}
CUresult free_host(void* at) {
  CUresult result{};
  if (answers_error("free host", kCommon, &result)) return result;
  result = below().cuMemFreeHost(at);
  counts().host -= result == CUDA_SUCCESS;
  return result;
}

template <auto member>
auto plain(const char* name) {
  Plain<member>::name = name;
  return &Plain<member>::call;
}

}  // namespace

FaultyDriver* FaultyDriver::current = nullptr;

FaultyDriver::FaultyDriver(const DriverTable& below_in, const FaultPlan& plan)
    : below(below_in), plan_(plan), random_(plan.seed), table_(below_in), driver_(table_) {
  THERMOCLINE_CHECK(current == nullptr, "there is one faulty driver at a time");
  current = this;
  table_.cuMemAddressReserve = &fuzz_engine::reserve;
  table_.cuMemAddressFree = &fuzz_engine::release;
  table_.cuMemCreate = &create_page;
  table_.cuMemRelease = &destroy_page;
  table_.cuMemMap = &fuzz_engine::map;
  table_.cuMemUnmap = &fuzz_engine::unmap;
  table_.cuStreamCreate = &create_stream;
  table_.cuStreamDestroy = &destroy_stream;
  table_.cuEventCreate = &create_event;
  table_.cuEventDestroy = &destroy_event;
  table_.cuMemHostAlloc = &allocate_host;
  table_.cuMemFreeHost = &free_host;
  table_.cuMemSetAccess = plain<&DriverTable::cuMemSetAccess>("set access");
  table_.cuMemcpyDtoHAsync = plain<&DriverTable::cuMemcpyDtoHAsync>("copy to host");
  table_.cuMemcpyHtoDAsync = plain<&DriverTable::cuMemcpyHtoDAsync>("copy to device");
  table_.cuEventRecord = plain<&DriverTable::cuEventRecord>("record");
  table_.cuStreamWaitEvent = plain<&DriverTable::cuStreamWaitEvent>("wait");
  table_.cuEventQuery = plain<&DriverTable::cuEventQuery>("query");
  table_.cuEventSynchronize = plain<&DriverTable::cuEventSynchronize>("synchronize event");
  table_.cuStreamSynchronize = plain<&DriverTable::cuStreamSynchronize>("synchronize stream");
  table_.cuCtxSynchronize = plain<&DriverTable::cuCtxSynchronize>("synchronize context");
  table_.cuEventElapsedTime = plain<&DriverTable::cuEventElapsedTime>("elapsed time");
}

FaultyDriver::~FaultyDriver() { current = nullptr; }

bool FaultyDriver::fails(const char* function) {
  if (stopped_) return false;
  ++calls_;
  const bool doomed = doomed_count_ > 0 && doomed_ == function;
  if (doomed) --doomed_count_;
  const bool by_plan =
      plan_.only_nth != 0 ? calls_ == plan_.only_nth : plan_.one_in != 0 && random_.one_in(plan_.one_in);
  if (!doomed && !by_plan) return false;
  ++failed_;
  last_failed_ = function;
  return true;
}

std::string FaultyDriver::held() const {
  std::string text;
  const auto say = [&text](const char* what, std::int64_t count) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  say("reservations", reservations);
  say("pages", pages);
  say("mapped bytes", mapped_bytes);
  say("streams", streams);
  say("events", events);
  say("host allocations", host);
  return text;
}

}  // namespace thermocline::fuzz_engine
