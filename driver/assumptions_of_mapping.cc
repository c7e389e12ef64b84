// SPDX-License-Identifier: Apache-2.0
#include "driver/assumptions.h"

namespace thermocline {
namespace {

constexpr Assumption kTable[] = {
    {"virtual_memory", "the device has virtual memory management: addresses, handles and mappings",
     "CUDA driver API, cuDeviceGetAttribute: CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED. Without it: vGPU "
     "profiles (dmlc/xgboost#12217), WSL (NVIDIA/cuda-python#1127)",
     "has it", "virtual_memory=off", "no engine can begin", "", "",
     "asked by its attribute, when an engine begins and by doctor",
     "said once; the program runs as without the library, with no budget and no statistics; strict refuses"},
    {"remap", "a handle keeps its contents while no address leads to it",
     "cuda.h 13.0, cuMemRelease: freed when all mappings are unmapped and all references released", "keeps them",
     "remap=forgets", "wrong bytes", "handle_keeps_contents mapping_outlives_handle unmapped_addresses_map_again",
     "remap", "", "the program runs without the library"},
    {"alias",
     "a handle behind several addresses is one memory: what was written through one is read through another "
     "by later work",
     "Programming Guide, Virtual Aliasing Support: consistent between kernels and copies that are ordered; not within "
     "one",
     "one memory", "alias=off alias=apart", "a freed page that serves another owner at once holds other bytes",
     "alias_shows_copies alias_shows_sets alias_shows_kernels_in_a_stream alias_across_streams "
     "alias_two_handles_change_places alias_goes_alone",
     "alias", "",
     "pages change hands only when nothing uses them; safety is strict; no host fallback; nothing is recomputed"},
    {"alias_count", "a handle may be behind any number of addresses", "documentation is silent", "any number", "",
     "a mapping is refused in a plan that shares pages", "", "",
     "a limit would show as a refused cuMemMap, at any number",
     "the mapping is undone; the operation gets other pages, waits, or is out of memory"},
    {"alias_memory", "a second mapping of a handle takes no memory of the device",
     "documentation is silent; page tables have to lie somewhere", "takes none", "", "less fits than was counted on",
     "alias_takes_memory_once mapping_takes_no_memory", "", "",
     "what can not be created is known from then on; without a budget a 64th of the device stays free"},
    {"unmap_runs", "one cuMemUnmap takes several whole mappings that lie side by side",
     "cuda.h 13.0, cuMemUnmap: \"the entire contiguous address range that was mapped to\"; read both ways in "
     "intel/llvm#8954; AMD's driver erred there (ROCm/ROCR-Runtime#285)",
     "takes them", "unmap=one", "pages can not be taken back: out of memory",
     "unmap_of_neighbours unmap_of_a_part_fails", "unmap_runs", "", "a call for each page"},
    {"unmap_in_flight", "cuMemUnmap protects nobody: what may still use the addresses is waited for first",
     "cuda.h 13.0, cuMemUnmap: may exhibit synchronous behaviour; Xid 31 where that was relied on "
     "(vllm-project/vllm#45615)",
     "unmaps at once; the race checker reports what is in flight", "unmap=waits",
     "where it waits for all of the device: as for mapping_waits", "kernel_at_unmapped_address_faults", "", "",
     "every unmapping is behind an event of each stream that was seen to use it"},
    {"mapping_waits", "cuMemMap and cuMemSetAccess do not wait for the device",
     "cuda.h 13.0, cuMemSetAccess: may exhibit synchronous behaviour; PyTorch, c10/cuda/CUDACachingAllocator.cpp, note "
     "on "
     "expandable segments: mapping has some synchronous action",
     "they do not wait", "map=waits",
     "the host waits where a plan counts on it running ahead; where a stream stands behind what another thread "
     "releases, "
     "and that thread needs a lock of ours, a deadlock (found by random programs under map=waits and unmap=waits)",
     "", "", "a wait shows against work in flight only, which no engine has when it begins; ./dev gpu measures it",
     "steady plans map nothing; what can not run ahead is measured and planned for"},
    {"access_runs", "one cuMemSetAccess takes several mappings that lie side by side",
     "cuda.h 13.0, cuMemSetAccess: \"a fully mapped address range containing all allocations\"; PyTorch's expandable "
     "segments rely on it",
     "takes them", "access=one", "mapped memory stays inaccessible: out of memory",
     "set_access_over_neighbours set_access_needs_whole_range_mapped", "access_runs", "", "a call for each page"},
    {"access_again", "a new mapping has no access, whatever the address had before",
     "cuda.h 13.0, cuMemUnmap: all mappings start with no accessibility", "none", "",
     "nothing: access is given after each mapping",
     "map_starts_without_access access_ends_with_mapping alias_access_is_each_mappings_own", "", "",
     "access is given after each mapping"},
    {"access_revoked", "access that was given can be taken away while the mapping stays",
     "cuda.h 13.0, CU_MEM_ACCESS_FLAGS_PROT_NONE; whether it holds for work in flight the documentation is silent",
     "is taken away", "", "an audit (run --audit) lets an operation into what it is not known to access",
     "alias_access_is_each_mappings_own", "", "", "counted (left_open), and said at the end of the audit"},
    {"mapping_cost", "mapping costs tens of microseconds a call, creating a handle hundreds",
     "kvcached, benchmarks/bench_vmm/README.md (A100); GMLake and vAttention as quoted there", "as the profile says",
     "", "plans that move more than is worth it; bits stay right", "", "",
     "a time, and no answer: ./dev gpu measures each call (section probe)",
     "the measured profile is taken wherever a device can be named"},
    {"granularity", "handles and addresses come in multiples of one size, which is asked for",
     "cuda.h 13.0, cuMemGetAllocationGranularity; 2 MiB on present devices (PyTorch's note), 512 MiB asked for by "
     "NVSHMEM",
     "2 MiB", "granularity=4MiB granularity=32MiB", "refused sizes",
     "granularity_is_sane create_rejects_size_off_granularity map_address_is_aligned", "", "",
     "a page is as large as the driver says"},
    {"reservation", "a terabyte of addresses can be reserved, and takes no memory",
     "cuda.h 13.0, cuMemAddressReserve: no limit is given; WSL refused 32 GiB (withcatai/node-llama-cpp#610); 48-bit "
     "spaces "
     "ran out in pytorch/pytorch#192269",
     "can be", "address_bits=36", "no engine can begin", "reserve_takes_no_memory reserve_keeps_alignment", "", "",
     "half as much each time, down to the budget, and half of what could be had is left to the program; below the "
     "budget it runs "
     "without the library"},
    {"reservation_host", "the host's own limits (ulimit -v, page tables, cgroups) bear such a reservation",
     "documentation is silent", "reserves by mmap without access, so that ulimit -v refuses it", "address_bits=36",
     "as above", "", "", "the reservation itself is the question, and has its answer before anything relies on it",
     "as above"},
    {"address_width", "addresses of a reservation collide with no host pointer, in address spaces of 47 and of 57 bits",
     "Programming Guide, Unified Virtual Addressing: one address space", "47 bits", "",
     "a host pointer that is taken for a buffer's address: a needless access, or a wrong direction of a copy",
     "pageable_memory_is_unknown unified_copy_finds_the_direction", "", "",
     "words are compared with the range of the reservation alone, whatever its width"},
    {"handle_count", "as many handles can be created as the device has pages (40,960 on 80 GiB)",
     "documentation is silent", "any number", "handles=12", "handles are refused before the memory is used up", "", "",
     "only creating them all would tell",
     "a refused handle is taken for a full device: what there is serves, and the driver is asked again now and then"},
    {"handle_books", "a handle takes no more of the device than its size", "documentation is silent", "takes its size",
     "handle_bytes=64KiB", "the device is full before the budget is", "create_takes_memory", "", "",
     "as for handle_count; without a budget a 64th of the device stays free"},
    {"handle_release", "memory returns when all mappings and references of a handle are gone, and not before",
     "cuda.h 13.0, cuMemRelease; a forgotten reference kept 4 GiB (NVIDIA/cuda-python#2882)", "the same", "",
     "what is given back to the driver stays taken",
     "mapping_outlives_handle create_takes_memory retain_gives_the_same_handle", "", "",
     "what the driver does not take back is not counted as given"},
    {"host_memory", "memory of the host can be created as handles, mapped for the device and read by the host",
     "cuda.h 13.0, cuMemCreate: CU_MEM_LOCATION_TYPE_HOST, HOST_NUMA; used by NCCL (src/allocator.cc) since driver "
     "12.2; "
     "not readable before access is given (open-mpi/ompi#12751)",
     "can be", "host_mapping=off", "an access that nobody saw meets nothing: an illegal address",
     "host_memory_is_worked_on address_changes_its_place host_handle_ignores_the_number", "host_memory", "",
     "ordinary pinned memory; evicted addresses lead nowhere (unmapped_evictions)"},
    {"host_memory_numa", "a handle on the node that the driver names for the device can be created",
     "cuda.h 13.0, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID; NVIDIA/nccl#2106; containers that block get_mempolicy", "one node",
     "", "as above", "current_node_is_no_place", "host_memory", "", "as above"},
    {"peer_mapping", "cuMemSetAccess opens mapped memory to another device",
     "CUDA driver API, cuMemSetAccess; cudaEnablePeerAccess does not (PyTorch's note on expandable segments)",
     "opens it", "", "a kernel of the other device meets an illegal address",
     "access_reaches_the_other_device access_is_of_one_device", "", "",
     "the driver's error is the program's, at the call that asked for peer access"},
};

}  // namespace

std::span<const Assumption> assumptions_of_mapping() { return kTable; }

}  // namespace thermocline
