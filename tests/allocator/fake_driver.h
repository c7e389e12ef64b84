// SPDX-License-Identifier: Apache-2.0
// A driver for unit tests, single-threaded: addresses from 1 << 40 without memory, and streams whose work runs when the
// test says so, in an order that a seed determines. It detects errors that would be faults or races on a device: pages
// that are mapped twice, pages that are destroyed or unmapped while in use, work that runs before work it must follow.
// It lists them in errors(). Any call can be made to fail.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "driver/driver.h"
#include "driver/page_size.h"
#include "driver/table.h"

namespace thermocline {

class FakeDriver {
 public:
  static constexpr Bytes kPage = kDefaultPageBytes;

  // The functions of the table use the object that was created last.
  explicit FakeDriver(std::uint64_t seed = 0);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const DriverTable& table() const { return table_; }
  DriverTable& table() { return table_; }

  // Size of device memory; further pages are refused.
  Bytes device_bytes = Bytes{1} << 40;
  Bytes most_reserved = Bytes{1} << 42;
  Bytes host_bytes = Bytes{1} << 40;
  // A page may be mapped at several addresses.
  bool allow_aliases = false;
  // Called in each call that copies to the host; its result becomes the call's. If unset, such copies are not
  // supported.
  std::function<CUresult(std::byte* to, DeviceAddress from, Bytes bytes)> on_copy_to_host;
  // Called in each call that allocates pinned host memory.
  std::function<void()> on_host_allocation;
  // Called in each call that frees it.
  std::function<void()> on_host_free;

  // The n-th call of the function from now (1: the next) returns `result`.
  void fail(const std::string& function, std::uint64_t n, CUresult result);
  std::uint64_t calls(const std::string& function) const;
  std::uint64_t calls() const;

  // Submits work to a stream that uses buffer number `owner` at [at, at + bytes). It must run after all earlier work of
  // other owners on the same physical bytes.
  void submit(StreamHandle stream, std::uint64_t owner, DeviceAddress at, Bytes bytes);
  void submit(StreamHandle stream) { submit(stream, 0, {}, 0); }
  // Runs one piece of work on a stream that the seed selects; false when nothing can run.
  bool step();
  // Runs the next piece of work of this stream; false when there is none, or it has to wait.
  bool step(StreamHandle stream);
  void run_all();

  StreamHandle create_stream();
  void set_capturing(StreamHandle stream, bool capturing);

  const std::vector<std::string>& errors() const { return errors_; }
  void error(const std::string& what) { errors_.push_back(what); }

  // The page mapped at an address; 0: none.
  std::uint64_t page_behind(DeviceAddress at) const;
  bool accessible(DeviceAddress at, int device = 0) const;
  std::size_t pages() const { return pages_.size(); }
  std::size_t mappings() const { return mappings_.size(); }
  std::size_t reservations() const { return reservations_.size(); }
  std::size_t events() const { return events_.size(); }
  Bytes host_taken() const { return host_taken_; }
  Bytes peak_host_taken() const { return peak_host_taken_; }

 private:
  friend struct FakeCalls;

  struct Item {
    std::uint64_t work = 0;              // 0: a wait
    std::vector<std::uint64_t> follows;  // work that must have run before
    std::uint64_t wait_stream = 0;
    std::uint64_t wait_position = 0;
  };
  struct Stream {
    std::deque<Item> queue;
    std::uint64_t submitted = 0;
    std::uint64_t executed = 0;
    bool capturing = false;
  };
  struct Event {
    std::uint64_t stream = 0;
    std::uint64_t position = 0;
  };
  struct Mapping {
    std::uint64_t page = 0;
    std::uint64_t open_to = 0;  // bits, by device
  };
  struct Use {
    std::uint64_t work, owner;
    Bytes begin, end;    // in the page
    std::uint64_t page;  // its address
  };

  CUresult enter(const char* function);
  bool runnable(const Stream& stream) const;
  void run_head(std::uint64_t handle, Stream& stream);
  bool complete(const Event& event) const;
  void drop_done(std::vector<Use>& uses);

  DriverTable table_;
  std::mt19937_64 random_;
  std::map<std::string, std::uint64_t> calls_;
  std::map<std::string, std::map<std::uint64_t, CUresult>> faults_;  // by function, by number of the call
  std::vector<std::string> errors_;
  std::map<std::uint64_t, Stream> streams_;
  std::map<std::uint64_t, Event> events_;
  std::map<std::uint64_t, Bytes> reservations_;
  std::map<std::uint64_t, Mapping> mappings_;        // by address
  std::map<std::uint64_t, std::vector<Use>> pages_;  // by handle: its uses
  std::map<std::uint64_t, int> times_mapped_;        // by handle
  std::map<std::uint64_t, Bytes> host_;
  std::set<std::uint64_t> running_;  // work submitted and not run yet
  Bytes host_taken_ = 0;
  Bytes peak_host_taken_ = 0;
  std::uint64_t next_handle_ = 0x1000;
  std::uint64_t next_address_ = std::uint64_t{1} << 40;
  std::uint64_t next_work_ = 1;
};

}  // namespace thermocline
