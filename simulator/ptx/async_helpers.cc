// SPDX-License-Identifier: Apache-2.0
// Helpers that generated code calls for mbarriers, bulk copies and memory that kernels allocate.
#include <algorithm>
#include <bit>
#include <cstring>

#include "simulator/ptx/block.h"
#include "simulator/ptx/heap.h"
#include "simulator/ptx/helpers.h"
#include "simulator/ptx/mbarrier.h"

namespace simulator::ptx {
namespace {

bool is_over(const Mbarrier& barrier, MbarrierOperation operation, std::uint64_t argument) {
  const bool of = operation == MbarrierOperation::kTest ? argument >> 63 != 0 : (argument & 1) != 0;
  return barrier.phase != of;
}

std::uint64_t use(ThreadContext* thread, std::uint32_t site, std::uint64_t address, std::uint32_t number,
                  std::uint64_t argument) {
  thread->block->check(*thread, address, 8, true, site);
  auto* const memory = reinterpret_cast<std::uint64_t*>(address);
  const auto operation = static_cast<MbarrierOperation>(number);
  const std::uint64_t before = *memory;
  Mbarrier barrier = Mbarrier::of(before);
  const auto count = static_cast<std::uint32_t>(argument);
  const auto expect_arrivals = [&](std::uint32_t arrivals) {
    if (arrivals > barrier.pending)
      thread->block->fail(*thread, Fault::kTrap, address, "more threads arrive at an mbarrier than it expects",
                          static_cast<int>(site));
    barrier.pending -= arrivals;
  };
  switch (operation) {
    case MbarrierOperation::kInit:
      if (count == 0 || count > kMostArrivals)
        thread->block->fail(*thread, Fault::kTrap, address, "an mbarrier can not expect so many",
                            static_cast<int>(site));
      barrier = {count, count, 0, false};
      break;
    case MbarrierOperation::kInvalidate:
      barrier = {};
      break;
    case MbarrierOperation::kDrop:
      barrier.expected -= std::min(count, barrier.expected);
      [[fallthrough]];
    case MbarrierOperation::kArrive:
      expect_arrivals(count);
      barrier.complete_phase_if_due();
      break;
    case MbarrierOperation::kArriveExpecting:
      barrier.bytes += static_cast<std::int32_t>(count);
      expect_arrivals(1);
      barrier.complete_phase_if_due();
      break;
    case MbarrierOperation::kExpect:
      barrier.bytes += static_cast<std::int32_t>(count);
      break;
    case MbarrierOperation::kComplete:
      barrier.bytes -= static_cast<std::int32_t>(count);
      barrier.complete_phase_if_due();
      break;
    default:
      if (is_over(barrier, operation, argument)) return 1;
      // A thread that tests usually waits, so other threads run first.
      thread->block->yield(*thread);
      return is_over(Mbarrier::of(*memory), operation, argument) ? 1 : 0;
  }
  *memory = barrier.word();
  return before;
}

void copy(ThreadContext* thread, std::uint32_t site, std::uint64_t into, std::uint64_t from, std::uint32_t bytes) {
  if (bytes % 16 != 0)
    thread->block->fail(*thread, Fault::kMisaligned, into, "a bulk copy of " + std::to_string(bytes) + " bytes",
                        static_cast<int>(site));
  for (std::uint32_t at = 0; at < bytes; at += 16) {
    thread->block->check(*thread, from + at, 16, false, site);
    thread->block->check(*thread, into + at, 16, true, site);
    std::memcpy(reinterpret_cast<void*>(into + at), reinterpret_cast<const void*>(from + at), 16);
  }
}

// Copies what the source has if it is shorter than the copy of cp.async; the rest is zeros. Generated code has counted
// all of `bytes`.
void copy_part(ThreadContext* thread, std::uint32_t site, std::byte* into, std::uint64_t from, std::uint32_t bytes,
               std::uint32_t count) {
  std::byte part[16] = {};
  thread->counts.accessed -= bytes;
  if (count != 0 && from % bytes != 0)
    thread->block->fail(*thread, Fault::kMisaligned, from,
                        "misaligned address of a copy of " + std::to_string(bytes) + " bytes", static_cast<int>(site));
  for (std::uint32_t at = 0; at < count;) {
    const std::uint32_t piece = std::bit_floor(count - at);  // aligned, because each is smaller than the one before it
    thread->block->check_global(*thread, from + at, piece, site);
    std::memcpy(part + at, reinterpret_cast<const void*>(from + at), piece);
    at += piece;
  }
  std::memcpy(into, part, bytes);
}

// Arguments and results are in the caller's variables (emit_control.cc).
void allocate(ThreadContext* thread, std::uint32_t, std::byte* result, const std::byte* bytes) {
  std::uint64_t wanted = 0;
  std::memcpy(&wanted, bytes, sizeof wanted);
  const std::uint64_t at = heap_of(thread->block->grid().launch).allocate(wanted);
  std::memcpy(result, &at, sizeof at);
}

void give_back(ThreadContext* thread, std::uint32_t site, const std::byte* pointer) {
  std::uint64_t at = 0;
  std::memcpy(&at, pointer, sizeof at);
  if (at != 0 && !heap_of(thread->block->grid().launch).free(at))
    thread->block->fail(*thread, Fault::kIllegalAddress, at, "frees what was not allocated", static_cast<int>(site));
}

// For atom.sys.inc and .dec: a host thread may change the word at the same time.
template <typename Next>
std::uint32_t replace(std::uint64_t address, Next next) {
  auto* const word = reinterpret_cast<std::uint32_t*>(address);
  std::uint32_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(word, &old, next(old), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}

std::uint32_t increment(std::uint64_t address, std::uint32_t limit) {
  return replace(address, [&](std::uint32_t old) { return old >= limit ? 0 : old + 1; });
}

std::uint32_t decrement(std::uint64_t address, std::uint32_t limit) {
  return replace(address, [&](std::uint32_t old) { return old == 0 || old > limit ? limit : old - 1; });
}

void set_condition(ThreadContext* thread, std::uint32_t site, const std::byte* handle, const std::byte* value) {
  std::uint64_t of = 0;
  std::uint32_t to = 0;
  std::memcpy(&of, handle, sizeof of);
  std::memcpy(&to, value, sizeof to);
  const Launch& launch = thread->block->grid().launch;
  if (launch.set_condition == nullptr || !launch.set_condition(of, to))
    thread->block->fail(*thread, Fault::kTrap, 0, "sets the condition of no node of its graph", static_cast<int>(site));
}

}  // namespace

void add_async_helpers(std::vector<Helper>* to) {
  to->push_back({"ptx_mbarrier", reinterpret_cast<const void*>(use)});
  to->push_back({"ptx_copy", reinterpret_cast<const void*>(copy)});
  to->push_back({"ptx_copy_part", reinterpret_cast<const void*>(copy_part)});
  to->push_back({"ptx_inc_shared_with_host", reinterpret_cast<const void*>(increment)});
  to->push_back({"ptx_dec_shared_with_host", reinterpret_cast<const void*>(decrement)});
  to->push_back({"ptx_malloc", reinterpret_cast<const void*>(allocate)});
  to->push_back({"ptx_cudaGraphSetConditional", reinterpret_cast<const void*>(set_condition)});
  to->push_back({"ptx_free", reinterpret_cast<const void*>(give_back)});
}

}  // namespace simulator::ptx
