// SPDX-License-Identifier: Apache-2.0
// What a running process shows of its statistics: one page of shared memory, <folder>/thermocline.<pid>, mode 0600;
// where another has that name, with a dot and 16 random digits behind it.
//
// Whoever wants to see them asks: it counts a request on the page and wakes the process, which answers with a copy of
// all statistics as they are at that moment. So nothing is written while nobody looks, and what is read is true. The
// copy stands between two counts of a sequence lock: a reader never sees a part of one.
//
// The process removes its page when it ends. What is left of one that was killed is removed by the next reader, or by
// the next process of that number: a page says when its process began, since numbers come again, and in which PID
// namespace, since who shares /dev/shm need not share that. A page of another namespace is never judged gone.
//
// Any user can put a file there. A reader believes its own user's; root those of each user about his own processes. A
// page may change, or be cut short, at any moment, and no text on it is shown as it stands
// (telemetry/live_page_files.h).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "offload/statistics.h"

namespace thermocline {

inline constexpr const char* kLivePageFolder = "/dev/shm";

// Layout 1. Fields are only ever added, in the space that is left at the end.
struct LivePage {
  static constexpr std::uint64_t kMagic = 0x454E494C434D5254;  // "TRMCLINE"
  static constexpr std::uint32_t kLayout = 1;
  static constexpr std::size_t kMostRows = 256;

  // Written once; the magic number last.
  std::uint64_t magic;
  std::uint32_t layout;
  std::uint32_t rows;           // of statistics_table(), as the process knows it
  std::uint64_t began;          // start time of the process in clock ticks (proc(5), stat, field 22)
  std::uint64_t pid_namespace;  // inode
  std::int32_t pid;
  std::array<char, 32> version;
  std::array<char, 128> program;  // with its arguments, as far as there is room

  // Both are futexes.
  std::atomic<std::uint32_t> requests;  // readers add one
  std::atomic<std::uint32_t> sequence;  // odd while the rest is being written

  std::atomic<std::uint32_t> answered;    // `requests` when the copy was begun
  std::atomic<std::uint64_t> written_ns;  // CLOCK_MONOTONIC; 0: never
  std::array<std::atomic<std::uint64_t>, kMostRows> values;

  // Written once, as those above; each one more than the number, 0 where there is none.
  std::int32_t rank, local_rank, world_size;
};
static_assert(sizeof(LivePage) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free, "One page, shared.");

// Which of the processes of a job it is; -1: not known.
struct LiveRank {
  int rank = -1, local = -1, size = -1;
};

// The process's own side. Not thread-safe, but for wait(), which may be in another thread than the rest.
class LivePageWriter {
 public:
  // Null where the page can not be had: the process goes without.
  static std::unique_ptr<LivePageWriter> create(const std::string& folder, const char* version,
                                                const LiveRank& rank = {});
  // In the process that made it, removes the page; a child of a fork has nothing of it.
  ~LivePageWriter();
  LivePageWriter(const LivePageWriter&) = delete;
  LivePageWriter& operator=(const LivePageWriter&) = delete;

  // Blocks until somebody has asked since the last copy was begun.
  void wait();
  void write(const EngineStatistics& statistics);
  // Removes the page's name, as the destructor does; who reads goes on reading.
  void remove();

 private:
  LivePageWriter(std::string path, int pid, LivePage* page) : path_(std::move(path)), pid_(pid), page_(page) {}
  const std::string path_;
  const int pid_;
  LivePage* const page_;
  std::uint32_t heard_ = 0;  // requests seen by wait
};

enum class LiveRead : std::uint8_t {
  kAnswered,
  kSilent,   // the process did not answer in time; the copy, if there is any, is the last one
  kNone,     // there is no page, or it was left by a process that is gone and has been removed
  kRefused,  // another user's, or one that another user made up
  kUnknown,  // of another layout, or no page of ours
};

struct LiveStatistics {
  int pid = 0;
  uid_t owner = 0;
  std::string version;
  std::string program;
  LiveRank rank;
  std::chrono::nanoseconds written{0};  // CLOCK_MONOTONIC; 0: never
  std::vector<std::uint64_t> values;    // by row of statistics_table(), as many as both sides know
};

LiveRead read_live_page(const std::string& folder, int pid, std::chrono::milliseconds patience, LiveStatistics* out);

// Processes that have a page, in order of number. What is left of processes that are gone is removed.
std::vector<int> live_processes(const std::string& folder);

}  // namespace thermocline
