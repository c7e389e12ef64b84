// SPDX-License-Identifier: Apache-2.0
// Input: arbitrary bytes as a device image (fat binary, cubin or PTX), and as two files of PTX that are linked. It must
// be refused with one line, or give an image in which nothing exceeds its bounds.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "driver/check.h"
#include "simulator/image/image.h"
#include "simulator/image/ptx_link.h"

namespace thermocline::fuzz {
namespace {

void read(std::span<const std::byte> input) {
  simulator::Image image;
  const simulator::ImageResult result = simulator::read_image(input, &image);
  if (!result.ok()) {
    THERMOCLINE_CHECK(!result.reason.empty(), "who refuses says why");
    return;
  }
  for (const simulator::ImageKernel& kernel : image.kernels) {
    for (const simulator::ImageParameter& parameter : kernel.parameters)
      THERMOCLINE_CHECK(parameter.offset + parameter.size <= kernel.parameter_bytes, "parameters lie within them all");
  }
  for (const simulator::ImageVariable& variable : image.variables) {
    THERMOCLINE_CHECK(variable.contents.size() <= variable.bytes, "contents fit their variable");
    for (const simulator::ImageAddress& word : variable.addresses)
      THERMOCLINE_CHECK(word.offset + 8 <= variable.bytes, "addresses lie within their variable");
  }
}

}  // namespace
}  // namespace thermocline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  thermocline::fuzz::read(std::as_bytes(std::span(data, size)));
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string files[] = {text.substr(0, size / 2), text.substr(size / 2), text};
  const std::string linked = simulator::link_ptx(files);
  thermocline::fuzz::read(std::as_bytes(std::span(linked)));
  return 0;
}
