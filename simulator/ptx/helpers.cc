// SPDX-License-Identifier: Apache-2.0
// Helpers that generated code calls for its thread, its block and its memory.
#include "simulator/ptx/helpers.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "simulator/ptx/block.h"
#include "simulator/ptx/print.h"

namespace simulator::ptx {
namespace {

void access_memory(ThreadContext* thread, std::uint64_t address, std::uint32_t kind, std::uint32_t site) {
  thread->block->access(*thread, address, kind, site);
}

void access_span(ThreadContext* thread, std::uint64_t base, std::uint32_t first_site, std::uint32_t count) {
  thread->block->access_span(*thread, base, first_site, count);
}

void access_shared(ThreadContext* thread, std::uint64_t offset, std::uint32_t bytes, std::uint32_t site) {
  const bool misaligned = (offset & (bytes - 1)) != 0;
  thread->block->fail(*thread, misaligned ? Fault::kMisaligned : Fault::kIllegalAddress, offset,
                      (misaligned ? "misaligned" : "address outside of the block's") +
                          std::string(" shared memory, offset ") + std::to_string(offset) + " of " +
                          std::to_string(thread->shared_bytes) + " bytes",
                      static_cast<int>(site));
}

// Local memory of the calling functions is valid too.
void access_local(ThreadContext* thread, std::uint64_t address, std::uint32_t bytes, std::uint32_t site) {
  const bool misaligned = (address & (bytes - 1)) != 0;
  if (!misaligned && address >= thread->stack_low && address + bytes <= thread->stack_high) return;
  thread->block->fail(*thread, misaligned ? Fault::kMisaligned : Fault::kIllegalAddress, address,
                      misaligned ? "misaligned local memory" : "address outside of local memory",
                      static_cast<int>(site));
}

void trap(ThreadContext* thread, std::uint32_t site) {
  thread->block->fail(*thread, Fault::kTrap, 0, "trap", static_cast<int>(site));
}

void stack_overflow(ThreadContext* thread) {
  thread->block->fail(*thread, Fault::kStackOverflow, 0, "the stack is full: functions call one another too deep");
}

void no_function(ThreadContext* thread, std::uint32_t site) {
  thread->block->fail(*thread, Fault::kIllegalAddress, 0, "calls a pointer that is no function of this shape",
                      static_cast<int>(site));
}

void tick(ThreadContext* thread, std::uint64_t steps) { thread->block->tick(*thread, steps); }
void yield(ThreadContext* thread) { thread->block->yield(*thread); }
void exit_thread(ThreadContext* thread) { thread->block->end(*thread); }

std::uint64_t warp(ThreadContext* thread, std::uint32_t operation, std::uint32_t mask, std::uint64_t value,
                   std::uint64_t second, std::uint32_t) {
  return thread->block->exchange(*thread, static_cast<WarpOperation>(operation), mask, value, second);
}

std::uint32_t barrier(ThreadContext* thread, std::uint32_t id, std::uint32_t count, std::uint32_t kind,
                      std::uint32_t value, std::uint32_t site) {
  return thread->block->barrier(*thread, id, count, static_cast<BlockRun::BarrierKind>(kind), value != 0, site);
}

// Time is measured in instructions: one cycle for each instruction of the grid so far, and more for each read of the
// clock, as on a device; otherwise kernels that wait for a number of cycles would take long.
std::uint64_t clock_of(ThreadContext* thread, std::uint64_t steps) {
  constexpr std::uint64_t kCyclesOfALook = 64;
  GridRun& grid = thread->block->grid();
  return grid.outcome.instructions + thread->steps + steps + kCyclesOfALook * grid.clock_looks++;
}

void print(ThreadContext* thread, std::uint32_t, const std::byte* result, const std::byte* format,
           const std::byte* arguments) {
  std::uint64_t at = 0, list = 0;
  std::memcpy(&at, format, sizeof at);
  std::memcpy(&list, arguments, sizeof list);
  std::string& out = thread->block->grid().printed;
  const int count = append_printed(*thread, at, list, &out);
  std::memcpy(const_cast<std::byte*>(result), &count, sizeof count);
}

void assert_failed(ThreadContext* thread, std::uint32_t site, const std::byte* message, const std::byte* file,
                   const std::byte* line, const std::byte* function, const std::byte*) {
  std::uint64_t texts[3] = {};
  std::uint32_t number = 0;
  std::memcpy(&texts[0], message, 8);
  std::memcpy(&texts[1], file, 8);
  std::memcpy(&texts[2], function, 8);
  std::memcpy(&number, line, 4);
  // In the same format as CUDA.
  const std::string text = device_text(*thread, texts[1]) + ":" + std::to_string(number) + ": " +
                           device_text(*thread, texts[2]) + ": assertion `" + device_text(*thread, texts[0]) +
                           "` failed";
  thread->block->fail(*thread, Fault::kAssert, 0, text, static_cast<int>(site));
}

template <typename Function>
const void* address_of(Function* function) {
  return reinterpret_cast<const void*>(function);
}

std::vector<Helper> make() {
  std::vector<Helper> all = {
      {"ptx_access", address_of(access_memory)},
      {"ptx_span", address_of(access_span)},
      {"ptx_shared_access", address_of(access_shared)},
      {"ptx_local_access", address_of(access_local)},
      {"ptx_trap", address_of(trap)},
      {"ptx_stack_overflow", address_of(stack_overflow)},
      {"ptx_no_function", address_of(no_function)},
      {"ptx_tick", address_of(tick)},
      {"ptx_yield", address_of(yield)},
      {"ptx_exit", address_of(exit_thread)},
      {"ptx_warp", address_of(warp)},
      {"ptx_barrier", address_of(barrier)},
      {"ptx_clock", address_of(clock_of)},
      {"ptx_globaltimer", address_of(clock_of)},
      {"ptx_vprintf", address_of(print)},
      {"ptx___assertfail", address_of(assert_failed)},
      // LLVM generates these calls for copies and fills.
      {"memcpy", address_of(std::memcpy)},
      {"memset", address_of(std::memset)},
      {"memmove", address_of(std::memmove)},
  };
  add_float_helpers(&all);
  add_bit_helpers(&all);
  add_small_float_helpers(&all);
  add_texture_helpers(&all);
  add_matrix_helpers(&all);
  add_async_helpers(&all);
  add_cluster_helpers(&all);
  add_video_helpers(&all);
  return all;
}

}  // namespace

const std::vector<Helper>& helpers() {
  static const auto& all = *new std::vector<Helper>(make());  // kernels may run until the process ends
  return all;
}

}  // namespace simulator::ptx
