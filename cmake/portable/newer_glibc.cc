// SPDX-License-Identifier: Apache-2.0
// Functions that the C++ library of gcc 12, its unwinder and glibc's newer headers need, and glibc 2.28 does not have.
// They are linked, hidden, into each library and program of a portable build, which uses them in place of glibc's of
// the same name.
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

// glibc until 2.33: the functions behind stat(), mknod() and their like, which take the layout's number.
extern "C" {
int __xstat(int layout, const char* path, struct stat* out);
int __lxstat(int layout, const char* path, struct stat* out);
int __fxstat(int layout, int file, struct stat* out);
int __fxstatat(int layout, int folder, const char* path, struct stat* out, int flags);
int __xmknod(int layout, const char* path, mode_t mode, dev_t* device);
}

namespace {

constexpr int kStatLayout = 1;    // _STAT_VER_LINUX of x86-64
constexpr int kDeviceLayout = 0;  // _MKNOD_VER_LINUX of x86-64
constexpr long kNsPerSecond = 1'000'000'000;

struct Search {
  std::uintptr_t code;
  dl_find_object* result;
};

int look_in_object(dl_phdr_info* object, std::size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  std::uintptr_t end = 0, frames = 0;
  bool found = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) frames = begin;
    if (segment.p_type != PT_LOAD) continue;
    if (search.code - begin < segment.p_memsz) found = true;
    end = begin + segment.p_memsz > end ? begin + segment.p_memsz : end;
  }
  if (!found || frames == 0) return 0;
  search.result->dlfo_map_start = reinterpret_cast<void*>(object->dlpi_addr);
  search.result->dlfo_map_end = reinterpret_cast<void*>(end);
  search.result->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return 1;
}

timespec operator-(const timespec& a, const timespec& b) {
  timespec difference{a.tv_sec - b.tv_sec, a.tv_nsec - b.tv_nsec};
  if (difference.tv_nsec < 0) {
    --difference.tv_sec;
    difference.tv_nsec += kNsPerSecond;
  }
  return difference;
}

timespec operator+(const timespec& a, const timespec& b) {
  timespec sum{a.tv_sec + b.tv_sec, a.tv_nsec + b.tv_nsec};
  if (sum.tv_nsec >= kNsPerSecond) {
    ++sum.tv_sec;
    sum.tv_nsec -= kNsPerSecond;
  }
  return sum;
}

}  // namespace

extern "C" {

// 2.35, of libgcc's unwinder: which object holds an address. link_map is not asked for by it, and left alone.
int _dl_find_object(void* code, dl_find_object* result) {
  Search search{reinterpret_cast<std::uintptr_t>(code), result};
  return dl_iterate_phdr(look_in_object, &search) == 1 ? 0 : -1;
}

// 2.36, of std::random_device.
std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
    if (errno != EINTR) std::abort();
  }
  return value;
}

// 2.32, of libstdc++'s reference counts, which are atomic then.
char __libc_single_threaded = 0;

// 2.30, of std::condition_variable, which waits on the realtime clock otherwise. A clock that is set meanwhile makes
// the wait longer or shorter; who waits looks at its own clock again.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec now{}, realtime{};
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &realtime) != 0) return EINVAL;
  const timespec deadline = realtime + (*until - now);
  return pthread_cond_timedwait(condition, mutex, &deadline);
}

// 2.33: functions; until then inline ones of the headers.
int stat(const char* path, struct stat* out) { return __xstat(kStatLayout, path, out); }
int lstat(const char* path, struct stat* out) { return __lxstat(kStatLayout, path, out); }
int fstat(int file, struct stat* out) { return __fxstat(kStatLayout, file, out); }
int fstatat(int folder, const char* path, struct stat* out, int flags) {
  return __fxstatat(kStatLayout, folder, path, out, flags);
}
int mknod(const char* path, mode_t mode, dev_t device) { return __xmknod(kDeviceLayout, path, mode, &device); }
// The same layout on x86-64.
int stat64(const char* path, struct stat64* out) {
  return __xstat(kStatLayout, path, reinterpret_cast<struct stat*>(out));
}
int lstat64(const char* path, struct stat64* out) {
  return __lxstat(kStatLayout, path, reinterpret_cast<struct stat*>(out));
}
int fstat64(int file, struct stat64* out) { return __fxstat(kStatLayout, file, reinterpret_cast<struct stat*>(out)); }

// 2.33, of LLVM's statistics: mallinfo() with wider numbers.
struct mallinfo2 mallinfo2() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  const auto wide = [](int value) { return static_cast<std::size_t>(static_cast<unsigned>(value)); };
  return {wide(narrow.arena),    wide(narrow.ordblks), wide(narrow.smblks),  wide(narrow.hblks),
          wide(narrow.hblkhd),   wide(narrow.usmblks), wide(narrow.fsmblks), wide(narrow.uordblks),
          wide(narrow.fordblks), wide(narrow.keepcost)};
}
}
