// SPDX-License-Identifier: Apache-2.0
// Events: the newest record of each, and when it completed. Waits and queries refer to the operation that recorded, not
// to the event, so recording again later does not affect them. A generation prevents a pending record from being
// attributed to a later event with the same id.
#pragma once

#include <vector>

#include "simulator/core/check.h"
#include "simulator/core/streams/operation.h"
#include "simulator/core/types.h"

namespace simulator {

class Events {
 public:
  EventId create() {
    if (free_.empty()) {
      events_.emplace_back();
      return static_cast<EventId>(events_.size() - 1);
    }
    const EventId id = free_.back();
    free_.pop_back();
    return id;
  }

  void destroy(EventId id) {
    Event& event = events_.at(id);
    event = {0, 0, event.generation + 1};
    free_.push_back(id);
  }

  Record record_of(EventId id) const { return {id, events_.at(id).generation}; }
  void recorded(EventId id, OperationId operation) { events_.at(id).newest = operation; }
  OperationId newest(EventId id) const { return events_.at(id).newest; }
  Time time(EventId id) const { return events_.at(id).time; }

  void completed(const Record& record, OperationId operation, Time end) {
    Event& event = events_.at(record.event);
    if (event.generation == record.generation && event.newest == operation) event.time = end;
  }

 private:
  struct Event {
    OperationId newest = 0;  // 0: never recorded
    Time time = 0;           // when the newest record completed
    std::uint32_t generation = 0;
  };

  std::vector<Event> events_;
  std::vector<EventId> free_;
};

}  // namespace simulator
