// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/print.h"

#include <cstdio>
#include <cstring>

#include "simulator/ptx/block.h"

namespace simulator::ptx {
namespace {

constexpr std::size_t kMostText = 4096;

bool may_read(ThreadContext& thread, std::uint64_t at, std::uint64_t bytes) {
  if (at >= thread.stack_low && at + bytes <= thread.stack_high) return true;
  if (at >= thread.shared && at + bytes <= thread.shared + thread.shared_bytes) return true;
  const Launch& launch = thread.block->grid().launch;
  return launch.may_touch(launch.asked, at, bytes, false);
}

// One conversion, `%-8.3lf`, with its argument.
class Conversion {
 public:
  Conversion(ThreadContext& thread, std::uint64_t* arguments) : thread_(thread), arguments_(arguments) {}

  // Returns how many characters of the format were read.
  std::size_t append(const std::string& format, std::size_t at, std::string* out, int* count) {
    std::size_t end = at + 1;
    std::string spec = "%";
    while (end < format.size() && std::strchr("-+ #0123456789.*", format[end]) != nullptr) {
      if (format[end] == '*') {
        spec += std::to_string(take<std::int32_t>());
        ++*count;
      } else {
        spec += format[end];
      }
      ++end;
    }
    bool is_long = false;
    while (end < format.size() && std::strchr("hlzjtL", format[end]) != nullptr)
      is_long = format[end++] != 'h' || is_long;
    if (end == format.size()) return end - at;
    append_value(spec, format[end], is_long, out, count);
    return end + 1 - at;
  }

 private:
  template <typename T>
  T take() {
    *arguments_ = (*arguments_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value{};
    if (may_read(thread_, *arguments_, sizeof value))
      std::memcpy(&value, reinterpret_cast<const void*>(*arguments_), sizeof value);
    *arguments_ += sizeof value;
    return value;
  }

  template <typename T>
  void print(const std::string& spec, T value, std::string* out) {
    char text[kMostText];
    std::snprintf(text, sizeof text, spec.c_str(), value);
    *out += text;
  }

  void append_value(std::string spec, char kind, bool is_long, std::string* out, int* count) {
    if (kind == '%') {
      *out += '%';
      return;
    }
    ++*count;
    if (std::strchr("dioxXu", kind) != nullptr) {
      spec += is_long ? "ll" : "";
      spec += kind;
      return is_long ? print(spec, take<long long>(), out) : print(spec, take<std::int32_t>(), out);
    }
    spec += kind;
    if (std::strchr("eEfFgGaA", kind) != nullptr) return print(spec, take<double>(), out);
    if (kind == 'c') return print(spec, take<std::int32_t>(), out);
    if (kind == 's') return print(spec, device_text(thread_, take<std::uint64_t>()).c_str(), out);
    if (kind == 'p') return print(spec, reinterpret_cast<void*>(take<std::uint64_t>()), out);
    *out += spec;
    --*count;
  }

  ThreadContext& thread_;
  std::uint64_t* arguments_;
};

}  // namespace

std::string device_text(ThreadContext& thread, std::uint64_t at) {
  std::string text;
  while (text.size() < kMostText && may_read(thread, at + text.size(), 1)) {
    const char next = *reinterpret_cast<const char*>(at + text.size());
    if (next == '\0') break;
    text += next;
  }
  return text;
}

int append_printed(ThreadContext& thread, std::uint64_t format_at, std::uint64_t arguments, std::string* out) {
  const std::string format = device_text(thread, format_at);
  int count = 0;
  Conversion conversion(thread, &arguments);
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      *out += format[at++];
    } else {
      at += conversion.append(format, at, out, &count);
    }
  }
  return count;
}

}  // namespace simulator::ptx
