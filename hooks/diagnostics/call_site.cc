// SPDX-License-Identifier: Apache-2.0
// Uses the unwinder of C++ exceptions (Itanium C++ ABI, section 1.6).
#include "hooks/diagnostics/call_site.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdio>
#include <cstring>

namespace thermocline {
namespace {

const void* file_of(const void* code) {
  Dl_info info{};
  return dladdr(code, &info) != 0 ? info.dli_fbase : nullptr;
}

struct Walk {
  CallSite* site;
  const void* own_file;
  std::size_t count = 0;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  auto* const code = reinterpret_cast<void*>(_Unwind_GetIP(context));
  if (code == nullptr || walk.count == CallSite::kFrames) return _URC_END_OF_STACK;
  if (file_of(code) != walk.own_file) walk.site->frames[walk.count++] = code;
  return _URC_NO_REASON;
}

std::string frame_text(void* code) {
  Dl_info info{};
  char text[256];
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(text, sizeof text, "%p", code);
    return text;
  }
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const auto offset = static_cast<std::size_t>(static_cast<char*>(code) - static_cast<char*>(info.dli_fbase));
  std::snprintf(text, sizeof text, "%s+0x%zx%s%s", slash != nullptr ? slash + 1 : info.dli_fname, offset,
                info.dli_sname != nullptr ? " " : "", info.dli_sname != nullptr ? info.dli_sname : "");
  return text;
}

}  // namespace

CallSite call_site(std::uint64_t operation, std::optional<StreamHandle> stream) {
  CallSite site;
  site.thread = static_cast<int>(syscall(SYS_gettid));
  site.operation = operation;
  site.stream = stream;
  Walk walk{&site, file_of(reinterpret_cast<const void*>(&call_site))};
  _Unwind_Backtrace(&visit, &walk);
  return site;
}

std::string text_of(const CallSite& site, const char* title) {
  char line[160];
  char stream[32] = "no stream named";
  if (site.stream.has_value()) {
    std::snprintf(stream, sizeof stream, "stream 0x%zx", static_cast<std::size_t>(*site.stream));
  }
  std::snprintf(line, sizeof line, "  %-10s operation %llu, thread %d, %s\n", title,
                static_cast<unsigned long long>(site.operation), site.thread, stream);
  std::string text = line;
  for (void* frame : site.frames) {
    if (frame == nullptr) break;
    text += "             " + frame_text(frame) + "\n";
  }
  return text;
}

}  // namespace thermocline
