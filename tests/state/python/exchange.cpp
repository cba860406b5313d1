// exchange write <file>: a file of every type, with the bytes 1, 2, 3, ... all through.
// exchange write_numpy <file>: the same without bfloat16, which NumPy does not have.
// exchange read <file>:  what a file holds, one line a tensor and one an entry of the metadata, sorted.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <halfstep/state/safetensors.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace halfstep;

namespace {

StateFile every_type(bool with_bfloat16) {
  StateFile file;
  unsigned next = 0;
  const auto add = [&](std::string name, DType dtype, std::vector<std::int64_t> shape) {
    std::int64_t count = size_of(dtype);
    for (const std::int64_t size : shape) count *= size;
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(dtype == DType::boolean ? ++next % 2 : ++next % 256);
    file.tensors.push_back({std::move(name), dtype, std::move(shape), std::move(bytes)});
  };
  for (std::size_t i = 0; i < detail::dtype_facts.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bf16 && !with_bfloat16) continue;
    add("layer." + std::string(name_of(dtype)), dtype, {2, 3});
    add("scalar." + std::string(name_of(dtype)), dtype, {});
    add("empty." + std::string(name_of(dtype)), dtype, {4, 0});
  }
  add("name with \"quotes\", µ and 漢", DType::u8, {5});
  file.metadata = {{"text", "line\nbreak, µ"}, {"json", "{\"a\":[1,2]}"}};
  return file;
}

void print(const StateFile& file) {
  std::set<std::string> lines;
  for (const auto& [key, value] : file.metadata) lines.insert("metadata " + key + "=" + value);
  for (const TensorData& tensor : file.tensors) {
    std::string line = "tensor " + tensor.name + " " + std::string(name_of(tensor.dtype)) + " [";
    for (const std::int64_t size : tensor.shape) line += std::to_string(size) + ",";
    line += "] ";
    for (const std::byte byte : tensor.bytes) {
      for (const int shift : {4, 0})
        line += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> shift & 15u];
    }
    lines.insert(line);
  }
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
}

}  // namespace

int main(int count, char** arguments) try {
  const std::string_view what = count == 3 ? arguments[1] : "";
  if (what == "write" || what == "write_numpy") {
    const StateFile file = every_type(what == "write");
    publish(system_files(), arguments[2], [&](const ByteSink& sink) { safetensors::write(sink, file); });
  } else if (what == "read") {
    print(safetensors::read(arguments[2]));
  } else {
    std::fprintf(stderr, "exchange write|write_numpy|read <file>\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
