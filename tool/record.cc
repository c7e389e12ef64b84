// SPDX-License-Identifier: Apache-2.0
#include "tool/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "config/size.h"
#include "driver/quantity.h"
#include "telemetry/recording.h"
#include "tool/exit_status.h"
#include "tool/message.h"
#include "tool/output_file.h"
#include "trace/convert.h"

namespace thermocline {
namespace {

namespace fs = std::filesystem;

std::string summary_text(const RecordingSummary& summary) {
  std::string text = quantity(summary.operators, "operator") + " on " + quantity(summary.buffers, "buffer") +
                     ", peak " + human_bytes(summary.peak_live_bytes);
  text += summary.steps == 0 ? ", no step that repeats" : ", " + quantity(summary.steps, "step");
  if (summary.guessed > 0) text += "; " + quantity(summary.guessed, "duration is a guess", "durations are guesses");
  if (summary.begins_late) text += "; the beginning made room for the rest";
  if (summary.cut) text += "; the recording ends early";
  if (summary.peak_with_rest_bytes > summary.peak_live_bytes) {
    text += "; behind the last whole step the program held more, " + human_bytes(summary.peak_with_rest_bytes) +
            ", which is not in the trace: a budget for the trace may be too small for it";
  }
  return text;
}

// A named pipe is opened to write for as long as somebody has it open to read; without a reader that would wait.
// Closing it in between would be the end of the file for the reader.
class HeldPipe {
 public:
  explicit HeldPipe(const std::string& path) {
    std::error_code error;
    if (!fs::is_fifo(path, error)) return;
    fd_ = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    is_read_ = fd_ >= 0 || errno != ENXIO;
  }
  ~HeldPipe() {
    if (fd_ >= 0) close(fd_);
  }
  HeldPipe(const HeldPipe&) = delete;
  HeldPipe& operator=(const HeldPipe&) = delete;

  bool is_read() const { return is_read_; }

 private:
  int fd_ = -1;
  bool is_read_ = true;
};

bool convert(const std::string& recording, const std::string& trace, const std::string& program,
             RecordingSummary* summary) {
  const HeldPipe pipe(trace);
  if (!pipe.is_read()) {
    say(trace + ": nobody reads from this pipe");
    return false;
  }
  std::string reason;
  const RemovedOnSignal partial(EventFile::partial_path(trace));
  if (convert_recording(recording, trace, program, summary, &reason)) return true;
  say(reason);
  return false;
}

// One name for each recording, whether it has one part or two.
std::vector<std::string> recordings_of(const std::string& base) {
  std::set<std::string> found;
  std::error_code error;
  const fs::path prefix(base + ".");
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix.parent_path(), error)) {
    std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with(prefix.filename().string())) continue;
    if (path.ends_with(kOlderPart)) path.resize(path.size() - kOlderPart.size());
    found.insert(std::move(path));
  }
  return {found.begin(), found.end()};
}

std::uintmax_t bytes_of(const std::string& recording) {
  std::uintmax_t sum = 0;
  for (const std::string& part : {recording, recording + std::string(kOlderPart)}) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(part, error);
    if (!error) sum += bytes;
  }
  return sum;
}

// "BASE.rank7-4711": rank 7, process 4711.
std::optional<int> rank_of(const std::string& recording) {
  constexpr const char* kRank = "rank";
  const std::string process = recording.substr(recording.rfind('.') + 1);
  return process.starts_with(kRank) ? std::optional(std::atoi(process.c_str() + std::strlen(kRank))) : std::nullopt;
}

fs::path temporary_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  return error ? fs::path("/tmp") : folder;
}

}  // namespace

std::string name_for_rank(const std::string& trace, std::optional<int> rank) {
  const std::string number = std::to_string(rank.value_or(0));
  const fs::path path(trace);
  std::string name = path.filename().string();
  std::error_code error;
  if (name.find("%r") != std::string::npos) {
    for (std::size_t at = name.find("%r"); at != std::string::npos; at = name.find("%r", at + number.size())) {
      name.replace(at, 2, number);
    }
  } else if (!rank || (fs::exists(path, error) && !fs::is_regular_file(path, error))) {
    return trace;
  } else {
    const std::size_t endings = std::min(name.find(".jsonl"), name.rfind('.'));
    name.insert(endings == 0 ? name.size() : std::min(endings, name.size()), ".rank" + number);
  }
  return (path.parent_path() / name).string();
}

std::string recording_base(const std::string& trace) {
  std::error_code error;
  const fs::file_status found = fs::status(trace, error);
  // Beside a device or a pipe, in /dev for example, is no place for files.
  fs::path base = fs::absolute(trace);
  if (fs::exists(found) && !fs::is_regular_file(found)) base = temporary_folder() / base.filename();
  return base.string() + ".recording-" + std::to_string(getpid());
}

int make_traces(const std::string& base, const std::string& trace, std::optional<int> own,
                const std::vector<std::string>& program) {
  std::vector<std::string> recordings = recordings_of(base);
  if (recordings.empty()) {
    say("nothing was recorded: the program took no device memory that the library sees");
    return kFailed;
  }
  // By size: the recording with the most operators is the largest.
  std::ranges::stable_sort(recordings, std::ranges::greater(), &bytes_of);
  int status = kDone;
  std::set<std::string> taken;
  for (const std::string& recording : recordings) {
    std::optional<int> rank = rank_of(recording);
    // `trace` already contains this command's own rank.
    if (rank == own) rank.reset();
    std::string target = name_for_rank(trace, rank);
    if (!taken.insert(target).second) target += "." + recording.substr(recording.find_last_of(".-") + 1);
    RecordingSummary summary;
    if (!convert(recording, target, program.front(), &summary)) {
      say("what was recorded is still in " + recording + "; 'thermocline convert " + shell_word(recording) +
          " TRACE' makes the trace of it");
      status = kFailed;
      continue;
    }
    std::error_code error;
    fs::remove(recording, error);
    fs::remove(recording + std::string(kOlderPart), error);
    say("recorded " + target + ": " + summary_text(summary));
  }
  return status;
}

int make_trace(const std::string& recording, const std::string& trace) {
  RecordingSummary summary;
  if (!convert(recording, trace, "", &summary)) return kBadInput;
  say("recorded " + trace + ": " + summary_text(summary));
  return kDone;
}

}  // namespace thermocline
