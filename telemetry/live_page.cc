// SPDX-License-Identifier: Apache-2.0
// The writer's side of telemetry/live_page.h. https://www.kernel.org/doc/html/latest/userspace-api/futex2.html and
// futex(2).
#include "telemetry/live_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "driver/printable.h"
#include "telemetry/live_order.h"
#include "telemetry/live_page_files.h"
#include "telemetry/process_facts.h"
#include "telemetry/statistic_names.h"

namespace thermocline {
namespace {

using std::chrono::nanoseconds;

// Attempts to create a file with a random name. Others can not guess such a name, so one attempt is nearly always
// enough.
constexpr int kMostNames = 3;

nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t while_it_is) {
  syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, nullptr, nullptr, 0);
}
void wake(std::atomic<std::uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

template <std::size_t N>
void store_text(std::array<char, N>& to, const std::string& text) {
  const std::string shown = printable(text, N - 1);
  std::memcpy(to.data(), shown.data(), shown.size());
  to[shown.size()] = '\0';
}

// Tries the plain name first. It may be taken: by another user, or by a process with the same number in another PID
// namespace.
int create_file(const std::string& folder, int pid, std::string* path) {
  for (int attempt = 0; attempt < kMostNames; ++attempt) {
    std::optional<std::uint64_t> salt;
    if (std::uint64_t random = 0; attempt > 0) {
      if (getrandom(&random, sizeof random, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof random)) return -1;
      salt = random;
    }
    *path = folder + "/" + live_page_name(pid, salt);
    const int file = open(path->c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

}  // namespace

std::unique_ptr<LivePageWriter> LivePageWriter::create(const std::string& folder, const char* version,
                                                       const LiveRank& rank) {
  const int pid = getpid();
  const std::optional<std::uint64_t> began = beginning_of(pid);
  if (!began.has_value()) return nullptr;
  remove_former_live_pages(folder, pid);
  std::string path;
  const int file = create_file(folder, pid, &path);
  if (file < 0) return nullptr;
  // Allocates the memory now: if memory is short later, writing to a hole in the file would end the process.
  void* const at = posix_fallocate(file, 0, sizeof(LivePage)) == 0
                       ? mmap(nullptr, sizeof(LivePage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
  close(file);
  if (at == MAP_FAILED) {
    unlink(path.c_str());
    return nullptr;
  }
  madvise(at, sizeof(LivePage), MADV_DONTFORK);
  auto* const page = new (at) LivePage{};
  page->layout = LivePage::kLayout;
  page->rows = static_cast<std::uint32_t>(statistics_table().size());
  page->began = *began;
  page->pid_namespace = own_pid_namespace();
  page->pid = pid;
  page->rank = rank.rank + 1;
  page->local_rank = rank.local + 1;
  page->world_size = rank.size + 1;
  page->takes_orders = 1;
  page->takes_tags = 1;
  store_text(page->version, version);
  store_text(page->program, program_of_process());
  std::atomic_ref(page->magic).store(LivePage::kMagic, std::memory_order_release);
  return std::unique_ptr<LivePageWriter>(new LivePageWriter(std::move(path), pid, page));
}

LivePageWriter::~LivePageWriter() {
  remove();
  if (getpid() == pid_) munmap(page_, sizeof(LivePage));
}

void LivePageWriter::remove() {
  if (getpid() == pid_) unlink(path_.c_str());
}

void LivePageWriter::wait() {
  while (page_->requests.load(std::memory_order_acquire) == heard_) sleep_on(page_->requests, heard_);
  heard_ = page_->requests.load(std::memory_order_acquire);
}

void LivePageWriter::begin_writing() {
  page_->sequence.store(page_->sequence.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void LivePageWriter::end_writing() {
  page_->sequence.store(page_->sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  wake(page_->sequence);
}

// The order of stores matters: a reader must see each one after the store before it.
void LivePageWriter::write(const EngineStatistics& statistics) {
  begin_writing();
  page_->answered.store(heard_, std::memory_order_release);
  page_->written_ns.store(static_cast<std::uint64_t>(now().count()), std::memory_order_release);
  const std::span<const Statistic> table = statistics_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    page_->values[i].store(table[i].read(statistics), std::memory_order_release);
  }
  end_writing();
}

std::uint32_t LivePageWriter::next_order() const {
  const std::uint32_t order = page_->order.load(std::memory_order_acquire);
  return order == begun_.load() ? 0 : order;
}

// A sender that withdraws an order does so first, and then checks whether it has begun: one of the two sees the other.
// Nobody changes the tag before that.
bool LivePageWriter::begin_order(std::uint32_t order, std::string* tag) {
  begun_.store(order);
  tag->clear();
  for (const std::atomic<char>& letter : page_->order_tag) {
    const char one = letter.load(std::memory_order_relaxed);
    if (one == '\0') break;
    tag->push_back(one);
  }
  begin_writing();
  page_->order_begun.store(order);
  end_writing();
  return page_->order.load() == order;
}

void LivePageWriter::end_order(std::uint32_t order, int status, const SleepReport& report) {
  begin_writing();
  page_->order_tag[0].store('\0', std::memory_order_relaxed);  // an older sender writes none
  page_->order_ended.store(order, std::memory_order_release);
  page_->order_status.store(status, std::memory_order_release);
  const auto numbers = order_numbers(report);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    page_->order_numbers[i].store(numbers[i], std::memory_order_release);
  }
  end_writing();
}

}  // namespace thermocline
