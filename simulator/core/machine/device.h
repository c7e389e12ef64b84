// SPDX-License-Identifier: Apache-2.0
// The parts of the simulated devices, created together from the settings and destroyed together. Declared in order of
// dependency: each part refers to earlier ones only.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "simulator/core/execution/executor.h"
#include "simulator/core/execution/race_checker.h"
#include "simulator/core/execution/textures.h"
#include "simulator/core/memory/address_space.h"
#include "simulator/core/memory/buffers.h"
#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/device_heap.h"
#include "simulator/core/memory/host_memory.h"
#include "simulator/core/memory/page_table.h"
#include "simulator/core/memory/physical.h"
#include "simulator/core/memory/shared_files.h"
#include "simulator/core/settings.h"
#include "simulator/core/streams/events.h"
#include "simulator/core/streams/streams.h"
#include "simulator/core/streams/timeline.h"
#include "simulator/core/streams/timeline_file.h"
#include "simulator/faults/faults.h"

namespace simulator {

// Host time: advances when calls are charged, and when the host waits for the device.
class HostClock {
 public:
  Time now() const { return now_; }
  void spend(Time cost) { now_ += cost; }
  void wait_until(Time end) { now_ = std::max(now_, end); }

 private:
  Time now_ = 0;
};

struct Device {
  explicit Device(const Settings& chosen)
      : settings(chosen), contents(settings.tagged ? make_tagged_contents(table) : make_real_contents()) {
    for (DeviceId device = 0; device < settings.devices; ++device) add_heap(device);
  }

  std::size_t add_heap(DeviceId device) {
    heaps.push_back(std::make_unique<DeviceHeap>(addresses, physical, device));
    return heaps.size() - 1;
  }

  const Settings settings;
  HostClock clock;
  Faults faults{settings.faults};
  PageTable table{settings.devices};
  std::unique_ptr<Contents> contents;
  PhysicalMemory physical{settings.capacity(), settings.others,
                          [this](PageRun run) {
                            contents->discard(run);
                            shared.discarded(run);
                            if (checker) checker->discarded(run);
                          },
                          settings.driver.handle_bytes, settings.driver.handles.value_or(~std::uint64_t{0})};
  SharedFiles shared{physical, *contents};
  AddressSpace addresses{table, physical, *contents};
  std::vector<std::unique_ptr<DeviceHeap>> heaps;  // one per device, followed by those of pools
  HostMemory host{*contents, settings.driver.pinned.value_or(~Bytes{0})};
  Buffers buffers;
  Textures textures;
  Events events;
  std::unique_ptr<RaceChecker> checker =
      settings.check == Checking::kOff
          ? nullptr
          : std::make_unique<RaceChecker>(table, host, buffers, settings.tagged, settings.devices);
  std::unique_ptr<TimelineFile> timeline_file = TimelineFile::open(settings.timeline, settings.devices);
  Executor executor{table, addresses, *contents, buffers, host, events, settings, checker.get(), timeline_file.get()};
  Timeline timeline{executor, settings.seed, settings.devices};
  Streams streams{timeline, settings.devices};
  std::uint64_t ordinal = 0;  // of the newest kernel or operator
  std::uint64_t maps = 0, unmaps = 0, set_accesses = 0, reserves = 0;
  Bytes reserved_bytes = 0;      // reserved by the program now
  std::size_t reservations = 0;  // of the program now
};

}  // namespace simulator
