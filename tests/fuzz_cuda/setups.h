// SPDX-License-Identifier: Apache-2.0
// The conditions of random programs: the settings of the simulated device and of the library, and the properties of the
// programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace model {

// The exit status if a call was refused memory, and all bytes were right until then.
inline constexpr int kRefused = 7;

struct Setup {
  bool preload = true;
  std::string budget{};  // empty: all of the device
  std::string policy = "reactive";
  std::string safety = "strict", host_fallback = "auto";
  bool eager = true;          // idle buffers are copied out early, as by default; else only under pressure
  std::uint64_t order = 0;    // seed of the adversarial order; 0: order of time
  std::string kernel_time{};  // "LOW-HIGH" in microseconds; empty: according to the kernel's buffers
  std::uint64_t programs = 20, first = 1, operations = 300, threads = 1, repeat = 1;
  std::uint64_t live = 72 << 20, held = 4 << 20, largest = 2 << 20;
  bool unseen = false;
  unsigned devices = 1;
  bool digests = false;
  std::string upload_copies = "auto";
  bool sleeps = false;
  std::string driver{};            // switches of the simulated driver (docs/faults.md)
  bool may_refuse = false;         // under these switches or this budget a program may end with a clear refusal
  std::uint64_t simulated_ms = 0;  // in place of `programs`

  // Sets `driver`. Where it has no host fallback, programs make no accesses that only a full host fallback serves; where
  // nothing is evicted, they have all of the device.
  void use_driver(std::string switches);
  std::vector<std::string> arguments(const std::string& program) const;
  std::vector<std::string> environment(const std::string& library, const std::string& simulator_folder) const;
  std::string name() const;  // a short description
};

// The switches of the simulated driver under which random programs run, with each of their values; a number stands for
// others of its kind.
std::span<const char* const> driver_switches();

// The process has ended because a call was refused, and has said so; no byte was wrong before. A refusal ends it before
// the checker's last line.
bool is_clear_refusal(int status, const std::string& err);

// A setup by its number: every policy, order and kind of host fallback occurs.
Setup setup_of(std::uint64_t seed);

}  // namespace model
