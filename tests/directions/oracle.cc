// SPDX-License-Identifier: Apache-2.0
#include "tests/directions/oracle.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "hooks/relaunch/analysed_code.h"
#include "tests/ptx/device.h"

namespace directions {
namespace {

using thermocline::KernelCode;
using thermocline::ParameterWord;
using thermocline::RerunRefusal;

constexpr std::uint64_t kWindow = 2 * kMostReach + 16384;  // of each page: all that pointers reach
constexpr std::uint64_t kWindowBegin = kMiddle - kWindow / 2;
// An index of 32 bits that has wrapped around leads there. It is memory, so that the kernel ends, and can be judged.
constexpr std::uint64_t kWrapsBy = std::uint64_t{1} << 32;

struct Range {
  std::uint64_t begin = 0, end = 0;
};

// The accesses of the executor in one page.
struct Accessed {
  std::vector<Range> reads, writes;
};
using AccessedPages = std::array<Accessed, kPages>;

// The library's claims about one page: of all pointers to it together.
struct Said {
  bool reads = false, writes = false;
  unsigned pointers = 0;  // through which it is accessed
};

std::string hex(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

const char* name_of(simulator::ptx::Fault fault) {
  return fault == simulator::ptx::Fault::kIllegalAddress ? "it leaves its buffers"
         : fault == simulator::ptx::Fault::kMisaligned   ? "a misaligned address"
                                                         : "another fault";
}

// One kernel, and the launch of it.
class Case {
 public:
  Case(const RandomKernel& kernel, std::uint64_t memory, Counts* counts)
      : kernel_(kernel),
        memory_(memory),
        counts_(*counts),
        text_(90, kernel.text),
        program_(kernel.text, kernel.places, kernel.variables) {}

  std::string judge() {
    ++counts_.kernels;
    code_ = KernelCode::read(text_, "k", &unknown_);
    if (code_ != nullptr) unknown_ = code_->accesses().unknown;
    if (!unknown_ && code_->accesses().may_wait) may_wait_ = true;
    allow_all();
    fill();
    const ptx_test::Device::Result result = run(&accessed_);
    if (!result.ran()) {
      ++counts_.not_run;
      ++counts_.why_not_run[result.refused.empty() ? name_of(result.outcome.fault) : result.refused];
      return "";
    }
    if (is_known()) hear();
    count();
    if (!is_known()) return "";
    std::string wrong = compare();
    if (wrong.empty()) wrong = run_within_rights();
    if (wrong.empty() && !code_->proof().refused()) wrong = judge_proof();
    if (!wrong.empty()) ++counts_.false_claims;
    return wrong;
  }

 private:
  bool is_known() const { return !unknown_ && !may_wait_; }
  std::uint64_t page(std::size_t number) const { return memory_ + number * kPageBytes; }
  // kPages: none.
  std::size_t page_of(std::uint64_t address) const {
    return address < memory_ ? kPages : std::min<std::uint64_t>(kPages, (address - memory_) / kPageBytes);
  }
  std::byte* window(std::size_t number) const { return reinterpret_cast<std::byte*>(page(number) + kWindowBegin); }

  void allow_all() const {
    for (std::size_t i = 0; i < kPages; ++i) ptx_test::device().allow(page(i), true, true);
  }
  void fill() const {
    static const auto& bytes = *new std::vector<std::uint32_t>([] {
      std::vector<std::uint32_t> made(kWindow / 4);
      std::mt19937 random(1);
      for (std::uint32_t& one : made) one = static_cast<std::uint32_t>(random());
      return made;
    }());
    for (std::size_t i = 0; i < kPages; ++i) std::memcpy(window(i), bytes.data(), kWindow);
    auto* const table = reinterpret_cast<std::uint64_t*>(page(kPointerPage) + kTable);
    for (std::size_t i = 0; i < kTableEntries; ++i) table[i] = page(i % kBuffers) + kMiddle + 16 * i;
  }
  ptx_test::Device::Result run(AccessedPages* accessed) const {
    struct Trace {
      const Case* of;
      AccessedPages* to;
    } trace{this, accessed};
    return program_.run_with(kernel_.parameters, [&](simulator::ptx::Launch& launch) {
      std::ranges::copy(kernel_.grid, launch.grid);
      std::ranges::copy(kernel_.block, launch.block);
      if (accessed == nullptr) return;
      launch.traced_to = &trace;
      launch.traced = [](void* to, std::uint64_t address, std::uint64_t bytes, simulator::ptx::Traced how) {
        const auto& [of, pages] = *static_cast<Trace*>(to);
        const std::size_t page = of->page_of(address);
        if (page == kPages) return;
        Accessed& found = (*pages)[page];
        (how == simulator::ptx::Traced::kRead ? found.reads : found.writes).push_back({address, address + bytes});
      };
    });
  }

  std::uint64_t value_of(const ParameterWord& word) const {
    std::uint64_t value = 0;
    std::memcpy(&value, kernel_.parameters.data() + kernel_.places[word.parameter].offset + word.offset, sizeof value);
    return value;
  }
  // The library's claims about each page.
  void hear() {
    ++counts_.known;
    for (const char* const step : kernel_.steps) ++counts_.steps[step];
    for (const ParameterWord& word : code_->accesses().words) {
      const std::size_t number = page_of(value_of(word));
      if (number == kPages) continue;
      Said& said = said_[number];
      said.reads |= word.reads;
      said.writes |= word.writes;
      said.pointers += word.reads || word.writes ? 1 : 0;
      ++(word.reads && word.writes ? counts_.said_both
         : word.reads              ? counts_.said_read
         : word.writes             ? counts_.said_written
                                   : counts_.said_not_accessed);
    }
  }
  void count() {
    for (std::size_t i = 0; i < kVariablePage; ++i) {
      if (accessed_[i].reads.empty() || !accessed_[i].writes.empty()) continue;
      ++counts_.only_read;
      if (is_known() && !said_[i].writes) {
        ++counts_.found_only_read;
      } else {
        ++counts_.not_found[is_known() ? "a store that this launch does not reach, or that has another buffer's address"
                            : may_wait_ ? "a loop that may wait for others to write"
                                        : text_of(unknown_.why)];
      }
    }
  }
  std::string compare() const {
    for (std::size_t i = 0; i < kVariablePage; ++i) {
      if (!accessed_[i].writes.empty() && !said_[i].writes)
        return "page " + std::to_string(i) + " is written at " + hex(accessed_[i].writes[0].begin) +
               ", and said not to be";
      if (!accessed_[i].reads.empty() && !said_[i].reads)
        return "page " + std::to_string(i) + " is read at " + hex(accessed_[i].reads[0].begin) + ", and said not to be";
    }
    return "";
  }
  // Loads that are volatile or have an order are not traced: they fail where they are not expected.
  std::string run_within_rights() const {
    for (std::size_t i = 0; i < kVariablePage; ++i) ptx_test::device().allow(page(i), said_[i].reads, said_[i].writes);
    fill();
    const ptx_test::Device::Result result = run(nullptr);
    allow_all();
    if (result.ran()) return "";
    return "page " + std::to_string(page_of(result.outcome.address)) + " is accessed at " +
           hex(result.outcome.address) + ", and said not to be: " + result.outcome.message;
  }

  // As a launch finds them: parameter by parameter.
  std::vector<void*> parameter_list() const {
    std::vector<void*> list;
    for (const simulator::ptx::ParameterPlace& place : kernel_.places)
      list.push_back(const_cast<unsigned char*>(kernel_.parameters.data()) + place.offset);
    return list;
  }
  std::string judge_proof() {
    thermocline::LaunchShape shape;
    std::ranges::copy(kernel_.block, shape.threads);
    std::ranges::copy(kernel_.grid, shape.blocks);
    shape.shared_bytes = 1024;
    const std::vector<void*> parameters = parameter_list();
    thermocline::PtxProof::Result proven;
    if (!code_->proof().holds_for(shape, parameters.data(), &proven)) return "";
    ++counts_.proven;
    const std::vector<ParameterWord>& words = code_->accesses().words;
    bool may_run_again = true;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t number = page_of(value_of(words[i]));
      if (number == kPages) continue;
      may_run_again &= !words[i].is_value;
      if (!words[i].reads && !words[i].writes) continue;
      if (said_[number].pointers > 1) {
        may_run_again &= !said_[number].writes;
        continue;
      }
      std::string wrong = judge_range(words[i], number, proven.written_bytes[i]);
      if (wrong.empty()) wrong = judge_begin(i, number, shape, parameters);
      if (!wrong.empty()) return wrong;
    }
    return may_run_again ? run_again(proven.written_bytes) : "";
  }
  std::string judge_range(const ParameterWord& word, std::size_t number, std::uint64_t written) {
    if (!word.writes) return "";
    ++counts_.exact_ranges;
    const std::vector<Range>& found = accessed_[number].writes;
    const std::uint64_t begin = value_of(word);
    const bool is_right =
        written == 0 ? found.empty() : found.size() == 1 && found[0].begin == begin && found[0].end == begin + written;
    if (is_right) return "";
    return "page " + std::to_string(number) + ": " + std::to_string(written) + " bytes are proven to be written, and " +
           std::to_string(found.size()) + " ranges are" +
           (found.empty() ? ""
                          : ", the first from " + std::to_string(static_cast<std::int64_t>(found[0].begin - begin)) +
                                " to " + std::to_string(static_cast<std::int64_t>(found[0].end - begin)));
  }
  std::string judge_begin(std::size_t index, std::size_t number, const thermocline::LaunchShape& shape,
                          const std::vector<void*>& parameters) {
    if (code_->proof().reach_of(index, shape, parameters.data()) != thermocline::PlacesReach::kFromBegin) return "";
    ++counts_.begins;
    const std::uint64_t begin = value_of(code_->accesses().words[index]);
    for (const std::vector<Range>* const list : {&accessed_[number].reads, &accessed_[number].writes}) {
      if (!list->empty() && list->front().begin < begin)
        return "page " + std::to_string(number) + " is accessed " + std::to_string(begin - list->front().begin) +
               " bytes in front of its pointer, which is proven not to be so";
    }
    return "";
  }
  // With other contents where it writes, the launch has the same results.
  std::string run_again(const std::vector<std::uint64_t>& written) const {
    fill();
    if (!run(nullptr).ran()) return "it does not run a second time";
    std::vector<std::vector<std::byte>> before;
    for (std::size_t i = 0; i < kPages; ++i) before.emplace_back(window(i), window(i) + kWindow);
    const std::vector<ParameterWord>& words = code_->accesses().words;
    fill();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].writes || words[i].reads || page_of(value_of(words[i])) == kPages) continue;
      std::memset(reinterpret_cast<void*>(value_of(words[i])), 0x5a, written[i]);
    }
    if (!run(nullptr).ran()) return "it does not run a third time";
    for (std::size_t i = 0; i < kPages; ++i) {
      if (std::memcmp(window(i), before[i].data(), kWindow) != 0)
        return "page " + std::to_string(i) + " has other contents when it has run again";
    }
    return "";
  }

  const RandomKernel& kernel_;
  const std::uint64_t memory_;
  Counts& counts_;
  const thermocline::DeviceCode::Text text_;
  const ptx_test::Program program_;
  std::unique_ptr<KernelCode> code_;
  RerunRefusal unknown_;
  bool may_wait_ = false;
  AccessedPages accessed_;
  std::array<Said, kPages> said_;
};

}  // namespace

Oracle::Oracle() {
  constexpr std::size_t kBytes = kWrapsBy + (kPages + 1) * kPageBytes;
  void* const at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::abort();
  memory_ = (reinterpret_cast<std::uint64_t>(at) + kWrapsBy + kPageBytes - 1) / kPageBytes * kPageBytes;
  for (std::size_t i = 0; i < kBuffers; ++i) ptx_test::device().allow(memory_ + i * kPageBytes - kWrapsBy, true, true);
}

std::string Oracle::judge(const RandomKernel& kernel, Counts* counts) { return Case(kernel, memory_, counts).judge(); }

}  // namespace directions
