// SPDX-License-Identifier: Apache-2.0
#include "tool/output_file.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "tool/message.h"

namespace thermocline {
namespace {

// The temporary file that a signal handler removes. One at a time; others are removed only by their destructors.
std::atomic<const char*> half_written{nullptr};

void remove_and_end(int signal) {
  if (const char* path = half_written.load()) unlink(path);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

bool takes_its_place(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode);
}

void say_unwritable(const std::string& path) { say(path + ": can not be written: " + std::strerror(errno)); }

}  // namespace

// A stream remembers that it failed, but not why.
bool reader_is_gone() {
  if (errno == EPIPE) return true;
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  const int saved = errno;
  const bool gone = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  errno = saved;
  return gone;
}

RemovedOnSignal::RemovedOnSignal(std::string path) : path_(std::move(path)) {
  const char* none = nullptr;
  if (path_.empty() || !half_written.compare_exchange_strong(none, path_.c_str())) return;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, &remove_and_end);
}

RemovedOnSignal::~RemovedOnSignal() {
  const char* mine = path_.c_str();
  half_written.compare_exchange_strong(mine, nullptr);
}

OutputFile::OutputFile(std::string path, std::string beside, std::FILE* file)
    : path_(std::move(path)), beside_(std::move(beside)), file_(file), removed_(beside_) {}

std::unique_ptr<OutputFile> OutputFile::open(const std::string& path) {
  if (path == "-") return std::unique_ptr<OutputFile>(new OutputFile("stdout", "", stdout));
  // Two commands may write the same file at once: each its own temporary one.
  const std::string beside = takes_its_place(path) ? path + "." + std::to_string(getpid()) + ".partial" : "";
  // The object that removes the file exists before the file does: a signal may arrive as soon as the file is visible.
  std::unique_ptr<OutputFile> output(new OutputFile(path, beside, nullptr));
  output->file_ = std::fopen(beside.empty() ? path.c_str() : beside.c_str(), "wbe");
  if (output->file_ != nullptr) return output;
  say_unwritable(path);
  output->beside_.clear();  // another process's file, not to be removed
  return nullptr;
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (beside_.empty()) return;
  unlink(beside_.c_str());
}

bool OutputFile::finish() {
  const bool had_failed = std::ferror(file_) != 0;
  bool written = std::fflush(file_) == 0 && !had_failed;
  if (file_ != stdout) written = std::fclose(std::exchange(file_, nullptr)) == 0 && written;
  if (written && !beside_.empty()) written = std::rename(beside_.c_str(), path_.c_str()) == 0;
  if (!written && !(file_ == stdout && reader_is_gone())) say_unwritable(path_);
  return written;
}

}  // namespace thermocline
