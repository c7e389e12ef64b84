// SPDX-License-Identifier: Apache-2.0
#include "hooks/pointers/parallel_search.h"

#include <sched.h>

#include <functional>
#include <new>
#include <thread>

#include "offload/planning/background.h"

namespace thermocline {
namespace {

// Bytes between two checks of how many words were found. A multiple of the alignment of tensor maps.
constexpr Bytes kBlockBytes = 256 * kKiB;

Bytes usable_cpus() {
  cpu_set_t usable;
  // There are more CPUs than the set has room for, so more than are needed.
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? static_cast<Bytes>(CPU_COUNT(&usable)) : CPU_SETSIZE;
}

void search(const WordScan& scan, const Upload& upload, SearchedPart* part) noexcept {
  try {
    while (part->searched < part->end && part->words.size() < SearchedPart::kMostWords) {
      const Bytes next = std::min(part->searched + kBlockBytes, part->end);
      search_part(scan, upload, part->searched, next, [part](DeviceAddress at, std::uint64_t word) {
        part->words.push_back({at, word});
      });
      part->searched = next;
    }
  } catch (const std::bad_alloc&) {
    // The caller goes on from `searched`, and may find words of this block a second time.
  }
}

class Threads {
 public:
  explicit Threads(std::size_t most) { threads_.reserve(most); }
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // False: there can be no further thread.
  bool add(std::function<void()> work) {
    std::thread thread = try_in_background(std::move(work));
    if (!thread.joinable()) return false;
    threads_.push_back(std::move(thread));
    return true;
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

Bytes search_threads(Bytes bytes) {
  const Bytes of_use = std::min(bytes / kLeastBytesOfSearchThread, kMostSearchThreads);
  if (of_use < 2) return 1;
  const Bytes cpus = usable_cpus();
  return std::min({of_use, cpus, std::max<Bytes>(cpus / 2, 2)});
}

std::vector<SearchedPart> search_on_threads(const WordScan& scan, const Upload& upload, Bytes threads) {
  std::vector<SearchedPart> parts(threads);
  const Bytes each = round_up(upload.bytes / threads + 1, kBlockBytes);
  for (Bytes i = 0; i < threads; ++i) {
    SearchedPart& part = parts[i];
    part.begin = part.searched = std::min(i * each, upload.bytes);
    part.end = std::min((i + 1) * each, upload.bytes);
  }
  {
    Threads others(parts.size());
    std::size_t begun = 1;
    while (begun < parts.size() && others.add([&, part = &parts[begun]] { search(scan, upload, part); })) ++begun;
    search(scan, upload, &parts.front());
    for (; begun < parts.size(); ++begun) search(scan, upload, &parts[begun]);
  }
  return parts;
}

}  // namespace thermocline
