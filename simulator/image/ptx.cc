// SPDX-License-Identifier: Apache-2.0
#include "simulator/image/ptx.h"

#include "simulator/image/ptx_declaration.h"
#include "simulator/image/ptx_lexer.h"
#include "simulator/image/ptx_loads.h"

#include <charconv>
#include <map>
#include <set>

namespace simulator {
namespace {

class Reader {
 public:
  Reader(std::string_view text, Image* out) : lexer_(text), out_(out) {}

  ImageResult read() {
    while (lexer_.peek().kind != PtxToken::Kind::kEnd) {
      if (!read_statement())
        return {ImageError::kBadText, "PTX, line " + std::to_string(lexer_.line()) + ": " + reason_};
    }
    return {};
  }

 private:
  bool fail(const char* reason) {
    reason_ = reason;
    return false;
  }

  bool read_statement() {
    external_ = false;
    weak_ = false;
    while (lexer_.peek().is(".visible") || lexer_.peek().is(".weak") || lexer_.peek().is(".common") ||
           lexer_.peek().is(".extern")) {
      const PtxToken linkage = lexer_.next();
      external_ = external_ || linkage.is(".extern");
      weak_ = weak_ || linkage.is(".weak") || linkage.is(".common");
    }
    if (lexer_.accept(".entry")) return read_entry();
    if (lexer_.accept(".target")) return read_target();
    if (lexer_.accept(".global")) return read_variables(false);
    if (lexer_.accept(".const")) return read_variables(true);
    if (lexer_.peek().is(".func")) return skip_function();
    if (lexer_.peek().is(".section")) return skip_function();
    return skip_statement();
  }

  // `sm_90`, `sm_90a`; texturing modes and other options may follow.
  bool read_target() {
    const std::string_view name = lexer_.peek().text;
    if (name.starts_with("sm_"))
      static_cast<void>(std::from_chars(name.data() + 3, name.data() + name.size(), out_->architecture));
    return true;
  }

  // Skips everything up to the body or the semicolon, and the body.
  bool skip_function() {
    if (lexer_.accept(".func")) read_function_name();
    while (lexer_.peek().kind != PtxToken::Kind::kEnd) {
      if (lexer_.accept(";")) return true;
      if (lexer_.peek().is("{")) return skip_body(nullptr);
      lexer_.next();
    }
    return fail("the text ends inside a declaration");
  }

  // The name after the declaration of the result.
  void read_function_name() {
    if (lexer_.peek().is("(")) {
      while (lexer_.peek().kind != PtxToken::Kind::kEnd && !lexer_.next().is(")")) {
      }
    }
    if (lexer_.peek().kind == PtxToken::Kind::kWord) mention(std::string(lexer_.peek().text));
  }

  void mention(const std::string& name) {
    if (mentioned_.insert(name).second) out_->functions.push_back(name);
  }

  // Directives such as .version and .file have no terminator. Skipping one token at a time is enough, because none of
  // their operands looks like the beginning of a declaration.
  bool skip_statement() {
    if (lexer_.peek().is("{")) return skip_body(nullptr);
    lexer_.next();
    return true;
  }

  bool skip_body(ImageKernel* kernel) {
    unsigned depth = 0;
    while (lexer_.peek().kind != PtxToken::Kind::kEnd) {
      const PtxToken token = lexer_.next();
      if (token.is("{")) {
        ++depth;
      } else if (token.is("}")) {
        if (--depth == 0) return true;
      } else if (kernel != nullptr && token.kind == PtxToken::Kind::kWord) {
        loads_.read_word(token, lexer_);
      } else if (kernel != nullptr && token.is(".shared") && lexer_.peek().kind == PtxToken::Kind::kDirective) {
        // The same word in an instruction (ld.shared.u32) follows another directive or word and begins no declaration.
        // The two are distinguished by what a declaration needs: a name and a semicolon.
        PtxDeclaration shared;
        if (read_ptx_declaration(lexer_, &shared) && lexer_.peek().is(";") && shared.bytes <= UINT32_MAX) {
          kernel->shared_bytes += static_cast<std::uint32_t>(shared.bytes);
        }
      }
    }
    return fail("the text ends inside a body");
  }

  bool read_entry() {
    ImageKernel kernel;
    loads_ = {};
    if (lexer_.peek().kind != PtxToken::Kind::kWord) return fail("a kernel without a name");
    kernel.name = lexer_.next().text;
    mention(kernel.name);
    if (lexer_.accept("(") && !read_parameters(&kernel)) return false;
    while (!lexer_.peek().is("{") && !lexer_.peek().is(";")) {
      const PtxToken token = lexer_.next();
      if (token.kind == PtxToken::Kind::kEnd) return fail("the text ends inside a kernel");
      if (token.is(".maxntid") || token.is(".reqntid")) kernel.max_threads = read_product();
    }
    if (lexer_.accept(";")) return true;  // only declared here
    if (!skip_body(&kernel)) return false;
    kernel.reads = loads_.finish(kernel);
    kernel.architecture = out_->architecture;
    if (kernels_.insert(kernel.name).second) out_->kernels.push_back(std::move(kernel));
    return true;
  }

  std::uint32_t read_product() {
    std::uint64_t product = 1;
    for (std::uint64_t n = 0; read_ptx_integer(lexer_.peek(), &n);) {
      if (product <= UINT32_MAX && n <= UINT32_MAX) product *= n;
      lexer_.next();
      if (!lexer_.accept(",")) break;
    }
    return static_cast<std::uint32_t>(product > 1024 ? 1024 : product);
  }

  bool read_parameters(ImageKernel* kernel) {
    if (lexer_.accept(")")) return true;
    do {
      PtxDeclaration parameter;
      if (!lexer_.accept(".param") || !read_ptx_declaration(lexer_, &parameter))
        return fail("a parameter that is not understood");
      const std::uint64_t offset =
          (kernel->parameter_bytes + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
      const std::uint64_t end = offset + parameter.bytes;
      if (parameter.bytes > kPtxLargestParameters || end > kPtxLargestParameters)
        return fail("more parameters than a kernel can have");
      kernel->parameters.push_back({.offset = static_cast<std::uint32_t>(offset),
                                    .size = static_cast<std::uint32_t>(parameter.bytes),
                                    .alignment = static_cast<std::uint32_t>(parameter.alignment)});
      kernel->parameter_bytes = static_cast<std::uint32_t>(end);
      loads_.add(kernel->parameters.back(), std::move(parameter.name), parameter.array);
    } while (lexer_.accept(","));
    return lexer_.accept(")") || fail("a parameter that is not understood");
  }

  bool read_variables(bool constant) {
    PtxDeclaration declaration;
    if (!read_ptx_declaration(lexer_, &declaration)) return fail("a variable that is not understood");
    for (;;) {
      ImageVariable variable;
      variable.name = declaration.name;
      variable.bytes = declaration.bytes;
      variable.alignment = declaration.alignment;
      variable.constant = constant;
      variable.managed = declaration.managed;
      if (lexer_.accept("=") && !read_ptx_initializer(lexer_, declaration, &variable))
        return fail("an initializer that is not understood");
      if (declaration.unsized) variable.bytes = variable.contents.size();
      if (!external_) define(std::move(variable));
      if (lexer_.accept(";")) return true;
      if (!lexer_.accept(",") || !read_ptx_declarator(lexer_, &declaration))
        return fail("a variable that is not understood");
    }
  }

  // Linked files may define the same, all but one of them weakly.
  void define(ImageVariable variable) {
    const auto [at, is_new] = variables_.emplace(variable.name, out_->variables.size());
    if (is_new) {
      out_->variables.push_back(std::move(variable));
    } else if (!weak_) {
      out_->variables[at->second] = std::move(variable);
    }
  }

  PtxLexer lexer_;
  Image* out_;
  std::set<std::string> kernels_;
  std::map<std::string, std::size_t> variables_;  // numbers in the image
  PtxLoads loads_;
  std::set<std::string> mentioned_;
  bool external_ = false;
  bool weak_ = false;
  const char* reason_ = "";
};

}  // namespace

bool is_ptx(std::string_view text) {
  PtxLexer lexer(text);
  return lexer.peek().is(".version");
}

ImageResult read_ptx(std::string_view text, Image* out) {
  out->is_ptx = true;
  const ImageResult result = Reader(text, out).read();
  if (result.ok()) out->text = std::make_shared<const std::string>(text);
  return result;
}

}  // namespace simulator
