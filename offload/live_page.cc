// SPDX-License-Identifier: Apache-2.0
// https://www.kernel.org/doc/html/latest/userspace-api/futex2.html and futex(2); proc(5) for the start of a process.
#include "offload/live_page.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "offload/statistic_names.h"

namespace thermocline {
namespace {

using std::chrono::nanoseconds;

constexpr const char* kPrefix = "thermocline.";

nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t while_it_is, const timespec* at_most) {
  syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, at_most, nullptr, 0);
}
void wake(std::atomic<std::uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

std::string path_of(const std::string& folder, int pid) { return folder + "/" + kPrefix + std::to_string(pid); }

// As much of a small file as fits.
std::string contents(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text(1024, '\0');
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

// When the process began; nothing when there is none of that number, or only its remains.
std::optional<std::uint64_t> beginning_of(int pid) {
  const std::string text = contents(("/proc/" + std::to_string(pid) + "/stat").c_str());
  // The name of the program stands in parentheses, and may contain some.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  char state = 0;
  unsigned long long began = 0;
  if (std::sscanf(text.c_str() + name_end + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &began) != 2 ||
      state == 'Z' || state == 'X') {
    return std::nullopt;
  }
  return began;
}

std::uint64_t own_pid_namespace() {
  struct stat facts {};
  return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

// "python train.py": the file's name without its folders, and the arguments.
std::string program_of_process() {
  std::string line = contents("/proc/self/cmdline");
  while (!line.empty() && line.back() == '\0') line.pop_back();
  const std::size_t first_end = std::min(line.find('\0'), line.size());
  if (const std::size_t slash = line.rfind('/', first_end); slash != std::string::npos) line.erase(0, slash + 1);
  // What ends a line or rules a terminal is not for others to see.
  for (char& c : line) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return line;
}

template <std::size_t N>
void store_text(std::array<char, N>& to, const std::string& text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), length);
  to[length] = '\0';
}

LivePage* map_page(int file) {
  void* const at = mmap(nullptr, sizeof(LivePage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<LivePage*>(at);
}

// A page as its reader has it.
class OpenPage {
 public:
  OpenPage() = default;
  ~OpenPage() {
    if (page_ != nullptr) munmap(page_, sizeof(LivePage));
  }
  OpenPage(const OpenPage&) = delete;
  OpenPage& operator=(const OpenPage&) = delete;

  LiveRead open(const std::string& path);
  LivePage& operator*() const { return *page_; }
  LivePage* operator->() const { return page_; }

 private:
  LivePage* page_ = nullptr;
};

LiveRead OpenPage::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? LiveRead::kNone : LiveRead::kRefused;
  struct stat facts {};
  const bool is_file = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  const bool may = geteuid() == 0 || facts.st_uid == geteuid();
  if (is_file && may && facts.st_size >= static_cast<off_t>(sizeof(LivePage))) page_ = map_page(file);
  close(file);
  if (is_file && !may) return LiveRead::kRefused;
  if (page_ == nullptr || page_->magic != LivePage::kMagic || page_->layout != LivePage::kLayout) {
    return LiveRead::kUnknown;
  }
  return LiveRead::kAnswered;
}

bool is_left_over(const LivePage& page) {
  if (page.pid_namespace != own_pid_namespace()) return false;
  return beginning_of(page.pid) != page.began;
}

LiveRead open_or_remove(const std::string& path, OpenPage* page) {
  const LiveRead found = page->open(path);
  if (found != LiveRead::kAnswered || !is_left_over(**page)) return found;
  unlink(path.c_str());
  return LiveRead::kNone;
}

// One whole copy; false while a copy is being written, or when one was meanwhile.
// A page that was damaged may have any number; below 1 there is none.
int one_less(std::int32_t number) { return number > 0 ? number - 1 : -1; }

// Or texts that do not end.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& text) {
  return {text.data(), strnlen(text.data(), kSize)};
}

bool copy_out(const LivePage& page, std::uint32_t sequence, std::uint32_t* answered, LiveStatistics* out) {
  if (sequence % 2 != 0) return false;
  *answered = page.answered.load(std::memory_order_acquire);
  out->written = nanoseconds(page.written_ns.load(std::memory_order_acquire));
  out->values.clear();
  const std::size_t rows = std::min<std::size_t>({page.rows, statistics_table().size(), LivePage::kMostRows});
  for (std::size_t i = 0; i < rows; ++i) out->values.push_back(page.values[i].load(std::memory_order_acquire));
  return page.sequence.load(std::memory_order_acquire) == sequence;
}

}  // namespace

std::unique_ptr<LivePageWriter> LivePageWriter::create(const std::string& folder, const char* version,
                                                       const LiveRank& rank) {
  const int pid = getpid();
  const std::optional<std::uint64_t> began = beginning_of(pid);
  if (!began.has_value()) return nullptr;
  std::string path = path_of(folder, pid);
  {
    // Left by a process that had our number, or by this one before it became another program.
    OpenPage old;
    if (old.open(path) == LiveRead::kAnswered && (is_left_over(*old) || old->pid == pid)) unlink(path.c_str());
  }
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  // Taken now: where memory is short, writing to what is not there would end the process.
  LivePage* page = posix_fallocate(file, 0, sizeof(LivePage)) == 0 ? map_page(file) : nullptr;
  close(file);
  if (page == nullptr) {
    unlink(path.c_str());
    return nullptr;
  }
  madvise(page, sizeof(LivePage), MADV_DONTFORK);
  new (page) LivePage{};
  page->layout = LivePage::kLayout;
  page->rows = static_cast<std::uint32_t>(statistics_table().size());
  page->began = *began;
  page->pid_namespace = own_pid_namespace();
  page->pid = pid;
  page->rank = rank.rank + 1;
  page->local_rank = rank.local + 1;
  page->world_size = rank.size + 1;
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
  while (page_->requests.load(std::memory_order_acquire) == heard_) sleep_on(page_->requests, heard_, nullptr);
  heard_ = page_->requests.load(std::memory_order_acquire);
}

void LivePageWriter::write(const EngineStatistics& statistics) {
  const std::uint32_t before = page_->sequence.load(std::memory_order_relaxed);
  page_->sequence.store(before + 1, std::memory_order_relaxed);
  // Each of these comes behind the store above, and before the one below, for whoever sees it.
  page_->answered.store(heard_, std::memory_order_release);
  page_->written_ns.store(static_cast<std::uint64_t>(now().count()), std::memory_order_release);
  const std::span<const Statistic> table = statistics_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    page_->values[i].store(table[i].read(statistics), std::memory_order_release);
  }
  page_->sequence.store(before + 2, std::memory_order_release);
  wake(page_->sequence);
}

LiveRead read_live_page(const std::string& folder, int pid, std::chrono::milliseconds patience, LiveStatistics* out) {
  OpenPage page;
  const LiveRead found = open_or_remove(path_of(folder, pid), &page);
  if (found != LiveRead::kAnswered) return found;
  out->pid = pid;
  out->version = text_of(page->version);
  out->program = text_of(page->program);
  out->rank = {one_less(page->rank), one_less(page->local_rank), one_less(page->world_size)};
  const std::uint32_t request = page->requests.fetch_add(1, std::memory_order_acq_rel) + 1;
  wake(page->requests);
  const nanoseconds until = now() + patience;
  bool has_copy = false;
  for (;;) {
    const std::uint32_t sequence = page->sequence.load(std::memory_order_acquire);
    std::uint32_t answered = 0;
    LiveStatistics copy = *out;
    if (copy_out(*page, sequence, &answered, &copy)) {
      *out = std::move(copy);
      has_copy = true;
      // As a difference: the count comes round.
      if (out->written.count() > 0 && static_cast<std::int32_t>(answered - request) >= 0) return LiveRead::kAnswered;
    }
    const nanoseconds left = until - now();
    if (left.count() <= 0) break;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec at_most{seconds.count(), (left - seconds).count()};
    sleep_on(page->sequence, sequence, &at_most);
  }
  if (!has_copy) out->values.clear();
  return LiveRead::kSilent;
}

std::vector<int> live_processes(const std::string& folder) {
  std::vector<int> found;
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return found;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    int pid = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + std::strlen(kPrefix), end, pid);
    if (error != std::errc() || stop != end || pid <= 0) continue;
    OpenPage page;
    if (open_or_remove(folder + "/" + std::string(name), &page) == LiveRead::kAnswered) found.push_back(pid);
  }
  closedir(entries);
  std::ranges::sort(found);
  return found;
}

}  // namespace thermocline
