// SPDX-License-Identifier: Apache-2.0
// The files of live pages (telemetry/live_page.h), from the reader's side: any user may put anything there and change
// it at any time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telemetry/live_page.h"

namespace thermocline {

// "thermocline.<pid>", or the same with a random salt appended, which others can not guess.
std::string live_page_name(int pid, std::optional<std::uint64_t> salt);

struct LivePageName {
  int pid;
  std::string name;
};
// In order of number, the plain name first.
std::vector<LivePageName> live_page_names(const std::string& folder);

// A page opened for reading. Its contents are read with system calls only, because reading through a mapping of a file
// that is being truncated ends the reader with SIGBUS. The mapping exists only for the kernel's futex operations.
class OpenPage {
 public:
  OpenPage() = default;
  ~OpenPage();
  OpenPage(OpenPage&& other) noexcept;
  OpenPage& operator=(OpenPage&& other) noexcept;

  // kAnswered: a copy has been read of a page that this user may trust.
  LiveRead open(const std::string& path, int pid);
  // False: the file has been truncated.
  bool read_again();
  bool read_sequence(std::uint32_t* out) const;

  const LivePage& copy() const { return *copy_; }
  uid_t owner() const { return owner_; }
  bool is_of_own_namespace() const;
  // True if the page's process has ended.
  bool is_left_over() const;

  // Counts a request and wakes the process. False: the file has been truncated.
  bool ask();
  // Locks the page for giving orders. False: another process holds that lock.
  bool lock();
  // False: the file has been truncated. The tag has fewer than LivePage::kTagBytes letters.
  bool write_tag(const std::string& tag);
  bool write_order(std::uint32_t order);
  void wait_while(std::uint32_t sequence, std::chrono::nanoseconds at_most);

 private:
  void close();

  int file_ = -1;
  LivePage* mapped_ = nullptr;
  std::unique_ptr<LivePage> copy_;
  uid_t owner_ = 0;
};

// The page of that process; removes it if the process has ended. Prefers a page of this PID namespace to one of another
// namespace that shares the folder.
LiveRead find_live_page(const std::string& folder, int pid, OpenPage* out);

enum class CopiedPage : std::uint8_t { kWhole, kTorn, kGone };
// Reads one whole copy; kTorn if it is being written, or was written while this read.
CopiedPage copy_whole_page(OpenPage& open, std::uint32_t* sequence);

// Removes pages left by earlier processes with this number, or by this process before it executed another program.
void remove_former_live_pages(const std::string& folder, int pid);

}  // namespace thermocline
