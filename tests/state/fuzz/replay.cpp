// replay <folder>: gives every file of a corpus to a fuzzer's function once. It needs no libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int, char** arguments) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    std::printf("%s\n", entry.path().filename().c_str());
    std::fflush(stdout);
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
    // In a block of just that size, so that the sanitizer sees a read behind it.
    const std::vector<std::uint8_t> bytes(text.begin(), text.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++files;
  }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
