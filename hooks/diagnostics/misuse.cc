// SPDX-License-Identifier: Apache-2.0
#include "hooks/diagnostics/misuse.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <vector>

#include "driver/locks.h"
#include "hooks/capture/capture_state.h"
#include "hooks/diagnostics/buffer_records.h"
#include "hooks/interpose/lock_levels.h"
#include "hooks/interpose/process_lifetime.h"
#include "hooks/runtime/stream_context.h"

namespace thermocline {

namespace detail {
std::atomic<MisuseWatch> misuse_watch{MisuseWatch::kOff};
}

namespace {

constexpr unsigned char kNew = 0xA5, kFreed = 0xDD, kBehind = 0xFA;
constexpr unsigned kMostReports = 50;
// Number of freed buffers whose addresses are not reused, so that a stale pointer does not point into another buffer.
constexpr std::size_t kMostKept = 256;
constexpr Bytes kKeptPartOfBudget = 16;
// The number of bytes of a freed buffer that are checked, at each end.
constexpr Bytes kLookedAt = 4096;

struct Kept {
  DeviceAddress address;
  Bytes bytes;
};

struct Watch {
  Mutex mutex{"misuse", lock_level::kLeaf};
  BufferRecords records THERMOCLINE_GUARDED_BY(mutex);
  std::deque<Kept> kept THERMOCLINE_GUARDED_BY(mutex);
  Bytes kept_bytes THERMOCLINE_GUARDED_BY(mutex) = 0;
  std::atomic<std::uint64_t> operations{0};
  std::atomic<unsigned> reports{0};
};
Watch& watch() { return process_lifetime<Watch>(); }

bool guards() { return detail::misuse_watch.load(std::memory_order_relaxed) == MisuseWatch::kGuard; }
CallSite here(std::optional<StreamHandle> stream) { return call_site(++watch().operations, stream); }

std::string sites_of(const BufferRecord& record) {
  std::string text;
  if (record.freed.has_value()) text += text_of(*record.freed, "freed");
  return text + text_of(record.allocated, "allocated");
}

// Reports `what` and the buffer, then the known call sites.
void report(const char* what, DeviceAddress at, const BufferRecord* record, const CallSite* now) {
  const unsigned number = watch().reports.fetch_add(1);
  if (number > kMostReports) return;
  if (number == kMostReports) {
    log_line(LogLevel::kError, "more misuse of buffers is not reported");
    return;
  }
  char line[256];
  std::snprintf(line, sizeof line, "thermocline: misuse: %s: 0x%llx", what, static_cast<unsigned long long>(at.value));
  std::string text = line;
  if (record != nullptr) {
    std::snprintf(line, sizeof line, ", at byte %llu of a buffer of %llu",
                  static_cast<unsigned long long>(at - record->address),
                  static_cast<unsigned long long>(record->bytes));
    text += line;
  }
  text += '\n';
  if (now != nullptr) text += text_of(*now, "now");
  if (record != nullptr) text += sites_of(*record);
  log_text(LogLevel::kError, text);
}

CUstream stream_or_default(std::optional<StreamHandle> stream) {
  return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream.value_or(StreamHandle{})));
}

// Submits the library's own work on a buffer, in stream order. False: that failed, and nothing is known about the
// contents.
template <class Work>
bool operate(const ActiveEngine& active, DeviceAddress at, Bytes bytes, Access access,
             std::optional<StreamHandle> stream, Work work) {
  const MemoryAccess memory_access{at, bytes, access};
  Operation operation = active.engine->begin(stream.value_or(StreamHandle{}), {&memory_access, 1});
  if (!operation.status().ok() || work(stream_or_default(stream)) != CUDA_SUCCESS) return false;
  operation.commit();
  return true;
}

void fill(const ActiveEngine& active, DeviceAddress at, Bytes bytes, unsigned char value,
          std::optional<StreamHandle> stream) {
  operate(active, at, bytes, Access::kWrite, stream,
          [&](CUstream on) { return real<Function::cuMemsetD8Async>(at.value, value, bytes, on); });
}

// The offset of the first byte of the range that differs from `value`; nothing if all are equal, or cannot be read.
std::optional<Bytes> differs(const ActiveEngine& active, DeviceAddress at, Bytes bytes, unsigned char value,
                             std::optional<StreamHandle> stream) {
  std::vector<unsigned char> found(bytes);
  const bool read = operate(active, at, bytes, Access::kRead, stream, [&](CUstream on) {
    return real<Function::cuMemcpyDtoHAsync_v2>(found.data(), at.value, bytes, on);
  });
  if (real<Function::cuStreamSynchronize>(stream_or_default(stream)) != CUDA_SUCCESS || !read) return std::nullopt;
  const auto other = std::ranges::find_if(found, [value](unsigned char byte) { return byte != value; });
  if (other == found.end()) return std::nullopt;
  return static_cast<Bytes>(other - found.begin());
}

// Checks the pattern after the end of the buffer. It is checked when the buffer is freed.
void check_behind(const ActiveEngine& active, const BufferRecord& record, std::optional<StreamHandle> stream) {
  // cuMemFree waits for the device anyway.
  if (!stream.has_value()) real<Function::cuCtxSynchronize>();
  const auto offset = differs(active, record.end(), kRedzoneBytes, kBehind, stream);
  if (offset.has_value())
    report("something wrote past the end, found by its free", record.end() + *offset, &record, nullptr);
}

// Really frees a kept buffer: the oldest one, of any engine.
void give_up(const Kept& kept) {
  const ActiveEngine* const owner = Runtime::get().owner(kept.address);
  if (owner == nullptr) return;
  const ActiveEngine& active = *owner;
  const CurrentContext context(active);
  const Bytes part = std::min(kept.bytes, kLookedAt);
  for (const DeviceAddress at : {kept.address, kept.address + (kept.bytes - part)}) {
    const auto offset = differs(active, at, part, kFreed, std::nullopt);
    if (!offset.has_value()) continue;
    const MutexLock lock(watch().mutex);
    report("something wrote to it after it was freed", at + *offset, watch().records.gone(at), nullptr);
    break;
  }
  static_cast<void>(active.engine->free(kept.address, std::nullopt));
}

bool give_up_some(std::size_t most_kept, Bytes most_bytes) {
  bool any = false;
  for (;;) {
    Kept oldest;
    {
      Watch& all = watch();
      const MutexLock lock(all.mutex);
      if (all.kept.empty() || (all.kept.size() <= most_kept && all.kept_bytes <= most_bytes)) return any;
      oldest = all.kept.front();
      all.kept.pop_front();
      all.kept_bytes -= oldest.bytes;
    }
    give_up(oldest);
    any = true;
  }
}

Status free_guarded(const ActiveEngine& active, const BufferRecord& record, std::optional<StreamHandle> stream) {
  check_behind(active, record, stream);
  fill(active, record.address, record.bytes, kFreed, stream);
  // The stream may no longer exist when the buffer is really freed.
  real<Function::cuStreamSynchronize>(stream_or_default(stream));
  {
    Watch& all = watch();
    const MutexLock lock(all.mutex);
    all.kept.push_back({record.address, record.bytes});
    all.kept_bytes += record.bytes;
  }
  Bytes free = 0, budget = 0;
  active.engine->memory_info(&free, &budget);
  give_up_some(kMostKept, budget / kKeptPartOfBudget);
  return {};
}

}  // namespace

void watch_misuse(MisuseWatch mode) { detail::misuse_watch.store(mode); }

void forget_buffers(OwnRange range) {
  Watch& all = watch();
  const MutexLock lock(all.mutex);
  all.records.forget(range.begin, range.bytes);
  Bytes forgotten = 0;
  std::erase_if(all.kept, [&](const Kept& kept) {
    if (!range(kept.address)) return false;
    forgotten += kept.bytes;
    return true;
  });
  all.kept_bytes -= forgotten;
}

Status allocate_watched(const ActiveEngine& active, Bytes bytes, std::optional<StreamHandle> stream,
                        DeviceAddress* out) {
  const CallSite now = here(stream);
  Status status = active.engine->allocate(bytes, stream, out);
  if (status.is_out_of_memory() && guards() && !any_capture() && give_up_some(0, 0)) {
    status = active.engine->allocate(bytes, stream, out);
  }
  if (!status.ok()) return status;
  const bool guarded = guards() && !any_capture();
  {
    const MutexLock lock(watch().mutex);
    watch().records.add(*out, bytes, now, guarded);
  }
  if (!guarded) return status;
  fill(active, *out, bytes, kNew, stream);
  fill(active, *out + bytes, kRedzoneBytes, kBehind, stream);
  if (stream.has_value()) return status;
  // The next owner may use it on any stream, and must find the pattern's writes done.
  const Status filled(static_cast<int>(real<Function::cuStreamSynchronize>(nullptr)));
  if (filled.ok()) return filled;
  {
    const MutexLock lock(watch().mutex);
    watch().records.remove(*out, now);
  }
  static_cast<void>(active.engine->free(*out, stream));
  return filled;
}

Status free_watched(const ActiveEngine& active, DeviceAddress address, std::optional<StreamHandle> stream) {
  const CallSite now = here(stream);
  BufferRecord record;
  {
    Watch& all = watch();
    const MutexLock lock(all.mutex);
    if (!all.records.remove(address, now)) {
      const BufferRecord* const live = all.records.live(address);
      const BufferRecord* const gone = all.records.gone(address);
      report(live != nullptr   ? "what is freed is not the beginning of a buffer"
             : gone != nullptr ? "a buffer is freed twice"
                               : "what is freed was never allocated",
             address, live != nullptr ? live : gone, &now);
      return Status::invalid_value();
    }
    record = *all.records.gone(address);
  }
  if (record.guarded && !any_capture()) return free_guarded(active, record, stream);
  return active.engine->free(address, stream);
}

void look_at(const AccessList& accesses, StreamHandle stream) {
  const CallSite now = here(stream);
  Watch& all = watch();
  const MutexLock lock(all.mutex);
  for (const MemoryAccess& memory_access : accesses.all()) {
    if (const BufferRecord* live = all.records.live(memory_access.address)) {
      if (memory_access.bytes > 0 && memory_access.address + memory_access.bytes > live->end()) {
        report("an operation goes past the end of its buffer", live->end(), live, &now);
      }
      continue;
    }
    const BufferRecord* const gone = all.records.gone(memory_access.address);
    // A pointer parameter may mean a live buffer without being in it (Heap::meant_by).
    if (gone == nullptr || (memory_access.bytes == 0 && all.records.is_beside_live(memory_access.address))) continue;
    report(memory_access.bytes > 0 ? "an operation uses a buffer that was freed"
                                   : "an operation is given the address of a buffer that was freed",
           memory_access.address, gone, &now);
  }
}

}  // namespace thermocline
