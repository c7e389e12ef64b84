// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/streams/durations.h"

#include <algorithm>
#include <cmath>

#include "simulator/core/hash.h"

namespace simulator {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

Time at_rate(double amount, double per_second) { return std::llround(amount / per_second * kNanosecondsPerSecond); }

Time to_host(Bytes bytes, const Settings& settings) {
  return at_rate(static_cast<double>(bytes),
                 settings.profile->link_to_host.value * settings.link_scale * settings.faults.link);
}

struct Costing {
  const Settings& settings;
  const Bytes external;
  const Profile& profile = *settings.profile;

  Time between_devices(Bytes bytes) const { return time_between_devices(bytes, settings); }

  Service operator()(const Kernel& kernel) const {
    if (settings.kernel_high > 0) return {Engine::kCompute, drawn(kernel)};
    if (kernel.is_counted) return {Engine::kCompute, 0};
    Bytes named = 0;
    for (const Buffer& buffer : kernel.named) named += buffer.bytes;
    for (const Fetch& fetch : kernel.fetched) named += fetch.shape.bytes() / 2;  // read, not written
    const Time time = at_rate(2.0 * static_cast<double>(named), profile.memory_bandwidth.value);
    return {Engine::kCompute, std::max(time, between_devices(external)) + profile.launch.value};
  }

  // Drawn from the kernel's identity, so that the same launch in the next iteration takes as long.
  Time drawn(const Kernel& kernel) const {
    const double share = static_cast<double>(combine(kernel.identity, 1) >> 11) * 0x1p-53;
    return std::llround(1000 * settings.kernel_low * std::pow(settings.kernel_high / settings.kernel_low, share));
  }

  Service operator()(const Operator& op) const {
    if (op.microseconds >= 0) return {Engine::kCompute, std::llround(op.microseconds * 1000)};
    const double rate = settings.tensor_rate ? profile.tensor_flops.value : profile.fp32_flops.value;
    const Time time = std::max(at_rate(op.flops, rate), at_rate(op.bytes, profile.memory_bandwidth.value));
    return {Engine::kCompute, std::max(time, between_devices(external)) + profile.launch.value};
  }

  Service operator()(const Copy& copy) const {
    const auto bytes = static_cast<double>(copy.to_shape.bytes());
    switch (copy.direction) {
      case Direction::kToDevice:
        return {Engine::kToDevice,
                at_rate(bytes, profile.link_to_device.value * settings.link_scale * settings.faults.link)};
      case Direction::kToHost:
        return {Engine::kToHost, to_host(copy.to_shape.bytes(), settings)};
      case Direction::kOnDevice:
        if (copy.is_between_devices) return {Engine::kToHost, between_devices(copy.to_shape.bytes())};
        return {Engine::kCompute, at_rate(2 * bytes, profile.memory_bandwidth.value)};
      case Direction::kOnHost:
        break;
    }
    return {};
  }

  Service operator()(const Set& set) const {
    const Time time = at_rate(static_cast<double>(set.shape.bytes()), profile.memory_bandwidth.value);
    return {Engine::kCompute, std::max(time, between_devices(external))};
  }

  Service operator()(const Marker&) const { return {}; }
  Service operator()(const Record&) const { return {}; }
  Service operator()(const HostFunction&) const { return {}; }
  Service operator()(const Internal&) const { return {}; }
  Service operator()(const Lifetime&) const { return {}; }
  Service operator()(const WriteValue&) const { return {}; }
  Service operator()(const WaitValue&) const { return {}; }
  // Its duration is known when it has run.
  Service operator()(const Conditional&) const { return {Engine::kCompute, 0}; }
};

}  // namespace

bool is_counted(const Kernel& kernel, const Settings& settings) {
  return kernel.real != nullptr && kernel.function == nullptr && !kernel.declared && !settings.tagged &&
         settings.kernel_high == 0;
}

Time time_between_devices(Bytes bytes, const Settings& settings) {
  const Profile& profile = *settings.profile;
  const double link = std::min(profile.link_to_host.value, profile.link_to_device.value);
  return at_rate(static_cast<double>(bytes), link * settings.link_scale * settings.faults.link);
}

Time time_to_write(const Kernel& kernel, const Settings& settings) {
  if (!kernel.declared || !kernel.declared->may_write) return 0;
  return to_host(kernel.declared->may_write->shape.bytes(), settings);
}

Service service_of(const Work& work, const Settings& settings, Bytes external) {
  return std::visit(Costing{settings, external}, work);
}

}  // namespace simulator
