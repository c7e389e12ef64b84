// SPDX-License-Identifier: Apache-2.0
// What the one machine holds besides its lock: the device, and what outlives it over reset().
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/core/machine/device.h"
#include "simulator/core/machine/machine.h"
#include "simulator/core/streams/progress.h"

namespace simulator {

struct Machine::State {
  explicit State(std::mutex& lock);

  Settings settings;
  std::vector<std::pair<std::string, std::string>> configured;  // wins over the environment
  std::optional<Settings> early;                                // before there is a device, for who asks
  std::string complaint;                                        // what configure() answered last
  std::unique_ptr<Device> device;                               // while initialised
  Progress progress;
  std::function<void()> on_reset;
  StreamResolver resolver = nullptr;
  std::string (*leftovers)(const Machine&) = nullptr;
  bool forked = false;  // in a child of an initialised parent
};

}  // namespace simulator
