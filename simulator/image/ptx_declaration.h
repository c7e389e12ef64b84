// SPDX-License-Identifier: Apache-2.0
// Parses what follows a state space in PTX: `.align 4 .b8 name[16]`, and initializers. Source: PTX ISA 9.0, 5.2 to 5.5.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "simulator/image/image.h"
#include "simulator/image/ptx_lexer.h"

namespace simulator {

inline constexpr std::uint64_t kPtxLargestParameters = 32764;

struct PtxDeclaration {
  std::string name;
  std::uint64_t element_bytes = 0;  // of one scalar
  std::uint64_t vector = 1;         // number of scalars of a vector type
  std::uint64_t alignment = 1;
  std::uint64_t bytes = 0;
  bool managed = false;
  bool unsized = false;  // name[]: the size is that of its initializer
  bool array = false;
};

// Type, attributes, name and dimensions; the state space has been read already. False: not understood, or larger than
// any memory.
bool read_ptx_declaration(PtxLexer& lexer, PtxDeclaration* out);

// The next name and dimensions with the same type.
bool read_ptx_declarator(PtxLexer& lexer, PtxDeclaration* out);

// Reads the initializer: the text after `=`, up to `;` or `,`.
bool read_ptx_initializer(PtxLexer& lexer, const PtxDeclaration& declaration, ImageVariable* out);

// Bytes of one scalar of a type (`.u32`). 0: not a type.
std::uint64_t ptx_type_bytes(std::string_view type);

// A decimal, octal, hexadecimal or binary number, with or without the suffix U. False: it is none.
bool read_ptx_integer(const PtxToken& token, std::uint64_t* out);

}  // namespace simulator
