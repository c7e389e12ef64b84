// SPDX-License-Identifier: Apache-2.0
// Loads, stores, addresses. Source: PTX ISA 9.0, 9.7.9.
#include <cstddef>
#include <optional>

#include "simulator/ptx/context.h"
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

constexpr std::uint64_t kReads = std::uint64_t{1} << 28;  // bits of the page table's entries
constexpr std::uint64_t kWrites = std::uint64_t{1} << 29;

// Nothing if the kernel has no parameter of that name.
std::optional<std::size_t> parameter_index(const Function& kernel, std::string_view name) {
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (kernel.parameters[i].name == name) return i;
  }
  return std::nullopt;
}

std::uint64_t place_shared(Shared& shared, const Variable& variable) {
  const auto known = shared.shared_places.find(&variable);
  if (known != shared.shared_places.end()) return known->second;
  Emitted& out = shared.out;
  const std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
  out.shared_bytes = (out.shared_bytes + alignment - 1) / alignment * alignment;
  const std::uint64_t place = out.shared_bytes;
  out.shared_bytes += variable.bytes;
  shared.shared_places[&variable] = place;
  return place;
}

// Known when the kernel starts: dynamic shared memory begins after all static variables.
std::string dynamic_shared(Emitter& to) {
  const std::string all = to.context_field(offsetof(ThreadContext, shared_bytes), 64);
  const std::string dynamic = to.context_field(offsetof(ThreadContext, dynamic_bytes), 64);
  return to.let("sub i64 " + all + ", " + dynamic);
}

std::string slot_address(Emitter& to, const std::string& slot) { return to.let("ptrtoint i8* " + slot + " to i64"); }

Space space_named(std::string_view name) {
  if (name.starts_with("global")) return Space::kGlobal;
  if (name.starts_with("shared")) return Space::kShared;
  if (name.starts_with("const")) return Space::kConst;
  if (name.starts_with("local")) return Space::kLocal;
  if (name.starts_with("param")) return Space::kParam;
  return Space::kGeneric;
}

}  // namespace

Space take_space(Modifiers& modifiers) {
  const std::string_view name =
      modifiers.take_any({"global", "shared", "shared::cta", "const", "local", "param", "param::entry", "param::func"});
  return space_named(name);
}

std::string Emitter::parameter_slot(std::string_view name) const {
  for (std::size_t i = 0; i < function_.results.size(); ++i) {
    if (function_.results[i].name == name) return "%q" + std::to_string(i);
  }
  for (std::size_t i = 0; i < function_.parameters.size(); ++i) {
    if (function_.parameters[i].name == name) return "%p" + std::to_string(i);
  }
  return {};
}

std::string Emitter::shared_base() { return context_field(offsetof(ThreadContext, shared), 64); }

// The address in its own state space, without the operand's addend.
std::string Emitter::address_of_symbol(const Operand& operand, Space* space, std::uint64_t* bytes) {
  if (operand.is_local) {
    const Variable& variable = function_.variables[operand.index];
    *space = variable.space;
    *bytes = variable.bytes;
    if (variable.space == Space::kShared) return std::to_string(place_shared(shared_, variable));
    return slot_address(*this, "%v" + std::to_string(operand.index));
  }
  if (function_.is_entry) {
    if (const auto index = parameter_index(function_, operand.name)) {
      *space = Space::kParam;
      *bytes = function_.parameters[*index].bytes;
      return let("add i64 " + context_field(offsetof(ThreadContext, parameters), 64) + ", " +
                 std::to_string(shared_.parameters[*index].offset));
    }
  } else if (const std::string slot = parameter_slot(operand.name); !slot.empty()) {
    *space = Space::kParam;
    *bytes = 0;
    for (const auto* const list : {&function_.results, &function_.parameters}) {
      for (const Variable& variable : *list) {
        if (variable.name == operand.name) *bytes = variable.bytes;
      }
    }
    return slot_address(*this, slot);
  }
  const auto variable = module_.variable_index.find(operand.name);
  if (variable != module_.variable_index.end()) {
    const Variable& found = module_.variables[variable->second];
    *space = found.space;
    *bytes = found.bytes;
    if (found.space == Space::kShared) {
      if (!found.is_external && found.bytes != 0) return std::to_string(place_shared(shared_, found));
      *bytes = 0;
      return dynamic_shared(*this);
    }
    const auto placed = shared_.addresses.find(operand.name);
    if (placed == shared_.addresses.end()) refuse("variable '" + std::string(operand.name) + "' is not on the device");
    return std::to_string(placed->second);
  }
  const auto function = module_.function_index.find(operand.name);
  if (function == module_.function_index.end()) refuse("'" + std::string(operand.name) + "' is not known");
  *space = Space::kGeneric;
  *bytes = 0;
  return std::to_string(kFunctionPointers + std::uint64_t{16} * function->second);
}

std::string Emitter::pointer(const Instruction& instruction, const Operand& operand, Space space, unsigned bytes,
                             bool writes, const std::string& type) {
  if (operand.form != Operand::Form::kAddress || operand.parts.size() != 1) refuse("expected an address");
  const Operand& base = operand.parts[0];
  std::uint64_t size = 0;
  Space own = Space::kGeneric;
  std::string address;
  bool is_known = false;  // to lie inside the variable
  if (base.form == Operand::Form::kSymbol) {
    address = address_of_symbol(base, &own, &size);
    const auto offset = static_cast<std::int64_t>(operand.value);
    is_known = offset >= 0 && operand.value + bytes <= size && operand.value % bytes == 0;
    if (own == Space::kGeneric) refuse("a function is no memory");
    if (space == Space::kGeneric) space = own;
    if (space != own && !(space == Space::kGlobal && own == Space::kConst) &&
        !(space == Space::kConst && own == Space::kGlobal))
      refuse("the variable is in another space");
  } else if (base.form == Operand::Form::kRegister) {
    const unsigned bits = register_type(base).bits;
    if (bits != 32 && bits != 64) refuse("an address has 32 or 64 bits");
    address = read_bits(base, bits);
    if (bits == 32) address = let("zext i32 " + address + " to i64");
  } else if (base.form == Operand::Form::kInteger) {
    address = std::to_string(base.value);
  } else {
    refuse("expected an address");
  }
  if (operand.value != 0) address = let("add i64 " + address + ", " + std::to_string(operand.value));
  const std::string low = std::to_string(bytes - 1);
  if (space == Space::kParam && !is_known && own == Space::kParam) refuse("outside of the parameter");
  if (!is_known) {
    const std::string where = ", i32 " + std::to_string(site(instruction));
    if (space == Space::kShared) {
      address = let("call i64 @check_shared(i8* %ctx, i64 " + context_field(offsetof(ThreadContext, shared), 64) +
                    ", i64 " + context_field(offsetof(ThreadContext, shared_bytes), 64) + ", i64 " + address +
                    ", i64 " + low + ", i64 " + std::to_string(bytes) + where + ")");
    } else if (space == Space::kLocal) {
      std::string depot = "0";
      std::uint64_t depot_bytes = 0;
      for (std::size_t i = 0; i < function_.variables.size() && depot_bytes == 0; ++i) {
        if (function_.variables[i].space != Space::kLocal) continue;
        depot = slot_address(*this, "%v" + std::to_string(i));
        depot_bytes = function_.variables[i].bytes;
      }
      address = let("call i64 @check_local(i8* %ctx, i64 " + depot + ", i64 " + std::to_string(depot_bytes) + ", i64 " +
                    address + ", i64 " + low + ", i64 " + std::to_string(bytes) + where + ")");
    } else {
      const std::string pages = context_field(offsetof(ThreadContext, pages), 64);
      const std::uint64_t kind =
          bytes | (writes ? 256u : 0u) | (space == Space::kGeneric || space == Space::kParam ? 512u : 0u);
      address = let("call i64 @check_global(i8* %ctx, i64 " + pages + ", i64 " + address + ", i64 " + low + ", i32 " +
                    std::to_string(writes ? kWrites : kReads) + ", i32 " + std::to_string(kind) + where + ")");
    }
  } else if (space == Space::kShared) {
    address = let("add i64 " + context_field(offsetof(ThreadContext, shared), 64) + ", " + address);
  }
  return let("inttoptr i64 " + address + " to " + type + "*");
}

// From an address of the instruction to a generic one.
std::string Emitter::generic_address(const Operand& operand, Space space) {
  if (operand.form != Operand::Form::kAddress || operand.parts.size() != 1) refuse("expected an address");
  const Operand& base = operand.parts[0];
  std::string address;
  if (base.form == Operand::Form::kSymbol) {
    std::uint64_t bytes = 0;
    Space own = Space::kGeneric;
    address = address_of_symbol(base, &own, &bytes);
    if (space == Space::kGeneric) space = own;
  } else {
    const unsigned bits = register_type(base).bits;
    if (bits != 32 && bits != 64) refuse("an address has 32 or 64 bits");
    address = read_bits(base, bits);
    if (bits == 32) address = let("zext i32 " + address + " to i64");
  }
  if (operand.value != 0) address = let("add i64 " + address + ", " + std::to_string(operand.value));
  return space == Space::kShared ? let("add i64 " + address + ", " + shared_base()) : address;
}

namespace {

struct Access {
  Space space = Space::kGeneric;
  bool is_volatile = false;
  unsigned count = 1;
  Type type;
};

// Modifiers for memory order have no effect, because only one thread runs at a time; but the compiler must not cache
// what another thread may change.
Access read_access(Emitter& to, Modifiers& modifiers) {
  Access access;
  const std::string_view order = modifiers.take_any({"volatile", "relaxed", "acquire", "release", "weak", "mmio"});
  access.is_volatile = !order.empty() && order != "weak";
  modifiers.take("relaxed");  // mmio.relaxed
  if (access.is_volatile) {
    modifiers.take_any({"cta", "cluster", "gpu", "sys"});
    to.shared().out.is_ordered = true;
  }
  access.space = take_space(modifiers);
  modifiers.take("nc");
  modifiers.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  for (const std::string_view hint : {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                                      "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B"})
    modifiers.take(hint);
  const std::string_view vector = modifiers.take_any({"v2", "v4", "v8"});
  access.count = vector.empty() ? 1 : static_cast<unsigned>(vector[1] - '0');
  access.type = modifiers.take_type();
  if (access.type.bits < 8) to.refuse("no type of memory");
  return access;
}

// Memory of another thread of the block may change while this one waits in a loop.
std::string how(const Access& access) { return access.is_volatile ? "volatile " : ""; }

std::vector<Operand> elements(Emitter& to, const Operand& operand, unsigned count) {
  if (count == 1 && operand.form != Operand::Form::kVector) return {operand};
  if (operand.form != Operand::Form::kVector || operand.parts.size() != count) to.refuse("a vector of another size");
  return operand.parts;
}

// The type of a value in memory: halves are integers there.
std::string memory_type(Type type) { return type.bits == 16 ? "i16" : llvm_type(type); }

void emit_ld(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Access access = read_access(to, modifiers);
  if (access.is_volatile) to.shared().out.may_wait = true;
  const std::string type = memory_type(access.type);
  const std::string base =
      to.pointer(instruction, instruction.operands[1], access.space, access.type.bytes() * access.count, false, type);
  const std::vector<Operand> into = elements(to, instruction.operands[0], access.count);
  const Type as = access.type.bits == 16 && access.type.is_float() ? Type{Kind::kBits, 16} : access.type;
  std::vector<std::string> values;
  for (unsigned i = 0; i < access.count; ++i) {
    std::string at = base;
    if (i != 0) at = to.let("getelementptr " + type + ", " + type + "* " + base + ", i64 " + std::to_string(i));
    values.push_back(to.let("load " + how(access) + type + ", " + type + "* " + at));
  }
  for (unsigned i = 0; i < access.count; ++i) to.write(into[i], as, values[i], true);
}

void emit_st(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Access access = read_access(to, modifiers);
  if (access.space == Space::kConst) to.refuse("constant memory is not written");
  const std::string type = memory_type(access.type);
  const Type as = access.type.bits == 16 && access.type.is_float() ? Type{Kind::kBits, 16} : access.type;
  std::vector<std::string> values;
  for (const Operand& operand : elements(to, instruction.operands[1], access.count))
    values.push_back(to.read(operand, as, true));
  const std::string base =
      to.pointer(instruction, instruction.operands[0], access.space, access.type.bytes() * access.count, true, type);
  for (unsigned i = 0; i < access.count; ++i) {
    std::string at = base;
    if (i != 0) at = to.let("getelementptr " + type + ", " + type + "* " + base + ", i64 " + std::to_string(i));
    to.line("store " + how(access) + type + " " + values[i] + ", " + type + "* " + at);
  }
}

// Generic addresses are addresses of this process, and so are all others except shared ones.
void emit_cvta(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const bool is_to = modifiers.take("to");
  const Space space = take_space(modifiers);
  const Type type = modifiers.take_type();
  if (space == Space::kGeneric || (type.bits != 64 && type.bits != 32)) to.refuse("the form is not supported");
  std::string value;
  if (instruction.operands[1].form == Operand::Form::kSymbol) {
    Space own = Space::kGeneric;
    std::uint64_t bytes = 0;
    value = to.address_of_symbol(instruction.operands[1], &own, &bytes);
  } else {
    value = to.read_bits(instruction.operands[1], type.bits);
    if (type.bits == 32) value = to.let("zext i32 " + value + " to i64");
  }
  if (space == Space::kShared) {
    const std::string base = to.context_field(offsetof(ThreadContext, shared), 64);
    value = to.let(std::string(is_to ? "sub" : "add") + " i64 " + value + ", " + base);
  }
  if (type.bits == 32) value = to.let("trunc i64 " + value + " to i32");
  to.write(instruction.operands[0], {Kind::kBits, type.bits}, value);
}

void emit_isspacep(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 2, 2);
  const Space space = take_space(modifiers);
  const std::string address = to.read_bits(instruction.operands[1], 64);
  const auto within = [&](const std::string& low, const std::string& bytes) {
    return to.let("icmp ult i64 " + to.let("sub i64 " + address + ", " + low) + ", " + bytes);
  };
  const std::string low = to.context_field(offsetof(ThreadContext, stack_low), 64);
  const std::string high = to.context_field(offsetof(ThreadContext, stack_high), 64);
  const std::string is_local = within(low, to.let("sub i64 " + high + ", " + low));
  const std::string is_shared = within(to.context_field(offsetof(ThreadContext, shared), 64),
                                       to.context_field(offsetof(ThreadContext, shared_bytes), 64));
  std::string result;
  if (space == Space::kLocal) {
    result = is_local;
  } else if (space == Space::kShared) {
    result = is_shared;
  } else if (space == Space::kGlobal) {
    result = to.let("xor i1 " + to.let("or i1 " + is_local + ", " + is_shared) + ", true");
  } else {
    result = "false";
  }
  to.write(instruction.operands[0], {Kind::kPredicate, 1}, result);
}

// Asynchronous copies complete at once.
void emit_cp(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  if (!modifiers.take("async")) to.refuse("the instruction is not supported");
  if (modifiers.take("bulk")) return emit_bulk_copy(to, instruction, modifiers);
  if (modifiers.take("mbarrier")) return emit_copies_arrive(to, instruction, modifiers);
  if (modifiers.take("commit_group") || modifiers.take("wait_all") || modifiers.take("wait_group")) return;
  if (modifiers.take_any({"ca", "cg"}).empty() || modifiers.take_any({"shared", "shared::cta"}).empty() ||
      !modifiers.take("global"))
    to.refuse("the form is not supported");
  for (const std::string_view hint : {"L2::64B", "L2::128B", "L2::256B"}) modifiers.take(hint);
  to.expect_operands(instruction, 3, 4);
  const Operand& size = instruction.operands[2];
  if (size.form != Operand::Form::kInteger || (size.value != 4 && size.value != 8 && size.value != 16))
    to.refuse("copies 4, 8 or 16 bytes");
  const auto bytes = static_cast<unsigned>(size.value);
  const std::string type = integer_type(8 * bytes);
  const std::string into = to.pointer(instruction, instruction.operands[0], Space::kShared, bytes, true, "i8");
  std::string count = std::to_string(bytes);
  if (instruction.operands.size() == 4) count = to.read_bits(instruction.operands[3], 32);
  const std::string from = to.let("bitcast i128* %copied to " + type + "*");
  to.line("store " + type + " 0, " + type + "* " + from);
  const std::string none = to.let("icmp eq i32 " + count + ", 0");
  const std::string copies = to.new_label(), on = to.new_label();
  to.end_with("br i1 " + none + ", label %" + on + ", label %" + copies);
  to.begin(copies);
  const std::string source = to.pointer(instruction, instruction.operands[1], Space::kGlobal, bytes, false, type);
  to.line("store " + type + " " + to.let("load " + type + ", " + type + "* " + source) + ", " + type + "* " + from);
  to.begin(on);
  // Bytes beyond the size of the source are zero.
  const std::string wide = to.let("zext i32 " + count + " to i64");
  const std::string start = to.let("bitcast " + type + "* " + from + " to i8*");
  const std::string behind = to.let("getelementptr i8, i8* " + start + ", i64 " + wide);
  const std::string rest = to.let("sub i64 " + std::to_string(bytes) + ", " + wide);
  const std::string more = to.let("icmp ugt i64 " + wide + ", " + std::to_string(bytes));
  const std::string left = to.let("select i1 " + more + ", i64 0, i64 " + rest);
  to.line("call void @llvm.memset.p0i8.i64(i8* " + behind + ", i8 0, i64 " + left + ", i1 false)");
  const std::string typed = to.let("bitcast i8* " + into + " to " + type + "*");
  to.line("store " + type + " " + to.let("load " + type + ", " + type + "* " + from) + ", " + type + "* " + typed);
}

constexpr Opcode kTable[] = {
    {"ld", emit_ld}, {"ldu", emit_ld}, {"st", emit_st}, {"cvta", emit_cvta}, {"isspacep", emit_isspacep},
    {"cp", emit_cp},
};

}  // namespace

Handler find_memory(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
