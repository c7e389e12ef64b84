// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/timeline_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <variant>

#include "simulator/core/streams/name_of.h"
#include "simulator/core/streams/timeline.h"

namespace simulator {
namespace {

constexpr std::array<const char*, kEngines> kRows = {"compute", "link to device", "link to host"};
constexpr double kNsPerUs = 1e3;

// Names come from programs: characters that JSON does not allow unescaped become underscores.
std::string plain(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return result;
}

Bytes bytes_of(const Work& work) {
  if (const auto* copy = std::get_if<Copy>(&work)) return copy->to_shape.bytes();
  if (const auto* set = std::get_if<Set>(&work)) return set->shape.bytes();
  return 0;
}

// The device address of a copy over the link; 0 for anything else.
Address device_address_of(const Work& work) {
  const auto* copy = std::get_if<Copy>(&work);
  if (copy == nullptr) return 0;
  if (copy->direction == Direction::kToDevice) return copy->to;
  return copy->direction == Direction::kToHost ? copy->from : 0;
}

// The number of the operator or kernel, from 1 in order of submission; 0: neither.
std::uint64_t ordinal_of(const Work& work) {
  if (const auto* op = std::get_if<Operator>(&work)) return op->ordinal;
  const auto* kernel = std::get_if<Kernel>(&work);
  return kernel == nullptr ? 0 : kernel->ordinal;
}

bool is_relaunch(const Work& work) {
  const auto* op = std::get_if<Operator>(&work);
  return op != nullptr && op->is_relaunch;
}

}  // namespace

std::unique_ptr<TimelineFile> TimelineFile::open(const std::string& path, DeviceId devices) {
  if (path.empty()) return nullptr;
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    std::fprintf(stderr, "simulated device: the timeline %s can not be written: %s\n", path.c_str(),
                 std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<TimelineFile>(new TimelineFile(file, devices));
}

void TimelineFile::Close::operator()(std::FILE* file) const {
  // The last event, so that none before it ends without a comma.
  std::fputs(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"simulated devices"}})"
             "\n]\n",
             file);
  const bool had_failed = std::ferror(file) != 0;
  if (std::fclose(file) == 0 && !had_failed) return;
  std::fprintf(stderr, "simulated device: the timeline could not be written to its end: %s\n", std::strerror(errno));
}

TimelineFile::TimelineFile(std::FILE* file, DeviceId devices) : file_(file) {
  std::fputs("[\n", file);
  for (DeviceId device = 0; device < devices; ++device) {
    for (std::size_t row = 0; row < kRows.size(); ++row) {
      std::fprintf(file,
                   R"({"ph":"M","pid":%d,"tid":%zu,"name":"thread_name","args":{"name":"%s"}},)"
                   "\n",
                   device + 1, row, kRows[row]);
    }
  }
}

void TimelineFile::ran(const Operation& operation) {
  if (operation.engine == Engine::kNone) return;
  std::fprintf(
      file_.get(),
      R"({"ph":"X","pid":%d,"tid":%d,"name":"%s","ts":%.3f,"dur":%.3f,"args":{"stream":%u,"submitted":%.3f,"bytes":%llu,"address":%llu,"ordinal":%llu%s}},)"
      "\n",
      operation.served_by + 1, static_cast<int>(operation.engine), plain(name_of(operation.work)).c_str(),
      static_cast<double>(operation.end - operation.duration) / kNsPerUs,
      static_cast<double>(operation.duration) / kNsPerUs, operation.stream,
      static_cast<double>(operation.submitted) / kNsPerUs, static_cast<unsigned long long>(bytes_of(operation.work)),
      static_cast<unsigned long long>(device_address_of(operation.work)),
      static_cast<unsigned long long>(ordinal_of(operation.work)),
      is_relaunch(operation.work) ? R"(,"relaunch":1)" : "");
}

}  // namespace simulator
