// SPDX-License-Identifier: Apache-2.0
// https://www.kernel.org/doc/html/latest/userspace-api/futex2.html and futex(2). shm_overview(7): anybody may write to
// /dev/shm.
#include "telemetry/live_page_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include "telemetry/process_facts.h"

namespace thermocline {
namespace {

constexpr std::string_view kPrefix = "thermocline.";
constexpr std::size_t kSaltDigits = 16;

std::optional<int> pid_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int pid = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || pid <= 0) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(stop - name.data()));
  if (name.empty()) return pid;
  if (name.size() != 1 + kSaltDigits || name.front() != '.') return std::nullopt;
  return name.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos ? std::optional(pid) : std::nullopt;
}

// Root reads pages of all users, but a user's page about a process that is not his is forged. A process of another PID
// namespace can not be checked.
bool may_be_believed(uid_t owner, const LivePage& page) {
  if (owner == geteuid()) return true;
  if (geteuid() != 0) return false;
  return page.pid_namespace != own_pid_namespace() || runs_as(page.pid, owner) || !beginning_of(page.pid).has_value();
}

LiveRead open_or_remove(const std::string& path, int pid, OpenPage* page) {
  const LiveRead found = page->open(path, pid);
  if (found != LiveRead::kAnswered || !page->is_left_over()) return found;
  unlink(path.c_str());
  return LiveRead::kNone;
}

// Orders two reads. A fence instruction would do, but the thread sanitizer does not support fences.
void keep_order() {
  static std::atomic<std::uint32_t> passed{0};
  passed.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace

std::string live_page_name(int pid, std::optional<std::uint64_t> salt) {
  std::string name = std::string(kPrefix) + std::to_string(pid);
  if (!salt.has_value()) return name;
  std::array<char, kSaltDigits + 2> text;
  std::snprintf(text.data(), text.size(), ".%016llx", static_cast<unsigned long long>(*salt));
  return name + text.data();
}

std::vector<LivePageName> live_page_names(const std::string& folder) {
  std::vector<LivePageName> found;
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return found;
  while (const dirent* entry = readdir(entries)) {
    if (const std::optional<int> pid = pid_in(entry->d_name)) found.push_back({*pid, entry->d_name});
  }
  closedir(entries);
  std::ranges::sort(found, [](const LivePageName& a, const LivePageName& b) {
    return a.pid != b.pid ? a.pid < b.pid : a.name < b.name;
  });
  return found;
}

OpenPage::~OpenPage() { close(); }

OpenPage::OpenPage(OpenPage&& other) noexcept { *this = std::move(other); }

OpenPage& OpenPage::operator=(OpenPage&& other) noexcept {
  if (this == &other) return *this;
  close();
  file_ = std::exchange(other.file_, -1);
  mapped_ = std::exchange(other.mapped_, nullptr);
  copy_ = std::move(other.copy_);
  owner_ = other.owner_;
  return *this;
}

void OpenPage::close() {
  if (mapped_ != nullptr) munmap(mapped_, sizeof(LivePage));
  if (file_ >= 0) ::close(file_);
  mapped_ = nullptr;
  file_ = -1;
}

LiveRead OpenPage::open(const std::string& path, int pid) {
  close();
  // These flags keep a pipe, a lease or a terminal from blocking the reader.
  file_ = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file_ < 0) return errno == ENOENT ? LiveRead::kNone : LiveRead::kRefused;
  struct stat facts {};
  if (fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode)) return LiveRead::kUnknown;
  owner_ = facts.st_uid;
  if (geteuid() != 0 && owner_ != geteuid()) return LiveRead::kRefused;
  if (facts.st_size < static_cast<off_t>(sizeof(LivePage)) || !read_again()) return LiveRead::kUnknown;
  if (copy_->magic != LivePage::kMagic || copy_->layout != LivePage::kLayout || copy_->pid != pid) {
    return LiveRead::kUnknown;
  }
  if (!may_be_believed(owner_, *copy_)) return LiveRead::kRefused;
  void* const at = mmap(nullptr, sizeof(LivePage), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED) return LiveRead::kUnknown;
  mapped_ = static_cast<LivePage*>(at);
  return LiveRead::kAnswered;
}

bool OpenPage::read_again() {
  if (copy_ == nullptr) copy_ = std::make_unique<LivePage>();
  return pread(file_, static_cast<void*>(copy_.get()), sizeof(LivePage), 0) == static_cast<ssize_t>(sizeof(LivePage));
}

bool OpenPage::read_sequence(std::uint32_t* out) const {
  return pread(file_, out, sizeof *out, offsetof(LivePage, sequence)) == static_cast<ssize_t>(sizeof *out);
}

bool OpenPage::is_of_own_namespace() const { return copy_->pid_namespace == own_pid_namespace(); }

bool OpenPage::is_left_over() const { return is_of_own_namespace() && beginning_of(copy_->pid) != copy_->began; }

bool OpenPage::ask() {
  // One operation increments the counter and wakes all waiters; the kernel reports an error if the page has been
  // truncated.
  constexpr int kAddOne = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0);
  constexpr unsigned long kWakeNoneBesides = 0;
  return syscall(SYS_futex, &mapped_->requests, FUTEX_WAKE_OP, INT_MAX, kWakeNoneBesides, &mapped_->requests,
                 kAddOne) >= 0;
}

bool OpenPage::lock() { return flock(file_, LOCK_EX | LOCK_NB) == 0; }

bool OpenPage::write_tag(const std::string& tag) {
  std::array<char, LivePage::kTagBytes> text{};
  tag.copy(text.data(), text.size() - 1);
  struct stat facts {};
  if (fstat(file_, &facts) != 0 || facts.st_size < static_cast<off_t>(sizeof(LivePage))) return false;
  return pwrite(file_, text.data(), text.size(), offsetof(LivePage, order_tag)) == static_cast<ssize_t>(text.size());
}

bool OpenPage::write_order(std::uint32_t order) {
  struct stat facts {};
  if (fstat(file_, &facts) != 0 || facts.st_size < static_cast<off_t>(sizeof(LivePage))) return false;
  return pwrite(file_, &order, sizeof order, offsetof(LivePage, order)) == static_cast<ssize_t>(sizeof order);
}

void OpenPage::wait_while(std::uint32_t sequence, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec time{seconds.count(), (at_most - seconds).count()};
  syscall(SYS_futex, &mapped_->sequence, FUTEX_WAIT, sequence, &time, nullptr, 0);
}

LiveRead find_live_page(const std::string& folder, int pid, OpenPage* out) {
  LiveRead found = LiveRead::kNone;
  for (const LivePageName& entry : live_page_names(folder)) {
    if (entry.pid != pid) continue;
    OpenPage page;
    const LiveRead result = open_or_remove(folder + "/" + entry.name, pid, &page);
    if (result == LiveRead::kAnswered) {
      const bool is_near = page.is_of_own_namespace();
      if (is_near || found != LiveRead::kAnswered) *out = std::move(page);
      if (is_near) return result;
    }
    if (found == LiveRead::kNone || result == LiveRead::kAnswered) found = result;
  }
  return found;
}

std::vector<int> live_processes(const std::string& folder) {
  std::vector<int> found;
  for (const LivePageName& entry : live_page_names(folder)) {
    OpenPage page;
    const bool lives = open_or_remove(folder + "/" + entry.name, entry.pid, &page) == LiveRead::kAnswered;
    if (lives && (found.empty() || found.back() != entry.pid)) found.push_back(entry.pid);
  }
  return found;
}

std::vector<int> live_processes_of_own_user(const std::string& folder) {
  std::vector<int> found = live_processes(folder);
  std::erase_if(found, [&folder](int pid) {
    OpenPage page;
    return find_live_page(folder, pid, &page) != LiveRead::kAnswered || page.owner() != geteuid() ||
           !page.is_of_own_namespace();
  });
  return found;
}

CopiedPage copy_whole_page(OpenPage& open, std::uint32_t* sequence) {
  std::uint32_t after = 0;
  if (!open.read_sequence(sequence)) return CopiedPage::kGone;
  keep_order();
  if (!open.read_again()) return CopiedPage::kGone;
  keep_order();
  if (!open.read_sequence(&after)) return CopiedPage::kGone;
  return *sequence % 2 != 0 || after != *sequence ? CopiedPage::kTorn : CopiedPage::kWhole;
}

void remove_former_live_pages(const std::string& folder, int pid) {
  for (const LivePageName& entry : live_page_names(folder)) {
    OpenPage page;
    const std::string path = folder + "/" + entry.name;
    if (entry.pid != pid || page.open(path, pid) != LiveRead::kAnswered) continue;
    if (page.is_of_own_namespace()) unlink(path.c_str());
  }
}

}  // namespace thermocline
