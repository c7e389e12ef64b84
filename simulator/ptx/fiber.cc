// SPDX-License-Identifier: Apache-2.0
#include "simulator/ptx/fiber.h"

#include <sys/mman.h>

#include <cstdlib>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simulator::ptx {
namespace {

constexpr std::size_t kGuard = 4096;
// A guard page is a separate mapping, of which a process may have some 65,000. Blocks that run together may need more
// stacks than that. Frames are also checked at the beginning of functions (emit.cc), so the guard is a second check.
constexpr std::size_t kMostGuarded = 8192, kOfSlab = 512;

}  // namespace

Stacks::Stacks(std::size_t bytes) : bytes_((bytes + kGuard - 1) / kGuard * kGuard) {}

Stacks::~Stacks() {
  for (const std::uint64_t low : stacks_) munmap(reinterpret_cast<void*>(low - kGuard), bytes_ + kGuard);
}

bool Stacks::provide(std::size_t count) {
  while (stacks_.size() < count) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    const bool is_guarded = stacks_.size() < kMostGuarded;
    const std::size_t together = is_guarded ? 1 : kOfSlab, each = bytes_ + kGuard;
    void* const at = mmap(nullptr, together * each, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (at == MAP_FAILED) return false;
    if (is_guarded) mprotect(at, kGuard, PROT_NONE);
    for (std::size_t i = 0; i < together; ++i)
      stacks_.push_back(reinterpret_cast<std::uint64_t>(at) + i * each + kGuard);
  }
  return true;
}

#if defined(__x86_64__)

// Saves what a call preserves (System V ABI, 3.2.1) and the return address on the old stack, and restores them from the
// new one.
extern "C" void thermocline_ptx_switch(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .hidden thermocline_ptx_switch
  .type thermocline_ptx_switch, @function
thermocline_ptx_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
  .size thermocline_ptx_switch, .-thermocline_ptx_switch

  .p2align 4
  .hidden thermocline_ptx_begin
  .type thermocline_ptx_begin, @function
thermocline_ptx_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
  .size thermocline_ptx_begin, .-thermocline_ptx_begin
)");
extern "C" void thermocline_ptx_begin();

void Fiber::prepare(std::uint64_t stack_high, Body body, void* data) {
  body_ = body;
  data_ = data;
  auto* top = reinterpret_cast<std::uint64_t*>(stack_high);
  *--top = 0;
  *--top = 0;  // so that the stack is aligned at the call
  *--top = reinterpret_cast<std::uint64_t>(&thermocline_ptx_begin);
  *--top = 0;                                               // rbp
  *--top = 0;                                               // rbx
  *--top = reinterpret_cast<std::uint64_t>(this);           // r12
  *--top = reinterpret_cast<std::uint64_t>(&Fiber::start);  // r13
  *--top = 0;                                               // r14
  *--top = 0;                                               // r15
  own_ = top;
}

void Fiber::resume() { thermocline_ptx_switch(&scheduler_, own_); }
void Fiber::pause() { thermocline_ptx_switch(&own_, scheduler_); }

#else

// Slower, because it also saves the signal mask.
namespace {

struct Contexts {
  ucontext_t own, scheduler;
};

}  // namespace

void Fiber::prepare(std::uint64_t stack_high, Body body, void* data) {
  body_ = body;
  data_ = data;
  if (own_ == nullptr) own_ = new Contexts;  // lives as long as the process: fibers are pooled with their stacks
  auto* const contexts = static_cast<Contexts*>(own_);
  getcontext(&contexts->own);
  constexpr std::size_t kUsable = 65536;
  contexts->own.uc_stack.ss_sp = reinterpret_cast<void*>(stack_high - kUsable);
  contexts->own.uc_stack.ss_size = kUsable;
  contexts->own.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uint64_t>(this);
  makecontext(&contexts->own, reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
    start(reinterpret_cast<Fiber*>(std::uint64_t{high} << 32 | low));
  }),
              2, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void Fiber::resume() {
  auto* const contexts = static_cast<Contexts*>(own_);
  swapcontext(&contexts->scheduler, &contexts->own);
}
void Fiber::pause() {
  auto* const contexts = static_cast<Contexts*>(own_);
  swapcontext(&contexts->own, &contexts->scheduler);
}

#endif

void Fiber::start(Fiber* self) {
  self->body_(self->data_);
  std::abort();
}

}  // namespace simulator::ptx
