// SPDX-License-Identifier: Apache-2.0
// The engine's treatment of dropped contents when an operation arrives that may access more than it names.
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offload/movement.h"
#include "offload/relauncher.h"
#include "tests/offload/engine_fixture.h"

namespace thermocline {
namespace {

// Describes drops and recomputations in words.
class RecomputeListener : public MovementObserver {
 public:
  void copying_out(const MovedUnit&, EvictReason) override {}
  void evicted(const MovedUnit&, EvictReason) override {}
  void fetching(const MovedUnit&, FetchReason) override {}
  void dropped(const MovedUnit& unit) override { add("dropped", unit); }
  void recomputing(RecomputeReason reason) override { told.emplace_back(std::string("for ") + name_of(reason)); }
  void recomputed(const MovedUnit& unit, RecomputeReason) override { add("recomputed", unit); }

  std::vector<std::string> told;

 private:
  void add(const char* what, const MovedUnit& unit) {
    told.push_back(std::string(what) + " " + std::to_string(unit.bytes) + " at " + std::to_string(unit.address.value));
  }
};

class RecomputeEngineTest : public EngineTest, private Relauncher {
 protected:
  void SetUp() override { begin(64 * kMiB, false); }
  void begin(Bytes budget, bool soft_limit) {
    start({.budget_bytes = budget,
           .evict_no_more = &unseen_,
           .host_is_readable = false,
           .soft_limit = soft_limit,
           .recompute = Recompute::kAuto,
           .relauncher = this,
           .movements = &told_});
    from_ = allocate(from_bytes_);
    to_ = allocate(kSize);
    other_ = allocate(kSize);
    // How contents are made is noted once half of the budget has been live.
    if (is_noted_) allocate(budget / 2);
    ASSERT_TRUE(operate({{from_, from_bytes_}, {other_, kSize}}, Access::kWrite).ok());
    EXPECT_EQ(device_->driver().synchronize_context(), Status());
    engine_->synchronized_all();
  }
  // An operation that computes one buffer from the other and is completely described.
  void make() {
    const std::array accesses{MemoryAccess{from_, from_bytes_, Access::kRead},
                              MemoryAccess{to_, kSize, Access::kWrite}};
    const std::array uses{OperandUse{.reads = true}, OperandUse{.writes = true}};
    const RelaunchInfo relaunch{.id = 1, .may_run_again = true, .uses = uses};
    Operation operation = engine_->begin(kStream, accesses, {.kind = 8, .nanoseconds = 1000, .relaunch = &relaunch});
    ASSERT_TRUE(operation.status().ok());
    std::array operands = operands_at({from_, to_});
    EXPECT_EQ(device_->control().launch_operator(nullptr, "make", 1e9, 1e6, std::nan(""), operands.data(), 2), 0);
    operation.commit();
    engine_->validate();
  }
  std::array<SimulatedOperand, 2> operands_at(std::array<DeviceAddress, 2> at) const {
    return {SimulatedOperand{.address = at[0].value, .bytes = from_bytes_, .flags = SIMULATED_OPERAND_READ},
            SimulatedOperand{.address = at[1].value, .bytes = kSize, .flags = SIMULATED_OPERAND_WRITE}};
  }
  Status relaunch(std::uint64_t, StreamHandle, std::span<const DeviceAddress> at) override {
    std::array operands = operands_at({at[0], at[1]});
    return Status(
        device_->control().relaunch_operator(nullptr, "make", 1e9, 1e6, std::nan(""), operands.data(), 2, launched_));
  }
  // Described, so that nothing else is accessed.
  void overwrite_input() {
    const std::array uses{OperandUse{.writes = true}};
    const RelaunchInfo relaunch{.id = 3, .may_run_again = false, .uses = uses};
    ASSERT_TRUE(submit({{from_, from_bytes_}}, Access::kWrite, {.kind = 10, .nanoseconds = 1000, .relaunch = &relaunch},
                       std::nan(""))
                    .ok());
  }
  std::uint64_t recomputed() const { return engine_->statistics().recomputed_operations; }
  // The movements told since the last call.
  std::vector<std::string> told() { return std::exchange(told_.told, {}); }
  std::vector<std::string> dropped_and_recomputed_for(const std::string& reason) const {
    const std::string what = " " + std::to_string(kSize) + " at " + std::to_string(to_.value);
    return {"dropped" + what, "for " + reason, "recomputed" + what};
  }

  static constexpr Bytes kSize = 8 * kMiB;
  static constexpr std::uint64_t launched_ = 2;  // the number of make() among the device's operators
  Bytes from_bytes_ = kSize;
  bool is_noted_ = true;
  DeviceAddress from_, to_, other_;
  std::atomic<bool> unseen_{false};
  RecomputeListener told_;
};

TEST_F(RecomputeEngineTest, WhoWatchesIsToldWhatIsDroppedAndWhyItIsRecomputed) {
  const auto drop = [this] {
    make();
    EXPECT_TRUE(engine_->drop(to_).ok());
  };
  drop();
  EXPECT_TRUE(engine_->make_all_again().ok());
  EXPECT_EQ(told(), dropped_and_recomputed_for("all_needed"));
  drop();
  const std::array uses{OperandUse{.reads = true}};
  const RelaunchInfo relaunch{.id = 2, .may_run_again = false, .uses = uses};
  ASSERT_TRUE(
      submit({{to_, kSize}}, Access::kRead, {.kind = 9, .nanoseconds = 1000, .relaunch = &relaunch}, std::nan(""))
          .ok());
  EXPECT_EQ(told(), dropped_and_recomputed_for("accessed"));
  drop();
  make();
  EXPECT_EQ(told().size(), 1u) << "what is overwritten is not recomputed";
  EXPECT_TRUE(engine_->drop(to_).ok());
  overwrite_input();
  EXPECT_EQ(told(), dropped_and_recomputed_for("input_ends"));
  drop();
  ASSERT_TRUE(operate({{other_, kSize}}).ok());
  EXPECT_EQ(told(), dropped_and_recomputed_for("unknown_access"));
}

TEST_F(RecomputeEngineTest, WhatIsDroppedIsThereWhenAnybodyMayAccessIt) {
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  // It does not name the dropped buffer, but might access it.
  ASSERT_TRUE(operate({{other_, kSize}}).ok());
  EXPECT_EQ(recomputed(), 1u);
  EXPECT_FALSE(engine_->drop(to_).ok()) << "what it is made of may have been written to";
}

class RoomyEngineTest : public RecomputeEngineTest {
 protected:
  RoomyEngineTest() { is_noted_ = false; }
};

// Then nobody has to say how operations may run again.
TEST_F(RoomyEngineTest, NothingIsNotedBeforeHalfOfTheBudgetHasBeenLive) {
  make();
  EXPECT_FALSE(engine_->wants_relaunches());
  EXPECT_FALSE(engine_->drop(to_).ok());
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(operate({{other_, kSize}}).ok());
  allocate(32 * kMiB);
  make();
  EXPECT_TRUE(engine_->wants_relaunches());
  EXPECT_FALSE(engine_->drop(to_).ok()) << "what was submitted before may be running, and write anything";
  EXPECT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  make();
  EXPECT_TRUE(engine_->drop(to_).ok());
  make();
}

TEST_F(RecomputeEngineTest, WhatNobodyNamedMayBeUsedUntilThatHasPassed) {
  make();
  ASSERT_TRUE(operate({{other_, kSize}}).ok());
  make();
  EXPECT_FALSE(engine_->drop(to_).ok()) << "the operation before may access its pages still";
  EXPECT_TRUE(device_->driver().synchronize_context().ok());
  engine_->synchronized_all();
  make();
  EXPECT_TRUE(engine_->drop(to_).ok());
  make();
  EXPECT_EQ(recomputed(), 0u) << "what is overwritten is not recomputed before";
}

// It waits without the lock, and another thread makes something of what it is about to overwrite.
TEST_F(RecomputeEngineTest, WhatWasRefusedMeetsWhatOthersHaveMadeMeanwhile) {
  const std::array accesses{MemoryAccess{from_, from_bytes_, Access::kWrite}};
  const std::array uses{OperandUse{.writes = true}};
  const RelaunchInfo relaunch{.id = 3, .may_run_again = false, .uses = uses};
  const OperationInfo info{.kind = 10, .nanoseconds = 1000, .relaunch = &relaunch};
  { const Operation refused = engine_->begin(kStream, accesses, info, false); }
  std::thread([this] { make(); }).join();
  ASSERT_TRUE(engine_->drop(to_).ok());
  {
    Operation operation = engine_->begin(kStream, accesses, info, true);
    ASSERT_TRUE(operation.status().ok());
    operation.commit();
  }
  EXPECT_EQ(recomputed(), 1u) << "of what has been overwritten now";
  EXPECT_FALSE(engine_->drop(to_).ok()) << "what it was made of is gone";
  engine_->validate();
}

TEST_F(RecomputeEngineTest, WhileAnyStreamRecordsEverythingIsThere) {
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  engine_->recording(true);
  EXPECT_EQ(recomputed(), 1u);
  EXPECT_FALSE(engine_->drop(to_).ok());
  engine_->recording(false);
  EXPECT_TRUE(engine_->drop(to_).ok());
  EXPECT_TRUE(engine_->make_all_again().ok());
  EXPECT_EQ(recomputed(), 2u);
}

TEST_F(RecomputeEngineTest, OnceMemoryMayBeUsedUnseenNothingIsDropped) {
  make();
  unseen_ = true;
  EXPECT_EQ(engine_->drop(to_), Status::not_supported());
  EXPECT_TRUE(engine_->find(to_)->resident);
}

TEST_F(RecomputeEngineTest, WhatWasPinnedMayHaveBeenWrittenUnseen) {
  make();
  ASSERT_TRUE(engine_->pin(from_, "test").ok());
  make();
  EXPECT_FALSE(engine_->drop(to_).ok()) << "it is made of what is pinned";
  engine_->unpin_unseen(from_, engine_->find(from_)->number);
  EXPECT_FALSE(engine_->drop(to_).ok());
  make();
  EXPECT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->pin(from_, "test").ok());
  EXPECT_EQ(recomputed(), 1u) << "as long as what it is made of is there";
  EXPECT_FALSE(engine_->drop(to_).ok());
  std::uint64_t hold = 0;
  engine_->unpin_unseen(from_, engine_->find(from_)->number);
  make();
  const AddressRange range{from_, kSize};
  ASSERT_TRUE(engine_->hold_on_device({&range, 1}, "test", &hold).ok());
  engine_->let_go(hold);
  EXPECT_FALSE(engine_->drop(to_).ok());
}

// By then the addresses of evicted buffers are unmapped, as if strict.
TEST_F(RecomputeEngineTest, NoAddressLeadsToAnothersPagesWhereAnybodyMayUseIt) {
  std::array<DeviceAddress, 8> more;
  for (DeviceAddress& one : more) one = allocate(kSize);
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  for (const DeviceAddress one : more) {
    const std::array uses{OperandUse{.writes = true}};
    const RelaunchInfo relaunch{.id = 2, .may_run_again = false, .uses = uses};
    ASSERT_TRUE(
        submit({{one, kSize}}, Access::kWrite, {.kind = 9, .nanoseconds = 1000, .relaunch = &relaunch}, std::nan(""))
            .ok());
  }
  const std::uint64_t before = engine_->statistics().unmaps;
  ASSERT_TRUE(operate({{more.back(), kSize}}).ok());
  EXPECT_GT(engine_->statistics().unmaps, before);
  const std::uint64_t behind = engine_->statistics().unmaps;
  ASSERT_TRUE(operate({{more.back(), kSize}}).ok());
  EXPECT_EQ(engine_->statistics().unmaps, behind) << "none did any more";
}

// The input of the contents is an eighth of their size.
class KeptInputTest : public RecomputeEngineTest {
 protected:
  void SetUp() override {
    from_bytes_ = kSize / 8;
    begin(64 * kMiB, false);
  }
  // Described, so that nothing else is accessed.
  void read_result() {
    const std::array uses{OperandUse{.reads = true}};
    const RelaunchInfo relaunch{.id = 2, .may_run_again = false, .uses = uses};
    ASSERT_TRUE(
        submit({{to_, kSize}}, Access::kRead, {.kind = 9, .nanoseconds = 1000, .relaunch = &relaunch}, std::nan(""))
            .ok());
  }
};

TEST_F(KeptInputTest, AnInputThatIsFreedIsKeptForWhatIsMadeOfIt) {
  make();
  const Bytes live = engine_->statistics().live_bytes;
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->free(from_, kStream).ok());
  engine_->validate();
  EXPECT_EQ(recomputed(), 0u);
  EXPECT_EQ(engine_->statistics().live_bytes, live - from_bytes_) << "the program has freed it";
  EXPECT_FALSE(engine_->free(from_, kStream).ok()) << "a second time";
  read_result();
  EXPECT_EQ(recomputed(), 1u);
  read_result();
  engine_->validate();
  EXPECT_EQ(recomputed(), 1u);
  EXPECT_FALSE(engine_->drop(to_).ok()) << "by now it is gone";
}

TEST_F(KeptInputTest, AnInputThatIsOverwrittenIsCopiedAside) {
  make();
  const Bytes live = engine_->statistics().live_bytes;
  ASSERT_TRUE(engine_->drop(to_).ok());
  overwrite_input();
  overwrite_input();
  engine_->validate();
  EXPECT_EQ(recomputed(), 0u);
  EXPECT_EQ(engine_->statistics().live_bytes, live) << "the program knows nothing of the copy";
  read_result();
  EXPECT_EQ(recomputed(), 1u);
  read_result();
  EXPECT_FALSE(engine_->drop(to_).ok()) << "by now the copy is gone";
  engine_->validate();
}

TEST_F(KeptInputTest, ACopyIsGoneWithWhatIsMadeOfIt) {
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  const Bytes before = engine_->statistics().slab_live_bytes;
  overwrite_input();
  EXPECT_EQ(engine_->statistics().slab_live_bytes, before + from_bytes_);
  ASSERT_TRUE(engine_->free(to_, kStream).ok());
  overwrite_input();
  engine_->validate();
  EXPECT_EQ(engine_->statistics().slab_live_bytes, before);
  EXPECT_EQ(recomputed(), 0u);
}

TEST_F(RecomputeEngineTest, ALargeInputIsNotCopiedAside) {
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  overwrite_input();
  EXPECT_EQ(recomputed(), 1u) << "while it was there";
}

TEST_F(KeptInputTest, NothingIsKeptForWhatIsFreedToo) {
  const Bytes before = engine_->statistics().live_bytes;
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->free(from_, kStream).ok());
  ASSERT_TRUE(engine_->free(to_, kStream).ok());
  ASSERT_TRUE(operate({{other_, kSize}}).ok());
  engine_->validate();
  EXPECT_EQ(recomputed(), 0u);
  EXPECT_EQ(engine_->statistics().live_bytes, before - from_bytes_ - kSize);
}

TEST_F(RecomputeEngineTest, ALargeInputIsNotKept) {
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  ASSERT_TRUE(engine_->free(from_, kStream).ok());
  EXPECT_EQ(recomputed(), 1u) << "while it was there";
}

// An operation with two results, of which one is dropped: the other is made in scratch memory meanwhile.
class TwoResultsTest : public EngineTest, private Relauncher {
 protected:
  // All of the budget is in use; with scratch memory more than the budget, and than the host may hold.
  void SetUp() override {
    start(
        {.budget_bytes = 64 * kMiB, .host_limit_bytes = 32 * kMiB, .recompute = Recompute::kAuto, .relauncher = this});
    for (std::size_t i = 0; i < at_.size(); ++i) at_[i] = allocate(kBytes[i]);
    const DeviceAddress rest = allocate(32 * kMiB);
    ASSERT_TRUE(operate({{at_[0], kBytes[0]}, {rest, 32 * kMiB}}, Access::kWrite).ok());
    EXPECT_EQ(device_->driver().synchronize_context(), Status());
    engine_->synchronized_all();
  }
  void make() {
    const std::array accesses{MemoryAccess{at_[0], kBytes[0], Access::kRead},
                              MemoryAccess{at_[1], kBytes[1], Access::kWrite},
                              MemoryAccess{at_[2], kBytes[2], Access::kWrite}};
    const std::array uses{OperandUse{.reads = true}, OperandUse{.writes = true}, OperandUse{.writes = true}};
    const RelaunchInfo relaunch{.id = 1, .may_run_again = true, .uses = uses};
    Operation operation = engine_->begin(kStream, accesses, {.kind = 8, .nanoseconds = 1000, .relaunch = &relaunch});
    ASSERT_TRUE(operation.status().ok());
    std::array operands = operands_at(at_);
    EXPECT_EQ(device_->control().launch_operator(nullptr, "make", 1e9, 1e6, std::nan(""), operands.data(), 3), 0);
    operation.commit();
  }
  static std::array<SimulatedOperand, 3> operands_at(std::span<const DeviceAddress> at) {
    std::array<SimulatedOperand, 3> operands{};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      operands[i] = {.address = at[i].value,
                     .bytes = kBytes[i],
                     .flags = i == 0 ? SIMULATED_OPERAND_READ : SIMULATED_OPERAND_WRITE};
    }
    return operands;
  }
  Status relaunch(std::uint64_t, StreamHandle, std::span<const DeviceAddress> at) override {
    std::array operands = operands_at(at);
    return Status(device_->control().relaunch_operator(nullptr, "make", 1e9, 1e6, std::nan(""), operands.data(), 3, 2));
  }

  static constexpr std::array<Bytes, 3> kBytes = {8 * kMiB, 8 * kMiB, 16 * kMiB};
  std::array<DeviceAddress, 3> at_;
};

TEST_F(TwoResultsTest, ScratchMemoryGetsThePagesOfOthersForAWhile) {
  make();
  ASSERT_TRUE(engine_->drop(at_[1]).ok());
  EXPECT_TRUE(operate({{at_[1], kBytes[1]}}, Access::kRead).ok());
  EXPECT_EQ(engine_->statistics().recomputed_operations, 1u);
  EXPECT_GT(engine_->statistics().evicted_bytes, 0u);
}

class RecomputeOverBudgetTest : public RecomputeEngineTest {
  void SetUp() override { begin(12 * kMiB, true); }
};

TEST_F(RecomputeOverBudgetTest, WhatExceededTheBudgetMayDoSoAgain) {
  make();
  ASSERT_TRUE(engine_->drop(to_).ok());
  // An operation that fits brings the engine back to its budget first.
  const std::array uses{OperandUse{.writes = true}};
  const RelaunchInfo relaunch{.id = 2, .may_run_again = false, .uses = uses};
  ASSERT_TRUE(
      submit({{other_, kSize}}, Access::kWrite, {.kind = 9, .nanoseconds = 1000, .relaunch = &relaunch}, std::nan(""))
          .ok());
  EXPECT_TRUE(operate({{to_, kSize}}, Access::kRead).ok());
  EXPECT_EQ(recomputed(), 1u);
}

}  // namespace
}  // namespace thermocline
