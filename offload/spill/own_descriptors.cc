// SPDX-License-Identifier: Apache-2.0
#include "offload/spill/own_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace thermocline {
namespace {

constexpr int kFirstHigh = 700;  // below the usual limit of 1024
constexpr int kNone = 0;

// Descriptors beyond these are not closed in a child: that only keeps the file's space taken.
constinit std::array<std::atomic<int>, 64> known{};

}  // namespace

int keep_descriptor(int descriptor) {
  const int high = fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstHigh);
  if (high >= 0) {
    close(descriptor);
    descriptor = high;
  }
  note_descriptor(descriptor);
  return descriptor;
}

void note_descriptor(int descriptor) {
  for (std::atomic<int>& one : known) {
    int free = kNone;
    if (one.compare_exchange_strong(free, descriptor)) return;
  }
}

void forget_descriptor(int descriptor) {
  for (std::atomic<int>& one : known) {
    int there = descriptor;
    if (one.compare_exchange_strong(there, kNone)) return;
  }
}

void close_own_descriptors() {
  for (std::atomic<int>& one : known) {
    if (const int descriptor = one.exchange(kNone); descriptor != kNone) close(descriptor);
  }
}

}  // namespace thermocline
