// SPDX-License-Identifier: Apache-2.0
// The state of the driver API besides the machine: the objects behind its handles, and what programs may query about
// memory. Guarded by the machine's lock, like everything in this folder.
//
// Invariants: every function belongs to a live module; a kernel to a live library, and to the function of that
// library's module; `allocations` contains what cuMemAlloc and similar calls returned and has not been freed, by
// address.
#pragma once

#include "simulator/cuda/api.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulator/core/machine/machine.h"
#include "simulator/cuda/registry.h"
#include "simulator/image/image.h"

struct CUarray_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;

namespace simulator::cuda {

struct Capture;
class PtxModule;
struct GraphBlock;
struct GraphMemory;

// The position of a stream, or of an event recorded in it, in a capture (capture.h).
struct Captured {
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> behind;
  bool is_blocking = false;  // for a stream: synchronizes with the legacy stream
};

}  // namespace simulator::cuda

struct CUctx_st {
  simulator::DeviceId device = 0;
  unsigned flags = 0;
  unsigned version = 0;
  unsigned long long id = 0;
  bool is_primary = false;
  bool is_active = true;         // false: a primary context that nobody retains
  CUcontext green_of = nullptr;  // a green context: the primary one, whose memory and modules it uses
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
  std::map<CUlimit, std::size_t> limits;
  // The heap for malloc in kernels; 0 until a kernel needs it.
  simulator::Address heap = 0;
  simulator::Bytes heap_bytes = 0;
  unsigned long long heap_generation = 0;
  std::set<CUcontext> peers;  // contexts whose allocations it may access
};

struct CUstream_st {
  simulator::StreamId id = 0;
  CUcontext context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::map<int, CUstreamAttrValue> attributes;
};

struct CUevent_st {
  simulator::EventId id = 0;
  simulator::DeviceId device = 0;
  CUcontext context = nullptr;
  unsigned flags = 0;
  simulator::cuda::Captured captured;  // if its newest record was made in a capture
};

struct CUmod_st {
  simulator::DeviceId device = 0;
  CUcontext context = nullptr;
  unsigned long long id = 0;
  std::map<std::string, CUfunction, std::less<>> functions;
  struct Variable {
    simulator::Address address = 0;
    simulator::Bytes bytes = 0;
    bool managed = false;
    bool is_borrowed = false;  // a managed variable, owned by the library's module on its first device
  };
  std::map<std::string, Variable, std::less<>> variables;
  std::shared_ptr<const std::string> text;           // PTX of its image; nullptr: none
  std::shared_ptr<simulator::cuda::PtxModule> code;  // made from it when a kernel is first launched
};

struct CUfunc_st {
  CUmodule module = nullptr;
  simulator::ImageKernel kernel;
  std::map<int, int> attributes;  // the attributes that were set
  simulator::Address code = 0;    // where it was loaded lazily; 0: not yet
  bool is_resolved = false;       // `function` has been looked for
  simulator::KernelFunction function = nullptr;
  std::shared_ptr<const simulator::RealKernel> real;  // its code; nullptr until it has been looked up
  std::shared_ptr<const std::vector<simulator::CountedByte>> counted;
  std::uint32_t architecture = 0;  // of its image
  bool is_ptx = false;
};

struct CUlib_st {
  CUmodule module = nullptr;  // on the device where it was loaded
  std::map<std::string, CUkernel, std::less<>> kernels;
  simulator::Image image;                          // from which it is loaded on other devices and in later contexts
  std::map<simulator::DeviceId, CUmodule> others;  // loaded when first needed
};

struct CUlinkState_st {
  std::vector<std::string> texts;  // PTX of the inputs
  std::string linked;              // the result of cuLinkComplete points here
  bool is_complete = false;
  char* errors = nullptr;  // the program's
  std::size_t error_bytes = 0;
};

struct CUkern_st {
  CUlibrary library = nullptr;
  CUfunction function = nullptr;
};

struct CUmemPoolHandle_st {
  CUmemPoolProps properties{};
  std::size_t heap = 0;       // the machine's heap that its memory comes from
  bool is_destroyed = false;  // kept until its memory is freed
  std::map<int, cuuint64_t> attributes;
  simulator::Bytes used = 0;  // requested bytes
  simulator::Bytes peak_used = 0;
  simulator::Bytes blocks = 0;         // size of the blocks in use
  simulator::Bytes peak_reserved = 0;  // of blocks and kept_bytes together
  // Blocks that were freed and are kept, by size (pool_cache.h). `kept_bytes` is the sum of their sizes.
  struct Kept {
    simulator::Address address = 0;
    simulator::OperationId freed = 0;           // the operation of the free in its stream
    std::optional<simulator::StreamId> stream;  // the stream that may reuse it before then; none once it is destroyed
  };
  std::multimap<simulator::Bytes, Kept> kept;
  simulator::Bytes kept_bytes = 0;
};

// A heap that somebody registered through NVTX (nvtx_memory.cc).
struct nvtxMemHeap_v1 {  // NOLINT(readability-identifier-naming): NVTX's name
  simulator::Address begin = 0;
  simulator::Bytes bytes = 0;
};

namespace simulator::cuda {

// kOpened: another process's memory (ipc.cc); kGraph: of an allocation node, live or not (graph_memory.h)
enum class AllocationKind { kDevice, kPool, kManaged, kOpened, kGraph };

struct Allocation {
  Bytes bytes = 0;  // requested
  AllocationKind kind = AllocationKind::kDevice;
  unsigned long long id = 0;
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  bool sync_memops = false;
  Bytes block_bytes = 0;  // size of the pool's block
};

// A texture object, or a surface object.
struct TextureObject {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  bool is_surface = false;
  CUcontext context = nullptr;
};

// Memory of another process that was opened here by its handle (ipc.cc).
struct Opened {
  CUipcMemHandle handle{};
  unsigned users = 0;
  Address pages = 0;  // the mapped and reserved range
  Bytes bytes = 0;
};

// Not inline: graphs are complete types in few files.
struct State {
  State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();

  Registry<CUctx_st> contexts;
  Registry<CUstream_st> streams;
  Registry<CUevent_st> events;
  Registry<CUmod_st> modules;
  Registry<CUfunc_st> functions;
  Registry<CUlib_st> libraries;
  Registry<CUlinkState_st> links;
  Registry<CUkern_st> kernels;
  Registry<CUmemPoolHandle_st> pools;
  Registry<CUarray_st> arrays;
  Registry<CUgraph_st> graphs;
  Registry<CUgraphNode_st> graph_nodes;
  Registry<CUgraphExec_st> graph_execs;
  std::map<StreamId, Captured> capturing;
  std::map<Address, std::shared_ptr<GraphMemory>> graph_memory;
  std::vector<std::shared_ptr<GraphBlock>> graph_blocks;

  struct OfDevice {
    CUcontext primary = nullptr;  // created on first use, then kept
    unsigned primary_users = 0;
    CUmemoryPool default_pool = nullptr;
    CUmemoryPool current_pool = nullptr;
    Bytes graph_used_peak = 0, graph_reserved_peak = 0;
  };
  std::array<OfDevice, kMostDevices> devices;

  std::map<Address, Allocation> allocations;
  std::map<Address, unsigned> host_flags;  // of cuMemHostAlloc and cuMemHostRegister
  std::unordered_map<PhysicalId, CUmemAllocationProp> physical;
  std::map<unsigned long long, TextureObject> textures;
  std::map<Address, Opened> opened;         // memory of other processes, by the address returned for the handle
  std::map<Address, Bytes> mapped_buffers;  // the program's own mappings that are registered as buffers
  std::map<std::pair<unsigned long long, CUcontext>, StreamId> thread_streams;
  std::unordered_map<StreamId, unsigned long long> stream_numbers;  // of streams whose number was queried
  Registry<nvtxMemHeap_v1> nvtx_heaps;
  std::map<Address, nvtxMemHeap_v1*> nvtx_regions;  // by address, with their heap
  unsigned long long next_id = 1;                   // of contexts, modules, allocations and streams

  unsigned long long number_of(StreamId stream);

  // The allocation that contains the address, or nothing.
  const std::pair<const Address, Allocation>* allocation_at(Address at) const;
};

State& state();

// Resets everything, as the machine does when it is reset. Earlier handles become invalid.
void reset_state();

// The context stack of the calling thread, the newest last. No destructor: other libraries' destructors may still call
// the driver.
struct ThreadContexts {
  static constexpr unsigned kMost = 64;
  CUcontext stack[kMost];
  unsigned depth;
};
ThreadContexts& thread_contexts();

// A unique number of the calling thread; not 0.
unsigned long long thread_number();

}  // namespace simulator::cuda
