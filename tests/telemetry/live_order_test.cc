// SPDX-License-Identifier: Apache-2.0
// Orders to a process over its page: carried out once, or taken back.
#include "telemetry/live_order.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <thread>

namespace thermocline {
namespace {

using namespace std::chrono_literals;

// A process that does what it should is waited for that long.
constexpr auto kLongEnough = 60'000ms;

class LiveOrderTest : public testing::Test {
 protected:
  LiveOrderTest() : folder_(std::filesystem::temp_directory_path() / ("live_order_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    writer_ = LivePageWriter::create(folder_, "1.2.3");
  }
  ~LiveOrderTest() override {
    writer_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path page() const { return folder_ / ("thermocline." + std::to_string(getpid())); }
  OrderOutcome give(OrderKind kind, std::chrono::milliseconds begin_within = kLongEnough,
                    std::chrono::milliseconds end_within = kLongEnough) {
    return give_order(folder_, getpid(), kind, tag_, begin_within, end_within, &answer_);
  }
  // Carries out one order, as a process does.
  std::thread carry_out(int status, const SleepReport& report, OrderKind* heard, bool ends = true) {
    return std::thread([=, this] {
      std::uint32_t order = 0;
      while (order == 0) {
        writer_->wait();
        order = writer_->next_order();
      }
      *heard = kind_of(order);
      EXPECT_TRUE(writer_->begin_order(order, &heard_tag_));
      EXPECT_EQ(writer_->next_order(), 0u) << "it has been begun";
      if (ends) writer_->end_order(order, status, report);
    });
  }

  std::filesystem::path folder_;
  std::unique_ptr<LivePageWriter> writer_;
  OrderAnswer answer_;
  std::string tag_, heard_tag_;
};

TEST_F(LiveOrderTest, ComesWithItsAnswer) {
  const SleepReport report{.device_bytes_before = 1,
                           .device_bytes = 2,
                           .pinned_bytes = 3,
                           .external_bytes = 4,
                           .in_use_bytes = 5,
                           .no_host_bytes = 6,
                           .other_bytes = 7,
                           .asleep_bytes = 8,
                           .copied_bytes = 9,
                           .untagged_bytes = 10};
  for (const OrderKind kind : {OrderKind::kSleep, OrderKind::kWake, OrderKind::kSleep}) {
    tag_ = kind == OrderKind::kWake ? "" : "weights of one of several models, by a name that just fits in: x";
    tag_.resize(std::min(tag_.size(), LivePage::kTagBytes - 1));
    OrderKind heard = OrderKind::kNone;
    std::thread process = carry_out(kind == OrderKind::kSleep ? 0 : 801, report, &heard);
    EXPECT_EQ(give(kind), OrderOutcome::kEnded);
    process.join();
    EXPECT_EQ(heard, kind);
    EXPECT_EQ(heard_tag_, tag_);
    EXPECT_EQ(answer_.status, kind == OrderKind::kSleep ? 0 : 801);
    EXPECT_EQ(order_numbers(answer_.report), order_numbers(report));
    EXPECT_NE(answer_.program.find("telemetry"), std::string::npos) << answer_.program;
  }
}

TEST_F(LiveOrderTest, IsTakenBackIfItWasNotBegunInTime) {
  EXPECT_EQ(give(OrderKind::kSleep, 20ms), OrderOutcome::kSilent);
  EXPECT_EQ(writer_->next_order(), 0u);
}

// The process has read it, and comes to begin it when it has been taken back.
TEST_F(LiveOrderTest, IsNotBegunOnceItWasTakenBack) {
  const int file = open(page().c_str(), O_RDWR | O_CLOEXEC);
  const std::uint32_t given = 0x101, none = 0;
  ASSERT_EQ(pwrite(file, &given, sizeof given, offsetof(LivePage, order)), static_cast<ssize_t>(sizeof given));
  EXPECT_EQ(writer_->next_order(), given);
  ASSERT_EQ(pwrite(file, &none, sizeof none, offsetof(LivePage, order)), static_cast<ssize_t>(sizeof none));
  close(file);
  std::string tag;
  EXPECT_FALSE(writer_->begin_order(given, &tag));
  EXPECT_EQ(writer_->next_order(), 0u);
}

TEST_F(LiveOrderTest, GoesOnIfItWasBegun) {
  OrderKind heard = OrderKind::kNone;
  std::thread process = carry_out(0, {}, &heard, false);
  EXPECT_EQ(give(OrderKind::kWake, kLongEnough, 2000ms), OrderOutcome::kUnfinished);
  process.join();
}

TEST_F(LiveOrderTest, OneAtATimeIsGiven) {
  const int file = open(page().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(give(OrderKind::kSleep, 20ms, 20ms), OrderOutcome::kBusy);
  EXPECT_EQ(writer_->next_order(), 0u);
  close(file);
  EXPECT_EQ(give(OrderKind::kSleep, 20ms), OrderOutcome::kSilent);
}

TEST_F(LiveOrderTest, AnOlderLibraryTakesNone) {
  const int file = open(page().c_str(), O_RDWR | O_CLOEXEC);
  const std::uint32_t no = 0;
  ASSERT_EQ(pwrite(file, &no, sizeof no, offsetof(LivePage, takes_tags)), static_cast<ssize_t>(sizeof no));
  tag_ = "weights";
  EXPECT_EQ(give(OrderKind::kSleep, 20ms), OrderOutcome::kOlder) << "it would put everything to sleep";
  tag_.clear();
  EXPECT_EQ(give(OrderKind::kSleep, 20ms), OrderOutcome::kSilent);
  ASSERT_EQ(pwrite(file, &no, sizeof no, offsetof(LivePage, takes_orders)), static_cast<ssize_t>(sizeof no));
  close(file);
  EXPECT_EQ(give(OrderKind::kSleep, 20ms), OrderOutcome::kOlder);
}

TEST_F(LiveOrderTest, NobodyIsThere) {
  writer_.reset();
  EXPECT_EQ(give(OrderKind::kSleep), OrderOutcome::kNone);
  EXPECT_EQ(give_order(folder_ / "none", 1, OrderKind::kSleep, "", 20ms, 20ms, &answer_), OrderOutcome::kNone);
}

// One ends behind what it has written, one in the midst of it.
class LiveOrderEndTest : public LiveOrderTest, public testing::WithParamInterface<bool> {};

TEST_P(LiveOrderEndTest, AProcessThatEndsMeanwhileIsNotWaitedFor) {
  writer_.reset();
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto writer = LivePageWriter::create(folder_, "1");
    const char ready = 1;
    if (writer == nullptr || write(to_child[1], &ready, 1) != 1) _exit(1);
    writer->wait();
    std::string tag;
    static_cast<void>(writer->begin_order(writer->next_order(), &tag));
    const std::uint32_t odd = 7;
    const int file = open((folder_ / ("thermocline." + std::to_string(getpid()))).c_str(), O_RDWR | O_CLOEXEC);
    if (GetParam() && pwrite(file, &odd, sizeof odd, offsetof(LivePage, sequence)) != sizeof odd) _exit(1);
    _exit(0);  // without an answer, and without removing its page
  }
  char ready = 0;
  ASSERT_EQ(read(to_child[0], &ready, 1), 1);
  EXPECT_EQ(give_order(folder_, child, OrderKind::kSleep, "", kLongEnough, kLongEnough, &answer_), OrderOutcome::kNone);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  close(to_child[0]);
  close(to_child[1]);
}

INSTANTIATE_TEST_SUITE_P(Writing, LiveOrderEndTest, testing::Bool());

TEST_F(LiveOrderTest, APageThatIsTruncatedMeanwhileEndsNobody) {
  std::thread truncates([this] {
    writer_->wait();
    std::filesystem::resize_file(page(), 0);
  });
  const OrderOutcome outcome = give(OrderKind::kSleep, kLongEnough, kLongEnough);
  EXPECT_TRUE(outcome == OrderOutcome::kUnknown || outcome == OrderOutcome::kSilent);
  truncates.join();
  std::filesystem::resize_file(page(), sizeof(LivePage));
}

}  // namespace
}  // namespace thermocline
