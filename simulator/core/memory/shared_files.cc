// SPDX-License-Identifier: Apache-2.0
#include "simulator/core/memory/shared_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace simulator {
namespace {

std::optional<struct stat> look_at(int file) {
  struct stat facts {};
  if (file < 0 || fstat(file, &facts) != 0) return std::nullopt;
  return facts;
}

}  // namespace

SharedFiles::~SharedFiles() {
  for (const auto& [first, shared] : runs_) close(shared.file);
}

CUresult SharedFiles::share(PhysicalId id) {
  const PageRun run = *physical_.find(id);
  const int file = memfd_create("simulated-device-shared", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (ftruncate(file, static_cast<off_t>(run.bytes())) != 0) {
    close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // If contents are tags, the file serves only as an identity.
  static_cast<void>(contents_.adopt(run, file, 0));
  runs_[run.first] = {id, file, look_at(file)->st_ino};
  return CUDA_SUCCESS;
}

int SharedFiles::file_of(PhysicalId id) const {
  const PageRun* const run = physical_.find(id);
  if (run == nullptr) return -1;
  const auto found = runs_.find(run->first);
  return found == runs_.end() || found->second.id != id ? -1 : found->second.file;
}

CUresult SharedFiles::import(int file, PhysicalId* out, DeviceId device) {
  const auto facts = look_at(file);
  // Only memory files have seals.
  if (!facts || facts->st_size <= 0 || static_cast<Bytes>(facts->st_size) % kPageBytes != 0 ||
      fcntl(file, F_GET_SEALS) < 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [first, shared] : runs_) {
    if (shared.inode != facts->st_ino) continue;
    *out = shared.id;
    return physical_.retain(shared.id);
  }
  const int mine = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (mine < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  return adopt(mine, facts->st_ino, static_cast<Bytes>(facts->st_size), 0, out, device);
}

CUresult SharedFiles::open(const FilePlace& place, Bytes bytes, PhysicalId* out, DeviceId device) {
  const std::string name = "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.file);
  const int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  const auto facts = look_at(file);
  if (!facts || facts->st_ino != place.inode || static_cast<Bytes>(facts->st_size) < place.offset + bytes) {
    if (file >= 0) close(file);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return adopt(file, 0, bytes, place.offset, out, device);
}

// Takes ownership of `file`.
CUresult SharedFiles::adopt(int file, std::uint64_t inode, Bytes bytes, Bytes offset, PhysicalId* out,
                            DeviceId device) {
  const CUresult result = physical_.create(bytes, out, PhysicalPlace::kElsewhere, device);
  if (result != CUDA_SUCCESS) {
    close(file);
    return result;
  }
  const PageRun run = *physical_.find(*out);
  runs_[run.first] = {*out, file, inode};
  if (contents_.adopt(run, file, offset)) return CUDA_SUCCESS;
  physical_.release(*out);  // closes the file
  return CUDA_ERROR_NOT_SUPPORTED;
}

std::optional<FilePlace> SharedFiles::place_of(PageRun run) const {
  Bytes offset = 0;
  const int file = contents_.file_of(run, &offset);
  const auto facts = look_at(file);
  if (!facts) return std::nullopt;
  return FilePlace{getpid(), file, facts->st_ino, offset};
}

void SharedFiles::discarded(PageRun run) {
  const auto found = runs_.find(run.first);
  if (found == runs_.end()) return;
  close(found->second.file);
  runs_.erase(found);
}

}  // namespace simulator
