// SPDX-License-Identifier: Apache-2.0
// The spill file by itself: its ranges, its transfers, and the file on a disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "offload/residency/host_grant.h"
#include "offload/spill/disk_file.h"
#include "offload/spill/file_ranges.h"
#include "offload/spill/own_descriptors.h"
#include "offload/spill/spill_queue.h"
#include "tests/offload/memory_file.h"

namespace thermocline {
namespace {

constexpr Bytes kBlock = kSpillAlignment;

struct Free {
  void operator()(unsigned char* at) const { std::free(at); }
};
using Memory = std::unique_ptr<unsigned char, Free>;

Memory memory_of(Bytes bytes, std::uint32_t seed) {
  Memory memory(static_cast<unsigned char*>(std::aligned_alloc(kBlock, bytes)));
  std::mt19937_64 random(seed);
  for (Bytes i = 0; i < bytes; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(memory.get() + i, &word, sizeof word);
  }
  return memory;
}

std::shared_ptr<SpillTransfer> transfer_of(bool writes, Bytes offset, unsigned char* memory, Bytes bytes) {
  auto made = std::make_shared<SpillTransfer>();
  made->writes = writes;
  made->offset = offset;
  made->memory = memory;
  made->bytes = bytes;
  return made;
}

// A folder of the test's own.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "spill.XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

TEST(FileRangesTest, RangesAreTakenBestFitAndMergeWhenTheyAreGivenBack) {
  FileRanges ranges(64 * kBlock + 1);
  EXPECT_EQ(ranges.limit(), 64 * kBlock) << "whole blocks";
  const Bytes a = *ranges.take(8 * kBlock), b = *ranges.take(4 * kBlock), c = *ranges.take(8 * kBlock);
  const Bytes d = *ranges.take(44 * kBlock);
  EXPECT_EQ(ranges.take(kBlock), std::nullopt);
  ranges.give(a);
  ranges.give(c);
  EXPECT_EQ(ranges.take(9 * kBlock), std::nullopt) << "no piece is so large";
  ranges.give(b);
  ranges.validate();
  EXPECT_EQ(*ranges.take(20 * kBlock), a) << "what lies side by side is one";
  ranges.give(d);
  EXPECT_EQ(ranges.taken_bytes(), 20 * kBlock);
  ranges.validate();
}

TEST(FileRangesTest, NoTwoRangesOverlapWhateverTheOrder) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    FileRanges ranges(1000 * kBlock);
    std::vector<std::pair<Bytes, Bytes>> taken;
    for (int step = 0; step < 500; ++step) {
      if (random() % 3 != 0) {
        const Bytes bytes = (1 + random() % 60) * kBlock;
        if (const auto offset = ranges.take(bytes)) {
          for (const auto& [other, length] : taken) ASSERT_TRUE(*offset + bytes <= other || other + length <= *offset);
          ASSERT_LE(*offset + bytes, ranges.limit());
          ASSERT_EQ(ranges.bytes_at(*offset), bytes);
          taken.emplace_back(*offset, bytes);
        }
      } else if (!taken.empty()) {
        const std::size_t one = random() % taken.size();
        ranges.give(taken[one].first);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(one));
      }
      ranges.validate();
    }
  }
}

TEST(SpillGrantTest, ALimitThatGrantsGrants) {
  for (const Bytes unit : {kUnitBytes, 2 * kMiB}) {
    for (Bytes in_file = kMiB; in_file < 4 * kGiB; in_file = in_file * 3 / 2 + 4096) {
      const Bytes limit = file_limit_that_grants(in_file, unit);
      EXPECT_GE(granted_in_file(limit, unit), in_file);
      const Bytes host = least_host_for_spill(unit) + in_file / 2;
      const Bytes live = granted_with_file(host, limit, unit);
      EXPECT_LE(needed_in_file(live, host, unit), granted_in_file(limit, unit));
    }
  }
  EXPECT_EQ(granted_with_file(kUnitBytes, kGiB, kUnitBytes), 0u) << "nothing can pass through so little";
}

class DiskFileTest : public testing::TestWithParam<DiskFile::Access> {
 protected:
  std::unique_ptr<DiskFile> create(const std::string& folder) {
    std::string why;
    std::unique_ptr<DiskFile> file = DiskFile::create(folder, GetParam(), &why);
    EXPECT_NE(file, nullptr) << why;
    return file;
  }
};

TEST_P(DiskFileTest, WhatWasWrittenIsRead) {
  const Folder folder;
  const auto file = create(folder.path());
  EXPECT_TRUE(folder.is_empty()) << "it has no name";
  // More pieces than are under way at a time, and a last one that is shorter.
  for (const Bytes bytes : {kBlock, 3 * kMiB, 34 * kMiB + kBlock}) {
    const Memory written = memory_of(bytes, 7), read = memory_of(bytes, 8);
    ASSERT_EQ(file->write(5 * kBlock, written.get(), bytes), 0);
    ASSERT_EQ(file->read(5 * kBlock, read.get(), bytes), 0);
    EXPECT_EQ(std::memcmp(written.get(), read.get(), bytes), 0);
  }
  EXPECT_NE(fcntl(file->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_P(DiskFileTest, SeveralThreadsUseItAtOnce) {
  const Folder folder;
  const auto file = create(folder.path());
  constexpr Bytes kBytes = 5 * kMiB;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Memory written = memory_of(kBytes, i), read = memory_of(kBytes, 100 + i);
      for (int round = 0; round < 4; ++round) {
        if (file->write(i * kBytes, written.get(), kBytes) != 0) ++wrong;
        if (file->read(i * kBytes, read.get(), kBytes) != 0) ++wrong;
        if (std::memcmp(written.get(), read.get(), kBytes) != 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(DiskFileTest, ReadingPastItsEndIsAnError) {
  const Folder folder;
  const auto file = create(folder.path());
  const Memory memory = memory_of(2 * kMiB, 1);
  EXPECT_NE(file->read(64 * kMiB, memory.get(), 2 * kMiB), 0);
  EXPECT_EQ(file->write(0, memory.get(), 2 * kMiB), 0) << "and it is as good as before";
}

// In a child process, which may lower its limit. Past it the kernel would send SIGXFSZ.
TEST_P(DiskFileTest, AFileSizeLimitIsAFullDiskAndNoSignal) {
  const Folder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string why;
    const auto file = DiskFile::create(folder.path(), GetParam(), &why);
    const rlimit limit{4 * kMiB, 4 * kMiB};
    if (file == nullptr || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
    const Memory memory = memory_of(2 * kMiB, 1);
    if (file->write(0, memory.get(), 2 * kMiB) != 0 || file->reserve(4 * kMiB) != 0) _exit(11);
    if (file->write(4 * kMiB, memory.get(), 2 * kMiB) != EFBIG || file->reserve(8 * kMiB) != EFBIG) _exit(12);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Its number may be that of a file of the program's by then.
TEST_P(DiskFileTest, AFileThatTheProgramHasClosedIsNotUsedAnyMore) {
  const Folder folder;
  auto file = create(folder.path());
  const int number = file->descriptor();
  ASSERT_EQ(close(number), 0);
  const std::string name = folder.path() + "/the program's";
  const int other = open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(dup2(other, number), number);
  const Memory memory = memory_of(kMiB, 1);
  EXPECT_EQ(file->write(0, memory.get(), kMiB), EBADF);
  EXPECT_EQ(file->read(0, memory.get(), kMiB), EBADF);
  EXPECT_EQ(std::filesystem::file_size(name), 0u);
  file.reset();
  EXPECT_NE(fcntl(number, F_GETFD), -1) << "what is the program's stays open";
  close(number);
  close(other);
}

INSTANTIATE_TEST_SUITE_P(Access, DiskFileTest,
                         testing::Values(DiskFile::Access{true, true}, DiskFile::Access{false, true},
                                         DiskFile::Access{true, false}, DiskFile::Access{false, false}),
                         [](const testing::TestParamInfo<DiskFile::Access>& one) {
                           return std::string(one.param.direct ? "Direct" : "Cached") +
                                  (one.param.ring ? "Ring" : "InPlace");
                         });

TEST(DiskFileErrorsTest, AFolderThatCanNotBeUsedIsNamed) {
  const Folder folder;
  std::string why;
  EXPECT_EQ(DiskFile::create(folder.path() + "/none", {}, &why), nullptr);
  EXPECT_NE(why.find(folder.path() + "/none: No such file or directory; create the folder: mkdir -p"),
            std::string::npos)
      << why;
  const std::string name = folder.path() + "/file";
  close(open(name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(DiskFile::create(name, {}, &why), nullptr);
  EXPECT_NE(why.find(name + " is not a folder"), std::string::npos) << why;
  EXPECT_EQ(DiskFile::create("/proc", {}, &why), nullptr);
  EXPECT_NE(why.find("/proc: no file can be created there"), std::string::npos) << why;
}

// Memory file systems give O_DIRECT and io_uring what they can.
TEST(DiskFileErrorsTest, AMemoryFileSystemWorksToo) {
  std::string why;
  const auto file = DiskFile::create("/dev/shm", {}, &why);
  if (file == nullptr) GTEST_SKIP() << why;
  const Memory written = memory_of(3 * kMiB, 1), read = memory_of(3 * kMiB, 2);
  ASSERT_EQ(file->write(kMiB, written.get(), 3 * kMiB), 0);
  ASSERT_EQ(file->read(kMiB, read.get(), 3 * kMiB), 0);
  EXPECT_EQ(std::memcmp(written.get(), read.get(), 3 * kMiB), 0);
}

// Unbuffered access refuses memory that is not aligned: the file is accessed through the cache from then on.
TEST(DiskFileErrorsTest, WhereUnbufferedAccessIsRefusedTheCacheIsUsed) {
  const Folder folder;
  std::string why;
  for (const bool ring : {true, false}) {
    const auto file = DiskFile::create(folder.path(), {.direct = true, .ring = ring}, &why);
    ASSERT_NE(file, nullptr) << why;
    if (!file->is_direct()) GTEST_SKIP() << "no unbuffered access here";
    const Memory written = memory_of(2 * kMiB, 1), read = memory_of(2 * kMiB, 2);
    ASSERT_EQ(file->write(0, written.get() + 1, kMiB), 0);
    ASSERT_EQ(file->read(0, read.get() + 3, kMiB), 0);
    EXPECT_EQ(std::memcmp(written.get() + 1, read.get() + 3, kMiB), 0);
  }
}

TEST(DiskFileErrorsTest, AChildClosesWhatItHasInherited) {
  const Folder folder;
  std::string why;
  const auto file = DiskFile::create(folder.path(), {}, &why);
  ASSERT_NE(file, nullptr) << why;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close_own_descriptors();
    _exit(fcntl(file->descriptor(), F_GETFD) == -1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const Memory memory = memory_of(kMiB, 1);
  EXPECT_EQ(file->write(0, memory.get(), kMiB), 0) << "the parent's is as it was";
}

TEST(DiskFileErrorsTest, NothingIsLeftOfAProcessThatIsKilled) {
  const Folder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string why;
    const auto file = DiskFile::create(folder.path(), {}, &why);
    const Memory memory = memory_of(kMiB, 1);
    const char ok = file != nullptr && file->write(0, memory.get(), kMiB) == 0 ? 'y' : 'n';
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char ok = 'n';
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  EXPECT_EQ(ok, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_TRUE(folder.is_empty());
}

class SpillQueueTest : public testing::TestWithParam<bool> {};

TEST_P(SpillQueueTest, TransfersEndAndWhatComesBackIsChecked) {
  const auto file = std::make_shared<MemoryFile>(64 * kMiB);
  SpillQueue queue(file, GetParam());
  const Memory a = memory_of(kMiB, 1), b = memory_of(kMiB, 2);
  const auto write = transfer_of(true, kMiB, a.get(), kMiB);
  queue.begin(write);
  queue.wait(*write);
  ASSERT_TRUE(write->is_done());
  const auto read = transfer_of(false, kMiB, b.get(), kMiB);
  read->checksum = write->checksum;
  queue.begin(read);
  queue.wait(*read);
  ASSERT_TRUE(read->is_done());
  EXPECT_EQ(std::memcmp(a.get(), b.get(), kMiB), 0);

  file->corrupts = true;
  const auto wrong = transfer_of(false, kMiB, b.get(), kMiB);
  wrong->checksum = write->checksum;
  queue.begin(wrong);
  queue.wait(*wrong);
  EXPECT_FALSE(wrong->is_done());
  EXPECT_EQ(wrong->error, kWrongChecksum);

  file->fail_write_at = file->writes + 1;
  const auto failed = transfer_of(true, 0, a.get(), kMiB);
  queue.begin(failed);
  queue.wait(*failed);
  EXPECT_FALSE(failed->is_done());
  EXPECT_EQ(failed->error, EIO);
}
INSTANTIATE_TEST_SUITE_P(InPlace, SpillQueueTest, testing::Bool());

TEST(SpillQueueThreadsTest, AReadNeedNotWaitForWrites) {
  const auto slow = std::make_shared<MemoryFile>(64 * kMiB);
  const Memory memory = memory_of(kMiB, 1);
  std::vector<std::shared_ptr<SpillTransfer>> writes;
  {
    SpillQueue queue(slow, false);
    slow->hold();
    for (Bytes i = 0; i < 6; ++i) {
      writes.push_back(transfer_of(true, i * kMiB, memory.get(), kMiB));
      queue.begin(writes.back());
    }
    for (const auto& write : writes) EXPECT_TRUE(write->is_pending());
    slow->release();
  }
  for (const auto& write : writes) EXPECT_TRUE(write->is_done()) << "the end of a queue waits for what has begun";
}

}  // namespace
}  // namespace thermocline
