// SPDX-License-Identifier: Apache-2.0
#include "driver/assumptions.h"

namespace thermocline {
namespace {

constexpr Assumption kTable[] = {
    {"virtual_memory", "the device supports virtual memory management: address reservations, handles and mappings",
     "CUDA driver API, cuDeviceGetAttribute: CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED. Missing on "
     "vGPU profiles (dmlc/xgboost#12217) and WSL (NVIDIA/cuda-python#1127)",
     "supports it", "virtual_memory=off", "no engine can be created: nothing can be evicted", "", "",
     "the attribute answers it: read when an engine is created, and by doctor --gpu",
     "said once and counted (unmappable_devices); buffers are the driver's own allocations, which are cached when they "
     "are freed, and the budget refuses more of them; with strict = true allocations fail"},
    {"remap", "a handle keeps its contents while it is not mapped",
     "cuda.h 13.0, cuMemRelease: freed when all mappings are unmapped and all references are released", "keeps them",
     "remap=forgets", "wrong bytes",
     "handle_keeps_contents mapping_outlives_handle unmapped_addresses_map_again address_changes_its_place "
     "alias_two_handles_change_places",
     "remap", "", "the program runs without the library"},
    {"alias",
     "two mappings of a handle show the same memory: later work that is ordered reads through one what was written "
     "through the other",
     "Programming Guide, Virtual Aliasing Support: consistent between ordered kernels and copies, not within one",
     "same memory", "alias=off alias=apart",
     "a page that gets a new owner while its old mapping exists shows other bytes",
     "alias_shows_copies alias_shows_sets alias_shows_kernels_in_a_stream alias_across_streams "
     "alias_two_handles_change_places alias_goes_alone alias_within_a_reservation alias_access_is_each_mappings_own "
     "alias_takes_memory_once alias_copy_onto_itself retained_handle_is_whole import_is_the_same_memory",
     "alias", "",
     "a page gets a new owner only when nothing uses it; safety = strict, host_fallback = off and recompute = off"},
    {"alias_count", "a handle can have any number of mappings", "documentation is silent", "any number", "",
     "cuMemMap is refused for a page that several buffers share", "", "",
     "a limit could be at any number, and shows as a refused cuMemMap",
     "the mapping is undone; the operation gets other pages, waits, or is out of memory"},
    {"alias_memory", "a second mapping of a handle takes no device memory",
     "documentation is silent; page tables need memory somewhere", "takes none", "", "less fits than the budget counts",
     "alias_takes_memory_once mapping_takes_no_memory", "", "",
     "a refused handle counts as a full device; without a budget a 64th of the device stays free"},
    {"page_tables", "mappings and reservations take no device memory that cuMemGetInfo does not report as taken",
     "documentation is silent; a page table has an entry for each page, somewhere", "take none", "handle_bytes=64KiB",
     "less fits than the budget counts", "mapping_takes_no_memory reserve_takes_no_memory", "", "",
     "without a budget a 64th of the device stays free; a refused handle counts as a full device"},
    {"unmap_whole", "a mapping is unmapped as a whole: no page of the library is part of a larger mapping",
     "CUDA driver API, cuMemUnmap: the range of whole cuMemMap calls", "refuses a part", "",
     "nothing: each page has a mapping of its own, so that one may go and its neighbors stay", "unmap_of_a_part_fails",
     "", "", "none needed: the library unmaps whole mappings"},
    {"unmap_runs", "one cuMemUnmap call unmaps several adjacent mappings",
     "cuda.h 13.0, cuMemUnmap: \"the entire contiguous address range that was mapped to\"; read both ways in "
     "intel/llvm#8954; AMD's driver had a defect there (ROCm/ROCR-Runtime#285)",
     "accepts them", "unmap=one", "pages cannot be unmapped: out of memory",
     "unmap_of_neighbours unmap_of_a_part_fails", "unmap_runs", "", "one call per page"},
    {"unmap_in_flight", "cuMemUnmap does not protect work in flight: the library waits for all users first",
     "cuda.h 13.0, cuMemUnmap: may exhibit synchronous behavior; Xid 31 where a program relied on that "
     "(vllm-project/vllm#45615)",
     "unmaps at once; the race checker reports work in flight", "unmap=waits",
     "if cuMemUnmap waits for the whole device: as mapping_waits, which probes it, too",
     "kernel_at_unmapped_address_faults", "", "",
     "each unmap is behind an event of every stream that used the addresses"},
    {"mapping_waits", "cuMemMap, cuMemSetAccess and cuMemUnmap do not wait for the device",
     "cuda.h 13.0, cuMemSetAccess: may exhibit synchronous behavior; PyTorch, c10/cuda/CUDACachingAllocator.cpp, "
     "note on expandable segments: mapping synchronizes to some degree",
     "do not wait", "map=waits unmap=waits",
     "the host waits where a plan lets it run ahead; without the fallback, programs that block streams by values hang, "
     "because the value may be written by the thread that waits, or by one that needs a lock of the library",
     "", "mapping_waits", "",
     "not at the start, when no work is in flight, but before the program first blocks a stream by a value or a host "
     "function. Where they wait, nothing is mapped while a stream is blocked: what needs it waits without a lock, and "
     "is "
     "refused after ten seconds (out of memory); no engine begins any more; a plan in its steady state maps nothing"},
    {"access_part", "cuMemSetAccess is never given a part of a mapping",
     "cuda.h 13.0, cuMemSetAccess: \"a fully mapped address range containing all allocations\"; whether a part is "
     "accepted "
     "is left open",
     "accepts a part", "", "nothing: ranges begin and end with pages of the library, and each page is a mapping",
     "set_access_of_a_part set_access_needs_whole_range_mapped", "", "",
     "none needed: the library names whole mappings"},
    {"access_runs", "one cuMemSetAccess call covers several adjacent mappings",
     "cuda.h 13.0, cuMemSetAccess: \"a fully mapped address range containing all allocations\"; PyTorch's expandable "
     "segments rely on it",
     "accepts them", "access=one", "mapped memory stays inaccessible: out of memory",
     "set_access_over_neighbours set_access_needs_whole_range_mapped unmap_of_neighbours", "access_runs", "",
     "one call per page"},
    {"access_again", "a new mapping has no access, whatever access the address had before",
     "cuda.h 13.0, cuMemUnmap: all mappings start with no accessibility", "has none", "",
     "nothing: access is set after each mapping",
     "map_starts_without_access access_ends_with_mapping alias_access_is_each_mappings_own", "", "",
     "access is set after each mapping"},
    {"access_revoked", "access can be revoked while the mapping stays",
     "cuda.h 13.0, CU_MEM_ACCESS_FLAGS_PROT_NONE; silent about work in flight", "is revoked", "",
     "an audit (run --audit) does not catch an unknown access", "alias_access_is_each_mappings_own", "", "",
     "counted (left_open), and reported at the end of the audit"},
    {"mapping_cost",
     "giving access to a mapping and unmapping it take tens of microseconds for each mapping in the call, whatever its "
     "size; creating a handle takes ten to hundreds",
     "bench/results/gpu-nvidia-h200.json (H200); kvcached, benchmarks/bench_vmm/README.md (A100)",
     "as the profile says", "", "plans move more than is worth it; bits stay the same", "", "",
     "a duration, not a yes or no: section probe of ./dev gpu measures each call",
     "commands that take a device also take the measured profile"},
    {"granularity", "sizes of handles and addresses are multiples of the granularity that the driver reports",
     "cuda.h 13.0, cuMemGetAllocationGranularity; 2 MiB on present devices (PyTorch's note); NVSHMEM asks for 512 MiB",
     "2 MiB", "granularity=4MiB granularity=32MiB", "sizes are refused",
     "granularity_is_sane create_rejects_size_off_granularity map_address_is_aligned", "", "",
     "the page size is a multiple of what the driver reports"},
    {"reservation", "a terabyte of addresses can be reserved and takes no memory",
     "cuda.h 13.0, cuMemAddressReserve: names no limit; WSL refused 32 GiB (withcatai/node-llama-cpp#610); 48-bit "
     "address spaces ran out in pytorch/pytorch#192269",
     "can be reserved", "address_bits=36", "no engine can be created",
     "reserve_takes_no_memory reserve_keeps_alignment", "", "",
     "the size is halved until the driver accepts it, down to the budget, and half of that is left to the program; "
     "below the budget the program runs without the library"},
    {"reservation_host", "limits of the host (ulimit -v, page tables, cgroups) allow such a reservation",
     "documentation is silent", "reserves with mmap, without access, so ulimit -v can refuse it", "address_bits=36",
     "as reservation", "", "", "the reservation itself is the check, and comes before anything relies on it",
     "as reservation"},
    {"address_width", "no host pointer lies in a reservation, in 47-bit and in 57-bit address spaces",
     "Programming Guide, Unified Virtual Addressing: one address space", "47 bits", "",
     "a host pointer is taken for a buffer's address: a needless access, or a wrong direction of a copy",
     "pageable_memory_is_unknown unified_copy_finds_the_direction", "", "",
     "addresses are compared with the reservation's range only, whatever its width"},
    {"handle_count", "as many handles can be created as the device has pages (40,960 on 80 GiB)",
     "documentation is silent", "any number", "handles=12", "handles are refused before memory is full", "", "",
     "only creating them all would show it",
     "a refused handle counts as a full device: the library uses the handles that it has and tries again now and then"},
    {"handle_books", "a handle takes no more device memory than its size", "documentation is silent", "takes its size",
     "handle_bytes=64KiB", "the device is full before the budget is", "create_takes_memory", "", "",
     "a refused handle counts as a full device; without a budget a 64th of the device stays free"},
    {"handle_release", "memory is free as soon as all mappings and references of a handle are gone, and not before",
     "cuda.h 13.0, cuMemRelease; a forgotten reference kept 4 GiB (NVIDIA/cuda-python#2882)", "frees it then", "",
     "memory that the library returned stays occupied",
     "mapping_outlives_handle create_takes_memory retain_gives_the_same_handle", "", "",
     "a handle whose release is refused still counts as held"},
    {"host_memory", "host memory can be created as a handle, mapped for the device and read by the host",
     "cuda.h 13.0, cuMemCreate: CU_MEM_LOCATION_TYPE_HOST, HOST_NUMA; NCCL uses it since driver 12.2 "
     "(src/allocator.cc); not readable before access is set (open-mpi/ompi#12751)",
     "can be", "host_mapping=off", "an unknown access to evicted memory is an illegal address",
     "host_memory_is_worked_on address_changes_its_place host_handle_ignores_the_number", "host_memory", "",
     "host copies are in ordinary pinned memory; evicted addresses have no host mapping (counted, unmapped_evictions)"},
    {"host_memory_numa", "a handle can be created on the NUMA node that the driver reports for the device",
     "cuda.h 13.0, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID; NVIDIA/nccl#2106; containers that block get_mempolicy", "one node",
     "", "as host_memory", "current_node_is_no_place", "host_memory", "", "as host_memory"},
    {"peer_mapping", "cuMemSetAccess gives another device access to mapped memory",
     "CUDA driver API, cuMemSetAccess; cudaEnablePeerAccess does not (PyTorch's note on expandable segments)",
     "gives access", "", "an illegal address for a kernel of the other device",
     "access_reaches_the_other_device access_is_of_one_device", "", "",
     "the call that enables peer access returns the driver's error"},
};

}  // namespace

std::span<const Assumption> assumptions_of_mapping() { return kTable; }

}  // namespace thermocline
