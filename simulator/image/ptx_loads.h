// SPDX-License-Identifier: Apache-2.0
// Determines which bytes of its parameters a kernel's body loads. A structure is declared in PTX as an array of bytes,
// without its members; but the compiler's load instructions load members. If it loads padding together with them, as
// one element of a vector, that element goes to a register that is used nowhere else. Source: PTX ISA 9.0, 9.7.9.8
// (ld), 5.1.6 (parameter state space).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simulator/image/image.h"
#include "simulator/image/ptx_lexer.h"

namespace simulator {

class PtxLoads {
 public:
  void add(ImageParameter parameter, std::string name, bool is_structure);

  // Must be called for every word of the body after the lexer has returned it: an `ld.param` is parsed up to its
  // address. If a parameter is named anywhere else, its address is taken.
  void read_word(const PtxToken& word, PtxLexer& lexer);

  // A structure without loads counts as unread only if the kernel loads something else: that shows that the body was
  // parsed.
  std::vector<ParameterByte> finish(const ImageKernel& kernel) const;

 private:
  // One element of a load. The names are views of the text.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::string_view into;
  };
  struct Named {
    ImageParameter parameter;
    std::string name;
    bool is_structure = false;
    bool is_taken = false;
    std::vector<Range> loaded;
  };

  Named* find(std::string_view name);
  void read_load(PtxLexer& lexer);
  bool is_used(std::string_view name) const;

  std::vector<Named> parameters_;
  std::unordered_map<std::string_view, unsigned> registers_;  // how often each is named
};

}  // namespace simulator
