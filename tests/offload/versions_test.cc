// SPDX-License-Identifier: Apache-2.0
// Operations that are noted late, when somebody asks, are noted as if each had been when it came: random programs are told
// to two Versions, one of which catches up after each step, and must get the same answers from both.
#include "offload/recompute/versions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace thermocline {
namespace {

using BufferNumber = Versions::BufferNumber;
constexpr std::size_t kMostBuffers = 12;

// Both are told the same.
class Both {
 public:
  explicit Both(std::uint64_t seed, std::uint64_t remembered)
      : random_(seed), late_(remembered, true), at_once_(remembered, true) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
      step();
      at_once_.catch_up();
      late_.validate();
      at_once_.validate();
      if (below(8) == 0) compare();
    }
    compare();
  }
  std::uint64_t dropped = 0, forgotten = 0, answers = 0, lineages = 0, kept = 0, worth_a_copy = 0;

 private:
  std::uint64_t below(std::uint64_t end) { return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_); }
  BufferNumber any() { return live_[below(live_.size())]; }

  void step() {
    if (live_.size() < 3 || (live_.size() < kMostBuffers && below(6) == 0)) {
      live_.push_back(++newest_);
      return;
    }
    switch (below(24)) {
      case 0:
        return free(any());
      case 1:
      case 2:
        return drop(any());
      case 5:
        return restore();
      case 3:
        if (late_.any_dropped()) return;
        late_.forget_contents();
        at_once_.forget_contents();
        return;
      case 4: {
        if (late_.any_dropped()) return;
        const BufferNumber one = any();
        late_.changed_unseen(one);
        at_once_.changed_unseen(one);
        return;
      }
      default:
        operate();
    }
  }

  // As the engine does: what is read is there, and what is overwritten is needed by nobody.
  void operate() {
    std::vector<Versions::Operand> operands;
    std::vector<BufferNumber> written;
    const std::size_t count = 1 + below(3);
    for (std::size_t i = 0; i < count; ++i) {
      const BufferNumber buffer = any();
      if (std::ranges::find(operands, buffer, &Versions::Operand::buffer) != operands.end()) continue;
      OperandUse use{.reads = below(2) == 0, .writes = below(2) == 0, .in_place = below(16) == 0};
      use.reads |= !use.writes;
      operands.push_back({buffer, DeviceAddress{buffer << 30}, buffer * kMiB, below(4) != 0, use});
      if (use.writes) written.push_back(buffer);
    }
    const bool may_run_again = below(5) != 0, is_all = below(9) != 0;
    ++id_;
    // A launch that comes again.
    if (below(2) == 0 && !forms_.empty()) {
      form_ = forms_[below(forms_.size())];
      const auto is_gone = [this](const Versions::Operand& one) {
        return std::ranges::find(live_, one.buffer) == live_.end() || late_.is_dropped(one.buffer);
      };
      if (std::ranges::any_of(form_->operands, is_gone)) return;
      written.clear();
      for (const Versions::Operand& one : form_->operands) {
        if (one.use.writes) written.push_back(one.buffer);
      }
    } else {
      form_ = std::make_shared<const Versions::Form>(operands, may_run_again, is_all, nullptr);
      forms_.push_back(form_);
    }
    for (const Versions::Operand& one : form_->operands) {
      if (one.use.reads && late_.is_dropped(one.buffer)) restore(one.buffer);
    }
    late_.arrives(form_, id_, 1000);
    at_once_.arrives(form_, id_, 1000);
    at_once_.catch_up();
    ASSERT_EQ(late_.arriving_may_run_again(), at_once_.arriving_may_run_again());
    ASSERT_EQ(late_.arriving().size(), at_once_.arriving().size());
    if (below(10) == 0 && !late_.any_dropped()) {
      late_.forget_contents();
      at_once_.forget_contents();
    }
    let_go(written);
    const std::vector<BufferNumber> old = late_.too_old();
    ASSERT_EQ(old, at_once_.too_old());
    for (const BufferNumber one : old) restore(one);
    if (below(12) == 0) {
      late_.never_submitted();
      at_once_.never_submitted();
      return;
    }
    late_.submitted();
    at_once_.submitted();
  }

  void let_go(const std::vector<BufferNumber>& going) {
    const std::vector<BufferNumber> lost = late_.lost_without(going);
    ASSERT_EQ(lost, at_once_.lost_without(going));
    for (const BufferNumber one : lost) restore(one);
  }
  void free(BufferNumber buffer) {
    let_go({buffer});
    late_.freed(buffer);
    at_once_.freed(buffer);
    std::erase(live_, buffer);
    ++forgotten;
  }
  void drop(BufferNumber buffer) {
    if (late_.is_dropped(buffer)) return;
    const bool is_dropped = late_.drop(buffer);
    ASSERT_EQ(is_dropped, at_once_.drop(buffer));
    dropped += is_dropped ? 1 : 0;
  }
  void restore() {
    const std::vector<BufferNumber> all = late_.dropped();
    for (const BufferNumber one : all) restore(one);
  }
  void restore(BufferNumber buffer) {
    compare_recipes(buffer);
    late_.restored(buffer);
    at_once_.restored(buffer);
  }

  void compare_recipes(BufferNumber buffer) {
    const std::optional<Recipe> one = late_.recipe_for({&buffer, 1}), other = at_once_.recipe_for({&buffer, 1});
    ASSERT_EQ(one.has_value(), other.has_value()) << buffer;
    if (!one) return;
    ASSERT_EQ(one->runs.size(), other->runs.size());
    for (std::size_t i = 0; i < one->runs.size(); ++i) {
      const std::uint64_t operation = one->runs[i].operation;
      ASSERT_EQ(operation, other->runs[i].operation);
      ASSERT_EQ(late_.id_of(operation), at_once_.id_of(operation));
    }
    ++answers;
  }
  void compare() {
    ASSERT_EQ(late_.dropped(), at_once_.dropped());
    for (const std::size_t period : {1, 3, 8}) {
      ASSERT_EQ(late_.content_bytes(period), at_once_.content_bytes(period));
      ASSERT_EQ(late_.are_all_known(period), at_once_.are_all_known(period));
      compare_lineages(period);
    }
    for (const BufferNumber one : live_) {
      for (const Bytes bytes : {kKiB, kMiB, 4 * kMiB}) {
        const bool is_kept = late_.is_kept(one, bytes), is_worth_a_copy = late_.is_worth_a_copy(one, bytes);
        ASSERT_EQ(is_kept, at_once_.is_kept(one, bytes));
        ASSERT_EQ(is_worth_a_copy, at_once_.is_worth_a_copy(one, bytes));
        kept += is_kept ? 1 : 0, worth_a_copy += is_worth_a_copy ? 1 : 0;
      }
      if (!late_.is_dropped(one)) compare_recipes(one);
    }
  }

  // Lineages of an iteration in which no buffer is planned.
  void compare_lineages(std::size_t period) {
    constexpr std::size_t kMostOperands = 3;
    Profile profile;
    profile.nanoseconds.assign(period, 1000);
    for (std::uint32_t place = 0; place <= period; ++place) profile.first_operand.push_back(place * kMostOperands);
    profile.operand_buffers.assign(period * kMostOperands, kNoBuffer);
    const std::optional<Lineage> one = late_.lineage_of(profile), other = at_once_.lineage_of(profile);
    ASSERT_EQ(one.has_value(), other.has_value());
    if (!one) return;
    ASSERT_EQ(one->buffers.size(), other->buffers.size());
    for (std::size_t i = 0; i < one->buffers.size(); ++i) {
      ASSERT_EQ(one->buffers[i].bytes, other->buffers[i].bytes);
      ASSERT_EQ(one->buffers[i].death, other->buffers[i].death);
    }
    ASSERT_EQ(one->versions.size(), other->versions.size());
    for (std::size_t i = 0; i < one->versions.size(); ++i) {
      ASSERT_EQ(one->versions[i].producer, other->versions[i].producer);
      ASSERT_EQ(one->versions[i].last, other->versions[i].last);
    }
    for (std::uint32_t place = 0; place < period; ++place)
      ASSERT_EQ(one->is_repeatable(place), other->is_repeatable(place));
    ++lineages;
  }

  std::mt19937_64 random_;
  Versions late_, at_once_;
  std::vector<BufferNumber> live_;
  std::vector<std::shared_ptr<const Versions::Form>> forms_;
  std::shared_ptr<const Versions::Form> form_;
  BufferNumber newest_ = 0;
  std::uint64_t id_ = 0;
};

TEST(VersionsAreNotedLate, AsIfEachOperationHadBeenNotedWhenItCame) {
  std::uint64_t dropped = 0, forgotten = 0, answers = 0, lineages = 0, kept = 0, worth_a_copy = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    // Some forget nearly all, and so do it while operations are late.
    Both both(seed, seed % 4 == 0 ? 1000 : 5 + seed % 16);
    both.run(300);
    if (HasFatalFailure()) return;
    dropped += both.dropped, forgotten += both.forgotten, answers += both.answers;
    lineages += both.lineages, kept += both.kept, worth_a_copy += both.worth_a_copy;
  }
  EXPECT_GT(dropped, 200u);
  EXPECT_GT(forgotten, 300u);
  EXPECT_GT(answers, 3000u);
  EXPECT_GT(lineages, 1000u);
  EXPECT_GT(kept, 10u);
  EXPECT_GT(worth_a_copy, 10u);
}

// Nobody asks: of many operations only those are kept that could ever run again.
TEST(VersionsAreNotedLate, OldOperationsAreForgottenWithoutBeingNoted) {
  constexpr std::uint64_t kRemembered = 64, kOperations = 50'000;
  Versions versions(kRemembered, true);
  const auto operand = [](BufferNumber buffer, bool reads) {
    return Versions::Operand{buffer, DeviceAddress{buffer << 30}, kMiB, true, {reads, !reads}};
  };
  const Versions::Operand operands[] = {operand(1, true), operand(2, false)};
  for (std::uint64_t id = 1; id <= kOperations; ++id) {
    versions.arrives(id, true, 0, operands);
    versions.submitted();
  }
  EXPECT_FALSE(versions.are_all_known(kRemembered + 1));
  EXPECT_TRUE(versions.are_all_known(kRemembered / 2));
  const BufferNumber two = 2;
  ASSERT_TRUE(versions.drop(two));
  const std::optional<Recipe> recipe = versions.recipe_for({&two, 1});
  ASSERT_TRUE(recipe.has_value());
  EXPECT_EQ(versions.id_of(recipe->runs.back().operation), kOperations);
  versions.validate();
}

}  // namespace
}  // namespace thermocline
