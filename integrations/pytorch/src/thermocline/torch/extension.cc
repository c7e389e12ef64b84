// SPDX-License-Identifier: Apache-2.0
// A PyTorch CUDAAllocator that uses the library, for the features that PyTorch's interface for pluggable C functions
// lacks: statistics, snapshots and history, out-of-memory observers, torch.OutOfMemoryError, cudnn.benchmark, memory
// information. Compiled on request against the installed PyTorch (thermocline.torch.build_extension).
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "thermocline/thermocline.h"

namespace {

namespace cuda = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::TraceEntry;
using torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

constexpr std::size_t kLarge = std::size_t{1} << 20;  // PyTorch's limit between its small and its large pool

std::map<std::string, std::int64_t> library_statistics(int names) {
  std::map<std::string, std::int64_t> all;
  thermocline_visit_statistics(
      names,
      [](const char* name, std::uint64_t value, void* user) {
        static_cast<std::map<std::string, std::int64_t>*>(user)->emplace(name, static_cast<std::int64_t>(value));
      },
      &all);
  return all;
}

thermocline_pool pool_of(c10::cuda::MempoolId_t id) { return {id.first, id.second}; }

class Allocator final : public CUDAPluggableAllocator {
 public:
  Allocator()
      : CUDAPluggableAllocator(
            [this](std::size_t bytes, int device, cudaStream_t stream) { return acquire(bytes, device, stream); },
            [this](void* address, std::size_t bytes, int device, cudaStream_t stream) {
              release(address, bytes, device, stream);
            }) {
    set_reset_fn([] { thermocline_empty_cache(); });
    set_base_alloc_fn([](void* address, std::size_t* bytes) { return thermocline_base(address, bytes); });
    set_record_stream_fn([](void* address, cudaStream_t stream) { thermocline_record_stream(address, stream); });
    set_memory_fraction_fn([](double, int) {
      TORCH_CHECK(false, "the budget is the library's, set before the program starts: THERMOCLINE_BUDGET");
    });
    set_begin_allocate_to_pool([this](int device, c10::cuda::MempoolId_t id, const std::function<bool(cudaStream_t)>&) {
      hold(id);
      thermocline_begin_pool(device, pool_of(id), nullptr);
      const std::lock_guard lock(mutex_);
      ++pools_[id].begun;
    });
    set_end_allocate_to_pool_fn(
        [](int device, c10::cuda::MempoolId_t id) { thermocline_end_pool(device, pool_of(id)); });
    set_release_pool([this](int device, c10::cuda::MempoolId_t id) { let_go(device, id); });
  }

  std::string name() override { return "thermocline"; }

  DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const auto all = library_statistics(THERMOCLINE_NAMES_PYTORCH);
    const std::lock_guard lock(mutex_);
    DeviceStats stats;
    const auto fill = [&](const char* field, c10::CachingAllocator::StatArray& into) {
      static constexpr const char* kPools[] = {"all", "small_pool", "large_pool"};
      for (std::size_t i = 0; i < into.size() && i < std::size(kPools); ++i) {
        const auto value = [&](const char* kind) {
          const auto found = all.find(std::string(field) + "." + kPools[i] + "." + kind);
          return found == all.end() ? 0 : found->second - forgotten(found->first);
        };
        into[i].current = value("current");
        into[i].peak = value("peak");
        into[i].allocated = value("allocated");
        into[i].freed = value("freed");
      }
    };
    fill("allocation", stats.allocation);
    fill("segment", stats.segment);
    fill("active", stats.active);
    fill("inactive_split", stats.inactive_split);
    fill("allocated_bytes", stats.allocated_bytes);
    fill("reserved_bytes", stats.reserved_bytes);
    fill("active_bytes", stats.active_bytes);
    fill("inactive_split_bytes", stats.inactive_split_bytes);
    fill("requested_bytes", stats.requested_bytes);
    const auto count = [&](const char* field) {
      const auto found = all.find(field);
      return found == all.end() ? 0 : found->second - forgotten(field);
    };
    stats.num_ooms = count("num_ooms");
    stats.num_alloc_retries = count("num_alloc_retries");
    stats.num_device_alloc = count("num_device_alloc");
    stats.num_device_free = count("num_device_free");
    return stats;
  }

  void resetPeakStats(c10::DeviceIndex) override { thermocline_reset_peaks(); }
  // The library's counters continue; the earlier values are subtracted.
  void resetAccumulatedStats(c10::DeviceIndex) override {
    const auto all = library_statistics(THERMOCLINE_NAMES_PYTORCH);
    const std::lock_guard lock(mutex_);
    for (const auto& [name, value] : all) {
      if (name.ends_with(".allocated") || name.ends_with(".freed") || name.starts_with("num_"))
        forgotten_[name] = value;
    }
  }

  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto [free, total] = room();
    return total == 0 ? CUDAAllocator::getMemoryInfo(device) : std::pair(free, total);
  }
  double getMemoryFraction(c10::DeviceIndex) override { return 1.0; }
  // cudnn.benchmark asks how large a workspace can be.
  void cacheInfo(c10::DeviceIndex, std::size_t* largest) override {
    const auto all = library_statistics(THERMOCLINE_NAMES);
    const auto found = all.find("available_bytes");
    *largest = std::max(*largest, found == all.end() ? 0 : static_cast<std::size_t>(found->second));
  }

  cuda::SnapshotInfo snapshot(c10::cuda::MempoolId_t, bool include_traces) override {
    cuda::SnapshotInfo info{};
    const std::lock_guard lock(mutex_);
    for (const auto& [address, buffer] : live_) {
      c10::CachingDeviceAllocator::SegmentInfo segment;
      segment.device = buffer.device;
      segment.address = reinterpret_cast<std::size_t>(address);
      segment.total_size = segment.requested_size = segment.allocated_size = segment.active_size = buffer.bytes;
      segment.stream = buffer.stream;
      segment.is_large = buffer.bytes >= kLarge;
      segment.context_when_allocated = buffer.context;
      segment.blocks.push_back({.size = buffer.bytes,
                                .requested_size = buffer.bytes,
                                .allocated = true,
                                .active = true,
                                .context_when_allocated = buffer.context});
      info.segments.push_back(std::move(segment));
    }
    info.device_traces.resize(static_cast<std::size_t>(devices_));
    if (!include_traces) return info;
    for (const TraceEntry& entry : history_) {
      const auto device = static_cast<std::size_t>(entry.device_);
      if (device >= info.device_traces.size()) info.device_traces.resize(device + 1);
      info.device_traces[device].push_back(entry);
      // Stored in units of the clock, converted to microseconds when it is read.
      info.device_traces[device].back().time_.t_ = to_ns_(entry.time_.approx_t_) / 1000;
    }
    return info;
  }

  bool isHistoryEnabled() override { return recording_.load(); }
  void recordHistory(bool enabled, cuda::CreateContextFn context, std::size_t most, cuda::RecordContext when,
                     bool clear, const std::vector<std::string>&) override {
    const std::lock_guard lock(mutex_);
    recording_ = enabled;
    context_ = enabled ? context : nullptr;
    when_ = enabled ? when : cuda::RecordContext::NEVER;
    most_ = std::max<std::size_t>(most, 1);
    if (clear || !enabled) history_.clear();
  }
  void attachOutOfMemoryObserver(cuda::OutOfMemoryObserver observer) override {
    const std::lock_guard lock(mutex_);
    observers_.push_back(std::move(observer));
  }
  void attachAllocatorTraceTracker(cuda::AllocatorTraceTracker tracker) override {
    const std::lock_guard lock(mutex_);
    trackers_.push_back(std::move(tracker));
  }

  void init(int devices) override {
    devices_ = devices;
    CUDAPluggableAllocator::init(devices);
  }

  int getPoolUseCount(c10::DeviceIndex, c10::cuda::MempoolId_t id) override {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(id);
    return found == pools_.end() ? 0 : found->second.users;
  }
  void createOrIncrefPool(c10::DeviceIndex, c10::cuda::MempoolId_t id,
                          std::shared_ptr<cuda::CUDAAllocator> allocator) override {
    TORCH_CHECK(allocator == nullptr, "memory of another allocator can not be had while all of it is the library's");
    hold(id);
  }
  void setUseOnOOM(c10::DeviceIndex, c10::cuda::MempoolId_t, bool use) override {
    TORCH_CHECK(!use, "use_on_oom: the library keeps no memory back for a pool");
  }
  void setNoSplit(c10::DeviceIndex, c10::cuda::MempoolId_t) override {}  // there are no segments to split

 private:
  struct Buffer {
    std::size_t bytes;
    c10::DeviceIndex device;
    cudaStream_t stream;
    std::shared_ptr<c10::GatheredContext> context;
  };
  struct PoolUse {
    int users = 0, begun = 0;
  };

  void hold(c10::cuda::MempoolId_t id) {
    const std::lock_guard lock(mutex_);
    ++pools_[id].users;
  }

  void let_go(int device, c10::cuda::MempoolId_t id) {
    int begun = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pools_.find(id);
      if (found == pools_.end() || --found->second.users > 0) return;
      begun = found->second.begun;
      pools_.erase(found);
    }
    for (int i = 0; i < begun; ++i) thermocline_release_pool(device, pool_of(id));
  }

  std::int64_t forgotten(const std::string& name) const {
    const auto found = forgotten_.find(name);
    return found == forgotten_.end() ? 0 : found->second;
  }

  static std::pair<std::size_t, std::size_t> room() {
    thermocline_statistics now{};
    now.size = sizeof now;
    if (thermocline_get_statistics(&now) != THERMOCLINE_OK) return {0, 0};
    return {now.budget_bytes > now.live_bytes ? now.budget_bytes - now.live_bytes : 0, now.budget_bytes};
  }

  void note(TraceEntry::Action action, int device, std::size_t address, std::size_t bytes, cudaStream_t stream,
            const std::shared_ptr<c10::GatheredContext>& context) {
    const TraceEntry entry(action, static_cast<c10::DeviceIndex>(device), address, bytes, stream, {0, 0},
                           c10::getApproximateTime(), when_ >= cuda::RecordContext::ALLOC ? context : nullptr);
    for (const auto& tracker : trackers_) tracker(entry);
    if (!recording_) return;
    if (history_.size() >= most_) history_.pop_front();
    history_.push_back(entry);
  }

  void* acquire(std::size_t bytes, int device, cudaStream_t stream) {
    if (bytes == 0) return nullptr;
    void* const address = thermocline_allocate(static_cast<std::ptrdiff_t>(bytes), device, stream);
    if (address == nullptr) refuse(bytes, device, stream);
    // Not under the lock, because it takes Python's lock.
    const cuda::CreateContextFn gather = when_ == cuda::RecordContext::NEVER ? nullptr : context_.load();
    std::shared_ptr<c10::GatheredContext> context = gather == nullptr ? nullptr : gather();
    const std::lock_guard lock(mutex_);
    const auto at = reinterpret_cast<std::size_t>(address);
    live_[address] = {bytes, static_cast<c10::DeviceIndex>(device), stream, context};
    note(TraceEntry::SEGMENT_ALLOC, device, at, bytes, stream, context);
    note(TraceEntry::ALLOC, device, at, bytes, stream, context);
    return address;
  }

  void release(void* address, std::size_t bytes, int device, cudaStream_t stream) {
    {
      const std::lock_guard lock(mutex_);
      live_.erase(address);
      const auto at = reinterpret_cast<std::size_t>(address);
      for (const auto action : {TraceEntry::FREE_REQUESTED, TraceEntry::FREE_COMPLETED, TraceEntry::SEGMENT_FREE}) {
        note(action, device, at, bytes, stream, nullptr);
      }
    }
    thermocline_free(address, bytes, device, stream);
  }

  [[noreturn]] void refuse(std::size_t bytes, int device, cudaStream_t stream) {
    const auto [free, total] = room();
    std::vector<cuda::OutOfMemoryObserver> observers;
    {
      const std::lock_guard lock(mutex_);
      note(TraceEntry::OOM, device, free, bytes, stream, nullptr);
      observers = observers_;
    }
    for (const auto& observer : observers) observer(device, bytes, total, free);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", bytes, " bytes on device ",
                     device, ", of ", total, " bytes ", free, " are free; the library's report is on stderr");
    std::abort();
  }

  std::mutex mutex_;  // of what follows
  std::unordered_map<void*, Buffer> live_;
  std::map<c10::cuda::MempoolId_t, PoolUse> pools_;
  std::map<std::string, std::int64_t> forgotten_;
  std::vector<cuda::OutOfMemoryObserver> observers_;
  std::vector<cuda::AllocatorTraceTracker> trackers_;
  std::deque<TraceEntry> history_;
  std::size_t most_ = 1;
  std::atomic<bool> recording_{false};
  std::atomic<cuda::CreateContextFn> context_{nullptr};
  std::atomic<cuda::RecordContext> when_{cuda::RecordContext::NEVER};
  std::atomic<int> devices_{1};
  std::function<c10::time_t(c10::approx_time_t)> to_ns_ = c10::ApproximateClockToUnixTimeConverter().makeConverter();
};

}  // namespace

// NULL: success. Otherwise an error message, valid until the next call.
extern "C" __attribute__((visibility("default"))) const char* thermocline_use_extension() {
  static std::string reason;
  try {
    // Never destroyed: PyTorch's allocators live as long as the process.
    static const auto& allocator = *new std::shared_ptr<cuda::CUDAAllocator>(std::make_shared<Allocator>());
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(allocator);
    return nullptr;
  } catch (const std::exception& error) {
    reason = error.what();
    return reason.c_str();
  }
}
