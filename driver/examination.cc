// SPDX-License-Identifier: Apache-2.0
#include "driver/examination.h"

#include "driver/table.h"

namespace thermocline {
namespace {

Finding finding_of(bool works) { return works ? Finding::kWorks : Finding::kFails; }

// What an engine reserves first, and halves while it is refused (allocator/heap.h).
constexpr Bytes kWanted = Bytes{1} << 40;

Answer reservation(const Driver& driver, const DeviceFacts& facts) {
  DeviceAddress at;
  Bytes bytes = kWanted;
  while (bytes >= facts.page_bytes && !driver.reserve(bytes, facts.page_bytes, &at).ok()) bytes /= 2;
  const bool any = bytes >= facts.page_bytes;
  if (any) static_cast<void>(driver.release(at, bytes));
  return {"reservation", finding_of(bytes == kWanted), any ? std::to_string(bytes >> 20) + " MiB at once" : "none"};
}

Answer exported(const DriverLibrary& library, const char* assumption, const char* name) {
  const bool is_there = library.symbol(name) != nullptr;
  return {assumption, finding_of(is_there), is_there ? "" : std::string(name) + " is missing"};
}

Answer parameters(const DriverLibrary& library) {
  int version = 0;
  const bool told = library.version(&version).ok();
  // Of a driver that is older, or says so, the function is not asked.
  const bool works = told && version >= 12040 && library.symbol("cuFuncGetParamInfo") != nullptr;
  return {"param_info", finding_of(works),
          "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
}

Answer memory(const Driver& driver, const DeviceFacts& facts) {
  Bytes free = 0;
  Bytes total = 0;
  const bool told = driver.memory_info(&free, &total).ok();
  return {"memory_info", finding_of(told && free <= total && total <= facts.total_memory),
          std::to_string(free >> 20) + " MiB of " + std::to_string(total >> 20) + " are free"};
}

void add_mechanisms(const Driver& driver, const DeviceFacts& facts, std::vector<Answer>* answers) {
  Findings findings = probe_mapping(driver, facts);
  probe_host_memory(driver, facts, &findings);
  for (const MechanismText& text : mechanism_texts()) {
    const Finding finding = findings.of(text.mechanism);
    std::string detail = finding == Finding::kFails ? text.without : "";
    if (text.mechanism == Mechanism::kHostMemory && !facts.can_map_host) detail = "the device says that it can not";
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
  answers.push_back(exported(library, "stream_flags", "cuStreamGetFlags"));
  answers.push_back(exported(library, "capture_mode", "cuThreadExchangeStreamCaptureMode"));
  answers.push_back(exported(library, "proc_address_forms", "cuGetProcAddress_v2"));
  return answers;
}

}  // namespace thermocline
