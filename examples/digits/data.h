// SPDX-License-Identifier: Apache-2.0
// The handwritten digits (DATA.md) on the host: every fifth row is held out, the others are for training.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace digits {

// Pixels are scaled to 0..1; `pixels` has one image of kPixels numbers after the other.
struct Images {
  std::vector<float> pixels;
  std::vector<int> labels;

  int count() const { return static_cast<int>(labels.size()); }
};

struct Dataset {
  Images training;
  Images held_out;
};

// Reads plain or gzip-compressed text. False, with a message that names file and line, if the file is not as DATA.md
// describes.
bool read_dataset(const std::string& path, Dataset* dataset, std::string* problem);

// An endless shuffled stream of row numbers: every row once, then all again in another order.
class Shuffle {
 public:
  Shuffle(int rows, unsigned seed);
  int next();

 private:
  unsigned random();

  std::vector<int> order_;
  std::size_t position_;
  unsigned long long state_;
};

}  // namespace digits
