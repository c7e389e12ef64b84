// SPDX-License-Identifier: Apache-2.0
#include "tests/allocator/fake_driver.h"

#include <algorithm>

#include <sys/mman.h>

namespace thermocline {
namespace {

FakeDriver* current = nullptr;

template <class T>
std::uint64_t number(T* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

}  // namespace

CUresult FakeDriver::enter(const char* function) {
  const std::uint64_t count = ++calls_[function];
  const auto faults = faults_.find(function);
  if (faults == faults_.end()) return CUDA_SUCCESS;
  const auto fault = faults->second.find(count);
  return fault != faults->second.end() ? fault->second : CUDA_SUCCESS;
}

#define FAKE_ENTER(function) \
  if (const CUresult r = current->enter(function); r != CUDA_SUCCESS) return r

// The functions of the table.
struct FakeCalls {
  static CUresult get_current(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(std::uintptr_t{1});
    return CUDA_SUCCESS;
  }
  static CUresult get_device(CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  }
  static CUresult total(std::size_t* bytes, CUdevice) {
    *bytes = current->device_bytes;
    return CUDA_SUCCESS;
  }
  static CUresult attribute(int* value, CUdevice_attribute, CUdevice) {
    *value = 1;
    return CUDA_SUCCESS;
  }
  static CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
    *bytes = FakeDriver::kPage;
    return CUDA_SUCCESS;
  }

  static CUresult reserve(CUdeviceptr* at, std::size_t bytes, std::size_t alignment, CUdeviceptr, unsigned long long) {
    FAKE_ENTER("cuMemAddressReserve");
    if (bytes > current->most_reserved) return CUDA_ERROR_OUT_OF_MEMORY;
    *at = round_up(current->next_address_, std::max<std::uint64_t>(alignment, FakeDriver::kPage));
    current->next_address_ = *at + bytes;
    current->reservations_[*at] = bytes;
    return CUDA_SUCCESS;
  }
  static CUresult release(CUdeviceptr at, std::size_t bytes) {
    FAKE_ENTER("cuMemAddressFree");
    const auto found = current->reservations_.find(at);
    if (found == current->reservations_.end() || found->second != bytes)
      current->error("released what was not reserved");
    const auto mapped = current->mappings_.lower_bound(at);
    if (mapped != current->mappings_.end() && mapped->first < at + bytes) current->error("released mapped addresses");
    current->reservations_.erase(at);
    return CUDA_SUCCESS;
  }

  static CUresult create(CUmemGenericAllocationHandle* page, std::size_t bytes, const CUmemAllocationProp*,
                         unsigned long long) {
    FAKE_ENTER("cuMemCreate");
    if (bytes != FakeDriver::kPage) current->error("a page of another size");
    if ((current->pages_.size() + 1) * bytes > current->device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    *page = current->next_handle_++;
    current->pages_[*page];
    return CUDA_SUCCESS;
  }
  static CUresult destroy(CUmemGenericAllocationHandle page) {
    FAKE_ENTER("cuMemRelease");
    if (!current->pages_.contains(page)) current->error("destroyed what does not exist");
    if (current->times_mapped_.contains(page)) current->error("destroyed a mapped page");
    current->pages_.erase(page);
    return CUDA_SUCCESS;
  }

  static CUresult map(CUdeviceptr at, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle page,
                      unsigned long long) {
    FAKE_ENTER("cuMemMap");
    if (bytes != FakeDriver::kPage || offset != 0 || at % bytes != 0) current->error("mapped a part of a page");
    if (!current->pages_.contains(page)) current->error("mapped what does not exist");
    if (current->mappings_.contains(at)) current->error("mapped over a mapping");
    if (current->times_mapped_.contains(page) && !current->allow_aliases) current->error("mapped a page twice");
    const auto reservation = current->reservations_.upper_bound(at);
    if (reservation == current->reservations_.begin() ||
        at + bytes > std::prev(reservation)->first + std::prev(reservation)->second) {
      current->error("mapped outside the reservation");
    }
    current->mappings_[at] = {page, 0};
    ++current->times_mapped_[page];
    return CUDA_SUCCESS;
  }
  static CUresult set_access(CUdeviceptr at, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
    FAKE_ENTER("cuMemSetAccess");
    for (CUdeviceptr page = at; page < at + bytes; page += FakeDriver::kPage) {
      if (!current->mappings_.contains(page)) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const CUmemAccessDesc* one = access; one < access + count; ++one) {
      const bool open = one->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      if (one->location.type != CU_MEM_LOCATION_TYPE_DEVICE || (!open && one->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE))
        current->error("access of another kind");
      const std::uint64_t device = std::uint64_t{1} << one->location.id;
      for (CUdeviceptr page = at; page < at + bytes; page += FakeDriver::kPage) {
        std::uint64_t& open_to = current->mappings_.at(page).open_to;
        open_to = open ? open_to | device : open_to & ~device;
      }
    }
    return CUDA_SUCCESS;
  }
  static CUresult unmap(CUdeviceptr at, std::size_t bytes) {
    FAKE_ENTER("cuMemUnmap");
    for (CUdeviceptr page = at; page < at + bytes; page += FakeDriver::kPage) {
      if (!current->mappings_.contains(page)) return CUDA_ERROR_INVALID_VALUE;
    }
    for (CUdeviceptr page = at; page < at + bytes; page += FakeDriver::kPage) {
      const std::uint64_t handle = current->mappings_[page].page;
      current->drop_done(current->pages_[handle]);
      for (const FakeDriver::Use& use : current->pages_[handle]) {
        if (use.page == page) current->error("unmapped a page that is in use");
      }
      if (--current->times_mapped_[handle] == 0) current->times_mapped_.erase(handle);
      current->mappings_.erase(page);
    }
    return CUDA_SUCCESS;
  }

  static CUresult stream_create(CUstream* stream, unsigned) {
    FAKE_ENTER("cuStreamCreate");
    *stream = reinterpret_cast<CUstream>(current->next_handle_++);
    current->streams_[number(*stream)];
    return CUDA_SUCCESS;
  }
  static CUresult stream_destroy(CUstream stream) {
    FAKE_ENTER("cuStreamDestroy");
    // Submitted work still runs; the handle becomes invalid, but the work is still recorded under it here.
    if (!current->streams_.contains(number(stream))) return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
  }
  static CUresult stream_synchronize(CUstream stream) {
    FAKE_ENTER("cuStreamSynchronize");
    while (!current->streams_[number(stream)].queue.empty()) {
      if (!current->step()) {
        current->error("deadlock");
        return CUDA_ERROR_UNKNOWN;
      }
    }
    return CUDA_SUCCESS;
  }
  static CUresult context_synchronize() {
    FAKE_ENTER("cuCtxSynchronize");
    current->run_all();
    return CUDA_SUCCESS;
  }
  static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
    FAKE_ENTER("cuStreamIsCapturing");
    const bool capturing = current->streams_[number(stream)].capturing;
    *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  static CUresult stream_wait(CUstream stream, CUevent event, unsigned) {
    FAKE_ENTER("cuStreamWaitEvent");
    FakeDriver::Stream& s = current->streams_[number(stream)];
    if (s.capturing) current->error("waited in a capture");
    const FakeDriver::Event& e = current->events_.at(number(event));
    FakeDriver::Item item;
    item.wait_stream = e.stream;
    item.wait_position = e.position;
    s.queue.push_back(item);
    ++s.submitted;
    return CUDA_SUCCESS;
  }

  static CUresult event_create(CUevent* event, unsigned) {
    FAKE_ENTER("cuEventCreate");
    *event = reinterpret_cast<CUevent>(current->next_handle_++);
    current->events_[number(*event)];
    return CUDA_SUCCESS;
  }
  static CUresult event_destroy(CUevent event) {
    FAKE_ENTER("cuEventDestroy");
    if (current->events_.erase(number(event)) == 0) current->error("destroyed an event twice");
    return CUDA_SUCCESS;
  }
  static CUresult record(CUevent event, CUstream stream) {
    FAKE_ENTER("cuEventRecord");
    if (current->streams_[number(stream)].capturing) current->error("recorded in a capture");
    current->events_.at(number(event)) = {number(stream), current->streams_[number(stream)].submitted};
    return CUDA_SUCCESS;
  }
  static CUresult query(CUevent event) {
    FAKE_ENTER("cuEventQuery");
    return current->complete(current->events_.at(number(event))) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  static CUresult synchronize(CUevent event) {
    FAKE_ENTER("cuEventSynchronize");
    while (!current->complete(current->events_.at(number(event)))) {
      if (!current->step()) {
        current->error("deadlock");
        return CUDA_ERROR_UNKNOWN;
      }
    }
    return CUDA_SUCCESS;
  }

  static CUresult host_allocate(void** at, std::size_t bytes, unsigned) {
    FAKE_ENTER("cuMemHostAlloc");
    if (current->on_host_allocation) current->on_host_allocation();
    if (current->host_taken_ + bytes > current->host_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *at = memory;
    current->host_[reinterpret_cast<std::uint64_t>(memory)] = bytes;
    current->host_taken_ += bytes;
    current->peak_host_taken_ = std::max(current->peak_host_taken_, current->host_taken_);
    return CUDA_SUCCESS;
  }
  static CUresult copy_to_host(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
    FAKE_ENTER("cuMemcpyDtoHAsync");
    if (!current->on_copy_to_host) return CUDA_ERROR_NOT_SUPPORTED;
    return current->on_copy_to_host(static_cast<std::byte*>(to), DeviceAddress{from}, bytes);
  }
  static CUresult host_free(void* at) {
    FAKE_ENTER("cuMemFreeHost");
    const auto found = current->host_.find(reinterpret_cast<std::uint64_t>(at));
    if (found == current->host_.end()) {
      current->error("freed host memory that is not taken");
      return CUDA_ERROR_INVALID_VALUE;
    }
    current->host_taken_ -= found->second;
    munmap(at, found->second);
    current->host_.erase(found);
    // The addresses may be reused from now on.
    if (current->on_host_free) current->on_host_free();
    return CUDA_SUCCESS;
  }
};

FakeDriver::FakeDriver(std::uint64_t seed) : random_(seed) {
  current = this;
  table_.cuCtxGetCurrent = FakeCalls::get_current;
  table_.cuCtxGetDevice = FakeCalls::get_device;
  table_.cuCtxSynchronize = FakeCalls::context_synchronize;
  table_.cuDeviceGetAttribute = FakeCalls::attribute;
  table_.cuDeviceTotalMem = FakeCalls::total;
  table_.cuMemGetAllocationGranularity = FakeCalls::granularity;
  table_.cuMemAddressReserve = FakeCalls::reserve;
  table_.cuMemAddressFree = FakeCalls::release;
  table_.cuMemCreate = FakeCalls::create;
  table_.cuMemRelease = FakeCalls::destroy;
  table_.cuMemMap = FakeCalls::map;
  table_.cuMemSetAccess = FakeCalls::set_access;
  table_.cuMemUnmap = FakeCalls::unmap;
  table_.cuStreamCreate = FakeCalls::stream_create;
  table_.cuStreamDestroy = FakeCalls::stream_destroy;
  table_.cuStreamSynchronize = FakeCalls::stream_synchronize;
  table_.cuStreamIsCapturing = FakeCalls::is_capturing;
  table_.cuStreamWaitEvent = FakeCalls::stream_wait;
  table_.cuEventCreate = FakeCalls::event_create;
  table_.cuEventDestroy = FakeCalls::event_destroy;
  table_.cuEventRecord = FakeCalls::record;
  table_.cuEventQuery = FakeCalls::query;
  table_.cuEventSynchronize = FakeCalls::synchronize;
  table_.cuMemHostAlloc = FakeCalls::host_allocate;
  table_.cuMemFreeHost = FakeCalls::host_free;
  table_.cuMemcpyDtoHAsync = FakeCalls::copy_to_host;
}

FakeDriver::~FakeDriver() {
  for (const auto& [at, bytes] : host_) munmap(reinterpret_cast<void*>(at), bytes);
  current = nullptr;
}

void FakeDriver::fail(const std::string& function, std::uint64_t n, CUresult result) {
  faults_[function][calls_[function] + n] = result;
}

std::uint64_t FakeDriver::calls(const std::string& function) const {
  const auto found = calls_.find(function);
  return found != calls_.end() ? found->second : 0;
}

std::uint64_t FakeDriver::calls() const {
  std::uint64_t sum = 0;
  for (const auto& [function, count] : calls_) sum += count;
  return sum;
}

void FakeDriver::drop_done(std::vector<Use>& uses) {
  std::erase_if(uses, [this](const Use& use) { return !running_.contains(use.work); });
}

void FakeDriver::submit(StreamHandle stream, std::uint64_t owner, DeviceAddress at, Bytes bytes) {
  Stream& s = streams_[static_cast<std::uint64_t>(stream)];
  Item item;
  item.work = next_work_++;
  running_.insert(item.work);
  std::uint64_t address = at.value;
  while (address < at.value + bytes) {
    const std::uint64_t page_begin = round_down(address, kPage);
    const Bytes begin = address - page_begin;
    const Bytes end = std::min<std::uint64_t>(kPage, at.value + bytes - page_begin);
    const auto mapping = mappings_.find(page_begin);
    if (mapping == mappings_.end() || (mapping->second.open_to & 1) == 0) {
      error("work on an address without memory");
    } else {
      std::vector<Use>& uses = pages_[mapping->second.page];
      drop_done(uses);
      for (const Use& use : uses) {
        if (use.owner != owner && use.begin < end && begin < use.end) item.follows.push_back(use.work);
      }
      uses.push_back({item.work, owner, begin, end, page_begin});
    }
    address = page_begin + kPage;
  }
  s.queue.push_back(std::move(item));
  ++s.submitted;
}

bool FakeDriver::complete(const Event& event) const {
  if (event.stream == 0 && event.position == 0) return true;
  const auto stream = streams_.find(event.stream);
  return stream == streams_.end() || stream->second.executed >= event.position;
}

bool FakeDriver::runnable(const Stream& stream) const {
  if (stream.queue.empty()) return false;
  const Item& head = stream.queue.front();
  return head.work != 0 || complete({head.wait_stream, head.wait_position});
}

void FakeDriver::run_head(std::uint64_t handle, Stream& stream) {
  const Item& head = stream.queue.front();
  for (const std::uint64_t work : head.follows) {
    if (running_.contains(work))
      error("work on stream " + std::to_string(handle) + " ran before work that it had to follow");
  }
  if (head.work != 0) running_.erase(head.work);
  stream.queue.pop_front();
  ++stream.executed;
}

bool FakeDriver::step() {
  std::vector<std::uint64_t> ready;
  for (const auto& [handle, stream] : streams_) {
    if (runnable(stream)) ready.push_back(handle);
  }
  if (ready.empty()) return false;
  const std::uint64_t handle = ready[random_() % ready.size()];
  run_head(handle, streams_[handle]);
  return true;
}

bool FakeDriver::step(StreamHandle stream) {
  const auto handle = static_cast<std::uint64_t>(stream);
  Stream& s = streams_[handle];
  if (!runnable(s)) return false;
  run_head(handle, s);
  return true;
}

void FakeDriver::run_all() {
  while (step()) {
  }
  if (!running_.empty()) error("deadlock");
}

StreamHandle FakeDriver::create_stream() {
  CUstream stream = nullptr;
  FakeCalls::stream_create(&stream, 0);
  return StreamHandle{number(stream)};
}

void FakeDriver::set_capturing(StreamHandle stream, bool capturing) {
  streams_[static_cast<std::uint64_t>(stream)].capturing = capturing;
}

std::uint64_t FakeDriver::page_behind(DeviceAddress at) const {
  const auto found = mappings_.find(round_down(at.value, kPage));
  return found != mappings_.end() ? found->second.page : 0;
}

bool FakeDriver::accessible(DeviceAddress at, int device) const {
  const auto found = mappings_.find(round_down(at.value, kPage));
  return found != mappings_.end() && (found->second.open_to >> device & 1) != 0;
}

}  // namespace thermocline
