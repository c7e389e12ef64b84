// SPDX-License-Identifier: Apache-2.0
#include "driver/probes.h"

#include <algorithm>
#include <optional>

#include "driver/locks.h"
#include "driver/nvtx_memory.h"
#include "driver/owned.h"

namespace thermocline {
namespace {

constexpr MechanismText kTexts[] = {
    {Mechanism::kEvents, "events", "an event that was waited for is complete", "the program runs without the library"},
    {Mechanism::kRemap, "remap", "a handle keeps its contents while it is not mapped",
     "the program runs without the library"},
    {Mechanism::kAlias, "alias", "two mappings of a handle show the same memory",
     "pages get a new owner only when nothing uses them, and there is no host fallback"},
    {Mechanism::kAccessRuns, "access_runs", "one call sets access for several mappings", "one call per page"},
    {Mechanism::kUnmapRuns, "unmap_runs", "one call unmaps several mappings", "one call per page"},
    {Mechanism::kCaptureMode, "capture_mode", "a thread can set its capture mode",
     "captures are invalidated when the library maps memory or waits"},
    {Mechanism::kHostMemory, "host_memory", "copies reach mapped host memory",
     "host copies are in ordinary pinned memory, and evicted addresses have no host mapping"},
    {Mechanism::kMappingInFlight, "mapping_waits", "memory is mapped and unmapped while other work is in flight",
     "none is while a stream waits for a value or a host function: operations that need it wait, and are refused after "
     "some seconds; further host copies are in ordinary pinned memory"},
};
static_assert(std::size(kTexts) == static_cast<std::size_t>(Mechanism::kCount));

// More than one memory transaction, less than a page.
constexpr std::size_t kTriedBytes = 256;
using Bytes256 = std::array<unsigned char, kTriedBytes>;

Bytes256 pattern(unsigned char seed) {
  Bytes256 bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>((i * 7 + seed) % 251);
  return bytes;
}

// The driver objects that one probe creates. The destructor releases them in any state, and ignores errors.
class Trial {
 public:
  Trial(const Driver& driver, const DeviceFacts& facts) : driver_(&driver), facts_(&facts) {}
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Addresses for `count` pages; a *place* is the index of one.
  bool reserve(std::uint64_t count, bool annotate);
  bool create() {
    return driver_->create_page(facts_->page_bytes, facts_->device, &page_.emplace()).ok() || lose(page_);
  }
  bool create_other() {
    return driver_->create_page(facts_->page_bytes, facts_->device, &other_.emplace()).ok() || lose(other_);
  }
  Status map(std::uint64_t place, bool other = false);
  Status unmap(std::uint64_t place, std::uint64_t count);
  Status set_access(std::uint64_t place, std::uint64_t count) {
    return driver_->set_access(at(place), count * facts_->page_bytes, facts_->device);
  }
  bool open_stream() {
    return driver_->create_stream(&stream_).ok() && (owned_ = StreamOwner(*driver_, stream_), true);
  }
  bool write(std::uint64_t place, const Bytes256& bytes) {
    return driver_->copy_to_device(at(place), bytes.data(), bytes.size(), stream_).ok();
  }
  // Waits for the copy.
  bool read(std::uint64_t place, Bytes256* out) {
    const WaitsInPlace nothing_else_runs_there;
    return driver_->copy_to_host(out->data(), at(place), out->size(), stream_).ok() &&
           driver_->synchronize_stream(stream_).ok();
  }
  Finding events();

 private:
  static bool lose(std::optional<PageHandle>& page) {
    page.reset();
    return false;
  }
  DeviceAddress at(std::uint64_t place) const { return begin_ + place * facts_->page_bytes; }

  const Driver* driver_;
  const DeviceFacts* facts_;
  ReservationOwner addresses_;
  std::optional<NvtxMemory> annotation_;
  DeviceAddress begin_;
  std::optional<PageHandle> page_, other_;
  std::array<bool, 2> mapped_{};
  StreamHandle stream_{};
  StreamOwner owned_;
};

Trial::~Trial() {
  if (owned_) {
    const WaitsInPlace nothing_else_runs_there;
    static_cast<void>(driver_->synchronize_stream(stream_));
  }
  for (std::uint64_t place = 0; place < mapped_.size(); ++place) {
    if (mapped_[place]) static_cast<void>(unmap(place, 1));
  }
  for (const auto& page : {page_, other_}) {
    if (page.has_value()) static_cast<void>(driver_->destroy_page(*page));
  }
}

bool Trial::reserve(std::uint64_t count, bool annotate) {
  const Bytes bytes = count * facts_->page_bytes;
  if (!driver_->reserve(bytes, facts_->page_bytes, &begin_).ok()) return false;
  addresses_ = ReservationOwner(*driver_, begin_, bytes);
  if (annotate) annotation_.emplace("thermocline: a trial", begin_, bytes);
  return true;
}

Status Trial::map(std::uint64_t place, bool other) {
  const Status status = driver_->map(at(place), facts_->page_bytes, other ? *other_ : *page_);
  mapped_[place] = status.ok();
  return status;
}

Status Trial::unmap(std::uint64_t place, std::uint64_t count) {
  const Status status = driver_->unmap(at(place), count * facts_->page_bytes);
  if (status.ok()) std::fill_n(mapped_.begin() + static_cast<std::ptrdiff_t>(place), count, false);
  return status;
}

// Tests events in the stream, which has a pending copy.
Finding Trial::events() {
  EventHandle event{};
  if (!driver_->create_event(false, &event).ok()) return Finding::kNotTried;
  const EventOwner owner(*driver_, event);
  const WaitsInPlace nothing_else_runs_there;
  const bool works = driver_->record(event, stream_).ok() && driver_->wait(stream_, event).ok() &&
                     driver_->synchronize(event).ok() && driver_->query(event).ok();
  return works ? Finding::kWorks : Finding::kFails;
}

// Maps the page at both places. If the driver refuses the second mapping, place 1 gets another page: the probes of runs
// need two adjacent mappings.
bool map_neighbours(Trial& trial, Findings* findings) {
  const Status mapped = trial.map(0);
  if (!mapped.ok()) {
    if (!mapped.is_out_of_memory()) findings->set(Mechanism::kRemap, false);
    return false;
  }
  const Status alias = trial.map(1);
  if (alias.ok()) return true;
  if (!alias.is_out_of_memory()) findings->set(Mechanism::kAlias, false);
  return trial.create_other() && trial.map(1, true).ok();
}

bool give_access(Trial& trial, Findings* findings) {
  const bool at_once = trial.set_access(0, 2).ok();
  const bool each = at_once || (trial.set_access(0, 1).ok() && trial.set_access(1, 1).ok());
  if (each) findings->set(Mechanism::kAccessRuns, at_once);
  return each;
}

bool take_away(Trial& trial, Findings* findings) {
  const bool at_once = trial.unmap(0, 2).ok();
  const bool each = at_once || (trial.unmap(0, 1).ok() && trial.unmap(1, 1).ok());
  if (each) findings->set(Mechanism::kUnmapRuns, at_once);
  return each;
}

}  // namespace

std::span<const MechanismText> mechanism_texts() { return kTexts; }

Findings probe_mapping(const Driver& driver, const DeviceFacts& facts, bool annotate) {
  Findings findings;
  if (!facts.has_virtual_memory) return findings;
  const RelaxedCapture relaxed(driver);
  findings.set(Mechanism::kCaptureMode, relaxed.is_relaxed());
  Trial trial(driver, facts);
  if (!trial.reserve(2, annotate) || !trial.create() || !trial.open_stream()) return findings;
  if (!map_neighbours(trial, &findings) || !give_access(trial, &findings)) return findings;
  const Bytes256 first = pattern(1), second = pattern(2);
  Bytes256 read{};
  if (!trial.write(0, first)) return findings;
  findings.set(Mechanism::kEvents, trial.events());
  if (!findings.fails(Mechanism::kAlias)) {
    // In both directions: write through one mapping, read through the other.
    bool is_one = trial.read(1, &read) && read == first;
    is_one = is_one && trial.write(1, second) && trial.read(0, &read) && read == second;
    findings.set(Mechanism::kAlias, is_one);
  }
  // These contents must be there again after unmapping and mapping.
  Bytes256 held{};
  if (!trial.read(0, &held) || !take_away(trial, &findings)) return findings;
  const bool again = trial.map(0).ok() && trial.set_access(0, 1).ok() && trial.read(0, &read);
  findings.set(Mechanism::kRemap, again && read == held);
  return findings;
}

void probe_host_memory(const Driver& driver, const DeviceFacts& facts, Findings* findings) {
  if (!facts.can_map_host) return;
  const RelaxedCapture relaxed(driver);
  PageHandle page{};
  DeviceAddress at;
  StreamHandle stream{};
  if (!driver.reserve(facts.page_bytes, facts.page_bytes, &at).ok()) return;
  const ReservationOwner addresses(driver, at, facts.page_bytes);
  if (!driver.create_stream(&stream).ok()) return;
  const StreamOwner owner(driver, stream);
  if (const Status made = driver.create_host_page(facts.page_bytes, facts.host_map_node, &page); !made.ok()) {
    if (!made.is_out_of_memory()) findings->set(Mechanism::kHostMemory, false);
    return;
  }
  bool works = driver.map(at, facts.page_bytes, page).ok();
  const bool mapped = works;
  works = works && driver.set_shared_access(at, facts.page_bytes, facts.device, facts.host_map_node).ok();
  if (works) {
    const WaitsInPlace nothing_else_runs_there;
    const Bytes256 sent = pattern(3);
    Bytes256 back{};
    works = driver.copy_to_device(at, sent.data(), sent.size(), stream).ok() &&
            driver.synchronize_stream(stream).ok() &&
            std::equal(sent.begin(), sent.end(), reinterpret_cast<const unsigned char*>(at.value)) &&
            driver.copy_to_host(back.data(), at, back.size(), stream).ok() && driver.synchronize_stream(stream).ok() &&
            back == sent;
  }
  findings->set(Mechanism::kHostMemory, works);
  if (mapped) static_cast<void>(driver.unmap(at, facts.page_bytes));
  static_cast<void>(driver.destroy_page(page));
}

MappingSteps steps_for(const Findings& findings, Bytes page_bytes) {
  return {.access = findings.fails(Mechanism::kAccessRuns) ? page_bytes : 0,
          .unmap = findings.fails(Mechanism::kUnmapRuns) ? page_bytes : 0};
}

}  // namespace thermocline
