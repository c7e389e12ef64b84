// SPDX-License-Identifier: Apache-2.0
// Textures and surfaces: calls of helpers that look up the handle (texture_helpers.cc). Source: PTX ISA 9.0, 9.7.10 and
// 9.7.11.
#include "simulator/ptx/emit.h"
#include "simulator/ptx/texture.h"

namespace simulator::ptx {
namespace {

constexpr Type kWord{Kind::kBits, 32};

struct Named {
  std::string_view name;
  Geometry geometry;
  std::size_t coordinates;
};

constexpr Named kGeometries[] = {
    {"1d", Geometry::k1d, 1},
    {"2d", Geometry::k2d, 2},
    {"3d", Geometry::k3d, 3},
    {"a1d", Geometry::k1dLayered, 2},
    {"a2d", Geometry::k2dLayered, 3},
    {"cube", Geometry::kCube, 3},
    {"acube", Geometry::kCubeLayered, 4},
};

const Named& take_geometry(Emitter& to, Modifiers& modifiers) {
  for (const Named& named : kGeometries) {
    if (modifiers.take(named.name)) return named;
  }
  to.refuse("the geometry is not supported");
}

// `[handle, {coordinates}]`: ", i64 handle, i32 c0, i32 c1, i32 c2, i32 c3".
std::string place_of(Emitter& to, const Operand& operand, const Named& geometry) {
  if (operand.form != Operand::Form::kAddress || operand.parts.size() != 2) to.refuse("expected [handle, coordinates]");
  if (operand.parts[0].form != Operand::Form::kRegister)
    to.refuse("references to textures are not supported; objects are");
  std::vector<Operand> given =
      operand.parts[1].form == Operand::Form::kVector ? operand.parts[1].parts : std::vector<Operand>{operand.parts[1]};
  // Vectors have 1, 2 or 4 elements; those after the coordinates are ignored.
  if (given.size() < geometry.coordinates) to.refuse("another number of coordinates than the geometry has");
  std::string text = ", i64 " + to.read_bits(operand.parts[0], 64);
  for (std::size_t i = 0; i < 4; ++i)
    text += ", i32 " + (i < geometry.coordinates ? to.read_bits(given[i], 32) : std::string("0"));
  return text;
}

std::string begin_call(Emitter& to, const Instruction& instruction) {
  return "i8* %ctx, i32 " + std::to_string(to.site(instruction));
}

void write_four(Emitter& to, const Operand& into) {
  if (into.form != Operand::Form::kVector || into.parts.size() != 4) to.refuse("expected four results");
  const std::string words = to.let("bitcast i128* %copied to i32*");
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string at = to.let("getelementptr i32, i32* " + words + ", i64 " + std::to_string(i));
    to.write(into.parts[i], kWord, to.let("load i32, i32* " + at));
  }
}

void fetch(Emitter& to, const Instruction& instruction, Modifiers& modifiers, const Named& geometry, unsigned gathers) {
  if (!modifiers.take("v4")) to.refuse("the form is not supported");
  const Type into = modifiers.take_type(), by = modifiers.take_type();
  if (into.bits != 32 || into.packed || by.bits != 32 || by.packed) to.refuse("the types are not supported");
  const unsigned how = static_cast<unsigned>(geometry.geometry) | (by.is_float() ? 0u : kIntegerCoordinates) |
                       (into.is_float() ? kFloatResult : 0u) | gathers;
  const std::string place = place_of(to, instruction.operands[1], geometry);
  to.call_void("ptx_texture_fetch", begin_call(to, instruction) + place + ", i32 " + std::to_string(how) + ", i8* " +
                                        to.let("bitcast i128* %copied to i8*"));
  write_four(to, instruction.operands[0]);
}

// Without mipmaps, a level or the gradients that choose one have no effect.
void emit_tex(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view level = modifiers.take_any({"base", "level", "grad"});
  const std::size_t more = level == "level" ? 1 : level == "grad" ? 2 : 0;
  to.expect_operands(instruction, 2 + more, 2 + more);
  fetch(to, instruction, modifiers, take_geometry(to, modifiers), 0);
}

// One channel of the four texels that would be interpolated.
void emit_tld4(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const std::string_view channel = modifiers.take_any({"r", "g", "b", "a"});
  if (channel.empty()) to.refuse("the form is not supported");
  const Named& geometry = take_geometry(to, modifiers);
  if (geometry.geometry != Geometry::k2d) to.refuse("the geometry is not supported");
  to.expect_operands(instruction, 2, 2);
  const unsigned number = channel == "r" ? 0 : channel == "g" ? 1 : channel == "b" ? 2 : 3;
  fetch(to, instruction, modifiers, geometry, kGathers | number * kGatheredChannel);
}

// ---- surfaces: coordinates are in bytes

struct SurfaceAccess {
  unsigned count = 1;
  Type type;
  std::string pointer;  // of the type
};

SurfaceAccess take_surface(Emitter& to, const Instruction& instruction, Modifiers& modifiers, bool writes) {
  if (modifiers.take("p")) to.refuse("formatted access is not supported");
  if (!modifiers.take("b")) to.refuse("the form is not supported");
  to.expect_operands(instruction, 2, 2);
  const Named& geometry = take_geometry(to, modifiers);
  modifiers.take_any({"ca", "cg", "cs", "cv", "wb", "wt"});
  const std::string_view vector = modifiers.take_any({"v2", "v4"});
  SurfaceAccess access;
  access.count = vector.empty() ? 1 : static_cast<unsigned>(vector[1] - '0');
  access.type = modifiers.take_type();
  const unsigned bytes = access.type.bytes() * access.count;
  if (access.type.kind != Kind::kBits || bytes == 0 || bytes > 16) to.refuse("the type is not supported");
  const std::string_view outside = modifiers.take_any({"trap", "clamp", "zero"});
  const unsigned how = static_cast<unsigned>(geometry.geometry) | bytes << 8 | (writes ? kWritesSurface : 0u) |
                       (outside == "clamp"  ? kClampsOutside
                        : outside == "zero" ? kZeroOutside
                                            : 0u);
  const std::string place = place_of(to, instruction.operands[writes ? 0 : 1], geometry);
  const std::string address =
      to.call("i64", "ptx_surface_address", begin_call(to, instruction) + place + ", i32 " + std::to_string(how));
  access.pointer = to.let("inttoptr i64 " + address + " to " + integer_type(access.type.bits) + "*");
  return access;
}

std::string element(Emitter& to, const SurfaceAccess& access, unsigned index) {
  if (index == 0) return access.pointer;
  const std::string type = integer_type(access.type.bits);
  return to.let("getelementptr " + type + ", " + type + "* " + access.pointer + ", i64 " + std::to_string(index));
}

std::vector<Operand> parts_of(Emitter& to, const Operand& operand, unsigned count) {
  const std::vector<Operand> parts =
      operand.form == Operand::Form::kVector ? operand.parts : std::vector<Operand>{operand};
  if (parts.size() != count) to.refuse("a vector of another size");
  return parts;
}

void emit_suld(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const SurfaceAccess access = take_surface(to, instruction, modifiers, false);
  const std::string type = integer_type(access.type.bits);
  const std::vector<Operand> into = parts_of(to, instruction.operands[0], access.count);
  for (unsigned i = 0; i < access.count; ++i)
    to.write(into[i], access.type, to.let("load " + type + ", " + type + "* " + element(to, access, i)), true);
}

void emit_sust(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  const SurfaceAccess access = take_surface(to, instruction, modifiers, true);
  const std::string type = integer_type(access.type.bits);
  const std::vector<Operand> from = parts_of(to, instruction.operands[1], access.count);
  for (unsigned i = 0; i < access.count; ++i) {
    const std::string value = to.read(from[i], access.type, true);
    to.line("store " + type + " " + value + ", " + type + "* " + element(to, access, i));
  }
}

// ---- queries about textures and surfaces

struct Query {
  std::string_view name;
  TextureQuery query;
};

constexpr Query kQueries[] = {
    {"width", TextureQuery::kWidth},
    {"height", TextureQuery::kHeight},
    {"depth", TextureQuery::kDepth},
    {"array_size", TextureQuery::kDepth},
    {"normalized_coords", TextureQuery::kNormalizedCoordinates},
};

void emit_query(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  for (const Query& query : kQueries) {
    if (!modifiers.take(query.name)) continue;
    modifiers.take("b32");
    const Operand& from = instruction.operands[1];
    if (from.form != Operand::Form::kAddress || from.parts.size() != 1 ||
        from.parts[0].form != Operand::Form::kRegister)
      to.refuse("expected [handle]");
    const std::string kind = instruction.opcode == "suq" ? "1" : "0";
    const std::string result =
        to.call("i32", "ptx_texture_query",
                begin_call(to, instruction) + ", i64 " + to.read_bits(from.parts[0], 64) + ", i32 " + kind + ", i32 " +
                    std::to_string(static_cast<unsigned>(query.query)));
    return to.write(instruction.operands[0], kWord, result);
  }
  to.refuse("the query is not supported");
}

constexpr Opcode kTable[] = {
    {"tex", emit_tex},   {"tld4", emit_tld4}, {"suld", emit_suld},
    {"sust", emit_sust}, {"txq", emit_query}, {"suq", emit_query},
};

}  // namespace

Handler find_texture(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
