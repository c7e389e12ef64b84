// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/parallel_search.h"

#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "offload/planning/background.h"

namespace thermocline {
namespace {

constexpr OwnRange kOwn{0x7000'0000'0000, Bytes{1} << 40};

using Found = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Found search(const std::vector<unsigned char>& bytes, std::uint64_t to, Bytes threads) {
  Found found;
  search_upload(WordScan(kOwn), {.from = bytes.data(), .bytes = bytes.size(), .to = to}, threads,
                [&](DeviceAddress at, std::uint64_t word) { found.emplace_back(at.value, word); });
  return found;
}

void put(std::vector<unsigned char>* bytes, std::size_t at, std::uint64_t word) {
  std::memcpy(bytes->data() + at, &word, sizeof word);
}

// Words at all places around the ends of the parts, and of the blocks in them, for destinations with any alignment.
TEST(ParallelSearch, FindsWhatOneThreadFindsInTheSameOrder) {
  std::mt19937_64 random(11);
  std::vector<unsigned char> bytes(3 * kMiB + 40);
  for (Bytes end = 64 * kKiB; end < bytes.size(); end += 64 * kKiB) {
    for (std::size_t at = end - 40; at + 8 < end + 40; at += 8 + random() % 5)
      put(&bytes, at, kOwn.begin + random() % kOwn.bytes);
  }
  for (const std::uint64_t to : {0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x1020}) {
    const Found expected = search(bytes, to, 1);
    ASSERT_GT(expected.size(), 30U);
    for (const Bytes threads : {2, 3, 5, 8}) EXPECT_EQ(search(bytes, to, threads), expected) << to << ", " << threads;
  }
}

// More than a thread keeps: the caller searches the rest itself.
TEST(ParallelSearch, FindsAllOfATableThatIsDense) {
  std::vector<unsigned char> bytes(4 * kMiB);
  for (std::size_t at = 0; at < bytes.size(); at += 8) put(&bytes, at, kOwn.begin + at);
  ASSERT_GT(bytes.size() / 8 / 2, SearchedPart::kMostWords);
  EXPECT_EQ(search(bytes, 0, 2), search(bytes, 0, 1));
}

TEST(ParallelSearch, FindsTensorMapsThatLieAcrossTheEndsOfParts) {
  std::vector<unsigned char> bytes(kMiB);
  const Bytes last = bytes.size() - TensorMaps::kBytes;
  const Found expected = {{512 * kKiB - 64, 0x1111}, {768 * kKiB, 0x2222}, {last, 0x3333}};
  for (const auto& [at, tensor] : expected) {
    std::memset(bytes.data() + at, static_cast<int>(tensor & 0xFF), TensorMaps::kBytes);
    ASSERT_TRUE(tensor_maps().remember(bytes.data() + at, DeviceAddress{tensor}, [](DeviceAddress) { return true; }));
  }
  EXPECT_EQ(search(bytes, 0, 1), expected);
  EXPECT_EQ(search(bytes, 0, 2), expected);
}

// As if the process had as many threads as it may have, for as long as it lives. False: this machine does not allow filters.
bool forbid_threads() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = std::size(steps), .filter = steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ParallelSearch, IsDoneByTheCallerWhereThereAreNoThreads) {
  constexpr int kFound = 0, kLost = 1, kHasThreads = 2, kNoFilters = 3;
  std::vector<unsigned char> bytes(2 * kMiB);
  put(&bytes, bytes.size() - 8, kOwn.begin);
  const pid_t child = fork();
  if (child == 0) {
    if (!forbid_threads()) _exit(kNoFilters);
    if (try_in_background([] {}).joinable()) _exit(kHasThreads);
    _exit(search(bytes, 0, 4) == Found{{bytes.size() - 8, kOwn.begin}} ? kFound : kLost);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilters) GTEST_SKIP() << "seccomp filters are not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), kFound);
}

TEST(ParallelSearch, SmallUploadsHaveOneThread) {
  EXPECT_EQ(search_threads(0), 1U);
  EXPECT_EQ(search_threads(2 * kLeastBytesOfSearchThread - 1), 1U);
  EXPECT_LE(search_threads(~Bytes{0}), kMostSearchThreads);
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  EXPECT_GE(search_threads(~Bytes{0}), std::min(static_cast<Bytes>(CPU_COUNT(&usable)), Bytes{2}));
}

}  // namespace
}  // namespace thermocline
