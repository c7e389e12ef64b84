// SPDX-License-Identifier: Apache-2.0
// The page of a running process: who asks gets what is so now, whole; and no page outlives its process for long.
#include "offload/live_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <thread>

#include "offload/statistic_names.h"

namespace thermocline {
namespace {

using namespace std::chrono_literals;

// A reader of a page that is there and alive may take its time.
constexpr auto kPatience = 60'000ms;

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() : folder_(std::filesystem::temp_directory_path() / ("live_page_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~LivePageTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path page(int pid) const { return folder_ / ("thermocline." + std::to_string(pid)); }

  // Ends without removing its page, as one that was killed.
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

// Answers every request until the end, with statistics whose numbers are all the same.
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
  ASSERT_EQ(read_live_page(folder_, getpid(), kPatience, &found_), LiveRead::kAnswered);
  EXPECT_EQ(value(found_, "live_bytes"), 1u);
  EXPECT_EQ(found_.version, "1.2.3");
  EXPECT_NE(found_.program.find("live_page"), std::string::npos) << found_.program;
  answering.end_at_next();
  ASSERT_EQ(read_live_page(folder_, getpid(), kPatience, &found_), LiveRead::kAnswered);
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
        if (read_live_page(folder_, getpid(), kPatience, &found) != LiveRead::kAnswered) continue;
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
  read_live_page(folder_, getpid(), kPatience, &found_);
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
  EXPECT_EQ(read_live_page(folder_, getpid(), kPatience, &found_), LiveRead::kNone);
}

TEST_F(LivePageTest, AProcessThatDoesNotAnswerIsSaidToBeSilent) {
  const auto writer = LivePageWriter::create(folder_, "1");
  EXPECT_EQ(read_live_page(folder_, getpid(), 1ms, &found_), LiveRead::kSilent);
  EXPECT_EQ(found_.written.count(), 0);
}

TEST_F(LivePageTest, ThePageOfAProcessThatWasKilledIsRemovedByTheNextReader) {
  const int one = killed_child(), other = killed_child();
  EXPECT_TRUE(std::filesystem::exists(page(one)));
  EXPECT_EQ(read_live_page(folder_, one, kPatience, &found_), LiveRead::kNone);
  EXPECT_FALSE(std::filesystem::exists(page(one)));
  EXPECT_EQ(live_processes(folder_), std::vector<int>{});
  EXPECT_FALSE(std::filesystem::exists(page(other)));
}

// As if the number had been another process's before.
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
  EXPECT_EQ(read_live_page(folder_, getpid(), kPatience, &found_), LiveRead::kNone);
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
  EXPECT_EQ(read_live_page(folder_, 1, kPatience, &found_), LiveRead::kUnknown);
  EXPECT_EQ(read_live_page(folder_, 2, kPatience, &found_), LiveRead::kRefused);
  EXPECT_EQ(live_processes(folder_), std::vector<int>{});
  EXPECT_TRUE(std::filesystem::exists(page(1)));
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
