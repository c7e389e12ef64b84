// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_index.h"

#include <algorithm>
#include <array>

#include "hooks/relaunch/ptx_reader.h"

namespace thermocline {
namespace {

// Signs that matter within a kernel: braces, and what begins a comment or a string.
constexpr std::array<bool, 256> signs_in_bodies() {
  std::array<bool, 256> is{};
  for (const char c : {'{', '}', '"', '/'}) is[static_cast<unsigned char>(c)] = true;
  return is;
}

}  // namespace

class PtxIndex::Scan : private PtxReader {
 public:
  Scan(std::string_view text, PtxIndex* out) : PtxReader(text), out_(*out) {}

  void run() {
    for (skip(); !is_at_end(); skip()) {
      const char c = text_[at_];
      if (c == '"') {
        skip_string();
      } else if (c == '{') {
        skip_body();
      } else if (!is_of_name(c) && c != '.') {
        ++at_;
      } else {
        read_word();
      }
    }
  }

 private:
  void read_word() {
    const std::size_t begin = at_;
    const std::string_view next = word(true);
    if (next == ".entry") {
      const std::string_view name = word(false);
      if (name.empty() || !out_.behind_.try_emplace(std::string(name), at_).second) return;
      out_.kernels_.emplace_back(name);
    } else if (next == ".shared") {
      std::string_view name;
      std::uint64_t bytes = 0;
      if (read_variable(&name, &bytes)) {
        out_.shared_.push_back({std::string(name), bytes});
      } else {
        out_.has_all_shared_ = false;
      }
    }
    // A sign that begins no word.
    if (at_ == begin) ++at_;
  }
  void skip_string() { at_ = std::min(text_.size(), text_.find('"', at_ + 1)) + 1; }
  void skip_body() {
    static constexpr std::array<bool, 256> kSigns = signs_in_bodies();
    for (int depth = 0; at_ < text_.size();) {
      const char c = text_[at_];
      if (!kSigns[static_cast<unsigned char>(c)]) {
        ++at_;
      } else if (c == '"') {
        skip_string();
      } else if (c == '/') {
        const std::size_t begin = at_;
        skip();
        if (at_ == begin) ++at_;
      } else {
        ++at_;
        depth += c == '{' ? 1 : -1;
        if (depth == 0) return;
      }
    }
  }

  PtxIndex& out_;
};

PtxIndex::PtxIndex(std::string_view text) { Scan(text, this).run(); }

std::size_t PtxIndex::behind_name_of(std::string_view kernel) const {
  const auto found = behind_.find(kernel);
  return found == behind_.end() ? kNone : found->second;
}

}  // namespace thermocline
