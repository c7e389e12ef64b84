// SPDX-License-Identifier: Apache-2.0
// A small training step for the planner: forward fills memory, backward empties it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "offload/planning/profile.h"
#include "offload/residency/link_meter.h"

namespace thermocline {

inline constexpr Bytes kActivation = 64 * kMiB;
inline constexpr std::uint64_t kOperationNs = 4'000'000;  // longer than transferring an activation (1.3 ms at 50 GB/s)
inline constexpr Link kLink{50, 50};

// Records `turns` steps of a chain: the forward pass creates one activation per layer, the backward pass uses them in
// reverse order and frees them. One buffer of weights always lives; one gradient is created at the end of each step and
// freed in the middle of the next one.
class Chain {
 public:
  // For every second activation only `contents` bytes are to be copied.
  Chain(std::uint32_t layers, std::uint64_t operation_ns, Bytes contents = kActivation)
      : layers_(layers), operation_ns_(operation_ns), contents_(contents) {}

  ProfileRecorder record(int turns) {
    ProfileRecorder recorder;
    std::uint64_t gradient = 0;
    for (int turn = 0; turn < turns; ++turn) {
      std::vector<std::uint64_t> activations;
      for (std::uint32_t i = 0; i < layers_; ++i) {
        activations.push_back(++serial_);
        live_ += kActivation;
        add(recorder, {activations.back(), kWeights});
        if (i == layers_ / 2 && gradient != 0) {
          add(recorder, {gradient});
          recorder.freed(gradient);
          live_ -= kActivation;
        } else if (i == layers_ / 2) {
          add(recorder, {activations.back()});
        }
      }
      for (std::uint32_t i = layers_; i-- > 0;) {
        add(recorder, {activations[i], kWeights});
        recorder.freed(activations[i]);
        live_ -= kActivation;
      }
      gradient = ++serial_;
      live_ += kActivation;
      add(recorder, {gradient, kWeights});
    }
    return recorder;
  }
  std::size_t operations_per_turn() const { return 2 * layers_ + 2; }

 private:
  static constexpr std::uint64_t kWeights = 1;

  void add(ProfileRecorder& recorder, std::vector<std::uint64_t> serials) {
    std::vector<ProfileRecorder::Operand> operands;
    for (const std::uint64_t serial : serials)
      operands.push_back({serial, kActivation, serial % 2 == 0 ? contents_ : kActivation, true});
    static_cast<void>(recorder.add(operands, operands.size(), operation_ns_, live_));
  }

  std::uint32_t layers_;
  std::uint64_t operation_ns_;
  Bytes contents_;
  std::uint64_t serial_ = kWeights;
  Bytes live_ = kActivation;
};

inline Profile profile_of(std::uint32_t layers, std::uint64_t operation_ns = kOperationNs) {
  Chain chain(layers, operation_ns);
  return chain.record(4).make(chain.operations_per_turn());
}

inline Bytes peak_of(const Profile& profile) {
  Bytes peak = 0;
  for (std::uint32_t q = 0; q < profile.places(); ++q) {
    Bytes live = profile.unplanned_bytes[q];
    for (const ProfiledBuffer& buffer : profile.buffers) {
      const bool alive = buffer.always || (buffer.birth <= buffer.death ? buffer.birth <= q && q <= buffer.death
                                                                        : q <= buffer.death || q >= buffer.birth);
      if (alive) live += buffer.bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace thermocline
