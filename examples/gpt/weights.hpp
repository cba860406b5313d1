#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <halfstep/halfstep.hpp>
#include <halfstep/numeric/convert.hpp>
#include <halfstep/state/safetensors.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sizes.hpp"

namespace gpt {

/// The weights of a published GPT-2, in a safetensors file: wte.weight, wpe.weight, h.0.ln_1.weight, ... with
/// or without "transformer." before each. Its four products a layer lie as [in, out] (they were convolutions
/// once), ours as [out, in]. Numbers of 16 bits are widened, which is exact; the masks (attn.bias) and a head
/// that repeats wte are passed over.
class Gpt2Weights {
 public:
  /// Throws CheckpointError for a file that cannot be read or holds no GPT-2.
  explicit Gpt2Weights(const std::filesystem::path& path) : reader_(path) {
    for (const std::string& prefix : {std::string(), std::string("transformer.")}) {
      if (reader_.header().find(prefix + "wte.weight") == nullptr) continue;
      prefix_ = prefix;
      return;
    }
    throw halfstep::CheckpointError(path.string() +
                                    ": it holds no tensor \"wte.weight\" or \"transformer.wte.weight\"; "
                                    "is it a GPT-2's?");
  }

  /// As the file has them, but for the heads, which no tensor shows. Published ones are 64 wide.
  ModelSizes sizes() const {
    ModelSizes sizes;
    const auto& tokens = tensor("wte.weight").shape;
    const auto& positions = tensor("wpe.weight").shape;
    if (tokens.size() != 2 || positions.size() != 2) refuse("wte.weight and wpe.weight must have two axes");
    sizes.vocabulary = tokens[0];
    sizes.width = tokens[1];
    sizes.context = positions[0];
    sizes.layers = 0;
    while (find("h." + std::to_string(sizes.layers) + ".ln_1.weight") != nullptr) ++sizes.layers;
    sizes.heads = sizes.width % 64 == 0 ? sizes.width / 64 : 1;
    return sizes;
  }

  /// Gives a trainer of a Model these weights; all or nothing. Throws CheckpointError where a tensor is
  /// missing, or has another shape or a type that is none of float32, float16 and bfloat16.
  template <class Trainer>
  void load_into(Trainer& trainer) {
    std::vector<std::pair<std::string, std::vector<float>>> all;
    for (const halfstep::ParameterInfo& info : trainer.parameters()) {
      const bool transposed = info.shape.rank() == 2 && info.name.starts_with("h.");
      std::vector<std::int64_t> shape(info.shape.begin(), info.shape.end());
      if (transposed) std::swap(shape[0], shape[1]);
      const auto& stored = tensor(info.name);
      if (stored.shape != shape) {
        refuse("tensor \"" + stored.name + "\" has shape " + text_of(stored.shape) +
               " where the model needs " + text_of(shape));
      }
      std::vector<float> values = numbers(stored);
      if (transposed) values = transposed_back(values, info.shape);
      all.emplace_back(info.name, std::move(values));
    }
    for (const auto& [name, values] : all) trainer.write_parameter(name, values);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw halfstep::CheckpointError(reader_.path().string() + ": " + why);
  }
  const halfstep::safetensors::TensorInfo* find(const std::string& name) const {
    return reader_.header().find(prefix_ + name);
  }
  const halfstep::safetensors::TensorInfo& tensor(const std::string& name) const {
    const halfstep::safetensors::TensorInfo* found = find(name);
    if (found == nullptr) refuse("tensor \"" + prefix_ + name + "\" is missing");
    return *found;
  }
  static std::string text_of(const std::vector<std::int64_t>& shape) {
    std::string text = "[";
    for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
  }

  std::vector<float> numbers(const halfstep::safetensors::TensorInfo& info) {
    const halfstep::TensorData data = reader_.read(info.name);
    if (data.dtype == halfstep::DType::f32) return widened<float>(data);
    if (data.dtype == halfstep::DType::f16) return widened<halfstep::float16>(data);
    if (data.dtype == halfstep::DType::bf16) return widened<halfstep::bfloat16>(data);
    refuse("tensor \"" + info.name + "\" is " + std::string(halfstep::name_of(data.dtype)) +
           "; weights are F32, F16 or BF16");
  }
  template <class T>
  static std::vector<float> widened(const halfstep::TensorData& data) {
    std::vector<T> stored(data.bytes.size() / sizeof(T));
    std::memcpy(stored.data(), data.bytes.data(), stored.size() * sizeof(T));
    std::vector<float> values(stored.size());
    halfstep::convert(stored.data(), values.data(), static_cast<std::int64_t>(stored.size()));
    return values;
  }
  /// From [in, out] to `shape`, [out, in].
  static std::vector<float> transposed_back(const std::vector<float>& from, const halfstep::Shape& shape) {
    std::vector<float> to(from.size());
    const auto out = static_cast<std::size_t>(shape[0]), in = static_cast<std::size_t>(shape[1]);
    for (std::size_t i = 0; i < in; ++i) {
      for (std::size_t o = 0; o < out; ++o) to[o * in + i] = from[i * out + o];
    }
    return to;
  }

  halfstep::safetensors::Reader reader_;
  std::string prefix_;
};

}  // namespace gpt
