// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/ptx_loads.h"

#include <algorithm>

#include "simulator/image/ptx_declaration.h"

namespace simulator {
namespace {

void mark(std::uint64_t begin, std::uint64_t end, ParameterByte as, std::vector<ParameterByte>* reads) {
  for (std::uint64_t i = begin; i < std::min<std::uint64_t>(end, reads->size()); ++i) (*reads)[i] = as;
}

}  // namespace

void PtxLoads::add(ImageParameter parameter, std::string name, bool is_structure) {
  parameters_.push_back({parameter, std::move(name), is_structure, false, {}});
}

PtxLoads::Named* PtxLoads::find(std::string_view name) {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const Named& p) { return p.name == name; });
  return found == parameters_.end() ? nullptr : &*found;
}

bool PtxLoads::is_used(std::string_view name) const {
  const auto found = registers_.find(name);
  return found != registers_.end() && found->second > 1;
}

void PtxLoads::read_word(const PtxToken& word, PtxLexer& lexer) {
  if (word.text == "ld") return read_load(lexer);
  if (word.text.starts_with('%')) {
    ++registers_[word.text];
  } else if (Named* const named = find(word.text)) {
    named->is_taken = true;
  }
}

// `.param.v2.u32 {%r1, %r2}, [name+8]`, `.param::entry.u64 %rd1, [name]`; `_` replaces an element that is not used.
void PtxLoads::read_load(PtxLexer& lexer) {
  if (!lexer.peek().is(".param")) return;
  std::uint64_t bytes = 0;
  std::vector<std::string_view> into;
  while (!lexer.peek().is("[")) {
    const PtxToken token = lexer.peek();
    if (token.kind == PtxToken::Kind::kEnd || token.is(";")) return;
    if (token.text.starts_with('%')) ++registers_[token.text];
    if (token.text.starts_with('%') || token.is("_")) into.push_back(token.text);
    if (token.kind == PtxToken::Kind::kDirective) bytes = std::max(bytes, ptx_type_bytes(token.text));
    lexer.next();
  }
  lexer.next();
  Named* const named = find(lexer.peek().text);
  if (named == nullptr) return;  // a register; the parameter's address was taken where the register was set
  lexer.next();
  std::uint64_t offset = 0;
  if (lexer.accept("+") && !read_ptx_integer(lexer.peek(), &offset)) named->is_taken = true;
  for (std::size_t i = 0; i < into.size(); ++i) named->loaded.push_back({offset + i * bytes, bytes, into[i]});
}

std::vector<ParameterByte> PtxLoads::finish(const ImageKernel& kernel) const {
  std::vector<ParameterByte> reads(kernel.parameter_bytes, ParameterByte::kUnread);
  const bool loads_any =
      std::any_of(parameters_.begin(), parameters_.end(), [](const Named& p) { return !p.loaded.empty(); });
  for (const Named& named : parameters_) {
    const std::uint64_t begin = named.parameter.offset;
    const std::uint64_t end = begin + named.parameter.size;
    if (named.is_taken || !loads_any)
      mark(begin, end, named.is_structure ? ParameterByte::kUnknown : ParameterByte::kRead, &reads);
    for (const Range& range : named.loaded) {
      if (range.begin < named.parameter.size && is_used(range.into))
        mark(begin + range.begin, std::min(begin + range.begin + range.bytes, end), ParameterByte::kRead, &reads);
    }
  }
  return reads;
}

}  // namespace simulator
