// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_reader.h"

#include <algorithm>
#include <cctype>

#include "hooks/relaunch/ptx_kernel.h"

namespace thermocline {

bool PtxReader::is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

void PtxReader::skip() {
  for (;;) {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const std::string_view left = text_.substr(std::min(at_, text_.size()));
    if (left.starts_with("//")) {
      at_ = std::min(text_.size(), text_.find('\n', at_));
    } else if (left.starts_with("/*")) {
      const std::size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else {
      return;
    }
  }
}

bool PtxReader::accept(char c) {
  skip();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::string_view PtxReader::word(bool dots) {
  skip();
  const std::size_t begin = at_;
  while (at_ < text_.size() && (is_of_name(text_[at_]) || (dots && (text_[at_] == '.' || text_[at_] == ':')))) ++at_;
  return text_.substr(std::min(begin, text_.size()), at_ - begin);
}

bool PtxReader::read_variable(std::string_view* name, std::uint64_t* bytes) {
  std::uint64_t all = 0;
  for (;;) {
    const std::string_view next = word(true);
    if (next.empty()) return false;
    if (next.front() == '.') all = std::max<std::uint64_t>(all, ptx_type_bytes(next.substr(1)));
    if (next.front() == '.' || std::isdigit(static_cast<unsigned char>(next.front())) != 0) continue;
    *name = next;
    break;
  }
  while (accept('[')) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 20;
    std::uint64_t count = 0;
    if (accept(']')) {
      *bytes = PtxKernel::kOfTheLaunch;
      return true;
    }
    if (!number(word(false), &count) || !accept(']') || count > kMost || all > kMost) return false;
    all *= count;
  }
  skip();
  *bytes = at_ < text_.size() && text_[at_] == ';' ? all : 0;
  return true;
}

}  // namespace thermocline
