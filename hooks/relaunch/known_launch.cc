// SPDX-License-Identifier: Apache-2.0
#include "hooks/relaunch/known_launch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "hooks/relaunch/examined_launches.h"
#include "hooks/relaunch/kernel_codes.h"
#include "hooks/relaunch/launches.h"
#include "hooks/runtime/runtime.h"

namespace thermocline {
namespace {

std::atomic<std::uint64_t> counts[kLaunchVerdicts];

std::uint64_t value_of(const LaunchedKernel& kernel, const ParameterWord& word) {
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const unsigned char*>(kernel.arguments.parameters[word.parameter]) + word.offset,
              sizeof value);
  return value;
}

// A parameter word that is an address of the engine's memory.
struct Pointer {
  const ParameterWord* word = nullptr;
  std::size_t index = 0;  // of the word
  std::uint64_t value = 0;
  std::size_t buffer = 0;  // in Given::buffers
  int ended = -1;          // index of the buffer that ends where that one begins; -1: none
};

struct GivenBuffer {
  BufferFacts facts;
  OperandUse use;
  // The use through pointers to where it ends and another one begins, if they are used downwards.
  OperandUse use_from_end;
  unsigned pointers = 0;
};

struct Given {
  boost::container::small_vector<Pointer, 16> pointers;
  boost::container::small_vector<GivenBuffer, 16> buffers;

  std::size_t find(const BufferFacts& facts) {
    std::size_t i = 0;
    while (i < buffers.size() && buffers[i].facts.number != facts.number) ++i;
    if (i == buffers.size()) buffers.push_back({.facts = facts, .use = {}, .use_from_end = {}, .pointers = 0});
    return i;
  }
  std::size_t add(const BufferFacts& facts, OperandUse use) {
    const std::size_t i = find(facts);
    join(use, &buffers[i].use);
    ++buffers[i].pointers;
    return i;
  }
  static void join(const OperandUse& use, OperandUse* to) {
    to->reads |= use.reads;
    to->writes |= use.writes;
    to->in_place |= use.in_place;
  }
  // Also counts the buffer that ends at the pointer. It is found through the other's address: neither may move.
  void count_ended(const Pointer& pointer, OperandUse use) {
    GivenBuffer& buffer = buffers[static_cast<std::size_t>(pointer.ended)];
    use.in_place = true;
    join(use, &buffer.use);
    ++buffer.pointers;
    buffers[pointer.buffer].use.in_place = true;
  }
  // Does the same for all pointers.
  void count_all_ended() {
    for (const Pointer& pointer : pointers) {
      if (pointer.ended >= 0) count_ended(pointer, buffers[static_cast<std::size_t>(pointer.ended)].use_from_end);
    }
  }
  // Removes buffers that are not used after all.
  void forget_unused() {
    std::vector<std::size_t> moved_to(buffers.size());
    std::size_t left = 0;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      moved_to[i] = left;
      if (buffers[i].pointers > 0) buffers[left++] = buffers[i];
    }
    buffers.resize(left);
    for (Pointer& pointer : pointers) pointer.buffer = moved_to[pointer.buffer];
  }
};

// The buffers that the pointer may mean: what begins or ends there, and what begins just behind it (an array that is
// counted from 1). False: it means none.
bool add_buffers(const Engine& engine, const ParameterWord& word, std::uint64_t value, std::size_t index, Given* out) {
  const std::vector<BufferFacts> meant = engine.meant_by({DeviceAddress{value}});
  if (meant.empty()) return false;
  // A rerun passes the first buffer's address. For the buffers beside it nothing is proven about what is written, so
  // they count as read, too.
  const OperandUse use{.reads = word.reads, .writes = word.writes, .in_place = meant.size() > 1};
  const OperandUse maybe{.reads = word.reads || word.writes, .writes = word.writes, .in_place = true};
  const std::size_t first = out->add(meant[0], use);
  for (std::size_t i = 1; i < meant.size(); ++i) out->add(meant[i], maybe);
  out->pointers.push_back({&word, index, value, first});
  // The address may also be one past the end of another buffer.
  if (const auto before = engine.find(DeviceAddress{value - 1});
      before.has_value() && before->number != meant[0].number &&
      before->address + before->bytes == DeviceAddress{value}) {
    const std::size_t ended = out->find(*before);
    Given::join(maybe, &out->buffers[ended].use_from_end);
    out->pointers.back().ended = static_cast<int>(ended);
  }
  return true;
}

}  // namespace

std::uint64_t launches_with(LaunchVerdict verdict) { return counts[static_cast<int>(verdict)].load(); }

namespace {

void count(LaunchVerdict verdict, const KernelKnowledge& known) {
  known.seen[static_cast<std::size_t>(verdict)].fetch_add(1, std::memory_order_relaxed);
  counts[static_cast<int>(verdict)].fetch_add(1, std::memory_order_relaxed);
  known.launches[static_cast<std::size_t>(verdict)].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// The findings about a launch that is examined, for those that come again.
struct KnownLaunch::Reached {
  const Engine* engine = nullptr;  // of all buffers; null: there are none
  std::uint64_t placement = 0;
  UsedParameters used;
  std::shared_ptr<const LaunchForm> form;
};

KnownLaunch::KnownLaunch(const EngineSet& engines, const LaunchedKernel& kernel, std::uint64_t kind,
                         LaunchAskedBy asker, AccessList* accesses) {
  const std::uint64_t code = kernel_codes().version();
  std::uint64_t key = 0;
  const bool may_come_again = asker == LaunchAskedBy::kEngine && ExaminedLaunches::key_of(kind, accesses->all(), &key);
  if (may_come_again && came_before(engines, kernel, code, key, accesses)) return;
  const KernelKnowledge& known = kernel_codes().knowledge_of(kernel.function, kernel.name);
  Reached reached;
  const LaunchVerdict verdict = look(engines, known, kernel, asker, accesses, &reached);
  if (asker == LaunchAskedBy::kRecording) {
    known.seen[static_cast<std::size_t>(verdict)].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  info_.may_run_again = verdict == LaunchVerdict::kMayRunAgain;
  count(verdict, known);
  // An engine that notes no placements cannot tell whether the buffers are still there.
  const bool is_placed = reached.engine != nullptr && reached.placement != 0;
  if (may_come_again && is_vouched_for_ && is_placed)
    keep(engines, kernel, code, key, verdict, known, reached, *accesses);
}

bool KnownLaunch::came_before(const EngineSet& engines, const LaunchedKernel& kernel, std::uint64_t code,
                              std::uint64_t key, AccessList* accesses) {
  std::uint64_t id = 0;
  examined_ = examined_launches().find(kernel, {&engines, code}, key, &id);
  if (examined_ == nullptr) return false;
  const ExaminedLaunch::Findings& findings = examined_->findings();
  info_ = examined_->info();
  info_.id = id;
  is_vouched_for_ = true;
  count(findings.verdict, *findings.known);
  accesses->clear();
  for (const MemoryAccess& one : findings.accesses) accesses->add(one);
  return true;
}

void KnownLaunch::keep(const EngineSet& engines, const LaunchedKernel& kernel, std::uint64_t code, std::uint64_t key,
                       LaunchVerdict verdict, const KernelKnowledge& known, const Reached& reached,
                       const AccessList& accesses) try {
  const Circumstances circumstances{&engines, code};
  ExaminedLaunch::Findings findings{.verdict = verdict,
                                    .known = &known,
                                    .may_run_again = info_.may_run_again,
                                    .trial = info_.trial,
                                    .uses = {uses_.begin(), uses_.end()},
                                    .accesses = {accesses.all().begin(), accesses.all().end()},
                                    .seen = {seen_.begin(), seen_.end()},
                                    .form = reached.form};
  auto examined = std::make_shared<const ExaminedLaunch>(kernel, circumstances, *reached.engine, reached.placement,
                                                         reached.used, std::move(findings));
  examined_launches().keep(key, std::move(examined), info_.id);
} catch (const std::bad_alloc&) {
  // It is examined again when it comes again.
  return;
}

std::span<const MemoryAccess> KnownLaunch::seen() const {
  if (examined_ != nullptr) return examined_->findings().seen;
  return {seen_.data(), seen_.size()};
}

namespace {

// All are addresses that were found in the parameters. What the kernel reads and writes of these its code shows: a pointer
// that it never uses, and eight bytes that look like one, have no effect.
bool are_of_parameters(const AccessList& accesses) {
  return std::ranges::all_of(accesses.all(), [](const MemoryAccess& one) { return one.found == 0 && one.bytes == 0; });
}

std::shared_ptr<const LaunchForm> form_of(const LaunchedKernel& kernel, const Given& given) {
  LaunchForm form{.function = kernel.function,
                  .grid = std::to_array(kernel.grid),
                  .block = std::to_array(kernel.block),
                  .shared_bytes = kernel.shared_bytes,
                  .parameter_at = places_of(*kernel.layout),
                  .words = {}};
  for (const Pointer& pointer : given.pointers) {
    form.words.push_back({.at = form.parameter_at[pointer.word->parameter] + pointer.word->offset,
                          .access = static_cast<std::uint32_t>(pointer.buffer),
                          .offset = pointer.value - given.buffers[pointer.buffer].facts.address.value});
  }
  return std::make_shared<const LaunchForm>(std::move(form));
}

// A pointer to where one buffer ends and another one begins means the other one. If the kernel may read before it, both
// count as read. False: it does read before it; a rerun would not find that if one of the buffers were elsewhere.
bool count_ended(const KernelKnowledge& known, const LaunchedKernel& kernel, const LaunchShape& shape, Given* given,
                 UsedParameters* used) {
  for (const Pointer& pointer : given->pointers) {
    if (pointer.ended < 0) continue;
    bool is_known = true;
    for (const std::unique_ptr<KernelCode>& one : known.kernels) {
      const PlacesReach reach = one->proof().reach_of(pointer.index, shape, kernel.arguments.parameters, used);
      if (reach == PlacesReach::kBefore) return false;
      is_known &= reach == PlacesReach::kFromBegin;
    }
    if (!is_known) given->count_ended(pointer, {.reads = true});
  }
  return true;
}

// Whether this launch meets the conditions of the proofs. Outputs that are not written completely are read, too.
LaunchVerdict may_run_again(const KernelKnowledge& known, const LaunchedKernel& kernel, Given* given,
                            UsedParameters* used) {
  if (known.refused) return LaunchVerdict::kNotProven;
  if (kernel.is_special) return LaunchVerdict::kSpecial;
  PtxProof::Result result;
  if (known.is_taken_as_proven) return given->count_all_ended(), LaunchVerdict::kMayRunAgain;
  LaunchShape shape;
  std::ranges::copy(kernel.block, shape.threads);
  std::ranges::copy(kernel.grid, shape.blocks);
  shape.shared_bytes = kernel.shared_bytes;
  for (std::size_t i = 0; i < known.kernels.size(); ++i) {
    PtxProof::Result one;
    const bool holds = known.kernels[i]->proof().holds_for(shape, kernel.arguments.parameters, &one, used);
    if (!holds || (i > 0 && one.written_bytes != result.written_bytes)) {
      if (!holds && one.exchanges_unknown) return LaunchVerdict::kExchange;
      OtherShape other{.shape = shape};
      if (!holds && one.not_proven >= 0) {
        const ParameterWord& word = known.kernels[i]->accesses().words[static_cast<std::size_t>(one.not_proven)];
        other.parameter = word.parameter + 1;
        other.parameters = static_cast<std::uint32_t>(kernel.layout->size());
      }
      known.note_other_shape(other);
      return LaunchVerdict::kOtherShape;
    }
    result = std::move(one);
  }
  if (!count_ended(known, kernel, shape, given, used)) return LaunchVerdict::kOutside;
  for (const Pointer& pointer : given->pointers) {
    GivenBuffer& buffer = given->buffers[pointer.buffer];
    if (pointer.word->is_value) return LaunchVerdict::kByAddress;
    if (!pointer.word->writes) continue;
    if (buffer.pointers > 1) return LaunchVerdict::kAliased;
    if (pointer.value != buffer.facts.address.value) return LaunchVerdict::kOutside;
    const std::uint64_t written = result.written_bytes[pointer.index];
    if (written > buffer.facts.bytes) return LaunchVerdict::kOutside;
    if (written < buffer.facts.bytes) buffer.use.reads = true;
  }
  return LaunchVerdict::kMayRunAgain;
}

}  // namespace

LaunchVerdict KnownLaunch::look(const EngineSet& engines, const KernelKnowledge& known, const LaunchedKernel& kernel,
                                LaunchAskedBy asker, AccessList* accesses, Reached* reached) {
  if (known.unknown) return LaunchVerdict::kOtherCode;
  for (const std::unique_ptr<KernelCode>& one : known.kernels) {
    if (one->accesses().may_wait) return LaunchVerdict::kMayWait;
  }
  if (kernel.layout == nullptr || !known.has_layout(*kernel.layout)) return LaunchVerdict::kOtherLayout;
  if (kernel.arguments.parameters == nullptr && !kernel.layout->empty()) return LaunchVerdict::kOtherLayout;
  const std::vector<ParameterWord>& words = known.kernels[0]->accesses().words;
  Given given;
  const Engine* engine = nullptr;
  bool reaches_others = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t value = value_of(kernel, words[i]);
    reached->used.add({words[i].parameter, words[i].offset, sizeof value});
    const bool is_accessed = words[i].reads || words[i].writes;
    // An argument that is left out leads to no buffer. Of one that is not used otherwise, either, only whether it is null may
    // matter.
    if (value == 0 || (!is_accessed && !words[i].is_value)) continue;
    const ActiveEngine* const owner = engines.owner(DeviceAddress{value});
    if (owner == nullptr) {
      reaches_others |= is_accessed;
      continue;
    }
    if (engine != nullptr && engine != owner->engine) return LaunchVerdict::kOtherMemory;
    if (engine == nullptr) reached->placement = owner->engine->placement();
    engine = owner->engine;
    if (!add_buffers(*engine, words[i], value, i, &given)) return LaunchVerdict::kOtherMemory;
  }
  if (!are_of_parameters(*accesses)) {
    // All of its accesses are in the list, with more.
    is_vouched_for_ = std::ranges::none_of(accesses->all(), &MemoryAccess::found);
    return LaunchVerdict::kOtherMemory;
  }
  is_vouched_for_ = true;
  reached->engine = engine;
  LaunchVerdict verdict =
      reaches_others ? LaunchVerdict::kOtherMemory : may_run_again(known, kernel, &given, &reached->used);
  if (verdict == LaunchVerdict::kMayRunAgain) {
    given.forget_unused();
    if (asker == LaunchAskedBy::kEngine) {
      reached->form = form_of(kernel, given);
      info_.id = launches().add({reached->form, parameters_of(*kernel.layout, kernel.arguments.parameters)});
    }
    info_.trial = known.trial.get();
  } else {
    given.count_all_ended();
    // No proof tells which bytes of the buffers it writes: the other bytes have to exist, so the buffers count as read.
    for (GivenBuffer& buffer : given.buffers) buffer.use.reads |= buffer.use.writes;
  }
  accesses->clear();
  for (const GivenBuffer& buffer : given.buffers) {
    const Access how = buffer.use.writes ? Access::kUnknown : Access::kRead;
    accesses->add({buffer.facts.address, buffer.facts.bytes, how});
    const bool is_overwritten = buffer.use.writes && !buffer.use.reads;
    seen_.push_back({buffer.facts.address, buffer.facts.bytes, is_overwritten ? Access::kWrite : how});
    uses_.push_back(buffer.use);
  }
  info_.uses = {uses_.data(), uses_.size()};
  return verdict;
}

}  // namespace thermocline
