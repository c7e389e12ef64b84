// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_engine/program.h"

#include <algorithm>
#include <utility>

#include "driver/page_size.h"
#include "offload/page_bytes.h"
#include "tests/fuzz_engine/random.h"

namespace thermocline::fuzz_engine {
namespace {

constexpr Bytes kPage = kDefaultPageBytes;

constexpr std::array<const char*, kKinds> kNames = {"allocate",    "free",         "operate", "unknown",  "abandon",
                                                    "download",    "upload",       "pin",     "trim",     "external",
                                                    "steal",       "give back",    "wait",    "wait all", "query",
                                                    "open stream", "close stream", "drop",    "sleep",    "wake"};

// In parts per 1,000, if no kind is left out.
constexpr std::array<std::uint32_t, kKinds> kWeights = {170, 120, 430, 3, 6,  40, 40, 3, 4, 6,
                                                        3,   12,  20,  4, 30, 6,  5,  0, 3, 4};
constexpr std::uint32_t kDropWeight = 150;

class Maker {
 public:
  Maker(std::uint64_t seed, std::size_t steps, bool faults) : random_(seed), count_(steps) {
    choose_setup(seed, faults);
    weights_ = kWeights;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      const bool essential =
          kind <= static_cast<std::size_t>(Kind::kOperate) || kind == static_cast<std::size_t>(Kind::kDrop);
      if (!essential && random_.one_in(3)) weights_[kind] = 0;
    }
    if (program_.setup.recompute) weights_[static_cast<std::size_t>(Kind::kDrop)] = kDropWeight;
    // Not every program has every kind of size, or every way of telling the engine.
    for (bool& on : sizes_) on = !random_.one_in(3);
    sizes_[random_.below(sizes_.size())] = true;
    told_words_ = random_.one_in(3) ? 100 : random_.below(101);
    open_ = {0};
    for (std::uint64_t i = random_.below(4); i > 0; --i) add(open_stream());
    target_ = program_.setup.budget / 4 * random_.between(2, 10);
  }

  Program make() {
    while (program_.steps.size() < count_) {
      if (random_.one_in(3)) {
        loop();
      } else {
        for (std::uint64_t i = random_.between(20, 300); i > 0; --i) add(one());
      }
    }
    program_.steps.resize(count_);
    return std::move(program_);
  }

 private:
  struct Live {
    std::uint32_t slot;
    Bytes bytes;
  };

  void choose_setup(std::uint64_t seed, bool faults) {
    Setup& setup = program_.setup;
    setup.seed = seed;
    const std::uint64_t pages = random_.one_in(6) ? random_.between(200, 600) : random_.between(12, 120);
    setup.budget = pages * kPage + (random_.one_in(8) ? random_.below(kPage) : 0);
    setup.memory = random_.one_in(2) ? round_up(setup.budget, kPage) : setup.budget + 2 * kGiB;
    setup.page_bytes = page_bytes_for(setup.budget, wanted_page_bytes(seed), kPage);
    if (random_.one_in(6)) setup.host_limit = random_.between(64, 512) * kMiB;
    const std::uint64_t policy = random_.below(10);
    setup.policy = policy == 0 ? kNoPolicy : policy < 5 ? kReactivePolicy : kLearnedPolicy;
    if (!random_.one_in(6)) setup.order = random_.next() >> 32;
    // From a separate random source, so that earlier seeds keep their programs. The engine is told of every access, as
    // trusting requires.
    if (Random(~seed).one_in(2)) setup.safety = Safety::kTrusting;
    Random fallbacks(seed ^ 0x6e6574);
    const std::uint64_t fallback = fallbacks.below(12);
    setup.host_fallback = fallback < 6 ? HostFallback::kOff : fallback < 11 ? HostFallback::kAuto : HostFallback::kFull;
    setup.soft_limit = Random(seed ^ 0x736f6674).one_in(6);
    setup.recompute = setup.policy == kLearnedPolicy && setup.host_fallback != HostFallback::kFull &&
                      Random(seed ^ 0x616761696e).one_in(2);
    Random spills(seed ^ 0x7370696c6c);
    if (setup.policy != kNoPolicy && setup.host_fallback != HostFallback::kFull && spills.one_in(4)) {
      setup.host_limit = spills.between(16, 200) * kMiB;
      setup.spill_limit = spills.between(64, 1024) * kMiB;
      setup.spill_fault_one_in = spills.one_in(2) ? spills.between(2, 20) : 0;
    }
    if (faults) setup.fault_one_in = std::array<std::uint64_t, 4>{20, 200, 1000, 5000}[random_.below(4)];
  }

  // 0: as the engine chooses. From a separate random source, as above.
  static Bytes wanted_page_bytes(std::uint64_t seed) {
    Random random(seed ^ 0x7061676573);
    return random.one_in(2) ? 0 : kPage << random.below(5);
  }

  void add(const Step& step) { program_.steps.push_back(step); }

  // Repeats the same steps, as training does, so that a plan is made and followed; sometimes other steps come between.
  void loop() {
    const std::vector<Live> before = live_;
    std::vector<Step> body;
    inside_ = live_.size();
    for (std::uint64_t i = random_.between(6, 60); i > 0; --i) body.push_back(one());
    while (live_.size() > inside_) body.push_back(free_of(live_.size() - 1));
    inside_ = 0;
    // If the body freed buffers from before the loop, they would be missing after the first turn; so it frees only its
    // own.
    live_ = before;
    const std::uint64_t turns = random_.between(3, 16);
    const bool wavers = random_.one_in(3);
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      for (const Step& step : body) {
        if (wavers && random_.one_in(100)) continue;
        add(step);
        if (wavers && random_.one_in(100)) add(one());
      }
      if (random_.one_in(4)) add(waiting(Kind::kWaitAll));
    }
  }

  Kind pick_kind() {
    std::uint32_t sum = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) sum += allowed(kind) ? weights_[kind] : 0;
    std::uint64_t at = random_.below(sum);
    for (std::size_t kind = 0;; ++kind) {
      const std::uint32_t weight = allowed(kind) ? weights_[kind] : 0;
      if (at < weight) return static_cast<Kind>(kind);
      at -= weight;
    }
  }
  bool allowed(std::size_t kind) const {
    const bool lasting =
        kind == static_cast<std::size_t>(Kind::kPin) || kind == static_cast<std::size_t>(Kind::kExternal) ||
        kind == static_cast<std::size_t>(Kind::kOpenStream) || kind == static_cast<std::size_t>(Kind::kCloseStream);
    return inside_ == 0 || !lasting;
  }

  Step one() {
    const Kind kind = live_.size() < 3 ? Kind::kAllocate : pick_kind();
    switch (kind) {
      case Kind::kAllocate:
        return live_bytes() < target_ && live_.size() < kSlots ? allocate() : operate(Kind::kOperate);
      case Kind::kFree:
        return live_.size() > inside_ ? free_of(inside_ + random_.below(live_.size() - inside_))
                                      : operate(Kind::kOperate);
      case Kind::kOperate:
      case Kind::kUnknown:
      case Kind::kAbandon:
        return operate(kind);
      case Kind::kDownload:
      case Kind::kUpload:
        return copy(kind);
      case Kind::kPin: {
        Step step{.kind = kind, .operands = 1};
        step.operand[0].slot = live_[random_.below(live_.size())].slot;
        return step;
      }
      case Kind::kExternal:
      case Kind::kSteal:
        return {.kind = kind, .bytes = random_.between(1, 1 + program_.setup.budget / kPage / 4) * kPage};
      case Kind::kTrim:
      case Kind::kGiveBack:
      case Kind::kWake:
        return {.kind = kind};
      case Kind::kSleep:
        return {.kind = kind, .names_stream = random_.one_in(2)};
      case Kind::kOpenStream:
        return open_stream();
      case Kind::kCloseStream:
        return close_stream();
      case Kind::kDrop:
        return drop();
      case Kind::kWait:
      case Kind::kWaitAll:
      case Kind::kQuery:
        return waiting(kind);
    }
    return {};
  }

  Bytes live_bytes() const {
    Bytes sum = 0;
    for (const Live& live : live_) sum += live.bytes;
    return sum;
  }
  std::uint32_t stream() { return open_[random_.below(open_.size())]; }

  Bytes some_size() {
    const Bytes most = std::max(std::min(200 * kMiB, program_.setup.budget / 2), kPage);
    for (;;) {
      const std::size_t kind = random_.below(sizes_.size());
      if (!sizes_[kind]) continue;
      switch (kind) {
        case 0:
          return random_.between(512, 64 * kKiB);
        case 1:
          return random_.between(64 * kKiB, kPage);
        case 2:
          return std::min(random_.between(1, 8) * kPage, most);
        case 3:
          return random_.between(kPage, std::min(16 * kMiB, most));
        case 4:
          return random_.between(20 * kKiB, 36 * kKiB);  // few fit in a slab of small buffers
        default:
          return random_.one_in(3) ? random_.between(kPage, most) : random_.between(1, most / kPage) * kPage;
      }
    }
  }

  // In a loop sizes recur, so that new buffers fit where others were freed.
  Step allocate() {
    if (familiar_.size() < 6 || random_.one_in(8)) familiar_.push_back(some_size());
    if (familiar_.size() > 12) familiar_.erase(familiar_.begin());
    const Bytes bytes = familiar_[random_.below(familiar_.size())];
    std::uint32_t slot = static_cast<std::uint32_t>(random_.below(kSlots));
    while (std::ranges::find(live_, slot, &Live::slot) != live_.end()) slot = (slot + 1) % kSlots;
    live_.push_back({slot, bytes});
    Step step{.kind = Kind::kAllocate, .stream = stream(), .names_stream = !random_.one_in(3), .bytes = bytes};
    step.operands = 1;
    step.operand[0].slot = slot;
    return step;
  }

  Step free_of(std::size_t index) {
    Step step{.kind = Kind::kFree, .stream = stream(), .names_stream = !random_.one_in(3), .operands = 1};
    step.operand[0].slot = live_[index].slot;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    return step;
  }

  Operand operand() {
    Operand operand;
    // Often a buffer that was allocated recently, as in real programs.
    const std::size_t recent = std::min<std::size_t>(live_.size(), 4);
    operand.slot = random_.one_in(2) ? live_[live_.size() - 1 - random_.below(recent)].slot
                                     : live_[random_.below(live_.size())].slot;
    operand.writes = random_.one_in(2);
    operand.reads = !operand.writes || random_.one_in(3);
    if (random_.one_in(10)) {
      operand.from = static_cast<std::uint32_t>(random_.below(kParts));
      operand.to = static_cast<std::uint32_t>(random_.between(operand.from + 1, kParts));
    }
    const bool word = random_.below(100) < told_words_;
    operand.told = word ? static_cast<Told>(random_.below(3)) : random_.one_in(3) ? Told::kRangeUnknown : Told::kRange;
    return operand;
  }

  Step drop() {
    Step step{.kind = Kind::kDrop, .operands = 1};
    step.operand[0].slot = operand().slot;
    return step;
  }

  Step operate(Kind kind) {
    Step step{.kind = kind, .stream = stream(), .token = random_.between(1, 12)};
    step.nanoseconds = random_.one_in(3) ? 0 : random_.between(1, 3000) * 1000;
    step.completes = random_.one_in(40);
    step.operands = static_cast<std::uint32_t>(random_.between(1, 4));
    for (std::uint32_t i = 0; i < step.operands; ++i) step.operand[i] = operand();
    return step;
  }

  Step copy(Kind kind) {
    Step step{.kind = kind, .stream = stream()};
    step.staging = static_cast<std::uint32_t>(random_.below(kStagings));
    step.token = 100 + static_cast<std::uint64_t>(kind);
    step.completes = random_.one_in(4);
    step.operands = 1;
    step.operand[0] = operand();
    step.operand[0].told = random_.one_in(4) ? Told::kRangeUnknown : Told::kRange;
    return step;
  }

  Step waiting(Kind kind) { return {.kind = kind, .stream = stream(), .names_stream = random_.one_in(2)}; }

  Step open_stream() {
    if (opened_ + 1 >= kMostStreams || open_.size() > 6) return waiting(Kind::kQuery);
    open_.push_back(++opened_);
    return {.kind = Kind::kOpenStream, .stream = opened_};
  }

  // Never the legacy stream.
  Step close_stream() {
    if (open_.size() < 2) return waiting(Kind::kQuery);
    const auto at = open_.begin() + static_cast<std::ptrdiff_t>(random_.between(1, open_.size() - 1));
    const Step step{.kind = Kind::kCloseStream, .stream = *at};
    open_.erase(at);
    return step;
  }

  Random random_;
  const std::size_t count_;
  Program program_;
  std::array<std::uint32_t, kKinds> weights_{};
  std::array<bool, 6> sizes_{};
  std::vector<Bytes> familiar_;
  std::uint64_t told_words_ = 0;  // percent
  std::vector<std::uint32_t> open_;
  std::uint32_t opened_ = 0;
  std::vector<Live> live_;
  std::size_t inside_ = 0;  // number of buffers that existed when the loop began; 0 outside of loops
  Bytes target_ = 0;
};

}  // namespace

const char* name_of(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

Program make_program(std::uint64_t seed, std::size_t steps, bool faults) { return Maker(seed, steps, faults).make(); }

std::string describe(const Setup& setup) {
  return "seed " + std::to_string(setup.seed) + ", budget " + std::to_string(setup.budget) + ", memory " +
         std::to_string(setup.memory) + ", host limit " + std::to_string(setup.host_limit) + ", spill limit " +
         std::to_string(setup.spill_limit) + ", pages " + std::to_string(setup.page_bytes) + ", policy " +
         setup.policy->name + (setup.safety == Safety::kTrusting ? ", trusting" : "") +
         (setup.host_fallback == HostFallback::kOff    ? ""
          : setup.host_fallback == HostFallback::kAuto ? ", fallback"
                                                       : ", full fallback") +
         (setup.soft_limit ? ", soft limit" : "") + ", order " +
         (setup.order ? std::to_string(*setup.order) : "of time") + (setup.recompute ? ", recompute" : "") +
         (setup.spill_fault_one_in != 0 ? ", one write in " + std::to_string(setup.spill_fault_one_in) + " fails"
                                        : "") +
         (setup.fault_one_in != 0 ? ", one call in " + std::to_string(setup.fault_one_in) + " fails" : "");
}

std::string describe(const Step& step) {
  std::string text = name_of(step.kind);
  text += " stream " + std::to_string(step.stream) + (step.names_stream ? " (named)" : "");
  if (step.bytes != 0) text += " bytes " + std::to_string(step.bytes);
  if (step.completes) text += " completes";
  for (std::uint32_t i = 0; i < step.operands; ++i) {
    const Operand& o = step.operand[i];
    const char* const told[] = {"base", "interior", "end", "range", "range, access unknown"};
    text += "; buffer " + std::to_string(o.slot) + " [" + std::to_string(o.from) + ", " + std::to_string(o.to) + ") " +
            (o.reads ? "r" : "") + (o.writes ? "w" : "") + " told " + told[static_cast<int>(o.told)];
  }
  return text;
}

}  // namespace thermocline::fuzz_engine
