// SPDX-License-Identifier: Apache-2.0
// Which bytes of its parameters the body of a kernel loads. A parameter that is a structure is declared in PTX as an
// array of bytes, which says nothing of its members; the instructions do: the compiler loads members. Where it loads
// padding beside them, as one element of a vector, that goes into a register that nothing else names.
// Source: PTX ISA 9.0, 9.7.9.8 (ld), 5.1.6 (parameter state space).
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

  // To be called for every word of the body, once it has been taken from the lexer: an `ld.param` is followed up to its
  // address. A parameter that is named anywhere else has its address taken.
  void read_word(const PtxToken& word, PtxLexer& lexer);

  // What a structure without loads holds is known where the kernel loads something else: the body was seen.
  std::vector<ParameterByte> finish(const ImageKernel& kernel) const;

 private:
  // One element of a load. The names point into the text.
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
