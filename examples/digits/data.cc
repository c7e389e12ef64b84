// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/data.h"

#include <zlib.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "examples/digits/layout.h"

namespace digits {
namespace {

constexpr int kMostDark = 16;
constexpr int kHeldOutEvery = 5;

struct Closer {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

// One line: kPixels numbers and the digit, separated by commas.
bool parse_line(const char* line, float* pixels, int* label) {
  for (int i = 0; i <= kPixels; ++i) {
    char* end = nullptr;
    const long value = std::strtol(line, &end, 10);
    const bool last = i == kPixels;
    if (end == line || value < 0 || value > (last ? kClasses - 1 : kMostDark)) return false;
    if (last ? (*end != '\n' && *end != '\r' && *end != '\0') : *end != ',') return false;
    if (last) {
      *label = static_cast<int>(value);
    } else {
      pixels[i] = static_cast<float>(value) / kMostDark;
    }
    line = end + 1;
  }
  return true;
}

}  // namespace

bool read_dataset(const std::string& path, Dataset* dataset, std::string* problem) {
  const std::unique_ptr<gzFile_s, Closer> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    *problem = path + ": can not be opened";
    return false;
  }
  char line[512];
  int row = 0;
  while (gzgets(file.get(), line, sizeof line) != nullptr) {
    float pixels[kPixels];
    int label = 0;
    if (!parse_line(line, pixels, &label)) {
      *problem =
          path + ":" + std::to_string(row + 1) + ": expected 64 numbers from 0 to 16 and a digit, separated by commas";
      return false;
    }
    Images& images = row % kHeldOutEvery == 0 ? dataset->held_out : dataset->training;
    images.pixels.insert(images.pixels.end(), pixels, pixels + kPixels);
    images.labels.push_back(label);
    ++row;
  }
  if (row < 2) *problem = path + ": no digits in it";
  return row >= 2;
}

Shuffle::Shuffle(int rows, unsigned seed) : position_(static_cast<std::size_t>(rows)), state_(seed) {
  for (int row = 0; row < rows; ++row) order_.push_back(row);
}

// PCG-XSH-RR 64/32 (M. O'Neill, 2014): the same numbers on every machine, which <random>'s distributions do not
// promise.
unsigned Shuffle::random() {
  state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
  const auto mixed = static_cast<unsigned>(((state_ >> 18) ^ state_) >> 27);
  const auto turn = static_cast<unsigned>(state_ >> 59);
  return (mixed >> turn) | (mixed << ((32 - turn) & 31));
}

int Shuffle::next() {
  if (position_ == order_.size()) {
    for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random() % (i + 1)]);
    position_ = 0;
  }
  return order_[position_++];
}

}  // namespace digits
