// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/fault_guard.h"

#include <pthread.h>
#include <ucontext.h>

#include <csetjmp>
#include <csignal>
#include <mutex>

#include "simulator/core/check.h"
#include "simulator/core/execution/kernel_watch.h"

namespace simulator {
namespace {

thread_local sigjmp_buf jump_target;
thread_local volatile sig_atomic_t guarded = 0;
thread_local volatile Address fault_address = 0;
thread_local sigset_t fault_mask;  // the signal mask at the point of the fault

struct sigaction previous_segv;
struct sigaction previous_bus;

// Passes the signal on to the previous handler. A default action can only be triggered by faulting again without a
// handler.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
  } else {
    previous.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (KernelWatch::on_fault(reinterpret_cast<Address>(info->si_addr))) return;
  if (guarded == 0) {
    pass_on(signal, info, context);
    return;
  }
  fault_address = reinterpret_cast<Address>(info->si_addr);
  fault_mask = static_cast<const ucontext_t*>(context)->uc_sigmask;
  siglongjmp(jump_target, 1);
}

void install() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  // The jump leaves the handler without restoring the signal mask. NODEFER keeps this signal out of the mask; but a
  // sanitizer that interposes signal handlers blocks all signals meanwhile, so run_guarded() restores the mask.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  const bool installed =
      sigaction(SIGSEGV, &action, &previous_segv) == 0 && sigaction(SIGBUS, &action, &previous_bus) == 0;
  SIMULATOR_CHECK(installed, "fault handlers can be installed");
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, install);
}

// Lets this thread receive faults: the kernel ends a process whose thread faults while it blocks the signal.
class FaultsUnblocked {
 public:
  FaultsUnblocked() {
    sigset_t faults;
    sigemptyset(&faults);
    for (const int signal : {SIGSEGV, SIGBUS}) sigaddset(&faults, signal);
    pthread_sigmask(SIG_UNBLOCK, &faults, &before_);
  }
  ~FaultsUnblocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  FaultsUnblocked(const FaultsUnblocked&) = delete;
  FaultsUnblocked& operator=(const FaultsUnblocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

bool catches_faults() {
  install_once();
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction present = {};
    if (sigaction(signal, nullptr, &present) != 0 || present.sa_sigaction != on_fault) return false;
  }
  return true;
}

std::optional<Address> run_guarded(void (*body)(void*), void* data) {
  install_once();
  SIMULATOR_CHECK(guarded == 0, "guards do not nest");
  const FaultsUnblocked unblocked;
  if (sigsetjmp(jump_target, 0) != 0) {
    guarded = 0;
    pthread_sigmask(SIG_SETMASK, &fault_mask, nullptr);
    return fault_address;
  }
  guarded = 1;
  body(data);
  guarded = 0;
  return std::nullopt;
}

}  // namespace simulator
