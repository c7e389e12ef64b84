// SPDX-License-Identifier: Apache-2.0
// Writes Python's pickle format, protocol 2, as far as plain containers need it (the opcodes are those of Python's
// pickletools module): dictionaries, lists, tuples of two, strings, integers, true, false and none. Repeated strings
// are written once.
//
//   pickle.begin_dict(); pickle.string("key"); pickle.integer(1); pickle.end_dict(); pickle.finish();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace thermocline {

class Pickle {
 public:
  Pickle() : out_("\x80\x02") {}

  // Pairs of a key and a value follow, up to end_dict.
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  // Makes a tuple of the last two elements.
  void pair() { out_ += '\x86'; }

  void string(std::string_view text);
  void integer(std::int64_t value);
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void none() { out_ += 'N'; }

  // Returns what was written since the last call, to be output; strings stay in the memo.
  std::string take();
  void finish() { out_ += '.'; }

 private:
  void little_endian(std::uint64_t value, int bytes);

  std::string out_;
  std::unordered_map<std::string, std::uint32_t> known_;
};

}  // namespace thermocline
