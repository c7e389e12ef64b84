// SPDX-License-Identifier: Apache-2.0
#include "driver/examination.h"

#include <cstdint>

#include "driver/mapping_waits.h"
#include "driver/owned.h"
#include "driver/table.h"

namespace thermocline {
namespace {

Finding finding_of(bool works) { return works ? Finding::kWorks : Finding::kFails; }

// The first reservation that an engine tries; it is halved until the driver accepts it (allocator/heap.h).
constexpr Bytes kWanted = Bytes{1} << 40;

Answer reservation(const Driver& driver, const DeviceFacts& facts) {
  DeviceAddress at;
  Bytes bytes = kWanted;
  while (bytes >= facts.page_bytes && !driver.reserve(bytes, facts.page_bytes, &at).ok()) bytes /= 2;
  const bool any = bytes >= facts.page_bytes;
  if (any) static_cast<void>(driver.release(at, bytes));
  return {"reservation", finding_of(bytes == kWanted), any ? std::to_string(bytes >> 20) + " MiB at once" : "none"};
}

// A kernel with two parameters, at offsets 0 and 8.
constexpr const char* kKernel = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .entry thermocline_examined(.param .u64 first, .param .u32 second) { ret; }
)";

// Asks for one parameter: its offset and size are as expected, or there is none.
using ParamInfo = CUresult (*)(CUfunction, std::size_t, std::size_t*, std::size_t*);
bool reports(ParamInfo ask, FunctionHandle function, std::size_t index, std::size_t offset, std::size_t bytes) {
  std::size_t found_offset = 0, found_bytes = 0;
  return ask(reinterpret_cast<CUfunction>(static_cast<std::uintptr_t>(function)), index, &found_offset, &found_bytes) ==
             CUDA_SUCCESS &&
         found_offset == offset && found_bytes == bytes;
}

// The library uses the function only if the driver reports 12.4 or later.
Answer parameters(const DriverLibrary& library) {
  int version = 0;
  const bool is_told = library.version(&version).ok();
  const auto ask = reinterpret_cast<ParamInfo>(library.symbol("cuFuncGetParamInfo"));
  std::string detail = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  if (!is_told || version < 12040 || ask == nullptr) return {"param_info", Finding::kFails, detail};
  const Driver& driver = library.driver();
  ModuleHandle module{};
  FunctionHandle function{};
  if (!driver.load_module(kKernel, &module).ok()) return {"param_info", Finding::kNotTried, detail + "; no PTX loads"};
  const ModuleOwner owner(driver, module);
  if (!driver.find_function(module, "thermocline_examined", &function).ok()) {
    return {"param_info", Finding::kNotTried, detail + "; no PTX loads"};
  }
  const bool works =
      reports(ask, function, 0, 0, 8) && reports(ask, function, 1, 8, 4) && !reports(ask, function, 2, 12, 0);
  return {"param_info", finding_of(works), detail};
}

Answer stream_flags(const DriverLibrary& library) {
  const auto ask = reinterpret_cast<CUresult (*)(CUstream, unsigned*)>(library.symbol("cuStreamGetFlags"));
  StreamHandle stream{};
  if (ask == nullptr) return {"stream_flags", Finding::kFails, "cuStreamGetFlags is missing"};
  if (!library.driver().create_stream(&stream).ok()) return {"stream_flags", Finding::kNotTried, ""};
  const StreamOwner owner(library.driver(), stream);
  unsigned flags = 0;
  const CUresult result = ask(reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream)), &flags);
  return {"stream_flags", finding_of(result == CUDA_SUCCESS && flags == CU_STREAM_NON_BLOCKING), ""};
}

Answer proc_address_forms(const DriverLibrary& library) {
  int version = 0;
  const bool is_told = library.version(&version).ok();
  const bool is_there = library.symbol("cuGetProcAddress_v2") != nullptr;
  return {"proc_address_forms", finding_of(is_there || (is_told && version < 12000)),
          is_there ? "" : "cuGetProcAddress_v2 is missing"};
}

Answer memory(const Driver& driver, const DeviceFacts& facts) {
  Bytes free = 0;
  Bytes total = 0;
  const bool told = driver.memory_info(&free, &total).ok();
  return {"memory_info", finding_of(told && free <= total && total <= facts.total_memory),
          std::to_string(free >> 20) + " MiB of " + std::to_string(total >> 20) + " free"};
}

void add_mechanisms(const Driver& driver, const DeviceFacts& facts, std::vector<Answer>* answers) {
  Findings findings = probe_mapping(driver, facts);
  probe_host_memory(driver, facts, &findings);
  const MappingInFlight in_flight = probe_mapping_in_flight(driver, facts);
  findings.set(Mechanism::kMappingInFlight, in_flight.finding);
  for (const MechanismText& text : mechanism_texts()) {
    const Finding finding = findings.of(text.mechanism);
    std::string detail = finding == Finding::kFails ? text.without : "";
    if (text.mechanism == Mechanism::kHostMemory && !facts.can_map_host) detail = "the device reports no support";
    if (text.mechanism == Mechanism::kMappingInFlight && in_flight.call != nullptr)
      detail = std::string(in_flight.call) + " waits for work in flight";
    answers->push_back({text.name, finding, detail});
  }
}

}  // namespace

std::vector<Answer> examine(const DriverLibrary& library, int ordinal, std::string* why) {
  Status status = library.make_current(ordinal);
  DeviceFacts facts;
  if (status.ok()) status = library.driver().facts(&facts);
  if (!status.ok()) {
    *why = library.error_name(status);
    return {};
  }
  const Driver& driver = library.driver();
  std::vector<Answer> answers = {{"virtual_memory", finding_of(facts.has_virtual_memory), ""}};
  if (facts.has_virtual_memory) {
    answers.push_back({"granularity", Finding::kWorks, std::to_string(facts.page_bytes >> 10) + " KiB"});
    answers.push_back(reservation(driver, facts));
    add_mechanisms(driver, facts, &answers);
  }
  answers.push_back(memory(driver, facts));
  answers.push_back(parameters(library));
  answers.push_back(stream_flags(library));
  answers.push_back(proc_address_forms(library));
  return answers;
}

}  // namespace thermocline
