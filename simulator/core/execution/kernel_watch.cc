// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/execution/kernel_watch.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "simulator/core/check.h"
#include "simulator/core/execution/fault_guard.h"
#include "simulator/core/hash.h"

namespace simulator {
namespace {

constexpr Bytes kSystemPage = 4096;

bool protect(Address page, int protection) {
  return mprotect(reinterpret_cast<void*>(page), kSystemPage, protection) == 0;
}

}  // namespace

std::atomic<KernelWatch*> KernelWatch::active_ = nullptr;

bool KernelWatch::can_watch(const Buffer& buffer) {
  return round_up(buffer.address, kSystemPage) < round_down(buffer.address + buffer.bytes, kSystemPage);
}

KernelWatch::KernelWatch(std::span<const Buffer> buffers, std::uint64_t salt) {
  if (buffers.empty() || !catches_faults()) return;
  for (const Buffer& buffer : buffers) {
    if (can_watch(buffer)) close(buffer, combine(salt, buffer.number));
  }
  accesses_.resize(pages_.size() * 2);
  active_.store(this);
  // If this is refused (too many mappings), the kernel still runs, and fewer accesses are seen.
  for (const Page& page : pages_) protect(page.begin, PROT_NONE);
}

void KernelWatch::close(const Buffer& buffer, std::uint64_t salt) {
  const Address begin = round_up(buffer.address, kSystemPage);
  const Bytes count = round_down(buffer.address + buffer.bytes, kSystemPage) / kSystemPage - begin / kSystemPage;
  Bytes chosen[] = {0, count - 1, mix(salt) % count, mix(~salt) % count};
  std::sort(std::begin(chosen), std::end(chosen));
  const auto* const end = std::unique(std::begin(chosen), std::end(chosen));
  for (const auto* page = chosen; page != end; ++page) pages_.push_back({begin + *page * kSystemPage});
}

KernelWatch::~KernelWatch() {
  for (const Page& page : pages_) {
    const bool opened = page.state == State::kOpen || protect(page.begin, PROT_READ | PROT_WRITE);
    SIMULATOR_CHECK(opened, "watched memory can be opened again");
  }
  active_.store(nullptr);
}

bool KernelWatch::on_fault(Address at) {
  KernelWatch* const watch = active_.load();
  if (watch == nullptr) return false;
  while (watch->busy_.test_and_set()) {
  }
  const bool opened = watch->open(at);
  watch->busy_.clear();
  return opened;
}

// The first fault may have been a read or a write; a second fault at the same page is a write.
bool KernelWatch::open(Address at) {
  const auto found =
      std::find_if(pages_.begin(), pages_.end(), [at](const Page& page) { return at - page.begin < kSystemPage; });
  if (found == pages_.end()) return false;
  switch (found->state) {
    case State::kClosed:
      found->state = State::kReadable;
      found->read = count_;
      accesses_[count_++] = {at, false};
      return protect(found->begin, PROT_READ);
    case State::kReadable:
      found->state = State::kOpen;
      if (accesses_[found->read].address == at) {
        accesses_[found->read].writes = true;
      } else {
        accesses_[count_++] = {at, true};
      }
      return protect(found->begin, PROT_READ | PROT_WRITE);
    case State::kOpen:
      break;
  }
  return true;  // another thread has opened the page already
}

}  // namespace simulator
