// SPDX-License-Identifier: Apache-2.0
// replay TARGET_CORPUS: replaces libFuzzer's main, without a search: runs every file of the corpus, and a fixed number
// of damaged copies, which are the same in every run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutants = 3000;

void run(const std::string& input) {
  static_cast<void>(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()));
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t i = 0, changes = 1 + below(4); i < changes; ++i) change(&input);
    return input;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void change(std::string* input) {
    static constexpr const char* kWords[] = {"-1", "1e999", "18446744073709551616", "{", "\"", "[", "null", "%", "\n"};
    const std::size_t at = below(input->size() + 1);
    switch (below(6)) {
      case 0:
        if (at < input->size()) (*input)[at] = static_cast<char>(random_());
        break;
      case 1:
        if (at < input->size()) (*input)[at] ^= static_cast<char>(1U << below(8));
        break;
      case 2:
        input->resize(at);
        break;
      case 3:
        input->erase(at, below(16));
        break;
      case 4:
        input->insert(at, kWords[below(std::size(kWords))]);
        break;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        input->replace(at, std::string::npos, other.substr(below(other.size() + 1)));
        break;
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> corpus;
  std::vector<std::filesystem::path> files;
  if (argc == 2) std::copy(std::filesystem::directory_iterator(argv[1]), {}, std::back_inserter(files));
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER, with files in it\n", argv[0]);
    return 2;
  }
  for (const std::string& input : corpus) run(input);
  Mutator mutator(corpus);
  for (int i = 0; i < kMutants; ++i) run(mutator.next());
  run("");
  std::printf("%zu files and %d mutants of them\n", corpus.size(), kMutants);
  return 0;
}
