// SPDX-License-Identifier: Apache-2.0
// Writes what the program does to the file that THERMOCLINE_RECORD names (telemetry/recording.h), one file a process:
// the name, a dot, "rank7-" where a launcher has numbered the process, and its own number. Without the variable nothing
// is done, and a hook pays for one look at a pointer.
//
// With THERMOCLINE_RECORD_LIMIT, a number of bytes, the newest of what happened is kept, in no more than that (and what
// is so where a part begins): when the file has half of it, it becomes the older part, in place of the one before, and
// a new one begins.
//
// What can not be written is said once, and then recording ends; the program goes on. Thread-safe.
#pragma once

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
  // Null: nobody asked, or it has ended.
  static Recorder* get() noexcept;
  // Null, too, where it is another engine's that is recorded: a recording has one device.
  static Recorder* of(const Engine* engine) noexcept {
    Recorder* const there = get();
    return there == nullptr || there->engine_ != engine ? nullptr : there;
  }
  // When an engine begins. `driver`'s table must outlive the process's last hook. While another one is recorded, it is
  // said once that this one is not.
  static void begin(const Driver& driver, const Engine* engine);
  // The process ends: what there is goes to the file. After `without_driver` no event is asked any more.
  static void end(bool without_driver) noexcept;
  // The engine ends, before another has its address.
  static void end_of(const Engine* engine, bool without_driver) noexcept {
    if (of(engine) != nullptr) end(without_driver);
  }
  // In the child of a fork, which has the parent's file.
  static void abandon() noexcept;

  void allocated(DeviceAddress address, Bytes bytes, std::optional<StreamHandle> stream);
  // Before it is freed: behind that, the address may be another thread's.
  void freed(DeviceAddress address, std::optional<StreamHandle> stream);
  // Around the call that submits; `stream` does not record a graph. What was not submitted is not recorded.
  void submitting(StreamHandle stream, const OperationInfo& info, std::span<const MemoryAccess> accesses);
  void submitted(StreamHandle stream, const OperationInfo& info, std::span<const MemoryAccess> accesses);
  void step();

  // What this thread allocates from here on; "": nothing in particular. Whether anybody records or not.
  static void tag(const char* text);

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
  std::unique_ptr<DurationMeter> durations_;  // null once the driver is gone
  DurationMeter* abandoned_ = nullptr;        // whose events can not be destroyed without a driver
  std::string path_;
  int file_;
  std::size_t block_bytes_;
  std::uint64_t part_bytes_;                      // most of a part; 0: there is one, of any size
  std::uint64_t written_bytes_ = 0;               // of this part
  std::unordered_map<std::uint64_t, Held> held_;  // by address; only where parts end
  [[maybe_unused]] Recorder* before_;             // of an engine that has ended: reachable, so not a leak
  RecordingWriter writer_;
  std::unordered_map<const char*, std::uint64_t> names_;
  std::unordered_map<std::uint64_t, std::uint64_t> written_;  // token -> nanoseconds
  std::vector<bool> told_tags_;                               // by tag
  std::uint64_t thread_ = 0, tag_ = 0;                        // as they were said last
  std::uint64_t operations_ = 0;
  std::chrono::steady_clock::time_point newest_block_ = std::chrono::steady_clock::now();
  bool ended_ = false;
};

}  // namespace thermocline
