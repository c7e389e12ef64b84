// SPDX-License-Identifier: Apache-2.0
// Input: an arbitrary file in place of a live page. It must be rejected, or its texts must be terminated and it must
// have as many values as the table. If the first byte is odd, the rest is written to this process's own page, which
// must not be removed.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "driver/check.h"
#include "telemetry/live_page.h"
#include "telemetry/statistic_names.h"

namespace {

// One folder for the process, removed at its end.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    const auto made = std::filesystem::temp_directory_path() / ("thermocline_fuzz_" + std::to_string(getpid()));
    std::filesystem::create_directories(made);
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return made;
  }();
  return path;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::filesystem::path& page_path() {
  static const std::filesystem::path path = folder() / ("thermocline." + std::to_string(getpid()));
  return path;
}

// In the form in which this process would begin it.
const std::string& own_page() {
  static const std::string bytes = [] {
    const auto writer = thermocline::LivePageWriter::create(folder(), "1");
    THERMOCLINE_CHECK(writer != nullptr, "there is room for a page");
    return read_file(page_path());
  }();
  return bytes;
}

std::string page_of(std::string_view input) {
  std::string page(input.substr(input.empty() ? 0 : 1));
  constexpr std::size_t kBegin = offsetof(thermocline::LivePage, began);
  constexpr std::size_t kEnd = offsetof(thermocline::LivePage, version);
  if (!input.empty() && (input.front() & 1) != 0 && page.size() >= kEnd) {
    page.replace(kBegin, kEnd - kBegin, own_page(), kBegin, kEnd - kBegin);
  }
  return page;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = page_of({reinterpret_cast<const char*>(data), size});
  {
    std::ofstream file(page_path(), std::ios::binary | std::ios::trunc);
    file << bytes;
    file.close();
    std::filesystem::permissions(page_path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  thermocline::LiveStatistics found;
  const thermocline::LiveRead result =
      thermocline::read_live_page(folder(), getpid(), std::chrono::milliseconds(0), &found);
  if (result == thermocline::LiveRead::kAnswered || result == thermocline::LiveRead::kSilent) {
    THERMOCLINE_CHECK(found.version.size() <= sizeof(thermocline::LivePage::version) &&
                          found.program.size() <= sizeof(thermocline::LivePage::program),
                      "texts end within the page");
    THERMOCLINE_CHECK(found.values.size() <= thermocline::statistics_table().size(), "there are values for rows only");
  }
  static_cast<void>(thermocline::live_processes(folder()));
  std::filesystem::remove(page_path());
  return 0;
}
