// SPDX-License-Identifier: Apache-2.0
// Memory that the program creates, exports and maps itself; a child that was forked before imports it by the
// descriptor.
#include "tests/preload/programs/small.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const CUmemAllocationHandleType kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static void send_file(int to, int file) {
  char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {0};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  memcpy(CMSG_DATA(header), &file, sizeof file);
  if (sendmsg(to, &message, 0) != 1) exit(3);
}

static int receive_file(int from) {
  char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {0};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  if (recvmsg(from, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == NULL) exit(3);
  int file = -1;
  memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
  return file;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle) {
  CUmemAccessDesc access = {0};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr at = 0;
  CHECK(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
  CHECK(cuMemMap(at, BYTES, 0, handle, 0));
  CHECK(cuMemSetAccess(at, BYTES, &access, 1));
  CHECK(cuMemRelease(handle));
  return at;
}

static CUdeviceptr map_file(int file) {
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemImportFromShareableHandle(&handle, (void*)(uintptr_t)file, kDescriptor));
  if (close(file) != 0) exit(3);
  return map(handle);
}

static void unmap(CUdeviceptr at) {
  CHECK(cuCtxSynchronize());
  CHECK(cuMemUnmap(at, BYTES));
  CHECK(cuMemAddressFree(at, BYTES));
}

static int child(int from) {
  const int file = receive_file(from);
  begin();
  make_buffers();
  const CUdeviceptr shared = map_file(file);
  mix_all(NULL);
  mix_on(NULL, shared, buffers[5]);
  unmap(shared);
  free_buffers();
  end();
  return 0;
}

int main(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 3;
  const pid_t other = fork();
  close(ends[other == 0 ? 0 : 1]);  // so that each sees when the other has ended
  if (other == 0) return child(ends[1]);
  begin();
  make_buffers();
  CUmemAllocationProp properties = {0};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = kDescriptor;
  CUmemGenericAllocationHandle handle = 0;
  int file = -1;
  CHECK(cuMemCreate(&handle, BYTES, &properties, 0));
  CHECK(cuMemExportToShareableHandle(&file, handle, kDescriptor, 0));
  const CUdeviceptr shared = map(handle);
  fill(shared, BYTES, 77);
  mix_on(NULL, shared, buffers[0]);
  CHECK(cuCtxSynchronize());
  send_file(ends[0], file);
  int status = 0;
  if (waitpid(other, &status, 0) != other || status != 0) return 3;
  show("shared", shared, BYTES);
  // In the process that created it, at a second address.
  const CUdeviceptr again = map_file(file);
  mix_on(NULL, buffers[4], again);
  mix_all(NULL);
  unmap(again);
  unmap(shared);
  return finish();
}
