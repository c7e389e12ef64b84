// SPDX-License-Identifier: Apache-2.0
#include "tool/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace thermocline {
namespace {

// Signals that are sent to this process alone. Signals from the terminal, which the kernel sends, reach the child too,
// and would be delivered to it twice.
constexpr std::array kPassedOn = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT};
constexpr bool is_of_terminal(int signal) { return signal == SIGINT || signal == SIGQUIT; }

volatile std::sig_atomic_t child_process = 0;

void pass_on(int signal, siginfo_t* info, void*) {
  if (is_of_terminal(signal) && info->si_code == SI_KERNEL) return;
  if (child_process > 0) kill(static_cast<pid_t>(child_process), signal);
}

// Blocks signals around fork: a signal that arrives before the handler and the child's process id are in place would
// end this process and leave the program running.
sigset_t block_signals() {
  sigset_t passed_on;
  sigset_t before;
  sigemptyset(&passed_on);
  for (const int signal : kPassedOn) sigaddset(&passed_on, signal);
  sigprocmask(SIG_BLOCK, &passed_on, &before);
  return before;
}

void handle_signals() {
  struct sigaction action {};
  action.sa_sigaction = &pass_on;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : kPassedOn) sigaction(signal, &action, nullptr);
}

// Runs in the child, between fork and exec; never returns.
[[noreturn]] void become(const std::vector<char*>& arguments, const std::map<std::string, std::string>& changes,
                         pid_t parent, int error_pipe) {
  // The program is ended when its launcher is killed.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  execvp(arguments[0], arguments.data());
  const int error = errno;
  const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(written == sizeof error ? 127 : 126);
}

// A process that ignores ended children does not learn how they ended (wait(2), ECHILD). Programs that are started here
// begin with this process's original handler.
struct sigaction hear_of_children() {
  struct sigaction heard {
  }, before{};
  heard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &heard, &before);
  return before;
}

int wait_for(pid_t child) {
  int status = 0;
  // Until the child is reaped its process id is not reused, so no signal goes to another process.
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  child_process = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& changes) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return {.status = 1, .start_error = errno};
  const pid_t parent = getpid();
  const sigset_t mask = block_signals();
  const struct sigaction children = hear_of_children();
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return {.status = 1, .start_error = error};
  }
  if (child == 0) {
    sigaction(SIGCHLD, &children, nullptr);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    become(pointers, changes, parent, pipe_ends[1]);
  }
  child_process = child;
  handle_signals();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  close(pipe_ends[1]);
  // If the program starts, the pipe closes without data.
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(pipe_ends[0], &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  close(pipe_ends[0]);
  const int status = wait_for(child);
  return {.status = status, .start_error = got == sizeof error ? error : 0};
}

}  // namespace thermocline
