// SPDX-License-Identifier: Apache-2.0
// Loads, stores, addresses. Source: PTX ISA 9.0, 9.7.9.
#include <algorithm>
#include <cstddef>
#include <optional>

#include "simulator/ptx/context.h"
#include "simulator/ptx/emit.h"

namespace simulator::ptx {
namespace {

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

// Whether it may meet accesses of other kernels to the same bytes at the same time.
bool is_atomic(const Instruction& instruction) { return reads_and_writes(instruction) || has_order(instruction); }

// The flags for BlockRun::access.
std::uint32_t access_kind(const Instruction& instruction, Space space, unsigned bytes, bool writes) {
  const bool is_generic = space == Space::kGeneric || space == Space::kParam;
  return bytes | (writes ? kAccessWrites : 0u) | (is_generic ? kAccessIsGeneric : 0u) |
         (counts_bytes(instruction) ? kAccessIsCounted : 0u) | (reads_and_writes(instruction) ? kAccessIsTwice : 0u) |
         (is_atomic(instruction) ? kAccessIsAtomic : 0u);
}

Space space_named(std::string_view name) {
  if (name.starts_with("global")) return Space::kGlobal;
  if (name == "shared::cluster") return Space::kSharedCluster;
  if (name.starts_with("shared")) return Space::kShared;
  if (name.starts_with("const")) return Space::kConst;
  if (name.starts_with("local")) return Space::kLocal;
  if (name.starts_with("param")) return Space::kParam;
  return Space::kGeneric;
}

}  // namespace

Space take_space(Modifiers& modifiers) {
  const std::string_view name = modifiers.take_any(
      {"global", "shared", "shared::cta", "shared::cluster", "const", "local", "param", "param::entry", "param::func"});
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

std::string Emitter::address_in_cluster(const std::string& address) {
  shared_.out.uses_clusters = true;
  return call("i64", "ptx_address_in_cluster", "i8* %ctx, i64 " + address + ", i32 " + std::to_string(site(*current_)));
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

// Tests the address as a device does, and returns it; in the shared or local space, the place in memory where it lies.
std::string Emitter::checked_address(const Instruction& instruction, const std::string& address, Space space,
                                     unsigned bytes, bool writes) {
  const std::string low = std::to_string(bytes - 1);
  const std::string where = ", i32 " + std::to_string(site(instruction));
  if (space == Space::kShared) {
    return let("call i64 @check_shared(i8* %ctx, i64 " + context_field(offsetof(ThreadContext, shared), 64) + ", i64 " +
               context_field(offsetof(ThreadContext, shared_bytes), 64) + ", i64 " + address + ", i64 " + low +
               ", i64 " + std::to_string(bytes) + where + ")");
  }
  if (space == Space::kLocal) {
    std::string depot = "0";
    std::uint64_t depot_bytes = 0;
    for (std::size_t i = 0; i < function_.variables.size() && depot_bytes == 0; ++i) {
      if (function_.variables[i].space != Space::kLocal) continue;
      depot = slot_address(*this, "%v" + std::to_string(i));
      depot_bytes = function_.variables[i].bytes;
    }
    return let("call i64 @check_local(i8* %ctx, i64 " + depot + ", i64 " + std::to_string(depot_bytes) + ", i64 " +
               address + ", i64 " + low + ", i64 " + std::to_string(bytes) + where + ")");
  }
  const std::string pages = context_field(offsetof(ThreadContext, pages), 64);
  const std::uint32_t kind = access_kind(instruction, space, bytes, writes);
  return let("call i64 @check_global(i8* %ctx, i64 " + pages + ", i64 " + address + ", i64 " + low + ", i32 " +
             std::to_string(writes ? kMayWrite : kMayRead) + ", i32 " + std::to_string(kind) + where + ")");
}

// Tests the addresses of all members. If one is not known to be allowed, each is looked at as if it were alone.
void Emitter::check_span(const Span& span, const std::string& base) {
  std::uint32_t rights = 0;
  const std::size_t first_site = shared_.out.sites.size();
  for (const SpanMember& member : span.members) {
    const Instruction& of = function_.code[member.instruction];
    rights |= member.writes ? kMayWrite : kMayRead;
    Site& of_member = shared_.out.sites[site(of)];
    of_member.offset = member.offset;
    of_member.access = access_kind(of, member.space, member.bytes, member.writes);
  }
  const std::string low = let("add i64 " + base + ", " + std::to_string(span.low));
  const std::string last = let("add i64 " + base + ", " + std::to_string(span.high - 1));
  line("call void @check_span(i8* %ctx, i64 " + context_field(offsetof(ThreadContext, pages), 64) + ", i64 " + low +
       ", i64 " + last + ", i64 " + std::to_string(span.alignment - 1) + ", i32 " + std::to_string(rights) + ", i64 " +
       base + ", i32 " + std::to_string(first_site) + ", i32 " + std::to_string(span.members.size()) + ")");
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
    // A variable is the block's own.
    if (space == Space::kSharedCluster && own == Space::kShared) space = own;
    if (space == Space::kGeneric) space = own;
    if (space != own && !(space == Space::kGlobal && own == Space::kConst) &&
        !(space == Space::kConst && own == Space::kGlobal))
      refuse("the variable is in another space");
  } else if (base.form == Operand::Form::kRegister) {
    const unsigned bits = register_type(base).bits;
    if (bits != 32 && bits != 64) refuse("an address has 32 or 64 bits");
    address = read_bits(base, bits);
    if (bits == 32) address = let("zext i32 " + address + " to i64");
    is_known = is_in_span_.contains(at_);
    if (const auto span = spans_.find(at_); span != spans_.end()) check_span(span->second, address);
  } else if (base.form == Operand::Form::kInteger) {
    address = std::to_string(base.value);
  } else {
    refuse("expected an address");
  }
  if (operand.value != 0) address = let("add i64 " + address + ", " + std::to_string(operand.value));
  if (space == Space::kSharedCluster) {
    address = address_in_cluster(address);
    space = Space::kGeneric;
  }
  if (space == Space::kParam && !is_known && own == Space::kParam) refuse("outside of the parameter");
  // Every access to a variable's page has to be recorded.
  if (base.form == Operand::Form::kSymbol && (space == Space::kGlobal || space == Space::kConst)) is_known = false;
  if (!is_known) {
    address = checked_address(instruction, address, space, bytes, writes);
  } else if (space == Space::kShared) {
    address = let("add i64 " + context_field(offsetof(ThreadContext, shared), 64) + ", " + address);
  }
  return let("inttoptr i64 " + address + " to " + type + "*");
}

// Converts an address of the instruction to a generic one.
std::string Emitter::generic_address(const Operand& operand, Space space) {
  if (operand.form != Operand::Form::kAddress || operand.parts.size() != 1) refuse("expected an address");
  const Operand& base = operand.parts[0];
  std::string address;
  if (base.form == Operand::Form::kSymbol) {
    std::uint64_t bytes = 0;
    Space own = Space::kGeneric;
    address = address_of_symbol(base, &own, &bytes);
    if (space == Space::kGeneric || (space == Space::kSharedCluster && own == Space::kShared)) space = own;
  } else {
    const unsigned bits = register_type(base).bits;
    if (bits != 32 && bits != 64) refuse("an address has 32 or 64 bits");
    address = read_bits(base, bits);
    if (bits == 32) address = let("zext i32 " + address + " to i64");
  }
  if (operand.value != 0) address = let("add i64 " + address + ", " + std::to_string(operand.value));
  if (space == Space::kSharedCluster) return address_in_cluster(address);
  return space == Space::kShared ? let("add i64 " + address + ", " + shared_base()) : address;
}

namespace {

struct Access {
  Space space = Space::kGeneric;
  bool is_volatile = false;
  bool has_policy = false;  // a last operand, of a cache
  unsigned count = 1;
  Type type;

  std::size_t operands() const { return has_policy ? 3 : 2; }
};

// Modifiers for memory order have no other effect than that all blocks run on one core, one thread at a time; but the
// compiler must not cache what another thread may change.
Access read_access(Emitter& to, Modifiers& modifiers) {
  Access access;
  const std::string_view order = modifiers.take_any({"volatile", "relaxed", "acquire", "release", "weak", "mmio"});
  access.is_volatile = !order.empty() && order != "weak";
  modifiers.take("relaxed");  // mmio.relaxed
  if (access.is_volatile) {
    modifiers.take_any({"cta", "cluster", "gpu", "sys"});
  }
  access.space = take_space(modifiers);
  if (access.is_volatile && access.space != Space::kShared) to.shared().out.is_ordered = true;
  modifiers.take("nc");
  modifiers.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  for (const std::string_view hint :
       {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
        "L2::evict_normal", "L2::evict_first", "L2::evict_last", "L2::64B", "L2::128B", "L2::256B"})
    modifiers.take(hint);
  access.has_policy = modifiers.take("L2::cache_hint");
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
  const Access access = read_access(to, modifiers);
  to.expect_operands(instruction, access.operands(), access.operands());
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
  const Access access = read_access(to, modifiers);
  to.expect_operands(instruction, access.operands(), access.operands());
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
  if (space == Space::kSharedCluster) {
    to.shared().out.uses_clusters = true;
    value = is_to ? to.call("i64", "ptx_offset_in_cluster", "i8* %ctx, i64 " + value) : to.address_in_cluster(value);
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
  } else if (space == Space::kSharedCluster) {
    to.shared().out.uses_clusters = true;
    result = to.let("icmp ne i64 " + to.call("i64", "ptx_offset_in_cluster", "i8* %ctx, i64 " + address) + ", -1");
  } else if (space == Space::kGlobal) {
    result = to.let("xor i1 " + to.let("or i1 " + is_local + ", " + is_shared) + ", true");
  } else {
    result = "false";
  }
  to.write(instruction.operands[0], {Kind::kPredicate, 1}, result);
}

// The operand is the number of bytes, or a predicate: true means that the source is not read.
std::string bytes_to_copy(Emitter& to, const Operand& operand, const std::string& all) {
  if (operand.form != Operand::Form::kRegister || to.register_type(operand).bits != 1) return to.read_bits(operand, 32);
  return to.let("select i1 " + to.read(operand, {Kind::kPredicate, 1}) + ", i32 0, i32 " + all);
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
  const std::size_t policies = modifiers.take("L2::cache_hint") ? 1 : 0;
  for (const std::string_view hint : {"L2::64B", "L2::128B", "L2::256B"}) modifiers.take(hint);
  to.expect_operands(instruction, 3 + policies, 4 + policies);
  const Operand& size = instruction.operands[2];
  if (size.form != Operand::Form::kInteger || (size.value != 4 && size.value != 8 && size.value != 16))
    to.refuse("copies 4, 8 or 16 bytes");
  const auto bytes = static_cast<unsigned>(size.value);
  const std::string type = integer_type(8 * bytes);
  const std::string into = to.pointer(instruction, instruction.operands[0], Space::kShared, bytes, true, "i8");
  const std::string typed = to.let("bitcast i8* " + into + " to " + type + "*");
  const auto copy_all = [&] {
    const std::string from = to.pointer(instruction, instruction.operands[1], Space::kGlobal, bytes, false, type);
    to.line("store " + type + " " + to.let("load " + type + ", " + type + "* " + from) + ", " + type + "* " + typed);
  };
  if (instruction.operands.size() == 3 + policies) return copy_all();
  const std::string count = bytes_to_copy(to, instruction.operands[3], std::to_string(bytes));
  const std::string is_less = to.let("icmp ult i32 " + count + ", " + std::to_string(bytes));
  const std::string less = to.new_label(), all = to.new_label(), on = to.new_label();
  to.end_with("br i1 " + is_less + ", label %" + less + ", label %" + all);
  to.begin(less);
  to.call_void("ptx_copy_part", "i8* %ctx, i32 " + std::to_string(to.site(instruction)) + ", i8* " + into + ", i64 " +
                                    to.generic_address(instruction.operands[1], Space::kGlobal) + ", i32 " +
                                    std::to_string(bytes) + ", i32 " + count);
  to.end_with("br label %" + on);
  to.begin(all);
  copy_all();
  to.begin(on);
}

// A cache policy is a number that only hints use; the simulated device has no cache.
void emit_createpolicy(Emitter& to, const Instruction& instruction, Modifiers& modifiers) {
  to.expect_operands(instruction, 1, 4);
  while (!modifiers.take_first().empty()) {
  }
  to.write(instruction.operands[0], {Kind::kBits, 64}, "0");
}

constexpr Opcode kTable[] = {
    {"ld", emit_ld},
    {"ldu", emit_ld},
    {"st", emit_st},
    {"cvta", emit_cvta},
    {"isspacep", emit_isspacep},
    {"cp", emit_cp},
    {"createpolicy", emit_createpolicy},
};

}  // namespace

Handler find_memory(std::string_view opcode) { return find_in(kTable, opcode); }

}  // namespace simulator::ptx
