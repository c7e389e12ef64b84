// SPDX-License-Identifier: Apache-2.0
// Requirements on a library that brings a private jemalloc into another program's process.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

class PrivateJemalloc : public testing::Test {
 protected:
  void SetUp() override {
    handle_ = dlopen(THERMOCLINE_PROBE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
    allocate_ = reinterpret_cast<void* (*)(std::size_t)>(dlsym(handle_, "probe_allocate"));
    free_ = reinterpret_cast<void (*)(void*)>(dlsym(handle_, "probe_free"));
    ASSERT_NE(allocate_, nullptr);
    ASSERT_NE(free_, nullptr);
  }

  const ElfW(Dyn) * dynamic_section() const {
    link_map* map = nullptr;
    return dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_ld : nullptr;
  }

  // Allocates blocks of several sizes, checks that none overlaps another, and frees them.
  void use() const {
    std::array<void*, 64> blocks{};
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::size_t bytes = 100 + i * 1000;
      blocks[i] = allocate_(bytes);
      ASSERT_NE(blocks[i], nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(blocks[i]) % 4096, 0U);
      std::memset(blocks[i], static_cast<int>(i), bytes);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(static_cast<unsigned char*>(blocks[i])[99 + i * 1000], i);
      free_(blocks[i]);
    }
  }

  void* handle_ = nullptr;
  void* (*allocate_)(std::size_t) = nullptr;
  void (*free_)(void*) = nullptr;
};

TEST_F(PrivateJemalloc, LoadsLateAndServesThreadsOldAndNew) {
  use();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] { use(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(PrivateJemalloc, NeedsNoStaticThreadStorage) {
  const ElfW(Dyn)* entry = dynamic_section();
  ASSERT_NE(entry, nullptr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FLAGS) {
      EXPECT_EQ(entry->d_un.d_val & DF_STATIC_TLS, 0U);
    }
  }
}

TEST_F(PrivateJemalloc, ExportsNeitherItsNamesNorMalloc) {
  for (const char* name :
       {"thermocline_je_mallocx", "thermocline_je_malloc", "je_malloc", "mallocx", "malloc_stats_print"}) {
    EXPECT_EQ(dlsym(handle_, name), nullptr) << name;
  }
  // dlsym on a handle also searches its dependencies: malloc is found there, and it must be the host program's.
  EXPECT_EQ(dlsym(handle_, "malloc"), dlsym(RTLD_DEFAULT, "malloc"));
}

}  // namespace
