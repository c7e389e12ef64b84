// SPDX-License-Identifier: Apache-2.0
// Writes what the program does to the file that THERMOCLINE_RECORD names (telemetry/recording.h), one file per process.
// Its name is the given name, a dot, "rank7-" if a launcher has numbered the process, and the process id. Without the
// variable nothing is recorded, and a hook pays for one test of a pointer.
//
// With THERMOCLINE_RECORD_LIMIT, a number of bytes, only the newest events are kept, in at most that many bytes (plus
// the state at the beginning of a part). When the file has reached half the limit, it becomes the older part, replaces
// the previous older part, and a new file is begun.
//
// If writing fails, one message is logged and recording ends; the program continues. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/locks.h"
#include "hooks/interpose/lock_levels.h"
#include "offload/engine/engine.h"
#include "offload/planning/duration_meter.h"
#include "telemetry/recording.h"

namespace thermocline {

class Recorder {
 public:
  // Null if recording was not requested or has ended.
  static Recorder* get() noexcept { return current_.load(std::memory_order_acquire); }
  // Also null if another engine is being recorded: a recording covers one device.
  static Recorder* of(const Engine* engine) noexcept {
    Recorder* const there = get();
    return there == nullptr || there->engine_ != engine ? nullptr : there;
  }
  // Called when an engine begins. `driver`'s table must outlive the last hook of the process. If another engine is
  // being recorded already, one message says that this one is not.
  static void begin(const Driver& driver, const Engine* engine);
  // The process is ending: writes everything that remains. After `without_driver` no event is queried any more.
  static void end(bool without_driver) noexcept;
  // The engine is ending; must be called before another engine can have its address.
  static void end_of(const Engine* engine, bool without_driver) noexcept {
    if (of(engine) != nullptr) end(without_driver);
  }
  // For the child of a fork, which has inherited the parent's file.
  static void abandon() noexcept;

  void allocated(DeviceAddress address, Bytes bytes, std::optional<StreamHandle> stream);
  // Must be called before the free: after it, the address may belong to another thread.
  void freed(DeviceAddress address, std::optional<StreamHandle> stream);
  // Call these before and after the call that submits; `stream` must not be capturing. An operation that was not
  // submitted is not recorded.
  void submitting(StreamHandle stream, const OperationInfo& info, std::span<const MemoryAccess> accesses);
  void submitted(StreamHandle stream, const OperationInfo& info, std::span<const MemoryAccess> accesses);
  void step();

 private:
  struct Held {
    Bytes bytes;
    std::uint64_t stream, tag;
  };

  Recorder(const Driver& driver, const Engine* engine, std::string path, int file, std::uint64_t limit,
           Recorder* before);

  static std::uint64_t token_of(const OperationInfo& info, std::span<const MemoryAccess> accesses);
  std::uint64_t id_of(const char* name);
  void say_thread();
  void say_tag();
  void write_if_full();
  void write_all();
  void write_durations();
  void begin_part();
  bool write_block();

  Mutex mutex_{"recording", lock_level::kRecorder};
  Driver driver_;
  const Engine* const engine_;
  std::unique_ptr<DurationMeter> durations_;  // null once the driver has shut down
  DurationMeter* abandoned_ = nullptr;        // its events can not be destroyed without a driver
  std::string path_;
  int file_;
  std::size_t block_bytes_;
  std::uint64_t part_bytes_;                      // size limit of a part; 0: one part of any size
  std::uint64_t written_bytes_ = 0;               // of this part
  std::unordered_map<std::uint64_t, Held> held_;  // live buffers by address; only with a limit
  [[maybe_unused]] Recorder* before_;             // of an engine that has ended: kept reachable for the leak checker
  RecordingWriter writer_;
  std::unordered_map<const char*, std::uint64_t> names_;
  std::unordered_map<std::uint64_t, std::uint64_t> written_;  // by token: nanoseconds
  std::vector<bool> told_tags_;                               // by tag: its text has been written
  std::uint64_t thread_ = 0, tag_ = 0;                        // as last written
  std::uint64_t operations_ = 0;
  std::chrono::steady_clock::time_point newest_block_ = std::chrono::steady_clock::now();
  bool ended_ = false;

  static constinit std::atomic<Recorder*> current_;
};

}  // namespace thermocline
