// SPDX-License-Identifier: Apache-2.0
// Versions in a process whose host memory runs out, for a while, from some request on. While nothing is dropped no call fails;
// what is refused otherwise has changed nothing; and afterwards what is said to be recomputed has the bits that it had.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/hash.h"
#include "driver/host_reserve.h"
#include "offload/recompute/versions.h"
#include "tests/offload/refused_memory.h"

namespace thermocline {
namespace {

using BufferNumber = Versions::BufferNumber;

// The contents that an operation writes: a hash of what it reads.
std::uint64_t written_by(std::uint64_t id, std::size_t operand, const std::vector<std::uint64_t>& read) {
  std::uint64_t all = id * 64 + operand;
  for (const std::uint64_t one : read) all = (all ^ one) * kHashFactor;
  return all;
}

// Random operations on a few buffers whose contents are known.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed), versions_(10 + seed % 50, true) {
    for (int i = 0; i < 6; ++i) allocate();
  }

  // `granted_to_call`: how many requests each call of about every other step is granted; negative: all.
  void run(int steps, std::int64_t granted_to_call) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      granted_to_call_ = below(2) == 0 ? granted_to_call : -1;
      step();
      versions_.validate();
    }
  }
  std::uint64_t dropped = 0, recomputed = 0, refusals = 0;

 private:
  std::uint64_t below(std::uint64_t end) { return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_); }
  void allocate() { contents_[++newest_] = ++found_ << 32; }
  BufferNumber any() {
    return std::next(contents_.begin(), static_cast<std::ptrdiff_t>(below(contents_.size())))->first;
  }

  // False: it was refused, which may only be while something is dropped.
  template <class Call>
  bool call_with_little(const Call& call) {
    const bool may_fail = versions_.any_dropped();
    granted = granted_to_call_;
    try {
      call();
    } catch (const std::bad_alloc&) {
      granted = -1;
      EXPECT_TRUE(may_fail) << "nothing is dropped";
      ++refusals;
      return false;
    }
    granted = -1;
    return true;
  }

  void step() {
    const std::uint64_t what = below(12);
    if (what == 0) {
      const BufferNumber gone = any();
      restore_what_reads({gone});
      call_with_little([&] { versions_.freed(gone); });
      contents_.erase(gone);
      allocate();
    } else if (what == 1 && !versions_.any_dropped()) {
      call_with_little([&] { versions_.forget_contents(); });
    } else if (what == 2) {
      const BufferNumber one = any();
      if (versions_.is_dropped(one)) return restore(one);
      bool is_dropped = false;
      if (call_with_little([&] { static_cast<void>(versions_.current(one)); })) is_dropped = versions_.drop(one);
      dropped += is_dropped ? 1 : 0;
    } else {
      operate();
    }
  }

  void operate() {
    std::vector<Versions::Operand> operands;
    for (std::size_t i = 1 + below(3); i > 0; --i) {
      const BufferNumber one = any();
      if (std::ranges::find(operands, one, &Versions::Operand::buffer) != operands.end()) continue;
      OperandUse use{.reads = below(2) == 0, .writes = below(3) != 0, .in_place = false};
      use.reads |= !use.writes;
      operands.push_back({one, DeviceAddress{one << 30}, kMiB, true, use});
    }
    for (const Versions::Operand& one : operands) {
      if (one.use.reads && versions_.is_dropped(one.buffer)) restore(one.buffer);
    }
    const auto form = std::make_shared<const Versions::Form>(operands, below(6) != 0, true, nullptr);
    const std::uint64_t id = ++id_;
    // Once refused it comes again, with memory.
    if (!call_with_little([&] { versions_.arrives(form, id, 1); })) {
      versions_.validate();
      versions_.arrives(form, id, 1);
    }
    ASSERT_EQ(versions_.arriving().size(), operands.size());
    std::vector<BufferNumber> going;
    for (const Versions::Operand& one : operands) {
      if (one.use.writes) going.push_back(one.buffer);
    }
    restore_what_reads(going);
    for (const BufferNumber old : versions_.too_old()) restore(old);
    // Somebody else's buffer is freed meanwhile.
    if (below(10) == 0) {
      const BufferNumber other = any();
      if (std::ranges::find(operands, other, &Versions::Operand::buffer) == operands.end()) {
        restore_what_reads({other});
        call_with_little([&] { versions_.freed(other); });
        contents_.erase(other);
        allocate();
      }
    }
    if (versions_.any_dropped()) granted_to_call_ = -1;  // the driver has it: it has the reserve
    call_with_little([&] { versions_.submitted(); });
    run_it(operands, id);
  }

  void run_it(const std::vector<Versions::Operand>& operands, std::uint64_t id) {
    std::vector<std::uint64_t> read;
    for (const Versions::Operand& one : operands) {
      if (one.use.reads) read.push_back(contents_.at(one.buffer));
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].use.writes) contents_.at(operands[i].buffer) = written_by(id, i, read);
    }
  }

  void restore_what_reads(const std::vector<BufferNumber>& going) {
    for (const BufferNumber lost : versions_.lost_without(going)) restore(lost);
  }

  // Runs the recipe. What it reads in place are contents that are there.
  void restore(BufferNumber buffer) {
    const std::optional<Recipe> recipe = versions_.recipe_for({&buffer, 1});
    ASSERT_TRUE(recipe.has_value());
    std::vector<std::uint64_t> values(recipe->values.size());
    for (const Recipe::Run& run : recipe->runs) {
      const std::span<const Versions::Operand> operands = versions_.operands_of(run.operation);
      std::vector<std::uint64_t> read;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].use.reads) continue;
        const std::uint32_t value = recipe->operands[run.first_operand + i];
        ASSERT_TRUE(value != Recipe::kInPlace || !versions_.is_dropped(operands[i].buffer));
        read.push_back(value == Recipe::kInPlace ? contents_.at(operands[i].buffer) : values[value]);
      }
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::uint32_t value = recipe->operands[run.first_operand + i];
        if (operands[i].use.writes && value != Recipe::kInPlace)
          values[value] = written_by(versions_.id_of(run.operation), i, read);
      }
    }
    for (std::size_t v = 0; v < values.size(); ++v) {
      EXPECT_TRUE(!recipe->values[v].own || values[v] == contents_.at(buffer)) << buffer;
    }
    versions_.restored(buffer);
    ++recomputed;
  }

  std::mt19937_64 random_;
  Versions versions_;
  std::map<BufferNumber, std::uint64_t> contents_;  // those of dropped buffers, too: what they have to be again
  BufferNumber newest_ = 0;
  std::uint64_t found_ = 0, id_ = 0;
  std::int64_t granted_to_call_ = -1;
};

TEST(VersionsWithoutMemory, NothingFailsWhileNothingIsDroppedAndNothingIsRecomputedWrongly) {
  std::uint64_t dropped = 0, recomputed = 0, refusals = 0;
  const std::uint64_t refused_before = refused;
  std::thread([&] {
    HostReserve::leave_alone();
    for (std::uint64_t seed = 1; seed <= 400 && !testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Program program(seed);
      for (int i = 0; i < 6; ++i) {
        program.run(40, -1);
        program.run(40, static_cast<std::int64_t>(seed % 4));
      }
      dropped += program.dropped, recomputed += program.recomputed, refusals += program.refusals;
    }
    EXPECT_GT(refused, 1000u);
  }).join();
  EXPECT_EQ(refused, refused_before);
  EXPECT_GT(dropped, 500u);
  EXPECT_GT(recomputed, 500u);
  EXPECT_GT(refusals, 30u);
}

}  // namespace
}  // namespace thermocline
