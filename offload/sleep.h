// SPDX-License-Identifier: Apache-2.0
// Sleep: a program gives its device memory back while it is idle, and gets it back when it continues, or when it is
// told to wake (Engine::sleep, Engine::wake; docs/sleep.md). No policy is involved: sleep evicts everything that may be
// evicted, or everything that has a tag: a name that the program gives to some of its buffers ("weights", "kv").
#pragma once

#include <atomic>
#include <cstdint>

#include "driver/units.h"

namespace thermocline {

struct SleepRequest {
  // True: waits for the program's work in flight, but never for blocked streams. False: memory in use stays, and the
  // caller may ask again.
  bool waits = false;
  // The id of an earlier request to continue (SleepReport::since): memory accessed after it stays. 0: a new one.
  std::uint64_t since = 0;
  // Only buffers with this tag (Engine::tag). 0: everything.
  std::uint64_t tag = 0;
  // Set by another thread to stop: what has been begun is finished, and nothing more is begun. Null: never.
  const std::atomic<bool>* stop = nullptr;
};

// The memory that a request is about: not accessed after this operation, and with the tag (0: any).
struct SleepScope {
  std::uint64_t since = 0;
  std::uint64_t tag = 0;
};

// The work of an engine, and how much of the device it holds afterwards. For a sleep, device_bytes is the sum of the
// five fields below it and untagged_bytes; for a wake, these are 0.
struct SleepReport {
  Bytes device_bytes_before = 0;
  Bytes device_bytes = 0;
  Bytes pinned_bytes = 0;    // shared with others, graphs launched by the device, thermocline_pin
  Bytes external_bytes = 0;  // the program's own mappings
  Bytes in_use_bytes = 0;    // used by work in flight, or accessed since the sleep began
  Bytes no_host_bytes = 0;   // there was no host memory for its contents
  Bytes other_bytes = 0;     // pages that the driver did not take back
  Bytes asleep_bytes = 0;    // asleep afterwards, whoever put it to sleep; where a tag was named, of what has it
  Bytes copied_bytes = 0;    // over the link, for this request
  Bytes untagged_bytes = 0;  // a tag was named, and it has another or none
  std::uint64_t since = 0;   // SleepRequest::since, for one engine
  bool is_busy = false;      // only work in flight keeps anything on the device

  SleepReport& operator+=(const SleepReport& more) {
    device_bytes_before += more.device_bytes_before;
    device_bytes += more.device_bytes;
    pinned_bytes += more.pinned_bytes;
    external_bytes += more.external_bytes;
    in_use_bytes += more.in_use_bytes;
    no_host_bytes += more.no_host_bytes;
    other_bytes += more.other_bytes;
    asleep_bytes += more.asleep_bytes;
    copied_bytes += more.copied_bytes;
    untagged_bytes += more.untagged_bytes;
    is_busy |= more.is_busy;
    return *this;
  }
};

}  // namespace thermocline
