// SPDX-License-Identifier: Apache-2.0
// Another process with a ledger of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "allocator/host_ledger.h"

namespace thermocline {

// Executes commands and answers each with a byte.
class Peer {
 public:
  Peer(const std::string& folder, Bytes limit) {
    EXPECT_EQ(pipe(to_), 0);
    EXPECT_EQ(pipe(from_), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    std::string why;
    std::unique_ptr<HostLedger> ledger = HostLedger::open(folder, limit, &why);
    Bytes order = 0;
    while (read(to_[0], &order, sizeof order) == static_cast<ssize_t>(sizeof order) && order != kEnd) {
      const bool granted = ledger != nullptr && ledger->hold(order);
      if (write(from_[1], &granted, 1) != 1) break;
    }
    ledger.reset();
    _exit(0);
  }
  ~Peer() {
    if (pid_ > 0) end();
    for (const int file : {to_[0], to_[1], from_[0], from_[1]}) close(file);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool hold(Bytes bytes) {
    bool granted = false;
    EXPECT_EQ(write(to_[1], &bytes, sizeof bytes), static_cast<ssize_t>(sizeof bytes));
    EXPECT_EQ(read(from_[0], &granted, 1), 1);
    return granted;
  }
  void end() {
    EXPECT_EQ(write(to_[1], &kEnd, sizeof kEnd), static_cast<ssize_t>(sizeof kEnd));
    wait();
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }

 private:
  static constexpr Bytes kEnd = ~Bytes{0};
  void wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
  }
  int to_[2] = {}, from_[2] = {};
  pid_t pid_ = 0;
};

}  // namespace thermocline
