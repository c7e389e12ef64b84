// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/ptx_proof.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include "hooks/relaunch/register_states.h"
#include "hooks/relaunch/value_ranges.h"

namespace thermocline {
namespace {

using Kind = PtxOperand::Kind;
using Value = Symbolic::Value;
using Why = RerunRefusal::Why;

constexpr std::array<std::string_view, 45> kPure = {
    "add", "sub",  "mul",   "mad",  "mad24", "mul24",    "div",   "rem",  "abs",  "neg",  "min",  "max",
    "fma", "sqrt", "rsqrt", "rcp",  "sin",   "cos",      "lg2",   "ex2",  "tanh", "and",  "or",   "xor",
    "not", "shl",  "shr",   "shf",  "bfe",   "bfi",      "bfind", "brev", "clz",  "popc", "lop3", "prmt",
    "cvt", "mov",  "selp",  "setp", "cvta",  "copysign", "set",   "slct", "testp"};
// Modifiers of loads and stores; every other one (volatile, relaxed, mmio) is refused.
constexpr std::array<std::string_view, 12> kPlain = {"global", "shared", "shared::cta", "nc", "ca",       "cg",
                                                     "cs",     "wb",     "v2",          "v4", "L2::128B", "L2::64B"};

template <class Number>
std::size_t index_of(Number number) {
  return static_cast<std::size_t>(number);
}
template <class List>
bool is_in(const List& list, std::string_view one) {
  return std::ranges::find(list, one) != list.end();
}

unsigned bytes_of(const PtxInstruction& one, const PtxOperand& what) {
  const auto count = what.kind == Kind::kVector ? static_cast<unsigned>(what.parts.size()) : 1;
  return ptx_type_bytes(one.type()) * count;
}
bool is_shared(const PtxInstruction& one) {
  return std::ranges::any_of(one.modifiers, [](std::string_view part) { return part.starts_with("shared"); });
}
// Barriers of all threads of the block, and shuffles: the exchanges that are supported.
bool is_followed_exchange(const PtxInstruction& one) {
  if (one.root == "bar") {
    return one.modifiers.size() == 1 && one.has("sync") && one.operands.size() == 1 &&
           one.operands[0].kind == Kind::kInteger && one.operands[0].value == 0;
  }
  return one.root == "shfl" && one.has("sync") && (one.operands.size() == 5 || one.operands.size() == 6);
}
bool is_plain(const PtxInstruction& one) {
  return std::ranges::all_of(
      one.modifiers, [](std::string_view modifier) { return is_in(kPlain, modifier) || ptx_type_bytes(modifier) > 0; });
}

}  // namespace

PtxProof::PtxProof(const PtxKernel& kernel, const PtxAccesses& accesses)
    : kernel_(kernel),
      accesses_(accesses),
      blocks_(kernel),
      symbolic_(kernel, accesses, blocks_),
      guards_(kernel, symbolic_),
      facts_(kernel.instructions.size()) {
  refused_ = accesses.unknown;
  if (kernel.instructions.empty()) refuse(Why::kStoresNothing);
  if (!refused_) check_instructions();
  if (!refused_) check_registers();
  if (!refused_) find_stores();
  if (!refused_) check_tiles();
  if (!refused_) find_guards();
  if (!refused_) check_loads();
  if (!refused_) check_paths();
  if (!refused_ && std::ranges::any_of(kernel.instructions, exchanges_values))
    runs_ = std::make_unique<BlockRuns>(kernel_, blocks_);
}

bool PtxProof::check_instruction(const PtxInstruction& one) {
  if (one.root == "atom" || one.root == "red") return refuse(Why::kAtomics, one.root), false;
  if (one.has("local") || (is_shared(one) && one.root != "ld" && one.root != "st"))
    return refuse(Why::kSharedOrLocal), false;
  if (is_followed_exchange(one)) return true;
  if (one.root == "bar" || one.root == "barrier" || one.root == "shfl" || one.root == "vote" || one.root == "match" ||
      one.root == "redux" || one.root == "activemask" || one.root == "mma")
    return refuse(Why::kThreadsExchange, one.root), false;
  if (one.root == "ld" || one.root == "st") {
    if (one.has("volatile") || one.has("relaxed") || one.has("acquire") || one.has("release"))
      return refuse(Why::kVolatile), false;
    if (one.has("const")) return refuse(Why::kVariables), false;
    if (!one.has("param") && !is_plain(one)) return refuse(Why::kOtherInstruction, one.root), false;
    return true;
  }
  if (one.root == "ret" || one.root == "exit") return true;
  if (one.root == "bra") return one.target >= 0;
  if (!is_in(kPure, one.root)) return refuse(Why::kOtherInstruction, one.root), false;
  // Instructions with two predicates at once, or with a carry.
  if (one.has("cc") || (one.root == "setp" && one.operands.size() != 3))
    return refuse(Why::kOtherInstruction, one.root), false;
  return true;
}

void PtxProof::check_instructions() {
  const auto check = [this](const PtxOperand& operand) {
    if (operand.kind == Kind::kSpecial && axis_of(operand.text) < 0 && !is_uniform_special(operand.text)) {
      const bool is_clock = operand.text.starts_with("%clock") || operand.text.starts_with("%globaltimer");
      refuse(is_clock ? Why::kClock : Why::kSpecialRegister, operand.text);
    }
  };
  // The address of on-chip memory is taken before it is accessed, as that of a variable is.
  const bool is_on_chip = !kernel_.local.empty() || std::ranges::any_of(kernel_.instructions, exchanges_values);
  // Several names of dynamic shared memory mean the same memory.
  if (std::ranges::count(kernel_.shared_bytes, 0u) > 0 ||
      std::ranges::count(kernel_.shared_bytes, PtxKernel::kOfTheLaunch) > 1)
    return refuse(Why::kSharedOrLocal);
  for (std::size_t i = 0; i < kernel_.instructions.size(); ++i) {
    const PtxInstruction& one = kernel_.instructions[i];
    if (!check_instruction(one)) return refuse(Why::kOtherInstruction, one.root);
    for (const PtxOperand& operand : one.operands) {
      check(operand);
      for (const PtxOperand& part : operand.parts) check(part);
      if (is_in(kernel_.shared, operand.text)) continue;
      const bool is_name = operand.kind == Kind::kOther && one.root != "bra" && !operand.text.empty() &&
                           (operand.text.front() < '0' || operand.text.front() > '9');
      const bool is_variable = operand.kind == Kind::kAddress && operand.reg < 0 && !one.has("param");
      if (is_name || is_variable) return refuse(is_on_chip ? Why::kSharedOrLocal : Why::kVariables);
    }
    if (const std::uint64_t through = accesses_.through[i]; (through & (through - 1)) != 0)
      return refuse(Why::kSeveralParameters);
  }
}

// On every path a register is written before it is read: an undefined one may hold anything.
void PtxProof::check_registers() {
  const RegisterStates states(kernel_, symbolic_, blocks_);
  states.for_each([this](std::size_t index, const RegisterState& state) {
    const PtxInstruction& one = kernel_.instructions[index];
    for_each_read(one, [&](int reg) {
      if (!state.is_written[index_of(reg)]) refuse(Why::kUnwrittenRegister);
    });
    const auto is_current = [&](int reg) { return reg < 0 || state.is_current[index_of(reg)]; };
    Facts& facts = facts_[index];
    facts.is_reached = true;
    facts.reads_current = is_current(one.guard);
    if (one.root == "st") facts.reads_current = facts.reads_current && is_current(one.operands[0].reg);
    if (one.root == "ld") facts.reads_current = facts.reads_current && is_current(one.operands[1].reg);
    facts.fresh = state.fresh;
  });
}

// Stores to one parameter are at constant distances from one another.
Why PtxProof::add_store(std::size_t instruction) {
  const PtxInstruction& one = kernel_.instructions[instruction];
  const Value at = symbolic_.of(one.operands[0]);
  Store store;
  store.instruction = instruction;
  store.bytes = bytes_of(one, one.operands[1]);
  if (!at.is_known || at.word < 0 || !facts_[instruction].reads_current || store.bytes == 0) return Why::kScatters;
  std::vector<LinearForm> widened;
  widened.reserve(at.widened.size());
  for (const int index : at.widened) widened.push_back(symbolic_.widened()[index_of(index)]);
  const auto places = std::ranges::find(places_, at.word, &StoredPlaces::word);
  store.of = static_cast<std::size_t>(places - places_.begin());
  if (places == places_.end()) {
    const std::uint64_t loops = at.form.axes() >> kLoopAxis;
    if (std::popcount(loops) > 1) return Why::kUnlikePlaces;
    places_.push_back({.word = at.word,
                       .loop = loops == 0 ? -1 : std::countr_zero(loops),
                       .begin = at.form,
                       .bytes = 0,
                       .widened = std::move(widened),
                       .guards = {}});
  } else {
    LinearForm distance = at.form;
    distance.add(places->begin, -1);
    if (!distance.is_number()) return Why::kUnlikePlaces;
    store.offset = distance.number();
    places->widened.insert(places->widened.end(), widened.begin(), widened.end());
  }
  stores_.push_back(store);
  return Why::kNone;
}

void PtxProof::find_stores() {
  constexpr std::size_t kMostSlots = 64;
  for (std::size_t i = 0; i < kernel_.instructions.size(); ++i) {
    if (kernel_.instructions[i].root != "st" || !facts_[i].is_reached || is_shared(kernel_.instructions[i])) continue;
    if (const Why why = add_store(i); why != Why::kNone) return refuse(why);
  }
  if (stores_.empty()) return refuse(Why::kStoresNothing);
  std::size_t slots = 0;
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    const auto same =
        std::find_if(stores_.begin(), stores_.begin() + static_cast<std::ptrdiff_t>(i), [&](const Store& one) {
          return one.of == stores_[i].of && one.offset == stores_[i].offset && one.bytes == stores_[i].bytes;
        });
    if (slots == kMostSlots) return refuse(Why::kTooManyParameters);
    stores_[i].slot =
        same - stores_.begin() < static_cast<std::ptrdiff_t>(i) ? same->slot : std::uint64_t{1} << slots++;
  }
}

// The places that a thread stores to a parameter at once adjoin, and the next thread's place may adjoin them.
void PtxProof::check_tiles() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    std::vector<Store> tile;
    std::ranges::copy_if(stores_, std::back_inserter(tile), [i](const Store& store) { return store.of == i; });
    std::ranges::sort(tile, {}, &Store::offset);
    const std::int64_t begin = tile[0].offset;
    std::int64_t end = begin;
    for (const Store& store : tile) {
      if (store.offset > end) return refuse(Why::kLeavesPlacesOut);
      end = std::max(end, store.offset + store.bytes);
    }
    StoredPlaces& places = places_[i];
    places.bytes = end - begin;
    places.begin.add(LinearForm::of_number(begin));
    for (Store& store : stores_) store.offset -= store.of == i ? begin : 0;
    std::int64_t common = 0;
    if (places.begin.axes() == 0) return refuse(Why::kOnePlace);
    bool is_elsewhere = false, goes_down = false;
    for (const LinearForm::Term& term : places.begin.terms) {
      if (term.axis != kNoAxis) common = std::gcd(common, term.number);
      goes_down |= term.axis != kNoAxis && term.number < 0;
      is_elsewhere |= term.axis == kNoAxis && term.factors.empty();
    }
    // If places go downwards, the launch tells where the last one is.
    if ((is_elsewhere && !goes_down) || common == 0 || places.bytes % common != 0) return refuse(Why::kLeavesPlacesOut);
  }
}

const PtxGuards::Set* PtxProof::fails(std::size_t instruction, bool is_taken) const {
  const PtxInstruction& one = kernel_.instructions[instruction];
  if (one.guard < 0 || !facts_[instruction].reads_current) return nullptr;
  const PtxGuards::Meaning* const meaning = guards_.meaning_of(one.guard);
  return meaning == nullptr ? nullptr : &meaning->fails[is_taken != one.guard_is_negated ? 1 : 0];
}

void PtxProof::learn(std::size_t instruction, bool is_taken, PtxGuards::Set* holds) const {
  const PtxInstruction& one = kernel_.instructions[instruction];
  if (one.guard < 0 || !facts_[instruction].reads_current) return;
  const PtxGuards::Meaning* const meaning = guards_.meaning_of(one.guard);
  if (meaning != nullptr) *holds |= meaning->holds[is_taken != one.guard_is_negated ? 1 : 0];
  guards_.complete(holds);
}

void PtxProof::learn_from_begin(std::uint64_t fresh, PtxGuards::Set* holds) const {
  for (int loop = 0; loop < symbolic_.loops(); ++loop) {
    if ((fresh >> loop & 1) != 0) guards_.add_at_begin(loop, holds);
  }
}

void PtxProof::find_guards() {
  struct Holding {
    PtxGuards::Set guards;
    bool meet(const Holding& other) {
      const PtxGuards::Set before = guards;
      guards &= other.guards;
      return guards != before;
    }
  };
  const auto step = [this](std::size_t i, Holding* holding) {
    facts_[i].holds = holding->guards | guards_.always();
    if (symbolic_.comes_around(i)) holding->guards &= ~guards_.of_loop(symbolic_.adds_to(i)->loop);
    if (const Symbolic::Counter* const counter = symbolic_.starts(i); counter != nullptr) {
      const std::uint64_t loop = std::uint64_t{1} << counter->loop;
      if ((facts_[i].fresh & loop) == 0) holding->guards &= ~guards_.of_loop(counter->loop);
      learn_from_begin(loop, &holding->guards);
    }
  };
  // When a block is visited for the last time, `holding` is what holds on all paths to it.
  holds_on_all_paths(kernel_, blocks_, Holding{}, step, [this](std::size_t i, bool is_taken, Holding* holding) {
    learn(i, is_taken, &holding->guards);
    learn_from_begin(facts_[i].fresh, &holding->guards);
  });
  for (StoredPlaces& places : places_) places.guards.set();
  for (const Store& store : stores_) {
    PtxGuards::Set holds = facts_[store.instruction].holds;
    learn(store.instruction, true, &holds);
    places_[store.of].guards &= holds;
  }
  for (StoredPlaces& places : places_) restrict_guards(&places);
}

void PtxProof::restrict_guards(StoredPlaces* places) const {
  for (int loop = 0; loop < 64 - kLoopAxis; ++loop) {
    if (loop != places->loop) places->guards &= ~guards_.of_loop(loop);
  }
  guards_.leave_out_what_follows(&places->guards);
}

// Checks that a thread loads, from memory that the kernel stores to, only what it has stored in the same iteration.
void PtxProof::check_loads() {
  for (std::size_t i = 0; i < kernel_.instructions.size(); ++i) {
    const PtxInstruction& one = kernel_.instructions[i];
    if (one.root != "ld" || !facts_[i].is_reached || one.has("param") || is_shared(one)) continue;
    // For example loads from shared memory by a generic address: their results are not tracked.
    if (accesses_.through[i] == 0) return refuse(Why::kSharedOrLocal);
    const auto is_stored_to = [&](const StoredPlaces& places) {
      return (accesses_.through[i] >> places.word & 1) != 0;
    };
    const auto places = std::ranges::find_if(places_, is_stored_to);
    places != places_.end() ? check_load(i, &*places) : note_load(i);
  }
}

void PtxProof::check_load(std::size_t instruction, StoredPlaces* of) {
  const PtxInstruction& one = kernel_.instructions[instruction];
  const Value at = symbolic_.of(one.operands[1]);
  LinearForm distance = at.form;
  distance.add(of->begin, -1);
  PtxGuards::Set holds = facts_[instruction].holds;
  learn(instruction, true, &holds);
  const bool is_own = at.is_known && at.word == of->word && facts_[instruction].reads_current && distance.is_number() &&
                      distance.number() >= 0 && distance.number() + bytes_of(one, one.operands[0]) <= of->bytes &&
                      (of->guards & ~holds).none();
  if (!is_own) return refuse(Why::kReadsOthers);
  for (const int index : at.widened) of->widened.push_back(symbolic_.widened()[index_of(index)]);
}

void PtxProof::note_load(std::size_t instruction) {
  const PtxInstruction& one = kernel_.instructions[instruction];
  const Value at = symbolic_.of(one.operands[1]);
  const std::uint64_t loops = at.form.axes() >> kLoopAxis;
  if (!at.is_known || at.word < 0 || !facts_[instruction].reads_current || std::popcount(loops) > 1) {
    loads_anywhere_ |= accesses_.through[instruction];
    return;
  }
  StoredPlaces load{.word = at.word,
                    .loop = loops == 0 ? -1 : std::countr_zero(loops),
                    .begin = at.form,
                    .bytes = bytes_of(one, one.operands[0]),
                    .widened = {},
                    .guards = facts_[instruction].holds};
  for (const int index : at.widened) load.widened.push_back(symbolic_.widened()[index_of(index)]);
  learn(instruction, true, &load.guards);
  restrict_guards(&load);
  loads_.push_back(std::move(load));
}

// Checks that on every path each place has been stored to, or a guard of it does not hold.
class PtxProof::Paths {
 public:
  struct State {
    // One bit for each slot. done: stored to, or beyond a bound. ended: beyond a bound, now and in each later iteration
    // of its loop. within: not beyond one.
    std::uint64_t done = 0, ended = 0, within = ~std::uint64_t{0};

    bool meet(const State& other) {
      const State before = *this;
      done &= other.done;
      ended &= other.ended;
      within &= other.within;
      return done != before.done || ended != before.ended || within != before.within;
    }
  };

  explicit Paths(const PtxProof& proof) : proof_(proof), of_place_(proof.places_.size()), of_loop_(64 - kLoopAxis) {
    for (const Store& store : proof.stores_) {
      of_place_[store.of] |= store.slot;
      const int loop = proof.places_[store.of].loop;
      if (loop >= 0) of_loop_[index_of(loop)] |= store.slot, of_loops_ |= store.slot;
      all_ |= store.slot;
    }
  }

  bool are_complete() {
    const auto ends = holds_on_all_paths(
        proof_.kernel_, proof_.blocks_, State{}, [this](std::size_t i, State* state) { step(i, state); },
        [this](std::size_t i, bool is_taken, State* state) {
          if (const auto* const fails = proof_.fails(i, is_taken); fails != nullptr) state->ended |= beyond(*fails);
          PtxGuards::Set holds = proof_.facts_[i].holds;
          proof_.learn(i, is_taken, &holds);
          state->ended |= beyond_each(proof_.guards_.failing(holds));
          state->done |= state->ended;
          state->within &= ~state->ended;
        });
    const std::optional<State>& end = ends.back();
    return is_complete_ && end.has_value() && ((end->done & ~of_loops_) | end->ended) == all_;
  }

 private:
  // A loop may only come around if its places have been stored to: beyond a bound it ends.
  void step(std::size_t i, State* state) {
    if (const Symbolic::Counter* const counter = proof_.symbolic_.adds_to(i);
        counter != nullptr && proof_.symbolic_.comes_around(i)) {
      const std::uint64_t slots = of_loop_[index_of(counter->loop)];
      if ((slots & ~(state->done & state->within)) != 0) is_complete_ = false;
      state->done &= ~slots;
    }
    const auto store = std::ranges::find(proof_.stores_, i, &Store::instruction);
    if (store == proof_.stores_.end()) return;
    const auto* const fails = proof_.fails(i, false);
    const bool is_guarded = proof_.kernel_.instructions[i].guard >= 0;
    if (is_guarded && (fails == nullptr || (beyond(*fails) & store->slot) == 0)) return;
    state->done |= store->slot;
    if (is_guarded) state->within &= ~store->slot;
  }
  // The slots of places for which one of these guards does not hold, if none of them holds.
  std::uint64_t beyond_each(const PtxGuards::Set& fails) const {
    std::uint64_t slots = 0;
    for (std::size_t i = 0; i < of_place_.size(); ++i) {
      if ((fails & proof_.places_[i].guards).any()) slots |= of_place_[i];
    }
    return slots;
  }
  // The slots of places for which a guard does not hold, if one of these does not hold.
  std::uint64_t beyond(const PtxGuards::Set& fails) const {
    std::uint64_t slots = 0;
    for (std::size_t i = 0; i < of_place_.size(); ++i) {
      if (fails.any() && (fails & ~proof_.places_[i].guards).none()) slots |= of_place_[i];
    }
    return slots;
  }

  const PtxProof& proof_;
  std::vector<std::uint64_t> of_place_, of_loop_;
  std::uint64_t of_loops_ = 0, all_ = 0;
  bool is_complete_ = true;
};

void PtxProof::check_paths() {
  if (Paths(*this).are_complete()) return;
  for (const PtxInstruction& one : kernel_.instructions) {
    if (one.guard >= 0 && guards_.compares_with_unknown(one.guard)) return refuse(Why::kUnknownBound);
  }
  refuse(Why::kNotOnEveryPath);
}

PlacesReach PtxProof::reach_of(std::size_t word, const LaunchShape& shape, void* const* parameters,
                               UsedParameters* used) const {
  // The stored places begin there, and so do the loads of them.
  if (accesses_.words[word].writes) return PlacesReach::kFromBegin;
  const Uniform uniform(kernel_, symbolic_, shape, parameters, used);
  PlacesReach all = (loads_anywhere_ >> word & 1) != 0 ? PlacesReach::kUnknown : PlacesReach::kFromBegin;
  for (const StoredPlaces& load : loads_) {
    if (index_of(load.word) != word) continue;
    const PlacesReach one = thermocline::reach_of(load, guards_, uniform);
    if (one == PlacesReach::kBefore) return one;
    if (one == PlacesReach::kUnknown) all = one;
  }
  if (all == PlacesReach::kFromBegin) return all;
  return is_never_below(word, shape, parameters, used) ? PlacesReach::kFromBegin : all;
}

std::uint64_t PtxProof::find_never_below(const LaunchShape& shape, void* const* parameters,
                                         UsedParameters* used) const {
  const ValueRanges ranges(kernel_, accesses_, blocks_, shape, parameters, used);
  std::uint64_t never_below = 0;
  for (std::size_t word = 0; word < accesses_.words.size(); ++word)
    never_below |= std::uint64_t{ranges.is_never_below(word)} << word;
  return never_below;
}

bool PtxProof::is_never_below(std::size_t word, const LaunchShape& shape, void* const* parameters,
                              UsedParameters* used) const {
  std::optional<std::uint64_t> never_below;
  UsedParameters used_below;
  {
    const MutexLock lock(mutex_);
    if (const Found* const one = known(shape, parameters); one != nullptr) {
      never_below = one->never_below;
      used_below = one->used_below;
    }
  }
  if (!never_below.has_value()) {
    never_below = find_never_below(shape, parameters, &used_below);
    const MutexLock lock(mutex_);
    depends_on(used_below);
    if (Found* const one = known(shape, parameters); one != nullptr) {
      one->never_below = never_below;
      one->used_below = used_below;
    }
  }
  if (used != nullptr) used->join(used_below);
  return (*never_below >> word & 1) != 0;
}

PtxProof::Found PtxProof::find(const LaunchShape& shape, void* const* parameters) const {
  Found found;
  Result& out = found.result;
  const Uniform uniform(kernel_, symbolic_, shape, parameters, &found.used);
  out.written_bytes.assign(accesses_.words.size(), 0);
  const auto refused = std::ranges::find_if_not(places_, [&](const StoredPlaces& places) {
    return find_written(places, guards_, uniform, &out.written_bytes[index_of(places.word)]);
  });
  out.not_proven = refused == places_.end() ? -1 : refused->word;
  if (refused != places_.end()) return found;
  out.exchanges_unknown = runs_ != nullptr && !runs_->hold_for(shape, parameters, &found.used);
  found.holds = !out.exchanges_unknown;
  return found;
}

std::string PtxProof::key_of(const LaunchShape& shape, void* const* parameters) const {
  std::string key(reinterpret_cast<const char*>(&shape), sizeof shape);
  for (const ParameterRange& range : used_.all())
    key.append(static_cast<const char*>(parameters[range.parameter]) + range.offset, range.bytes);
  return key;
}

PtxProof::Found* PtxProof::known(const LaunchShape& shape, void* const* parameters) const {
  const auto found = found_.find(key_of(shape, parameters));
  return found == found_.end() ? nullptr : &found->second;
}

// Where launches could be told apart by fewer parameters than they are from now on, nothing is known of them.
void PtxProof::depends_on(const UsedParameters& used) const {
  if (used_.has_all(used)) return;
  used_.join(used);
  found_.clear();
}

bool PtxProof::holds_for(const LaunchShape& shape, void* const* parameters, Result* out, UsedParameters* used) const {
  {
    const MutexLock lock(mutex_);
    if (const Found* const one = known(shape, parameters); one != nullptr) {
      *out = one->result;
      if (used != nullptr) used->join(one->used);
      return one->holds;
    }
  }
  Found found = find(shape, parameters);
  *out = found.result;
  if (used != nullptr) used->join(found.used);
  const bool holds = found.holds;
  const MutexLock lock(mutex_);
  depends_on(found.used);
  if (found_.size() == kMostFound) found_.clear();
  found_.insert_or_assign(key_of(shape, parameters), std::move(found));
  return holds;
}

}  // namespace thermocline
