// SPDX-License-Identifier: Apache-2.0
// A substitute for a spill file in tests: memory, with calls that fail, wait or corrupt on request.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "offload/spill/spill_file.h"

namespace thermocline {

class MemoryFile final : public SpillFile {
 public:
  // `bytes`: the size of the disk, as it turns out.
  explicit MemoryFile(Bytes bytes) : contents_(static_cast<std::size_t>(bytes)) {}

  int write(Bytes offset, const void* memory, Bytes bytes) override {
    await();
    const std::lock_guard lock(mutex_);
    if (const int write = ++writes; write == fail_write_at || (fail_all_from > 0 && write >= fail_all_from))
      return error;
    if (offset + bytes > contents_.size()) return ENOSPC;
    std::memcpy(contents_.data() + offset, memory, bytes);
    return 0;
  }
  int read(Bytes offset, void* memory, Bytes bytes) override {
    await();
    const std::lock_guard lock(mutex_);
    if (++reads == fail_read_at) return error;
    std::memcpy(memory, contents_.data() + offset, bytes);
    if (corrupts) static_cast<unsigned char*>(memory)[bytes / 2] ^= 1;
    return 0;
  }
  int reserve(Bytes bytes) override { return bytes > contents_.size() && is_honest ? ENOSPC : 0; }

  // Every call waits until release().
  void hold() { held_ = true; }
  void release() {
    const std::lock_guard lock(wait_);
    held_ = false;
    released_.notify_all();
  }

  std::atomic<int> writes{0}, reads{0};
  std::atomic<int> fail_write_at{0}, fail_read_at{0};  // the call that fails; 0: none
  std::atomic<int> fail_all_from{0};                   // the first of all writes that fail
  std::atomic<bool> corrupts{false};
  bool is_honest = true;  // else it promises room that it has not
  int error = EIO;

 private:
  void await() {
    std::unique_lock lock(wait_);
    while (held_) released_.wait(lock);
  }

  std::vector<char> contents_;
  std::mutex mutex_, wait_;
  std::condition_variable released_;
  std::atomic<bool> held_{false};
};

}  // namespace thermocline
