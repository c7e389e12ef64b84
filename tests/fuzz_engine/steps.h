// SPDX-License-Identifier: Apache-2.0
// Executes the steps of a program in an order that CUDA's rules allow; on what, is defined by derived classes
// (runner.cc).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/page_size.h"
#include "tests/fuzz_engine/order.h"
#include "tests/fuzz_engine/program.h"
#include "tests/fuzz_engine/runner.h"
#include "trace/simulated_device.h"

namespace thermocline::fuzz_engine {

// Upper bound for the bytes of pages of a buffer of this size: its own, or a whole slab.
inline Bytes footprint(Bytes bytes, Bytes page) {
  constexpr Bytes kLargestSlab = 8 * kMiB;
  const Bytes whole = round_up(bytes, page);
  const bool owns_pages = bytes >= std::max(page / 2, kDefaultPageBytes) || whole - bytes <= whole / 8;
  return owns_pages ? whole : std::max(page, kLargestSlab);
}

struct Buffer {
  DeviceAddress address;
  Bytes bytes = 0;  // 0: none
  bool defined = false, pinned = false;
  History history;
};

struct Staging {
  void* host = nullptr;
  Bytes defined = 0;
  History history;
};

class Runner {
 public:
  Runner(const Program& program, Outcome* outcome) : program_(program), setup_(program.setup), outcome_(*outcome) {}
  virtual ~Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void run(bool check);

 protected:
  virtual Bytes memory_bytes() const = 0;
  virtual bool wanted(std::size_t step) const = 0;
  virtual void start() = 0;
  virtual void validate() {}
  virtual Status allocate(Bytes bytes, std::optional<StreamHandle> stream, DeviceAddress* out) = 0;
  virtual Status free(DeviceAddress address, std::optional<StreamHandle> stream) = 0;
  // Submits between telling the engine and committing.
  template <class Submit>
  Status operate(const Step& step, std::span<const MemoryAccess> accesses, Submit submit);
  virtual std::optional<Operation> begin(const Step& step, StreamHandle stream,
                                         std::span<const MemoryAccess> accesses) = 0;
  // Steps that concern only the engine.
  virtual bool other(const Step& step) = 0;
  virtual void waited(const Step& step, const std::function<Status()>& wait) = 0;
  virtual void retire(StreamHandle stream) = 0;
  // An operator was launched with operands_.
  virtual void launched() {}
  virtual void refused(const Step& step, Status status, Bytes needed) = 0;
  virtual void before_reading() {}
  virtual void after_freeing() {}

  const Driver& driver() const { return device_->driver(); }
  bool good() const { return outcome_.failure.empty(); }
  void fail(const std::string& what) {
    if (good()) outcome_.failure = "step " + std::to_string(at_) + ": " + what;
  }
  bool need(Status status, const char* what) {
    if (!status.ok()) fail(std::string(what) + ": error " + std::to_string(status.code()));
    return status.ok();
  }
  Buffer& buffer_of(const Step& step) { return buffers_[step.operand[0].slot]; }
  static constexpr const char* kOperatorName = "operator";
  const std::vector<SimulatedOperand>& operands() const { return operands_; }
  Bytes pinned_bytes() const {
    Bytes sum = 0;
    for (const Buffer& buffer : buffers_) sum += buffer.pinned ? footprint(buffer.bytes, setup_.page_bytes) : 0;
    return sum;
  }

  const Program& program_;
  const Setup& setup_;
  bool hides_accesses_ = may_hide_accesses(setup_);
  Outcome& outcome_;
  std::size_t at_ = 0;
  // Members are destroyed from the last to the first.
  std::unique_ptr<SimulatedDevice> device_;
  std::unique_ptr<Order> order_;
  std::array<Buffer, kSlots> buffers_;
  std::array<Staging, kStagings> stagings_;

 private:
  bool step(const Step& step);
  bool allocate_step(const Step& step);
  bool free_step(const Step& step);
  bool operator_step(const Step& step);
  bool copy_step(const Step& step);
  bool stream_step(const Step& step);
  bool take(Status status, const Step& step, Bytes needed);
  void read(Buffer& buffer);
  void finish();
  std::uint32_t stream_of(const Step& step) const { return order_->is_open(step.stream) ? step.stream : 0; }
  static MemoryAccess access_of(const Operand& operand, const Buffer& buffer, Bytes from, Bytes bytes);

  Status last_refusal_;
  std::vector<MemoryAccess> accesses_;
  std::vector<SimulatedOperand> operands_;
};

}  // namespace thermocline::fuzz_engine
