// SPDX-License-Identifier: Apache-2.0
#include "allocator/pageable_host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "driver/free_memory.h"

namespace thermocline {
namespace {

class PageableHost : public testing::Test {
 protected:
  std::filesystem::path root;

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "pageable_host_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(const char* name, const std::string& text) {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
  void set_available(Bytes bytes) {
    write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:        1 kB\nMemAvailable:   " +
                              std::to_string(bytes / kKiB) + " kB\n");
  }
};

bool is_present(void* at, Bytes bytes) {
  std::vector<unsigned char> pages(bytes / static_cast<Bytes>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(mincore(at, bytes, pages.data()), 0);
  return std::ranges::all_of(pages, [](unsigned char page) { return (page & 1) != 0; });
}

TEST_F(PageableHost, IsPresentBeforeAnyCopy) {
  void* const at = take_pageable_host(4 * kMiB);
  ASSERT_NE(at, nullptr);
  EXPECT_TRUE(is_present(at, 4 * kMiB));
  EXPECT_TRUE(give_pageable_host(at, 4 * kMiB));
}

TEST_F(PageableHost, IsNotTakenWhereTheMachineHasNoMoreThanASpare) {
  set_available(kGiB);
  EXPECT_EQ(take_pageable_host(kGiB, {.root = root}), nullptr);
  void* const at = take_pageable_host(4 * kMiB, {.root = root});
  ASSERT_NE(at, nullptr);
  EXPECT_TRUE(give_pageable_host(at, 4 * kMiB));
  set_available(64 * kMiB);
  EXPECT_EQ(take_pageable_host(4 * kKiB, {.root = root}), nullptr);
}

TEST_F(PageableHost, IsRefusedWhereThePagesAreNotThere) {
  EXPECT_EQ(take_pageable_host(kMiB, {.root = "", .populate = [](void*, Bytes) { return errno = ENOMEM, -1; }}),
            nullptr);
  EXPECT_EQ(take_pageable_host(kMiB, {.root = "", .populate = [](void*, Bytes) { return errno = EFAULT, -1; }}),
            nullptr);
}

TEST_F(PageableHost, IsPresentWithKernelsThatDoNotPopulate) {
  void* const at = take_pageable_host(kMiB, {.root = "", .populate = [](void*, Bytes) { return errno = EINVAL, -1; }});
  ASSERT_NE(at, nullptr);
  EXPECT_TRUE(is_present(at, kMiB));
  EXPECT_TRUE(give_pageable_host(at, kMiB));
}

TEST_F(PageableHost, FreeBytesAreTheLeastOfTheMachineAndAllGroups) {
  EXPECT_EQ(free_host_bytes(root), ~Bytes{0}) << "nothing is known";
  set_available(kGiB);
  EXPECT_EQ(free_host_bytes(root), kGiB);
  write("proc/self/cgroup", "5:cpu,memory:/x\n0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/memory.max", "1000000\n");
  write("sys/fs/cgroup/a/memory.current", "900000\n");
  EXPECT_EQ(free_host_bytes(root), 100000u);
  write("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 50000\n");
  EXPECT_EQ(free_host_bytes(root), 150000u);
  write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000\n");
  write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "4000\n");
  write("sys/fs/cgroup/memory/x/memory.stat", "inactive_file 9\ntotal_inactive_file 20\n");
  EXPECT_EQ(free_host_bytes(root), 1020u);
  write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(free_host_bytes(root), 0u) << "beyond its limit";
}

}  // namespace
}  // namespace thermocline
