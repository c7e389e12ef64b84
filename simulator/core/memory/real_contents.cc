// SPDX-License-Identifier: Apache-2.0
// Contents as bytes: the pages of one sparse memfd, mapped at device addresses. Addresses without a page are PROT_NONE,
// so that host implementations of kernels fault there as a device would.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "simulator/core/check.h"
#include "simulator/core/hash.h"
#include "simulator/core/memory/contents.h"
#include "simulator/core/memory/copy_apart.h"

namespace simulator {
namespace {

constexpr Bytes kSystemPage = 4096;
constexpr Bytes kLeastHole = Bytes{256} << 10;

void* pointer(Address at) { return reinterpret_cast<void*>(at); }

int protection(Access access) {
  if (access == Access::kNone) return PROT_NONE;
  return access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
}

class RealContents final : public Contents {
 public:
  RealContents() : file_(memfd_create("simulated-device", MFD_CLOEXEC)) {
    SIMULATOR_CHECK(file_ >= 0, "the system gives a memory file");
  }
  ~RealContents() override { close(file_); }

  // Contiguous runs are passed as one, even if one of them is adopted.
  bool show(Address at, PageRun run, Access access) override {
    while (run.count > 0) {
      const auto adopted = adopted_.lower_bound(run.first);
      PageRun part = run;
      Source source{file_, run.first * kPageBytes, run.count};
      if (adopted != adopted_.end() && adopted->first < run.first + run.count) {
        if (adopted->first == run.first) {
          source = adopted->second;
          part.count = source.count;
        } else {
          part.count = adopted->first - run.first;
        }
      }
      if (source.file == file_ && !reach(static_cast<off_t>(source.offset + part.bytes()))) return false;
      if (mmap(pointer(at), part.bytes(), protection(access), MAP_SHARED | MAP_FIXED, source.file,
               static_cast<off_t>(source.offset)) == MAP_FAILED)
        return false;
      at += part.bytes();
      run = {run.first + part.count, run.count - part.count};
    }
    return true;
  }

  bool adopt(PageRun run, int file, Bytes offset) override {
    adopted_[run.first] = {file, offset, run.count};
    return true;
  }

  int file_of(PageRun run, Bytes* offset) const override {
    const auto adopted = adopted_.find(run.first);
    *offset = adopted == adopted_.end() ? run.first * kPageBytes : adopted->second.offset;
    return adopted == adopted_.end() ? file_ : adopted->second.file;
  }

  void hide(Address at, Bytes bytes) override {
    void* const hidden =
        mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    SIMULATOR_CHECK(hidden != MAP_FAILED, "a range can be hidden again");
  }

  void discard(PageRun run) override {
    if (adopted_.erase(run.first) != 0) return;
    const auto offset = static_cast<off_t>(run.first * kPageBytes);
    if (offset >= file_end_) return;
    const int result =
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(run.bytes()));
    SIMULATOR_CHECK(result == 0, "memory files have holes");
  }

  void forget_host(Address, Bytes) override {}

  // Large ranges become holes in the file: a buffer that was never written takes no host memory.
  void zero(Address at, Bytes bytes) override {
    const bool may_be_a_hole = bytes >= kLeastHole && at % kSystemPage == 0 && bytes % kSystemPage == 0;
    if (!may_be_a_hole || madvise(pointer(at), bytes, MADV_REMOVE) != 0) std::memset(pointer(at), 0, bytes);
  }

  void fill(Address at, Bytes bytes, std::uint64_t value, std::uint32_t element) override {
    auto* to = static_cast<unsigned char*>(pointer(at));
    if (element == 1) {
      std::memset(to, static_cast<int>(value & 0xff), bytes);
      return;
    }
    // Doubling: each round copies everything that was written before.
    std::memcpy(to, &value, std::min<Bytes>(element, bytes));
    for (Bytes done = element; done < bytes;) {
      const Bytes part = std::min(done, bytes - done);
      copy_apart(to + done, to, part);
      done += part;
    }
  }

  // The address sanitizer moves byte by byte what may overlap.
  void copy(Address to, Address from, Bytes bytes) override {
    if (to + bytes <= from || from + bytes <= to) return copy_apart(pointer(to), pointer(from), bytes);
    std::memmove(pointer(to), pointer(from), bytes);
  }
  void write(Address to, const void* from, Bytes bytes) override { copy_apart(pointer(to), from, bytes); }

  // The program's threads may read or write the same word.
  std::uint64_t word(Address at, std::uint32_t bytes) override {
    if (bytes == 8) return __atomic_load_n(static_cast<const std::uint64_t*>(pointer(at)), __ATOMIC_ACQUIRE);
    return __atomic_load_n(static_cast<const std::uint32_t*>(pointer(at)), __ATOMIC_ACQUIRE);
  }
  void write_word(Address to, std::uint64_t value, std::uint32_t bytes) override {
    if (bytes == 8) {
      __atomic_store_n(static_cast<std::uint64_t*>(pointer(to)), value, __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(static_cast<std::uint32_t*>(pointer(to)), static_cast<std::uint32_t>(value), __ATOMIC_RELEASE);
    }
  }
  using Contents::derive;
  using Contents::digest;

  std::uint64_t digest(std::span<const ByteRange> ranges) override {
    if (ranges.size() == 1) return hash_bytes(pointer(ranges[0].address), ranges[0].bytes, kGolden);
    std::vector<std::byte> all;
    for (const ByteRange range : ranges) {
      const auto* const from = reinterpret_cast<const std::byte*>(pointer(range.address));
      all.insert(all.end(), from, from + range.bytes);
    }
    return hash_bytes(all.data(), all.size(), kGolden);
  }
  void derive(std::span<const ByteRange> ranges, std::uint64_t seed) override {
    if (ranges.size() == 1) return derive_bytes(pointer(ranges[0].address), ranges[0].bytes, seed);
    Bytes bytes = 0;
    for (const ByteRange range : ranges) bytes += range.bytes;
    std::vector<std::byte> all(bytes);
    derive_bytes(all.data(), all.size(), seed);
    const std::byte* from = all.data();
    for (const ByteRange range : ranges) {
      std::memcpy(pointer(range.address), from, range.bytes);
      from += range.bytes;
    }
  }

 private:
  struct Source {
    int file = -1;
    Bytes offset = 0;
    std::uint32_t count = 0;
  };

  bool reach(off_t end) {
    if (end <= file_end_) return true;
    if (ftruncate(file_, end) != 0) return false;
    file_end_ = end;
    return true;
  }

  std::map<std::uint32_t, Source> adopted_;  // by first page; whole runs
  const int file_;
  off_t file_end_ = 0;
};

}  // namespace

std::unique_ptr<Contents> make_real_contents() { return std::make_unique<RealContents>(); }

}  // namespace simulator
