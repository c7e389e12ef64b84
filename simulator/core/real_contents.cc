// SPDX-License-Identifier: Apache-2.0
// Contents as bytes: pages of one sparse memfd, shown by mapping them. A page that nothing is behind is PROT_NONE, so
// host implementations of kernels fault on it as a device would.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "simulator/core/check.h"
#include "simulator/core/contents.h"
#include "simulator/core/hash.h"

namespace simulator {
namespace {

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

  bool show(Address at, PageRun run, Access access) override {
    const auto offset = static_cast<off_t>(run.first * kPageBytes);
    const auto end = offset + static_cast<off_t>(run.bytes());
    if (end > file_end_) {
      if (ftruncate(file_, end) != 0) return false;
      file_end_ = end;
    }
    return mmap(pointer(at), run.bytes(), protection(access), MAP_SHARED | MAP_FIXED, file_, offset) != MAP_FAILED;
  }

  void hide(Address at, Bytes bytes) override {
    void* const hidden =
        mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    SIMULATOR_CHECK(hidden != MAP_FAILED, "a range can be hidden again");
  }

  void discard(PageRun run) override {
    const auto offset = static_cast<off_t>(run.first * kPageBytes);
    if (offset >= file_end_) return;
    const int result =
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(run.bytes()));
    SIMULATOR_CHECK(result == 0, "memory files have holes");
  }

  void forget_host(Address, Bytes) override {}

  void zero(Address at, Bytes bytes) override { std::memset(pointer(at), 0, bytes); }

  void fill(Address at, Bytes bytes, std::uint64_t value, std::uint32_t element) override {
    auto* to = static_cast<unsigned char*>(pointer(at));
    if (element == 1) {
      std::memset(to, static_cast<int>(value & 0xff), bytes);
      return;
    }
    // Doubling: each round copies what the rounds before it have written.
    std::memcpy(to, &value, std::min<Bytes>(element, bytes));
    for (Bytes done = element; done < bytes;) {
      const Bytes part = std::min(done, bytes - done);
      std::memcpy(to + done, to, part);
      done += part;
    }
  }

  void copy(Address to, Address from, Bytes bytes) override { std::memmove(pointer(to), pointer(from), bytes); }
  void write(Address to, const void* from, Bytes bytes) override { std::memcpy(pointer(to), from, bytes); }
  std::uint64_t digest(Address at, Bytes bytes) override { return hash_bytes(pointer(at), bytes, kGolden); }
  void derive(Address at, Bytes bytes, std::uint64_t seed) override { derive_bytes(pointer(at), bytes, seed); }

 private:
  const int file_;
  off_t file_end_ = 0;
};

}  // namespace

std::unique_ptr<Contents> make_real_contents() { return std::make_unique<RealContents>(); }

}  // namespace simulator
