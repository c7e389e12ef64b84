// SPDX-License-Identifier: Apache-2.0
// Memory shared between processes: by CUDA IPC handles, and by descriptors of memory that was created for export.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "sharing";
constexpr int kDescriptors = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto kPeers = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr std::size_t kWords = 1 << 18;

// A process that was forked before the driver was initialized here; it has its own driver. It runs `body` with what is
// passed to it.
class Other {
 public:
  Other(Session& session, const std::function<void(Session&, const CUipcMemHandle&)>& body) : session_(session) {
    HOLDS(pipe(ends_) == 0, "there is a pipe");
    child_ = fork();
    HOLDS(child_ >= 0, "there is another process");
    if (child_ == 0) _exit(run(body));
  }

  // Its checks must succeed.
  void pass(const CUipcMemHandle& passed) {
    Session& session = session_;
    HOLDS(write(ends_[1], &passed, sizeof passed) == sizeof passed, "the other process is there");
    int status = -1;
    waitpid(child_, &status, 0);
    HOLDS(status != 2 << 8, "the other process's driver carries it");
    HOLDS(status == 0, "the other process finds what it should");
  }

 private:
  int run(const std::function<void(Session&, const CUipcMemHandle&)>& body) {
    close(ends_[1]);
    CUipcMemHandle passed;
    if (read(ends_[0], &passed, sizeof passed) != sizeof passed) return 0;  // nothing was passed
    try {
      Session theirs(session_.driver(), [](const char*) {});
      theirs.begin(Rule{});
      body(theirs, passed);
      return 0;
    } catch (const NotSupported&) {
      return 2;
    } catch (const Disagreement&) {
      return 1;
    }
  }

  Session& session_;
  int ends_[2] = {-1, -1};
  pid_t child_ = -1;
};

CUmemGenericAllocationHandle create_exportable(Session& session) {
  CUmemAllocationProp properties = session.properties();
  properties.requestedHandleTypes = kDescriptor;
  CUmemGenericAllocationHandle handle = 0;
  OK(session.driver().cuMemCreate(&handle, session.granule(), &properties, 0));
  return handle;
}

int export_of(Session& session, CUmemGenericAllocationHandle handle) {
  int file = -1;
  OK(session.driver().cuMemExportToShareableHandle(&file, handle, kDescriptor, 0));
  return file;
}

CUdeviceptr map_file(Session& session, int file) {
  CUmemGenericAllocationHandle handle = 0;
  OK(session.driver().cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                                     kDescriptor));
  const std::size_t bytes = session.granule();
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, handle);
  session.grant(at, bytes);
  return at;
}

void read_and_add(Session& session, const CUipcMemHandle& handle) {
  CUdeviceptr at = 0;
  OK(session.driver().cuIpcOpenMemHandle(&at, handle, kPeers));
  HOLDS(session.holds(at, kWords, 41), "what was written there is read here");
  session.add(at, kWords, 1, nullptr);
  session.synchronize();
  OK(session.driver().cuIpcCloseMemHandle(at));
}

RULE(ipc_memory_is_seen_by_both, "Each process reads through the handle what the other wrote",
     "Memory Management: cuIpcGetMemHandle, cuIpcOpenMemHandle", .start = Start::kNothing) {
  Other other(session, read_and_add);
  session.begin(Rule{});
  const CUdeviceptr at = session.allocate(kWords * 4);
  OK(cu.cuMemsetD32(at, 41, kWords));
  session.synchronize();
  CUipcMemHandle handle = {};
  OK(cu.cuIpcGetMemHandle(&handle, at));
  other.pass(handle);
  HOLDS(session.holds(at, kWords, 42), "what was written there is read here");
}

void open_twice(Session& session, const CUipcMemHandle& handle) {
  CUdeviceptr first = 0, second = 0;
  OK(session.driver().cuIpcOpenMemHandle(&first, handle, kPeers));
  OK(session.driver().cuIpcOpenMemHandle(&second, handle, kPeers));
  HOLDS(first == second, "it is the same address");
  OK(session.driver().cuIpcCloseMemHandle(first));
  HOLDS(session.holds(first, kWords, 43), "it is still open");
  OK(session.driver().cuIpcCloseMemHandle(first));
  FAILS(session.driver().cuIpcCloseMemHandle(first));
}

RULE(ipc_handle_opens_to_one_address,
     "A handle that is opened again gives the same address, until it has been closed as often",
     "Memory Management: cuIpcOpenMemHandle, cuIpcCloseMemHandle", .start = Start::kNothing) {
  Other other(session, open_twice);
  session.begin(Rule{});
  const CUdeviceptr at = session.allocate(kWords * 4);
  OK(cu.cuMemsetD32(at, 43, kWords));
  session.synchronize();
  CUipcMemHandle handle = {};
  OK(cu.cuIpcGetMemHandle(&handle, at));
  other.pass(handle);
}

RULE(ipc_handle_flags_are_checked, "A handle is opened with the one flag that there is",
     "Memory Management: cuIpcOpenMemHandle", .open = "which error") {
  CUipcMemHandle handle = {};
  OK(cu.cuIpcGetMemHandle(&handle, session.allocate(kWords * 4)));
  CUdeviceptr at = 0;
  FAILS(cu.cuIpcOpenMemHandle(&at, handle, 6));
}

RULE(ipc_opens_in_another_process, "The process that made a handle cannot open it",
     "Memory Management: cuIpcOpenMemHandle (\"exported from another process\")", .open = "which error") {
  CUipcMemHandle handle = {};
  OK(cu.cuIpcGetMemHandle(&handle, session.allocate(kWords * 4)));
  CUdeviceptr at = 0;
  FAILS(cu.cuIpcOpenMemHandle(&at, handle, kPeers));
}

RULE(ipc_is_not_for_mapped_memory, "Memory that the program mapped has no handle of CUDA IPC",
     "Memory Management: cuIpcGetMemHandle (\"created with cuMemAlloc\")", .open = "which error",
     .needs = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
  CUipcMemHandle handle = {};
  FAILS(cu.cuIpcGetMemHandle(&handle, session.mapped(session.granule())));
}

RULE(ipc_is_not_for_pools, "Memory of a pool has no handle of CUDA IPC",
     "Memory Management: cuIpcGetMemHandle (\"created with cuMemAlloc\")", .open = "which error",
     .needs = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) {
  CUdeviceptr at = 0;
  OK(cu.cuMemAllocAsync(&at, kWords * 4, nullptr));
  session.synchronize();
  CUipcMemHandle handle = {};
  FAILS(cu.cuIpcGetMemHandle(&handle, at));
}

RULE(import_is_the_same_memory, "Imported memory is the memory that was exported",
     "Virtual Memory Management: cuMemExportToShareableHandle, cuMemImportFromShareableHandle", .needs = kDescriptors) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = create_exportable(session);
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, handle);
  session.grant(at, bytes);
  session.write(at, {5, 6});
  session.synchronize();
  const CUdeviceptr again = map_file(session, export_of(session, handle));
  HOLDS(session.read(again, 2) == (std::vector<std::uint32_t>{5, 6}), "it is the same memory");
}

RULE(export_is_asked_for, "Memory that was not created as exportable cannot be exported",
     "Virtual Memory Management: cuMemCreate", .open = "which error", .needs = kDescriptors) {
  int file = -1;
  FAILS(cu.cuMemExportToShareableHandle(&file, session.create(session.granule()), kDescriptor, 0));
}

RULE(export_flags_are_zero, "Flags other than 0 are refused", "Virtual Memory Management: cuMemExportToShareableHandle",
     .needs = kDescriptors) {
  int file = -1;
  ANSWERS(cu.cuMemExportToShareableHandle(&file, create_exportable(session), kDescriptor, 1), CUDA_ERROR_INVALID_VALUE);
}

RULE(descriptor_keeps_the_memory, "A descriptor keeps its memory when handles and mappings are gone",
     "Virtual Memory Management: cuMemExportToShareableHandle", .needs = kDescriptors) {
  const std::size_t bytes = session.granule();
  const CUmemGenericAllocationHandle handle = create_exportable(session);
  const CUdeviceptr at = session.reserve(bytes);
  session.map(at, bytes, handle);
  session.grant(at, bytes);
  session.write(at, {7, 8});
  session.synchronize();
  const int file = export_of(session, handle);
  OK(cu.cuMemUnmap(at, bytes));
  OK(cu.cuMemRelease(handle));
  const CUdeviceptr again = map_file(session, file);
  HOLDS(session.read(again, 2) == (std::vector<std::uint32_t>{7, 8}), "the memory is as it was");
}

}  // namespace
}  // namespace conformance
