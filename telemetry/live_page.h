// SPDX-License-Identifier: Apache-2.0
// The statistics of a running process, for other processes to read: one page of shared memory,
// <folder>/thermocline.<pid>, mode 0600. If that name is taken, a dot and 16 random digits are appended.
//
// A reader makes a request: it increments a counter on the page and wakes the process, which answers by writing a copy
// of all current statistics. So nothing is written while nobody reads, and what is read is current. A sequence lock
// protects the copy: a reader never sees half of one.
//
// The process removes its page when it ends. The page of a process that was killed is removed by the next reader, or by
// the next process with the same number. For that the page has the start time of its process, because numbers are
// reused, and its PID namespace, because processes that share /dev/shm may be in different ones. A page of another
// namespace is never considered left over.
//
// The page also takes orders (telemetry/live_order.h) from users who may write to it: the process's own user, and root.
//
// Any user can put a file there. A reader trusts pages of its own user; root trusts each user's pages about that user's
// own processes. A page may change, or be truncated, at any moment, and text on it is made printable before it is shown
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

#include "offload/sleep.h"
#include "offload/statistics.h"

namespace thermocline {

inline constexpr const char* kLivePageFolder = "/dev/shm";

// Layout 1. New fields are only ever added, in the space left at the end.
struct LivePage {
  static constexpr std::uint64_t kMagic = 0x454E494C434D5254;  // "TRMCLINE"
  static constexpr std::uint32_t kLayout = 1;
  static constexpr std::size_t kMostRows = 256;
  static constexpr std::size_t kOrderNumbers = 10;
  static constexpr std::size_t kTagBytes = 64;

  // Written once; the magic number last of all.
  std::uint64_t magic;
  std::uint32_t layout;
  std::uint32_t rows;           // of statistics_table() in the process's version of the library
  std::uint64_t began;          // start time of the process in clock ticks (proc(5), stat, field 22)
  std::uint64_t pid_namespace;  // its inode number
  std::int32_t pid;
  std::array<char, 32> version;
  std::array<char, 128> program;  // with its arguments, truncated to fit

  // `requests` and `answered` are futexes.
  std::atomic<std::uint32_t> requests;  // readers add one
  std::atomic<std::uint32_t> sequence;  // odd while the rest is being written

  std::atomic<std::uint32_t> answered;    // value of `requests` when the latest copy was begun
  std::atomic<std::uint64_t> written_ns;  // CLOCK_MONOTONIC; 0: never
  std::array<std::atomic<std::uint64_t>, kMostRows> values;

  // Written once, as the first fields; each is the number plus one, or 0 if there is none.
  std::int32_t rank, local_rank, world_size;

  // Orders (telemetry/live_order.h). Readers write `order`; the process writes the rest, under the sequence lock.
  std::uint32_t takes_orders;              // 1: the process takes orders; written once
  std::atomic<std::uint32_t> order;        // a number, and in the lowest 8 bits an OrderKind; 0: none
  std::atomic<std::uint32_t> order_begun;  // the latest order that was begun ...
  std::atomic<std::uint32_t> order_ended;  // ... and the latest that has ended, whose result follows
  std::atomic<std::int32_t> order_status;  // a CUresult
  std::array<std::atomic<std::uint64_t>, kOrderNumbers> order_numbers;
  std::uint32_t takes_tags;                            // 1: orders may name a tag; written once
  std::array<std::atomic<char>, kTagBytes> order_tag;  // written before `order`; "": none
};
static_assert(sizeof(LivePage) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free, "One page, shared.");

// The rank of the process in its job; -1: unknown.
struct LiveRank {
  int rank = -1, local = -1, size = -1;
};

// The process's own side. Not thread-safe, except that wait() may run on another thread than the rest.
class LivePageWriter {
 public:
  // Null if the page can not be created; the process then has none.
  static std::unique_ptr<LivePageWriter> create(const std::string& folder, const char* version,
                                                const LiveRank& rank = {});
  // Removes the page if this is the process that created it; does nothing in a forked child.
  ~LivePageWriter();
  LivePageWriter(const LivePageWriter&) = delete;
  LivePageWriter& operator=(const LivePageWriter&) = delete;

  // Blocks until there is a request that came after the last copy was begun.
  void wait();
  void write(const EngineStatistics& statistics);
  // The latest order, if it has not been begun; 0: there is none. May run on another thread than the rest.
  std::uint32_t next_order() const;
  // False: the order has been taken back, and must not be carried out. `tag`: what it names.
  bool begin_order(std::uint32_t order, std::string* tag);
  void end_order(std::uint32_t order, int status, const SleepReport& report);
  // Removes the page's name, as the destructor does; readers that have it open can continue.
  void remove();

 private:
  LivePageWriter(std::string path, int pid, LivePage* page) : path_(std::move(path)), pid_(pid), page_(page) {}
  const std::string path_;
  const int pid_;
  LivePage* const page_;
  void begin_writing();
  void end_writing();

  std::uint32_t heard_ = 0;               // value of `requests` seen by wait
  std::atomic<std::uint32_t> begun_ = 0;  // the latest order
};

enum class LiveRead : std::uint8_t {
  kAnswered,
  kSilent,   // the process did not answer in time; the copy, if there is one, is an earlier one
  kNone,     // there is no page, or it belonged to a process that has ended and was removed
  kRefused,  // belongs to another user, or was forged by one
  kUnknown,  // of another layout, or no page of this library
};

struct LiveStatistics {
  int pid = 0;
  uid_t owner = 0;
  std::string version;
  std::string program;
  LiveRank rank;
  std::chrono::nanoseconds written{0};  // CLOCK_MONOTONIC; 0: never
  std::vector<std::uint64_t> values;    // by row of statistics_table(); only rows that both sides know
};

LiveRead read_live_page(const std::string& folder, int pid, std::chrono::milliseconds timeout, LiveStatistics* out);

// Processes that have a page, in order of number. Removes pages of processes that have ended.
std::vector<int> live_processes(const std::string& folder);
// The processes of the caller's own user and process namespace: they may get orders without being named.
std::vector<int> live_processes_of_own_user(const std::string& folder);

}  // namespace thermocline
