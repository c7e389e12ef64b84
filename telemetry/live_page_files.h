// SPDX-License-Identifier: Apache-2.0
// The files that pages of statistics (telemetry/live_page.h) lie in, as whoever did not write them has to take them:
// any user may put there what he likes, and change it at any time.
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

// "thermocline.<pid>", or with a salt, which nobody can guess, behind it.
std::string live_page_name(int pid, std::optional<std::uint64_t> salt);

struct LivePageName {
  int pid;
  std::string name;
};
// In order of number, the plain name first.
std::vector<LivePageName> live_page_names(const std::string& folder);

// A page as its reader has it. What it says is read by system calls only, since a file that is cut short while it is
// mapped ends whoever looks at it; the mapping is for the kernel, which is asked to count and to wait there.
class OpenPage {
 public:
  OpenPage() = default;
  ~OpenPage();
  OpenPage(OpenPage&& other) noexcept;
  OpenPage& operator=(OpenPage&& other) noexcept;

  // kAnswered: there is a copy of a page that this user may believe.
  LiveRead open(const std::string& path, int pid);
  // False: it has been cut short.
  bool read_again();
  bool read_sequence(std::uint32_t* out) const;

  const LivePage& copy() const { return *copy_; }
  uid_t owner() const { return owner_; }
  bool is_of_own_namespace() const;
  // Its process is gone.
  bool is_left_over() const;

  // Counts a request and wakes the process. False: it has been cut short.
  bool ask();
  void wait_while(std::uint32_t sequence, std::chrono::nanoseconds at_most);

 private:
  void close();

  int file_ = -1;
  LivePage* mapped_ = nullptr;
  std::unique_ptr<LivePage> copy_;
  uid_t owner_ = 0;
};

// Left by a process that had the number, or by this one before it became another program.
void remove_former_live_pages(const std::string& folder, int pid);

}  // namespace thermocline
