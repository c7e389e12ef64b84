// SPDX-License-Identifier: Apache-2.0
// The live page of a process: a request gets the current, complete statistics; and no page outlives its process for
// long.
#include "telemetry/live_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <thread>

#include "telemetry/statistic_names.h"

namespace thermocline {
namespace {

using namespace std::chrono_literals;

// A reader of a page whose process is alive may wait this long.
constexpr auto kTimeout = 60'000ms;

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() : folder_(std::filesystem::temp_directory_path() / ("live_page_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~LivePageTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path page(int pid) const { return folder_ / ("thermocline." + std::to_string(pid)); }

  // Ends without removing its page, like a process that is killed.
  int killed_child() const {
    const pid_t child = fork();
    if (child == 0) _exit(LivePageWriter::create(folder_, "1.2.3").release() != nullptr ? 0 : 1);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return child;
  }

  std::filesystem::path folder_;
  LiveStatistics found_;
};

std::uint64_t value(const LiveStatistics& found, const char* name) {
  const Statistic* row = find_statistic(name);
  return found.values.at(static_cast<std::size_t>(row - statistics_table().data()));
}

// Answers every request until the end, with statistics whose numbers are all equal.
class Answering {
 public:
  explicit Answering(LivePageWriter& writer)
      : thread_([this, &writer] {
          bool last = false;
          for (std::uint64_t number = 1; !last; ++number) {
            writer.wait();
            last = end_.load();
            EngineStatistics statistics;
            for (auto* field : {&statistics.budget_bytes, &statistics.live_bytes, &statistics.out_of_memory})
              *field = number;
            writer.write(statistics);
          }
        }) {}
  void end_at_next() { end_ = true; }
  ~Answering() { thread_.join(); }

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

TEST_F(LivePageTest, WhoAsksGetsWhatIsSoAfterwards) {
  const auto writer = LivePageWriter::create(folder_, "1.2.3");
  ASSERT_NE(writer, nullptr);
  Answering answering(*writer);
  ASSERT_EQ(read_live_page(folder_, getpid(), kTimeout, &found_), LiveRead::kAnswered);
  EXPECT_EQ(value(found_, "live_bytes"), 1u);
  EXPECT_EQ(found_.version, "1.2.3");
  EXPECT_NE(found_.program.find("telemetry"), std::string::npos) << found_.program;
  answering.end_at_next();
  ASSERT_EQ(read_live_page(folder_, getpid(), kTimeout, &found_), LiveRead::kAnswered);
  EXPECT_EQ(value(found_, "live_bytes"), 2u);
  EXPECT_EQ(found_.values.size(), statistics_table().size());
}

TEST_F(LivePageTest, SaysWhichOfSeveralProcessesItIs) {
  auto writer = LivePageWriter::create(folder_, "1", {.rank = 3, .local = 0, .size = 8});
  ASSERT_EQ(read_live_page(folder_, getpid(), 0ms, &found_), LiveRead::kSilent);
  EXPECT_EQ(found_.rank.rank, 3);
  EXPECT_EQ(found_.rank.local, 0);
  EXPECT_EQ(found_.rank.size, 8);
  writer.reset();
  writer = LivePageWriter::create(folder_, "1");
  ASSERT_EQ(read_live_page(folder_, getpid(), 0ms, &found_), LiveRead::kSilent);
  EXPECT_EQ(found_.rank.rank, -1);
  EXPECT_EQ(found_.rank.size, -1);
}

TEST_F(LivePageTest, NobodySeesPartOfACopy) {
  const auto writer = LivePageWriter::create(folder_, "1");
  Answering answering(*writer);
  std::vector<std::thread> readers;
  std::atomic<int> torn{0}, answered{0};
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (int turn = 0; turn < 300; ++turn) {
        LiveStatistics found;
        if (read_live_page(folder_, getpid(), kTimeout, &found) != LiveRead::kAnswered) continue;
        ++answered;
        const std::uint64_t first = value(found, "budget_bytes");
        if (value(found, "live_bytes") != first || value(found, "out_of_memory") != first) ++torn;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(answered, 900);
  answering.end_at_next();
  read_live_page(folder_, getpid(), kTimeout, &found_);
}

TEST_F(LivePageTest, ThePageIsTheOwnersAloneAndGoesWithIt) {
  const auto old_mask = umask(0);
  auto writer = LivePageWriter::create(folder_, "1");
  umask(old_mask);
  struct stat facts {};
  ASSERT_EQ(stat(page(getpid()).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0600u);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{getpid()});
  writer.reset();
  EXPECT_FALSE(std::filesystem::exists(page(getpid())));
  EXPECT_EQ(live_processes(folder_), std::vector<int>{});
  EXPECT_EQ(read_live_page(folder_, getpid(), kTimeout, &found_), LiveRead::kNone);
}

TEST_F(LivePageTest, AProcessThatDoesNotAnswerIsSaidToBeSilent) {
  const auto writer = LivePageWriter::create(folder_, "1");
  EXPECT_EQ(read_live_page(folder_, getpid(), 1ms, &found_), LiveRead::kSilent);
  EXPECT_EQ(found_.written.count(), 0);
}

TEST_F(LivePageTest, ThePageOfAProcessThatWasKilledIsRemovedByTheNextReader) {
  const int one = killed_child(), other = killed_child();
  EXPECT_TRUE(std::filesystem::exists(page(one)));
  EXPECT_EQ(read_live_page(folder_, one, kTimeout, &found_), LiveRead::kNone);
  EXPECT_FALSE(std::filesystem::exists(page(one)));
  EXPECT_EQ(live_processes(folder_), std::vector<int>{});
  EXPECT_FALSE(std::filesystem::exists(page(other)));
}

// As if the number had belonged to another process before.
TEST_F(LivePageTest, ANumberThatComesAgainIsAnotherProcess) {
  std::filesystem::copy(page(killed_child()), page(getpid()));
  std::fstream file(page(getpid()), std::ios::binary | std::ios::in | std::ios::out);
  const std::int32_t pid = getpid();
  file.seekp(offsetof(LivePage, pid)).write(reinterpret_cast<const char*>(&pid), sizeof pid);
  file.close();
  const std::uint64_t began = 1;
  file.open(page(getpid()), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offsetof(LivePage, began)).write(reinterpret_cast<const char*>(&began), sizeof began);
  file.close();
  EXPECT_EQ(read_live_page(folder_, getpid(), kTimeout, &found_), LiveRead::kNone);
  EXPECT_NE(LivePageWriter::create(folder_, "1"), nullptr);
}

TEST_F(LivePageTest, AProcessThatBecomesAnotherProgramHasOnePage) {
  LivePageWriter* const former = LivePageWriter::create(folder_, "1").release();
  ASSERT_NE(former, nullptr);
  EXPECT_NE(LivePageWriter::create(folder_, "2"), nullptr);
  delete former;
}

TEST_F(LivePageTest, AForkLeavesItsParentsPageAlone) {
  auto writer = LivePageWriter::create(folder_, "1");
  const pid_t child = fork();
  if (child == 0) {
    writer.reset();
    _exit(LivePageWriter::create(folder_, "1") != nullptr ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{getpid()});
}

TEST_F(LivePageTest, WhatIsNoPageIsLeftAlone) {
  std::ofstream(page(1)) << "something else";
  std::ofstream(folder_ / "thermocline.x1") << "something else";
  std::filesystem::create_symlink("/etc/passwd", page(2));
  EXPECT_EQ(read_live_page(folder_, 1, kTimeout, &found_), LiveRead::kUnknown);
  EXPECT_EQ(read_live_page(folder_, 2, kTimeout, &found_), LiveRead::kRefused);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{});
  EXPECT_TRUE(std::filesystem::exists(page(1)));
}

// Everybody may write to the folder.
class OtherUsersPageTest : public LivePageTest {
 protected:
  static constexpr uid_t kStranger = 54321;
  OtherUsersPageTest() { std::filesystem::permissions(folder_, std::filesystem::perms(01777)); }
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  }

  // Runs `play` as another user; that process then stays until `leave`.
  template <typename Play>
  pid_t stranger(Play play) {
    int done[2], stay[2];
    EXPECT_EQ(pipe(done) | pipe(stay), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(stay[1]);
      char byte = setresuid(kStranger, kStranger, kStranger) == 0 && play() ? 'y' : 'n';
      if (write(done[1], &byte, 1) != 1 || byte == 'n') _exit(1);
      _exit(static_cast<int>(read(stay[0], &byte, 1)));
    }
    close(done[1]);
    close(stay[0]);
    char byte = 0;
    EXPECT_EQ(read(done[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    close(done[0]);
    leave_ = stay[1];
    return child;
  }
  void leave(pid_t child) {
    close(leave_);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  bool change(int pid, std::size_t at, const void* data, std::size_t bytes) const {
    const int file = open(page(pid).c_str(), O_WRONLY | O_CLOEXEC);
    const bool changed = pwrite(file, data, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
    close(file);
    return changed;
  }
  int leave_ = -1;
};

TEST_F(OtherUsersPageTest, RootSeesWhoseItIsAndNoTextThatRulesATerminal) {
  const pid_t child = stranger([this] {
    LivePageWriter* const writer = LivePageWriter::create(folder_, "1").release();
    constexpr char kText[] = "\033]0;owned\a\x9b\r\nroot";
    const std::uint64_t late = UINT64_MAX;
    return writer != nullptr && change(getpid(), offsetof(LivePage, program), kText, sizeof kText) &&
           change(getpid(), offsetof(LivePage, written_ns), &late, sizeof late);
  });
  EXPECT_EQ(live_processes(folder_), std::vector<int>{child});
  EXPECT_EQ(read_live_page(folder_, child, 0ms, &found_), LiveRead::kSilent);
  EXPECT_EQ(found_.owner, kStranger);
  EXPECT_EQ(found_.program, "?]0;owned????root");
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_GT(found_.written.count(), 0);
  EXPECT_LE(found_.written, std::chrono::seconds(now.tv_sec + 1));
  leave(child);
}

TEST_F(OtherUsersPageTest, NobodySpeaksForAnothersProcess) {
  const pid_t ours = getpid();
  const pid_t child = stranger([this, ours] {
    // The user's own page under another process's number, and one that claims that number itself.
    if (LivePageWriter::create(folder_, "1").release() == nullptr) return false;
    std::filesystem::copy(page(getpid()), page(ours));
    std::filesystem::copy(page(getpid()), page(1));
    const std::int32_t first = 1;
    return change(1, offsetof(LivePage, pid), &first, sizeof first);
  });
  EXPECT_EQ(read_live_page(folder_, ours, 0ms, &found_), LiveRead::kUnknown);
  EXPECT_EQ(read_live_page(folder_, 1, 0ms, &found_), LiveRead::kRefused);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{child});
  leave(child);
}

TEST_F(OtherUsersPageTest, ANameThatAnotherTookKeepsNobodyFromHavingAPage) {
  const pid_t ours = getpid();
  const pid_t child = stranger([this, ours] { return std::ofstream(page(ours)).put('x').good(); });
  const auto writer = LivePageWriter::create(folder_, "1.2.3");
  ASSERT_NE(writer, nullptr);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{ours});
  {
    Answering answering(*writer);
    answering.end_at_next();
    EXPECT_EQ(read_live_page(folder_, ours, kTimeout, &found_), LiveRead::kAnswered);
  }
  EXPECT_EQ(found_.version, "1.2.3");
  EXPECT_EQ(found_.owner, geteuid());
  // A program that is executed in the same process has only one page.
  LivePageWriter* const former = LivePageWriter::create(folder_, "1").release();
  const auto follower = LivePageWriter::create(folder_, "2");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "the other user's, and one";
  delete former;
  leave(child);
}

TEST_F(OtherUsersPageTest, APipeHoldsUpNobody) {
  const pid_t child = stranger([this] { return mkfifo(page(1).c_str(), 0666) == 0; });
  EXPECT_EQ(read_live_page(folder_, 1, kTimeout, &found_), LiveRead::kUnknown);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{});
  leave(child);
}

TEST_F(LivePageTest, APageThatIsCutShortWhileItIsReadEndsNobody) {
  // Its process never reads it again.
  const pid_t child = fork();
  if (child == 0) {
    if (LivePageWriter::create(folder_, "1").release() == nullptr) _exit(1);
    for (;;) pause();
  }
  while (read_live_page(folder_, child, 0ms, &found_) != LiveRead::kSilent) usleep(1000);
  std::ifstream file(page(child), std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  std::atomic<bool> ended{false};
  std::thread cutter([&] {
    while (!ended.load()) {
      EXPECT_EQ(truncate(page(child).c_str(), 0), 0);
      EXPECT_EQ(truncate(page(child).c_str(), sizeof(LivePage)), 0);
      std::ofstream(page(child), std::ios::binary | std::ios::in).write(whole.data(), std::ssize(whole));
    }
  });
  for (int turn = 0; turn < 300; ++turn) static_cast<void>(read_live_page(folder_, child, 1ms, &found_));
  ended = true;
  cutter.join();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(StatisticNames, EveryNameIsUniqueAndEveryAliasStandsForOne) {
  std::set<std::string_view> names;
  for (const Statistic& statistic : statistics_table()) EXPECT_TRUE(names.insert(statistic.name).second);
  EXPECT_LE(statistics_table().size(), LivePage::kMostRows);
  for (const auto aliases : {pytorch_names(), tensorflow_names()}) {
    std::set<std::string_view> theirs;
    for (const StatisticAlias& alias : aliases) {
      EXPECT_TRUE(theirs.insert(alias.name).second) << alias.name;
      EXPECT_NE(find_statistic(alias.ours), nullptr) << alias.ours;
    }
  }
}

}  // namespace
}  // namespace thermocline
