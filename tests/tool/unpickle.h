// SPDX-License-Identifier: Apache-2.0
// Reads a pickle of plain containers as JSON, with the opcodes that PyTorch's MemoryViz.js supports; a pair becomes an
// array. For anything else it returns null and fails the test.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace thermocline::test {

class Unpickler {
 public:
  explicit Unpickler(const std::string& bytes) : bytes_(bytes) {}

  nlohmann::json read() {
    EXPECT_EQ(bytes_.substr(0, 2), "\x80\x02");
    at_ = 2;
    while (at_ < bytes_.size()) {
      const auto opcode = static_cast<unsigned char>(bytes_[at_++]);
      if (opcode == '.') {
        EXPECT_EQ(at_, bytes_.size());
        EXPECT_EQ(stack_.size(), 1u);
        return stack_.back();
      }
      if (container(opcode) || string(opcode) || scalar(opcode)) continue;
      ADD_FAILURE() << "opcode " << int{opcode} << " at " << at_ - 1;
      return nullptr;
    }
    ADD_FAILURE() << "the pickle ends early";
    return nullptr;
  }

 private:
  using Json = nlohmann::json;

  std::uint64_t number(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes_.at(at_++))} << (8 * i);
    return value;
  }

  void fill(bool with_pairs) {
    const std::size_t first = marks_.back();
    Json& into = stack_[first - 1];
    for (std::size_t i = first; i < stack_.size(); i += with_pairs ? 2 : 1) {
      if (with_pairs) {
        into[stack_[i].get<std::string>()] = std::move(stack_[i + 1]);
      } else {
        into.push_back(std::move(stack_[i]));
      }
    }
    marks_.pop_back();
    stack_.resize(first);
  }

  bool container(unsigned char opcode) {
    if (opcode == '}') {
      stack_.push_back(Json::object());
    } else if (opcode == ']') {
      stack_.push_back(Json::array());
    } else if (opcode == '(') {
      marks_.push_back(stack_.size());
    } else if (opcode == 'u' || opcode == 'e') {
      fill(opcode == 'u');
    } else if (opcode == 0x86) {
      Json pair = Json::array({stack_[stack_.size() - 2], stack_.back()});
      stack_.resize(stack_.size() - 2);
      stack_.push_back(std::move(pair));
    } else {
      return false;
    }
    return true;
  }

  bool string(unsigned char opcode) {
    if (opcode == 'X') {
      const std::uint64_t size = number(4);
      stack_.emplace_back(bytes_.substr(at_, size));
      at_ += size;
    } else if (opcode == 'q' || opcode == 'r') {
      const std::uint64_t place = number(opcode == 'q' ? 1 : 4);
      memo_.resize(std::max<std::size_t>(memo_.size(), place + 1));
      memo_[place] = stack_.back();
    } else if (opcode == 'h' || opcode == 'j') {
      stack_.push_back(memo_.at(number(opcode == 'h' ? 1 : 4)));
    } else {
      return false;
    }
    return true;
  }

  bool scalar(unsigned char opcode) {
    if (opcode == 'K') {
      stack_.emplace_back(number(1));
    } else if (opcode == 'J') {
      stack_.emplace_back(static_cast<std::int32_t>(number(4)));
    } else if (opcode == 0x8a) {
      EXPECT_EQ(number(1), 8u);
      stack_.emplace_back(number(8));
    } else if (opcode == 0x88 || opcode == 0x89) {
      stack_.emplace_back(opcode == 0x88);
    } else if (opcode == 'N') {
      stack_.emplace_back(nullptr);
    } else {
      return false;
    }
    return true;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
  std::vector<Json> stack_, memo_;
  std::vector<std::size_t> marks_;
};

inline nlohmann::json unpickle(const std::string& bytes) { return Unpickler(bytes).read(); }

}  // namespace thermocline::test
