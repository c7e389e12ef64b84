// SPDX-License-Identifier: Apache-2.0
// Copies and sets: shapes, widths, and when they return.
#include <cstdlib>
#include <cstring>

#include "tests/conformance/session.h"

namespace conformance {
namespace {

constexpr const char* kSubject = "copies and sets";
#define MEMORY "Memory Management: "
#define SYNC "API synchronization behavior"

CUdeviceptr address(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

std::vector<std::uint32_t> counting(std::uint32_t count) {
  std::vector<std::uint32_t> words(count);
  for (std::uint32_t i = 0; i < count; ++i) words[i] = i * 2654435761u;
  return words;
}

RULE(copies_keep_bytes, "Data copied to the device, on it and back is unchanged",
     MEMORY "cuMemcpyHtoD, cuMemcpyDtoD, cuMemcpyDtoH") {
  const std::vector<std::uint32_t> words = counting(300000);
  const CUdeviceptr one = session.allocate(1200000), two = session.allocate(1200000);
  session.write(one, words);
  OK(cu.cuMemcpyDtoD(two, one, 1200000));
  HOLDS(session.read(two, 300000) == words, "every word");
}

RULE(copies_take_any_address, "Copies begin and end at any byte", MEMORY "cuMemcpyHtoD") {
  const CUdeviceptr at = session.allocate(64);
  OK(cu.cuMemsetD8(at, 0, 64));
  const char text[] = "abcdefg";
  OK(cu.cuMemcpyHtoD(at + 3, text + 1, 5));
  char found[7] = {};
  OK(cu.cuMemcpyDtoH(found, at + 2, 7));
  HOLDS(std::memcmp(found, "\0bcdef\0", 7) == 0, "these five bytes and no other");
}

RULE(copy_of_nothing_is_fine, "A copy of no bytes succeeds and does nothing", MEMORY "cuMemcpyHtoD",
     .open = "the page does not mention it; an error is accepted") {
  const CUdeviceptr at = session.allocate(64);
  const char byte = 1;
  ANSWERS(cu.cuMemcpyHtoD(at, &byte, 0), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
}

RULE(unified_copy_finds_the_direction, "A copy without a direction derives it from the addresses", MEMORY "cuMemcpy") {
  auto* const pinned = static_cast<std::uint32_t*>(session.pinned(64));
  const CUdeviceptr device = session.allocate(64);
  pinned[0] = 444;
  OK(cu.cuMemcpy(device, address(pinned), 4));
  pinned[0] = 0;
  OK(cu.cuMemcpy(address(pinned), device, 4));
  session.synchronize();
  HOLDS(pinned[0] == 444, "there and back");
}

RULE(copy_to_unknown_address_fails, "A copy to a device address without memory is refused", MEMORY "cuMemcpyHtoD",
     .open = "which error, and whether the copy or the next synchronization returns it") {
  const CUdeviceptr at = session.allocate(std::size_t{64} << 20);
  OK(cu.cuMemFree(at));
  const std::uint32_t word = 0;
  CUresult result = cu.cuMemcpyHtoD(at, &word, 4);
  if (result == CUDA_SUCCESS) result = cu.cuCtxSynchronize();
  FAILS(result);
}

RULE(copies_end_with_their_memory, "A copy or a set that ends behind its memory is refused in its own call",
     MEMORY "cuMemcpyHtoD, cuMemsetD8",
     .open = "the page does not mention it; pmodels/mpich#7819 has an invalid argument for 16 bytes too many") {
  const CUdeviceptr at = session.allocate(3368);
  const CUdeviceptr neighbor = session.allocate(3368);
  session.write(neighbor, counting(842));
  std::vector<unsigned char> bytes(64 << 10, 7);
  FAILS(cu.cuMemcpyHtoD(at + 1880, bytes.data(), 1504));
  FAILS(cu.cuMemcpyDtoH(bytes.data(), at + 1880, 1504));
  FAILS(cu.cuMemcpyHtoDAsync(at + 3367, bytes.data(), 2, session.stream()));
  FAILS(cu.cuMemcpyDtoD(at, neighbor, 3369));
  FAILS(cu.cuMemsetD8(at, 7, bytes.size()));
  FAILS(cu.cuMemsetD32Async(at + 4, 7, 842, session.stream()));
  FAILS(cu.cuMemsetD2D8(at, 512, 7, 297, 7));
  // Products that wrap around.
  FAILS(cu.cuMemsetD2D8(at, 1024, 7, 10, (std::size_t{1} << 54) + 3));
  FAILS(cu.cuMemsetD2D8(at, std::size_t{1} << 62, 7, 10, 5));
  FAILS(cu.cuMemsetD32(at, 7, (std::size_t{1} << 62) + 1));
  session.synchronize();
  HOLDS(session.read(neighbor, 842) == counting(842), "other memory stays as it was");
}

RULE(rectangles_end_with_their_memory,
     "A copy of a rectangle or a box that ends behind its memory is refused in its own call",
     MEMORY "cuMemcpy2D, cuMemcpy3D", .open = "the page does not mention it (copies_end_with_their_memory)") {
  const CUdeviceptr at = session.allocate(3368);
  const CUdeviceptr neighbor = session.allocate(3368);
  session.write(neighbor, counting(842));
  std::vector<unsigned char> bytes(64 << 10, 7);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes.data();
  copy.srcPitch = 512;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = at;
  copy.dstPitch = 512;
  copy.WidthInBytes = 297;
  copy.Height = 7;
  FAILS(cu.cuMemcpy2D(&copy));
  copy.WidthInBytes = 296;
  OK(cu.cuMemcpy2D(&copy));
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = at;
  back.srcPitch = 512;
  back.srcXInBytes = 1;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = bytes.data();
  back.dstPitch = 512;
  back.WidthInBytes = 296;
  back.Height = 7;
  FAILS(cu.cuMemcpy2D(&back));
  back.srcXInBytes = 0;
  OK(cu.cuMemcpy2D(&back));
  // Two slices of three rows of 512 bytes, and what is left: 296 bytes of the first row of the third.
  CUDA_MEMCPY3D box = {};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = bytes.data();
  box.srcPitch = 512;
  box.srcHeight = 3;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = at;
  box.dstPitch = 512;
  box.dstHeight = 3;
  box.WidthInBytes = 297;
  box.Height = 1;
  box.Depth = 3;
  FAILS(cu.cuMemcpy3D(&box));
  box.WidthInBytes = 296;
  OK(cu.cuMemcpy3D(&box));
  OK(cu.cuMemcpyHtoD(at, bytes.data(), 3368));
  OK(cu.cuMemcpyDtoH(bytes.data(), at + 3367, 1));
  session.synchronize();
  HOLDS(session.read(neighbor, 842) == counting(842), "other memory stays as it was");
}

RULE(rectangles_keep_their_pitch, "A copy of a rectangle copies its columns and rows and no other byte",
     MEMORY "cuMemcpy2D") {
  const CUdeviceptr at = session.allocate(1024);
  OK(cu.cuMemsetD8(at, 0xee, 1024));
  unsigned char from[8 * 10];
  for (int i = 0; i < 80; ++i) from[i] = static_cast<unsigned char>(i);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.srcPitch = 10;
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = at;
  copy.dstPitch = 64;
  copy.dstXInBytes = 5;
  copy.dstY = 3;
  copy.WidthInBytes = 7;
  copy.Height = 4;
  OK(cu.cuMemcpy2D(&copy));
  unsigned char found[1024];
  OK(cu.cuMemcpyDtoH(found, at, 1024));
  bool same = true;
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 64; ++x) {
      const bool inside = y >= 3 && y < 7 && x >= 5 && x < 12;
      const int expected = inside ? (y - 3 + 1) * 10 + (x - 5 + 2) : 0xee;
      same = same && found[y * 64 + x] == expected;
    }
  }
  HOLDS(same, "every byte of the destination");
}

RULE(rectangle_needs_its_pitch, "A rectangle wider than its pitch is refused", MEMORY "cuMemcpy2D") {
  const CUdeviceptr at = session.allocate(4096);
  unsigned char from[256] = {};
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.srcPitch = 16;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = at;
  copy.dstPitch = 64;
  copy.WidthInBytes = 17;
  copy.Height = 4;
  ANSWERS(cu.cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
}

RULE(boxes_keep_their_slices, "A copy of a box finds its slices by pitch and height", MEMORY "cuMemcpy3D") {
  const CUdeviceptr one = session.allocate(4 * 4 * 16), two = session.allocate(2 * 2 * 8);
  std::vector<std::uint32_t> words = counting(64);
  session.write(one, words);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = one;
  copy.srcPitch = 16;
  copy.srcHeight = 4;
  copy.srcXInBytes = 4;
  copy.srcY = 1;
  copy.srcZ = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = two;
  copy.dstPitch = 8;
  copy.dstHeight = 2;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  copy.Depth = 2;
  OK(cu.cuMemcpy3D(&copy));
  const std::vector<std::uint32_t> found = session.read(two, 8);
  bool same = true;
  for (std::size_t z = 0; z < 2; ++z)
    for (std::size_t y = 0; y < 2; ++y)
      for (std::size_t x = 0; x < 2; ++x)
        same = same && found[(z * 2 + y) * 2 + x] == words[((z + 2) * 4 + y + 1) * 4 + x + 1];
  HOLDS(same, "all eight words");
}

RULE(sets_have_widths, "Sets write the given number of values of one, two and four bytes",
     MEMORY "cuMemsetD8, cuMemsetD16, cuMemsetD32") {
  const CUdeviceptr at = session.allocate(64);
  OK(cu.cuMemsetD8(at, 0, 64));
  OK(cu.cuMemsetD8(at + 1, 0x11, 3));
  OK(cu.cuMemsetD16(at + 4, 0x2233, 2));
  OK(cu.cuMemsetD32(at + 8, 0x44556677, 1));
  HOLDS((session.read(at, 4) == std::vector<std::uint32_t>{0x11111100, 0x22332233, 0x44556677, 0}),
        "these bytes and no other");
}

RULE(sets_need_alignment, "The address of a set is a multiple of the value's width", MEMORY "cuMemsetD16, cuMemsetD32",
     .open = "which error") {
  const CUdeviceptr at = session.allocate(64);
  FAILS(cu.cuMemsetD16(at + 1, 0, 4));
  FAILS(cu.cuMemsetD32(at + 2, 0, 4));
}

RULE(set_of_nothing_is_fine, "A set of no values succeeds and does nothing", MEMORY "cuMemsetD8",
     .open = "the page does not mention it; an error is accepted") {
  ANSWERS(cu.cuMemsetD8(session.allocate(64), 1, 0), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
}

RULE(sets_of_rectangles, "A set of a rectangle does not change what is between its rows",
     MEMORY "cuMemsetD2D8, cuMemsetD2D16, cuMemsetD2D32") {
  const CUdeviceptr at = session.allocate(256);
  OK(cu.cuMemsetD8(at, 0, 256));
  OK(cu.cuMemsetD2D32(at, 16, 7, 2, 3));
  OK(cu.cuMemsetD2D16(at + 64, 16, 0x0808, 2, 2));
  OK(cu.cuMemsetD2D8(at + 128, 16, 9, 4, 2));
  std::vector<std::uint32_t> expected(64);
  for (std::size_t row = 0; row < 3; ++row) expected[4 * row] = expected[4 * row + 1] = 7;
  for (std::size_t row = 0; row < 2; ++row) {
    expected[16 + 4 * row] = 0x08080808;
    expected[32 + 4 * row] = 0x09090909;
  }
  HOLDS(session.read(at, 64) == expected, "these words and no other");
}

RULE(one_row_ignores_its_pitch, "A set of one row ignores the pitch", MEMORY "cuMemsetD2D8") {
  const CUdeviceptr at = session.allocate(64);
  OK(cu.cuMemsetD8(at, 0, 64));
  OK(cu.cuMemsetD2D8(at, 1, 5, 16, 1));
  HOLDS(session.holds(at, 4, 0x05050505), "all sixteen bytes");
}

RULE(blocking_copy_out_waits_for_the_stream,
     "A copy to the host without a stream returns after the writes of the legacy stream and of blocking streams",
     SYNC "; Stream synchronization behavior") {
  const CUdeviceptr at = session.allocate(4096);
  const CUstream in = session.stream(CU_STREAM_DEFAULT);
  OK(cu.cuMemsetD32(at, 0, 1024));
  session.prepare_busy();
  session.function("conformance_add");
  session.synchronize();
  session.keep_busy(in);
  session.add(at, 1024, 25, in);
  HOLDS(session.holds(at, 1024, 25), "it waited for both");
}

RULE(pageable_source_is_taken_at_once, "A copy from pageable memory has read its source when it returns", SYNC) {
  const CUdeviceptr at = session.allocate(4096), other = session.allocate(4096);
  const CUstream in = session.stream();
  session.prepare_busy();
  std::vector<std::uint32_t> words(1024, 1);
  OK(cu.cuMemcpyHtoD(at, words.data(), 4096));
  words.assign(1024, 2);
  session.keep_busy(in);
  OK(cu.cuMemcpyHtoDAsync(other, words.data(), 4096, in));
  words.assign(1024, 3);
  OK(cu.cuStreamSynchronize(in));
  HOLDS(session.holds(at, 1024, 1), "the copy without stream");
  HOLDS(session.holds(other, 1024, 2), "the copy in a stream");
}

RULE(pageable_target_is_written_on_return, "A copy to pageable memory in a stream returns when it is done", SYNC) {
  const CUdeviceptr at = session.allocate(4096);
  const CUstream in = session.stream();
  session.keep_busy(in);
  OK(cu.cuMemsetD32Async(at, 26, 1024, in));
  std::vector<std::uint32_t> words(1024);
  OK(cu.cuMemcpyDtoHAsync(words.data(), at, 4096, in));
  HOLDS(words == std::vector<std::uint32_t>(1024, 26), "the bytes are there without synchronizing");
}

RULE(pinned_copy_returns_early, "A copy between pinned memory and the device in a stream returns before it is done",
     SYNC, .needs_time = true) {
  const CUdeviceptr at = session.allocate(4096);
  void* const to = session.pinned(4096);
  const CUstream in = session.stream();
  session.keep_busy(in);
  OK(cu.cuMemcpyDtoHAsync(to, at, 4096, in));
  ANSWERS(cu.cuStreamQuery(in), CUDA_ERROR_NOT_READY);
}

RULE(device_set_returns_early, "A set of device memory, with or without stream, returns before it is done", SYNC,
     .needs_time = true) {
  const CUdeviceptr at = session.allocate(4096);
  session.prepare_busy();
  session.synchronize();
  session.keep_busy(nullptr);
  OK(cu.cuMemsetD32(at, 1, 1024));
  ANSWERS(cu.cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
}

RULE(device_copy_returns_early, "A copy on the device without stream returns before it is done", SYNC,
     .needs_time = true) {
  const CUdeviceptr one = session.allocate(4096), two = session.allocate(4096);
  session.prepare_busy();
  session.synchronize();
  session.keep_busy(nullptr);
  OK(cu.cuMemcpyDtoD(two, one, 4096));
  ANSWERS(cu.cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
}

}  // namespace
}  // namespace conformance
