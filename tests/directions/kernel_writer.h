// SPDX-License-Identifier: Apache-2.0
// Writes a random kernel step by step: its registers, its parameters, and the pointers that it has so far.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/directions/random_kernel.h"

namespace directions {

// A register with the address of a buffer's byte, aligned to 16.
struct Pointer {
  std::string reg;
  std::uint64_t reach = 0;  // at most this far from the middle of its page
};

class KernelWriter {
 public:
  KernelWriter(std::uint64_t seed, std::uint64_t memory) : random_(seed * 0x9e3779b97f4a7c15u + 7), memory_(memory) {}

  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

  std::string wide() { return "%rd" + std::to_string(wides_++); }
  std::string word() { return "%r" + std::to_string(words_++); }
  std::string predicate() { return "%p" + std::to_string(predicates_++); }
  std::string real() { return "%fd" + std::to_string(reals_++); }
  std::string label() { return "$L" + std::to_string(labels_++); }

  void line(const std::string& text) { body_ += text + "\n"; }
  void declare(const std::string& text) { functions_ += text + "\n"; }
  void noted(const char* step) { steps_.push_back(step); }

  void add_parameters();
  // Registers that hold one more parameter.
  std::string add_parameter(std::uint64_t address);
  std::string add_parameter(std::uint32_t number);
  // A 32-bit register with a number from 0 to 63.
  std::string number();
  std::string condition();
  // "", "@%p1 " or "@!%p1 ".
  std::string maybe_guard();
  // One of the pointers so far; of these, one that may be moved by that many bytes.
  Pointer pointer(std::uint64_t by = 0);
  std::uint64_t page(std::size_t number) const { return memory_ + number * kPageBytes; }
  // The address of a random place in a random buffer.
  std::uint64_t place();

  // Whether all of its addresses are computed in ways that the analysis follows.
  bool follows_all() const { return follows_all_; }

  std::vector<Pointer> pointers;
  std::vector<std::string> tables, slots;  // registers with the addresses of kTable and kSlots
  bool is_uniform = true;                  // all threads of the block are here
  int depth = 0;                           // of branches and loops

  RandomKernel finish();
  RandomKernel kernel;

 private:
  friend class ParameterList;

  std::mt19937_64 random_;
  std::uint64_t memory_;
  bool follows_all_ = random_() % 5 < 3;
  std::string body_, functions_, parameters_;
  std::vector<const char*> steps_;
  std::vector<std::string> numbers_;
  unsigned wides_ = 0, words_ = 0, predicates_ = 0, reals_ = 0, labels_ = 0;
};

// Adds a pointer that is computed from others.
void add_pointer(KernelWriter& to);
// Adds a load, a store, or something else that accesses memory.
void add_access(KernelWriter& to);
// Adds steps, branches and loops.
void add_steps(KernelWriter& to, unsigned count);

// A kernel in which each thread stores to places of its own, as those that may run again.
void write_simple_kernel(KernelWriter& to);

}  // namespace directions
