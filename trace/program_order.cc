// SPDX-License-Identifier: Apache-2.0
#include "trace/program_order.h"

#include <algorithm>
#include <utility>

namespace thermocline {

ProgramOrder::ProgramOrder(const Driver& driver, std::vector<StreamHandle> streams, std::size_t buffers)
    : driver_(driver),
      streams_(std::move(streams)),
      events_(streams_.size()),
      recorded_(streams_.size()),
      submitted_(streams_.size()),
      known_(streams_.size(), std::vector<std::uint64_t>(streams_.size())),
      histories_(streams_.size() > 1 ? buffers : 0) {}

Status ProgramOrder::wait(std::uint32_t waiter, const Use& use) {
  if (waiter == use.stream || known_[waiter][use.stream] >= use.ordinal) return Status();
  EventOwner& event = events_[use.stream];
  if (!event) {
    EventHandle handle{};
    if (const Status status = driver_.create_event(false, &handle); !status.ok()) return status;
    event = EventOwner(driver_, handle);
  }
  if (recorded_[use.stream] < use.ordinal) {
    if (const Status status = driver_.record(event.get(), streams_[use.stream]); !status.ok()) return status;
    recorded_[use.stream] = submitted_[use.stream];
  }
  if (const Status status = driver_.wait(streams_[waiter], event.get()); !status.ok()) return status;
  known_[waiter][use.stream] = recorded_[use.stream];
  return Status();
}

Status ProgramOrder::before_use(std::uint32_t stream, std::uint32_t buffer, bool writes) {
  if (histories_.empty()) return Status();
  const History& history = histories_[buffer];
  if (const Status status = wait(stream, history.last_write); !status.ok() || !writes) return status;
  for (const Use& read : history.reads) {
    if (const Status status = wait(stream, read); !status.ok()) return status;
  }
  return Status();
}

void ProgramOrder::allocated(std::uint32_t stream, std::uint32_t buffer) {
  if (!histories_.empty()) histories_[buffer] = {.last_write = {stream, submitted_[stream]}, .reads = {}};
}

void ProgramOrder::renamed(std::uint32_t from, std::uint32_t to) {
  if (!histories_.empty()) histories_[to] = std::exchange(histories_[from], History());
}

void ProgramOrder::used(std::uint32_t stream, std::uint32_t buffer, bool writes) {
  if (histories_.empty()) return;
  History& history = histories_[buffer];
  const Use use{stream, submitted_[stream]};
  if (writes) {
    history.last_write = use;
    history.reads.clear();
    return;
  }
  const auto same = std::ranges::find(history.reads, stream, &Use::stream);
  if (same == history.reads.end()) {
    history.reads.push_back(use);
  } else {
    *same = use;
  }
}

}  // namespace thermocline
