// SPDX-License-Identifier: Apache-2.0
#include "simulator/check/findings.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

namespace simulator {
namespace {

constexpr std::uint64_t kMostSaid = 20;
constexpr std::size_t kMostRemembered = 1 << 16;

std::string hex(Address at) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(at));
  return text;
}

// Demangles the name of a C++ kernel.
std::string readable(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? plain : name;
  std::free(plain);
  return result;
}

const char* verb(const Mark& mark) {
  if (mark.ends) return "end";
  switch (mark.accessed) {
    case Accessed::kRead:
      return "read";
    case Accessed::kWrite:
      return "write";
    case Accessed::kAtomic:
      return "atomic update";
    case Accessed::kName:
      return "use";
  }
  return "access";
}

}  // namespace

bool Findings::is_new(OperationId first, OperationId second) {
  if (seen_.size() == kMostRemembered) seen_.clear();
  // The operations of one finding are close to each other; pairs whose numbers are more than 2^32 apart could be
  // confused.
  if (!seen_.insert((second << 32) ^ (second >> 32) ^ first).second) return false;
  ++count_;
  return true;
}

void Findings::say(const std::string& sentence) {
  if (count_ <= kMostSaid) std::fprintf(stderr, "simulated device: race: %s\n", sentence.c_str());
  if (count_ == kMostSaid) std::fprintf(stderr, "simulated device: race: further ones are only counted\n");
}

std::string Findings::range(Address at, Bytes bytes) const {
  return "[" + hex(at) + ", +" + std::to_string(bytes) + ")" + owner_(at);
}

std::string Findings::describe(const Mark& mark) const {
  return std::string(verb(mark)) + " of " + range(mark.address, mark.bytes) + " by " +
         readable(labels_.name(mark.label)) + " (operation " + std::to_string(mark.operation) + ", stream " +
         std::to_string(mark.stream) + ")";
}

void Findings::unordered(const Mark& earlier, const Mark& later) {
  if (!is_new(earlier.operation, later.operation)) return;
  say(describe(later) + (earlier.ends ? " comes behind or beside the " : " is not ordered with the ") +
      describe(earlier));
}

void Findings::taken_away(const char* call, Address at, Bytes bytes, const Mark& mark) {
  if (!is_new(mark.operation, ~at)) return;
  say(std::string(call) + " of " + range(at, bytes) +
      " while the host does not know that this is over: " + describe(mark));
}

void Findings::came_late(const Mark& mark, Address at, OperationId newest_at_unmapping) {
  if (!is_new(mark.operation, ~at)) return;
  say(describe(mark) + " was still pending when the page at " + hex(at) + owner_(at) +
      " was unmapped, behind the submission of operation " + std::to_string(newest_at_unmapping));
}

void Findings::inaccessible(const Mark& mark, Address at, OperationId newest_at_unmapping) {
  if (!is_new(mark.operation, ~at)) return;
  say(describe(mark) + " accesses " + hex(at) + ", where the device has no access" +
      (newest_at_unmapping == 0
           ? std::string()
           : "; its page was unmapped behind the submission of operation " + std::to_string(newest_at_unmapping)));
}

void Findings::partly_seen(Label kernel, std::size_t ranges) {
  if (!partly_seen_.insert(kernel).second) return;
  std::fprintf(stderr,
               "simulated device: %s accesses bytes in more than %zu separate ranges; races on the others are not "
               "found\n",
               readable(labels_.name(kernel)).c_str(), ranges);
}

void Findings::summarize() const {
  std::fprintf(stderr, "simulated device: races=%llu\n", static_cast<unsigned long long>(count_));
}

}  // namespace simulator
