// SPDX-License-Identifier: Apache-2.0
// gpu_probe: measures a device's properties and the cost of driver calls on it; prints one JSON object on stdout. With
// --profile FILE LIKE it also writes a profile for `--device FILE` (simulator/profile_file.cc), whose other figures are
// those of LIKE.
//
// It is not linked with the driver: libcuda.so.1 is what the loader finds, a GPU's or the simulated one. Host calls are
// timed between two events on an idle stream: a device records the time when it executes them, and the simulated one
// uses its own clock. On a GPU the result therefore includes the cost of the two records (less than 2 us for all the
// calls between them); the time by the host's clock is given as well. Link rates are those of 256 MiB copies of pinned
// memory, averaged over all of them.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/driver_calls.h"

namespace {

using namespace gpu_bench;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Probe {
 public:
  Probe();
  void measure();
  void print() const;
  bool write_profile(const std::string& path, const std::string& like, const std::string& source) const;

 private:
  // Nanoseconds of one of `count` calls: by events, and by the host's clock.
  void time(
      const std::string& name, int count, const std::function<void(int)>& call,
      const std::function<void()>& after = [] {});
  void allocations();
  class Busy;
  void mappings();
  void runs(const char* device, std::size_t page, std::size_t pages, std::size_t handles);
  void streams();
  void links();
  double rate_of(bool out, bool in);
  void note(const std::string& name, double value) { figures_.emplace_back(name, value); }
  double figure(const std::string& name) const;
  double elapsed_ms();

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent first_ = nullptr, last_ = nullptr, middle_ = nullptr;
  std::string name_;
  int driver_version_ = 0;
  std::vector<std::pair<std::string, double>> figures_;
};

// Keeps the device copying while it lives.
class Probe::Busy {
 public:
  explicit Busy(Probe& probe) : stream_(probe.other_) {
    CHECK(CUDA(cuMemAlloc)(&from_, kBytes));
    CHECK(CUDA(cuMemHostAlloc)(&to_, kBytes, 0));
    for (int i = 0; i < kCopies; ++i) CHECK(CUDA(cuMemcpyDtoHAsync)(to_, from_, kBytes, stream_));
  }
  ~Busy() {
    CHECK(CUDA(cuStreamSynchronize)(stream_));
    CHECK(CUDA(cuMemFree)(from_));
    CHECK(CUDA(cuMemFreeHost)(to_));
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr int kCopies = 200;  // a quarter of a second at 50 GB/s
  CUstream stream_;
  CUdeviceptr from_ = 0;
  void* to_ = nullptr;
};

Probe::Probe() {
  driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) end(4, std::string("no driver: ") + dlerror());
  if (CUDA(cuInit)(0) != CUDA_SUCCESS || CUDA(cuDeviceGet)(&device_, 0) != CUDA_SUCCESS) end(4, "no usable device");
  char name[128] = "";
  CHECK(CUDA(cuDeviceGetName)(name, sizeof name, device_));
  name_ = name;
  CHECK(CUDA(cuDriverGetVersion)(&driver_version_));
  CHECK(CUDA(cuDevicePrimaryCtxRetain)(&context_, device_));
  CHECK(CUDA(cuCtxSetCurrent)(context_));
  CHECK(CUDA(cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING));
  CHECK(CUDA(cuStreamCreate)(&other_, CU_STREAM_NON_BLOCKING));
  for (CUevent* event : {&first_, &last_, &middle_}) CHECK(CUDA(cuEventCreate)(event, CU_EVENT_DEFAULT));
  std::size_t bytes = 0;
  CHECK(CUDA(cuDeviceTotalMem)(&bytes, device_));
  note("memory_bytes", static_cast<double>(bytes));
  const auto attribute = [this](CUdevice_attribute which) {
    int value = 0;
    CHECK(CUDA(cuDeviceGetAttribute)(&value, which, device_));
    return static_cast<double>(value);
  };
  note("multiprocessors", attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  note("compute_capability", 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                 attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

double Probe::elapsed_ms() {
  float ms = 0;
  CHECK(CUDA(cuEventElapsedTime)(&ms, first_, last_));
  return static_cast<double>(ms);
}

void Probe::time(const std::string& name, int count, const std::function<void(int)>& call,
                 const std::function<void()>& after) {
  std::vector<double> by_events, by_host;
  for (int turn = 0; turn < 7; ++turn) {
    CHECK(CUDA(cuStreamSynchronize)(stream_));
    CHECK(CUDA(cuEventRecord)(first_, stream_));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) call(i);
    const auto end = std::chrono::steady_clock::now();
    CHECK(CUDA(cuEventRecord)(last_, stream_));
    CHECK(CUDA(cuStreamSynchronize)(stream_));
    by_events.push_back(elapsed_ms() * 1e6 / count);
    by_host.push_back(std::chrono::duration<double, std::nano>(end - begin).count() / count);
    after();
  }
  note(name, median(by_events));
  note(name + "_by_host_clock", median(by_host));
}

// An allocation together with its free.
void Probe::allocations() {
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
    const std::string size = std::to_string(bytes >> 10) + "KiB_ns";
    time("pair_cuMemAlloc_" + size, 50, [bytes](int) {
      CUdeviceptr at = 0;
      CHECK(CUDA(cuMemAlloc)(&at, bytes));
      CHECK(CUDA(cuMemFree)(at));
    });
    time("pair_cuMemAllocAsync_" + size, 50, [this, bytes](int) {
      CUdeviceptr at = 0;
      CHECK(CUDA(cuMemAllocAsync)(&at, bytes, stream_));
      CHECK(CUDA(cuMemFreeAsync)(at, stream_));
    });
  }
}

void Probe::mappings() {
  constexpr int kPages = 32;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = device_;
  std::size_t page = 0;
  CHECK(CUDA(cuMemGetAllocationGranularity)(&page, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  note("page_bytes", static_cast<double>(page));
  CUdeviceptr at = 0;
  CHECK(CUDA(cuMemAddressReserve)(&at, kPages * page, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> handles(kPages);
  const auto release = [&] {
    for (const CUmemGenericAllocationHandle handle : handles) CHECK(CUDA(cuMemRelease)(handle));
  };
  time(
      "host_create_page_ns", kPages,
      [&](int i) { CHECK(CUDA(cuMemCreate)(&handles[static_cast<std::size_t>(i)], page, &kind, 0)); }, release);
  for (CUmemGenericAllocationHandle& handle : handles) CHECK(CUDA(cuMemCreate)(&handle, page, &kind, 0));
  const auto map = [&](int i) {
    CHECK(CUDA(cuMemMap)(at + static_cast<std::size_t>(i) * page, page, 0, handles[static_cast<std::size_t>(i)], 0));
  };
  const auto unmap = [&](int i) { CHECK(CUDA(cuMemUnmap)(at + static_cast<std::size_t>(i) * page, page)); };
  CUmemAccessDesc access{};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto allow = [&](int i) {
    CHECK(CUDA(cuMemSetAccess)(at + static_cast<std::size_t>(i) * page, page, &access, 1));
  };
  const auto each = [](const auto& call) {
    for (int i = 0; i < kPages; ++i) call(i);
  };
  time("host_map_ns", kPages, map, [&] { each(unmap); });
  each(map);
  // Access that an address has already costs next to nothing to set again, so each turn begins with new mappings.
  time("host_set_access_ns", kPages, allow, [&] { each(unmap), each(map); });
  each(allow);
  time("host_unmap_ns", kPages, unmap, [&] { each(map), each(allow); });
  each(unmap);
  release();
  CHECK(CUDA(cuMemAddressFree)(at, kPages * page));
  for (const std::size_t pages : {std::size_t{1}, std::size_t{16}, std::size_t{128}}) {
    runs("idle", page, pages, pages);
    if (pages > 1) runs("idle", page, pages, 1);
  }
  for (const std::string call : {"set_access", "unmap"}) {
    const double sixteen = figure("run_" + call + "_16_pages_in_16_idle_ns");
    note("host_" + call + "_next_ns", std::max(0.0, (sixteen - figure("host_" + call + "_ns")) / 15));
  }
  // While the device copies: calls may have to wait for what it does.
  const Busy busy(*this);
  for (const std::size_t pages : {std::size_t{1}, std::size_t{16}}) runs("busy", page, pages, pages);
  runs("busy", page, 16, 1);
}

// Calls for `pages` pages that lie side by side, in `handles` handles: one call for all of them where there can be.
void Probe::runs(const char* device, std::size_t page, std::size_t pages, std::size_t handles) {
  constexpr int kRuns = 8;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = device_;
  const std::size_t bytes = pages * page, part = bytes / handles;
  CUdeviceptr at = 0;
  CHECK(CUDA(cuMemAddressReserve)(&at, kRuns * bytes, 0, 0, 0));
  std::vector<CUmemGenericAllocationHandle> all(kRuns * handles);
  std::vector<double> create, map, allow, unmap, release;
  CUmemAccessDesc access{};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto timed = [](std::vector<double>& into, const auto& call) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t run = 0; run < kRuns; ++run) call(run);
    into.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / kRuns);
  };
  const auto each = [handles](std::size_t run, const auto& call) {
    for (std::size_t i = run * handles; i < (run + 1) * handles; ++i) call(i);
  };
  for (int turn = 0; turn < 5; ++turn) {
    timed(create, [&](std::size_t run) {
      each(run, [&](std::size_t i) { CHECK(CUDA(cuMemCreate)(&all[i], part, &kind, 0)); });
    });
    timed(map, [&](std::size_t run) {
      each(run, [&](std::size_t i) { CHECK(CUDA(cuMemMap)(at + i * part, part, 0, all[i], 0)); });
    });
    timed(allow, [&](std::size_t run) { CHECK(CUDA(cuMemSetAccess)(at + run * bytes, bytes, &access, 1)); });
    timed(unmap, [&](std::size_t run) { CHECK(CUDA(cuMemUnmap)(at + run * bytes, bytes)); });
    timed(release, [&](std::size_t run) { each(run, [&](std::size_t i) { CHECK(CUDA(cuMemRelease)(all[i])); }); });
  }
  CHECK(CUDA(cuMemAddressFree)(at, kRuns * bytes));
  const std::string of =
      std::string("_") + std::to_string(pages) + "_pages_in_" + std::to_string(handles) + "_" + device + "_ns";
  note("run_create" + of, median(create));
  note("run_map" + of, median(map));
  note("run_set_access" + of, median(allow));
  note("run_unmap" + of, median(unmap));
  note("run_release" + of, median(release));
}

void Probe::streams() {
  time("host_stream_call_ns", 200, [this](int) { CHECK(CUDA(cuEventRecord)(middle_, other_)); });
  void* host = nullptr;
  CUdeviceptr at = 0;
  CHECK(CUDA(cuMemHostAlloc)(&host, 4096, 0));
  CHECK(CUDA(cuMemAlloc)(&at, 4096));
  time(
      "host_copy_ns", 50, [&](int) { CHECK(CUDA(cuMemcpyHtoDAsync)(at, host, 64, other_)); },
      [this] { CHECK(CUDA(cuStreamSynchronize)(other_)); });
  CHECK(CUDA(cuMemFree)(at));
  CHECK(CUDA(cuMemFreeHost)(host));
}

// Bytes per second in each of the requested directions; if both are requested, at the same time.
double Probe::rate_of(bool out, bool in) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  constexpr int kCopies = 6;
  void *from = nullptr, *to = nullptr;
  CUdeviceptr source = 0, target = 0;
  CHECK(CUDA(cuMemHostAlloc)(&from, kBytes, 0));
  CHECK(CUDA(cuMemHostAlloc)(&to, kBytes, 0));
  CHECK(CUDA(cuMemAlloc)(&source, kBytes));
  CHECK(CUDA(cuMemAlloc)(&target, kBytes));
  std::vector<double> rates;
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(CUDA(cuCtxSynchronize)());
    CHECK(CUDA(cuEventRecord)(first_, stream_));
    CHECK(CUDA(cuStreamWaitEvent)(other_, first_, 0));
    for (int i = 0; i < kCopies; ++i) {
      if (out) CHECK(CUDA(cuMemcpyDtoHAsync)(to, source, kBytes, stream_));
      if (in) CHECK(CUDA(cuMemcpyHtoDAsync)(target, from, kBytes, other_));
    }
    CHECK(CUDA(cuEventRecord)(middle_, other_));
    CHECK(CUDA(cuStreamWaitEvent)(stream_, middle_, 0));
    CHECK(CUDA(cuEventRecord)(last_, stream_));
    CHECK(CUDA(cuStreamSynchronize)(stream_));
    rates.push_back(kCopies * static_cast<double>(kBytes) / (elapsed_ms() * 1e-3));
  }
  for (const CUdeviceptr at : {source, target}) CHECK(CUDA(cuMemFree)(at));
  for (void* at : {from, to}) CHECK(CUDA(cuMemFreeHost)(at));
  return median(rates);
}

void Probe::links() {
  note("link_to_host_alone", rate_of(true, false));
  note("link_to_device_alone", rate_of(false, true));
  // Evictions and fetches run at the same time, so this is the rate that a plan can expect.
  const double both = rate_of(true, true);
  note("link_to_host", both);
  note("link_to_device", both);
}

void Probe::measure() {
  allocations();
  mappings();
  streams();
  links();
}

double Probe::figure(const std::string& name) const {
  const auto found = std::ranges::find(figures_, name, &std::pair<std::string, double>::first);
  return found == figures_.end() ? 0 : found->second;
}

void Probe::print() const {
  std::printf("{\"schema\": \"thermocline-probe/1\", \"device\": \"%s\", \"driver\": %d", name_.c_str(),
              driver_version_);
  for (const auto& [name, value] : figures_) std::printf(", \"%s\": %.15g", name.c_str(), value);
  std::puts("}");
}

bool Probe::write_profile(const std::string& path, const std::string& like, const std::string& source) const {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  std::fprintf(file, "# Written by gpu_probe; `thermocline replay TRACE --device THIS_FILE` takes it.\n");
  std::fprintf(file, "# What is not here is taken from the profile named next, and was not measured.\n");
  std::fprintf(file, "like = \"%s\"\ntitle = \"%s, measured\"\nsource = \"%s\"\n", like.c_str(), name_.c_str(),
               source.c_str());
  for (const char* name :
       {"memory_bytes", "compute_capability", "multiprocessors", "page_bytes", "link_to_device", "link_to_host",
        "host_create_page_ns", "host_map_ns", "host_set_access_ns", "host_set_access_next_ns", "host_unmap_ns",
        "host_unmap_next_ns", "host_stream_call_ns", "host_copy_ns"}) {
    std::fprintf(file, "%s = %.15g\n", name, figure(name));
  }
  return std::fclose(file) == 0;
}

}  // namespace

int main(int count, char** arguments) {
  program = "gpu_probe";
  const bool profile = count == 5 && std::strcmp(arguments[1], "--profile") == 0;
  if (count != 1 && !profile) end(2, "usage: gpu_probe [--profile FILE LIKE SOURCE]");
  Probe probe;
  probe.measure();
  probe.print();
  if (profile && !probe.write_profile(arguments[2], arguments[3], arguments[4]))
    end(1, "the profile can not be written");
  return 0;
}
