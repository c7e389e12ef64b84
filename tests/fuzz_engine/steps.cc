// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz_engine/steps.h"

#include <algorithm>

namespace thermocline::fuzz_engine {
namespace {

constexpr std::size_t kStepsPerValidation = 128;

}  // namespace

void Runner::run(bool check) {
  SimulatedDeviceOptions options;
  options.library = THERMOCLINE_SIMULATED_CUDA;
  options.seed = setup_.order;
  options.memory_bytes = memory_bytes();
  options.check = check;
  std::string why;
  device_ = SimulatedDevice::open(options, &why);
  if (device_ == nullptr) return fail("the simulated device does not open: " + why);
  order_ = std::make_unique<Order>(device_->driver(), kMostStreams);
  order_->opened(0, StreamHandle{});
  for (Staging& staging : stagings_) need(driver().allocate_host(kStagingBytes, &staging.host), "pinned memory");
  if (good()) start();
  for (at_ = 0; at_ < program_.steps.size() && good(); ++at_) {
    if (!wanted(at_)) continue;
    outcome_.done[at_] = step(program_.steps[at_]);
    if (at_ % kStepsPerValidation == 0) validate();
  }
  if (good()) finish();
}

bool Runner::take(Status status, const Step& step, Bytes needed) {
  if (!status.ok()) {
    last_refusal_ = status;
    refused(step, status, needed);
  }
  return status.ok();
}

bool Runner::step(const Step& step) {
  switch (step.kind) {
    case Kind::kAllocate:
      return allocate_step(step);
    case Kind::kFree:
      return free_step(step);
    case Kind::kOperate:
    case Kind::kUnknown:
    case Kind::kAbandon:
      return operator_step(step);
    case Kind::kDownload:
    case Kind::kUpload:
      return copy_step(step);
    case Kind::kWait:
    case Kind::kWaitAll:
    case Kind::kQuery:
    case Kind::kOpenStream:
    case Kind::kCloseStream:
      return stream_step(step);
    default:
      return other(step);
  }
}

bool Runner::allocate_step(const Step& step) {
  Buffer& buffer = buffer_of(step);
  if (buffer.bytes != 0) return false;
  const std::uint32_t stream = stream_of(step);
  const auto handle = step.names_stream ? std::optional(order_->handle(stream)) : std::nullopt;
  DeviceAddress address;
  if (!take(allocate(step.bytes, handle, &address), step, footprint(step.bytes, setup_.page_bytes))) return false;
  buffer = {};
  buffer.address = address;
  buffer.bytes = step.bytes;
  if (step.names_stream) buffer.history.write = order_->now(stream);
  return true;
}

bool Runner::free_step(const Step& step) {
  Buffer& buffer = buffer_of(step);
  if (buffer.bytes == 0) return false;
  const std::uint32_t stream = stream_of(step);
  const auto handle = step.names_stream ? std::optional(order_->handle(stream)) : std::nullopt;
  if (step.names_stream) need(order_->before(stream, buffer.history, true), "an event");
  need(free(buffer.address, handle), "a free of what is live");
  buffer = {};
  return true;
}

MemoryAccess Runner::access_of(const Operand& operand, const Buffer& buffer, Bytes from, Bytes bytes) {
  const Access access = operand.reads && operand.writes ? Access::kUnknown
                        : operand.writes                ? Access::kWrite
                                                        : Access::kRead;
  switch (operand.told) {
    case Told::kBase:
      return {buffer.address};
    case Told::kInterior:
      return {buffer.address + buffer.bytes / 2};
    case Told::kEnd:
      return {buffer.address + buffer.bytes};
    case Told::kRangeUnknown:
      return {buffer.address + from, bytes, Access::kUnknown};
    case Told::kRange:
      break;
  }
  return {buffer.address + from, bytes, access};
}

template <class Submit>
Status Runner::operate(const Step& step, std::span<const MemoryAccess> accesses, Submit submit) {
  const std::uint32_t stream = stream_of(step);
  const StreamHandle handle = order_->handle(stream);
  std::optional<Operation> operation = begin(step, handle, accesses);
  if (operation && !operation->status().ok()) return operation->status();
  if (step.kind == Kind::kAbandon) return {};
  need(submit(handle), "a submission");
  order_->submitted(stream);
  const bool completes = step.completes && operation;
  if (completes && need(driver().synchronize_stream(handle), "synchronising")) order_->synchronized(stream);
  if (operation) operation->commit(completes);
  return {};
}

bool Runner::operator_step(const Step& step) {
  accesses_.clear();
  operands_.clear();
  std::array<Buffer*, 4> named{};
  std::array<bool, 4> writes{};
  std::size_t count = 0;
  Bytes needed = 0;
  const std::uint32_t stream = stream_of(step);
  for (std::uint32_t i = 0; i < step.operands; ++i) {
    Operand operand = step.operand[i];
    Buffer& buffer = buffers_[operand.slot];
    if (buffer.bytes == 0 || std::ranges::find(named, &buffer) != named.end()) continue;
    // A buffer that was never written is first written completely, because it contains what was there before.
    const bool fresh = !buffer.defined;
    if (fresh) operand.writes = true, operand.from = 0, operand.to = kParts;
    const Bytes from = buffer.bytes * operand.from / kParts;
    const Bytes bytes = std::max<Bytes>(buffer.bytes * operand.to / kParts - from, 1);
    const bool hidden = hides_accesses_ && step.kind == Kind::kOperate && (step.token + i) % 3 == 0;
    const bool whole = setup_.recompute && operand.from == 0 && operand.to == kParts;
    if (!hidden) {
      accesses_.push_back(
          whole ? MemoryAccess{buffer.address, buffer.bytes, operand.writes ? Access::kWrite : Access::kRead}
                : access_of(operand, buffer, from, bytes));
    }
    const std::uint32_t flags = (operand.reads ? std::uint32_t{SIMULATED_OPERAND_READ} : 0) |
                                (operand.writes ? std::uint32_t{SIMULATED_OPERAND_WRITE} : 0) |
                                (fresh ? std::uint32_t{SIMULATED_OPERAND_FRESH} : 0);
    operands_.push_back({buffer.address.value + from, bytes, flags});
    if (step.kind != Kind::kAbandon && !need(order_->before(stream, buffer.history, operand.writes), "an event"))
      return false;
    writes[count] = operand.writes;
    named[count++] = &buffer;
    needed += footprint(buffer.bytes, setup_.page_bytes);
  }
  if (count == 0) return false;
  const double microseconds = step.nanoseconds == 0 ? 5 : static_cast<double>(step.nanoseconds) / 1000;
  const Status status = operate(step, accesses_, [&](StreamHandle handle) {
    launched();
    return Status(device_->control().launch_operator(reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle)),
                                                     kOperatorName, 0, 0, microseconds, operands_.data(), count));
  });
  if (!take(status, step, needed) || step.kind == Kind::kAbandon) return false;
  for (std::size_t i = 0; i < count; ++i) {
    order_->used(stream, named[i]->history, writes[i]);
    named[i]->defined = true;
  }
  return true;
}

bool Runner::copy_step(const Step& step) {
  const Operand& operand = step.operand[0];
  Buffer& buffer = buffers_[operand.slot];
  Staging& staging = stagings_[step.staging];
  const bool down = step.kind == Kind::kDownload;
  if (buffer.bytes == 0 || !buffer.defined || (!down && staging.defined == 0)) return false;
  const Bytes from = buffer.bytes * operand.from / kParts;
  const Bytes part = std::max<Bytes>(buffer.bytes * operand.to / kParts - from, 1);
  const Bytes bytes = std::min(part, down ? kStagingBytes : staging.defined);
  const std::uint32_t stream = stream_of(step);
  if (!need(order_->before(stream, buffer.history, !down), "an event") ||
      !need(order_->before(stream, staging.history, down), "an event"))
    return false;
  const Access access = operand.told == Told::kRangeUnknown ? Access::kUnknown : down ? Access::kRead : Access::kWrite;
  const MemoryAccess memory_access{buffer.address + from, bytes, access};
  const Status status = operate(step, {&memory_access, 1}, [&](StreamHandle handle) {
    return down ? driver().copy_to_host(staging.host, memory_access.address, bytes, handle)
                : driver().copy_to_device(memory_access.address, staging.host, bytes, handle);
  });
  if (!take(status, step, footprint(buffer.bytes, setup_.page_bytes))) return false;
  order_->used(stream, buffer.history, !down);
  order_->used(stream, staging.history, down);
  if (down) staging.defined = bytes;
  return true;
}

bool Runner::stream_step(const Step& step) {
  if (step.kind == Kind::kWaitAll) {
    waited(step, [this] { return driver().synchronize_context(); });
    order_->synchronized_all();
    return true;
  }
  if (step.kind == Kind::kOpenStream) {
    StreamHandle handle{};
    if (step.stream == 0 || order_->is_open(step.stream) || order_->now(step.stream).ordinal != 0) return false;
    if (!need(driver().create_stream(&handle), "a stream")) return false;
    order_->opened(step.stream, handle);
    return true;
  }
  if (!order_->is_open(step.stream)) return false;
  const StreamHandle handle = order_->handle(step.stream);
  if (step.kind == Kind::kQuery) return need(order_->look(step.stream), "a query");
  if (step.kind == Kind::kWait) {
    waited(step, [&] { return driver().synchronize_stream(handle); });
    order_->synchronized(step.stream);
    return true;
  }
  if (step.stream == 0) return false;
  need(order_->closes(step.stream), "an event");
  retire(handle);
  return need(driver().destroy_stream(handle), "the end of a stream");
}

// The checksum covers results; reading every live byte makes all of them results.
void Runner::read(Buffer& buffer) {
  Step step{.kind = Kind::kOperate, .operands = 1};
  step.operand[0] = {.slot = static_cast<std::uint32_t>(&buffer - buffers_.data()), .told = Told::kBase};
  if (buffer.defined && !operator_step(step)) {
    fail("what was granted can not be read at the end: error " + std::to_string(last_refusal_.code()) + ", " +
         std::to_string(buffer.bytes) + " bytes, " + (buffer.pinned ? "pinned" : "not pinned"));
  }
  step.kind = Kind::kFree;
  free_step(step);
}

void Runner::finish() {
  before_reading();
  // Pinned buffers come first, because they are in the way of the others.
  for (const bool pinned : {true, false}) {
    for (Buffer& buffer : buffers_) {
      if (buffer.bytes != 0 && buffer.pinned == pinned && good()) read(buffer);
    }
  }
  if (!good() || !need(driver().synchronize_context(), "synchronising")) return;
  outcome_.checksum = device_->control().checksum();
  after_freeing();
  order_->synchronized_all();
  for (std::uint32_t stream = 1; stream < kMostStreams; ++stream) {
    if (order_->is_open(stream)) need(driver().destroy_stream(order_->handle(stream)), "the end of a stream");
  }
  order_.reset();
  for (Staging& staging : stagings_) need(driver().free_host(staging.host), "freeing pinned memory");
  SimulatedStatistics statistics{};
  statistics.size = sizeof statistics;
  device_->control().statistics(&statistics);
  if (statistics.races != 0) fail(std::to_string(statistics.races) + " races");
  if (statistics.physical_bytes != 0) fail(std::to_string(statistics.physical_bytes) + " bytes of the device leaked");
  if (statistics.pinned_bytes != 0) fail(std::to_string(statistics.pinned_bytes) + " pinned bytes leaked");
}

}  // namespace thermocline::fuzz_engine
