#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <halfstep/numeric/convert.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/state/restore.hpp>

namespace halfstep {

/// How a file's tensors become a model's parameters.
struct LoadWeightsOptions {
  /// The name in the file of a parameter, where it is not the parameter's own.
  std::map<std::string, std::string> name_in_file = {};
  /// Parameters that the file lacks keep their values, instead of an error.
  bool allow_missing = false;
  /// Tensors of the file that no parameter asks for are passed over, instead of an error. A checkpoint's moments and
  /// window are passed over always.
  bool allow_unused = false;
  /// Widen float16 and bfloat16 tensors, which is exact; else they are an error, since nothing is cast in silence.
  bool widen_16_bit = false;
  /// Take numbers that are not finite, instead of an error.
  bool allow_non_finite = false;
};

struct LoadedWeights {
  std::vector<std::string> loaded;   ///< parameters
  std::vector<std::string> missing;  ///< parameters that keep their values
  std::vector<std::string> unused;   ///< tensors of the file
};

namespace detail {

/// The tensor's numbers as float; empty and noted where its type is another.
inline std::vector<float> as_float(const TensorData& tensor, bool widen, Differences& differences) {
  const auto count = tensor.bytes.size() / static_cast<std::size_t>(size_of(tensor.dtype));
  std::vector<float> values(count);
  const auto widened = [&]<class T>(T) {
    std::vector<T> stored(count);
    std::memcpy(stored.data(), tensor.bytes.data(), tensor.bytes.size());
    convert(stored.data(), values.data(), static_cast<std::int64_t>(count));
  };
  if (tensor.dtype == DType::f32) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  } else if (widen && tensor.dtype == DType::f16) {
    widened(float16{});
  } else if (widen && tensor.dtype == DType::bf16) {
    widened(bfloat16{});
  } else {
    const bool is_16_bit = tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
    differences.add("tensor \"" + tensor.name + "\" is " + std::string(name_of(tensor.dtype)) + ", parameters are F32" +
                    (is_16_bit ? "; widen_16_bit takes it over exactly" : ""));
    values.clear();
  }
  return values;
}

inline bool belongs_to_a_run(const std::string& name) {
  return name.starts_with("optimizer/") || name.starts_with("window/") || name.starts_with("user/");
}

}  // namespace detail

/// Reads master weights, and nothing else, from any safetensors file: of a checkpoint, or of another program. All or
/// nothing: where anything does not fit, CheckpointError lists all of it and the trainer is as it was. Optimizer,
/// scaler and counters stay.
template <class Trainer>
LoadedWeights load_weights(Trainer& trainer, const std::filesystem::path& path, const LoadWeightsOptions& options = {}) {
  auto& core = detail::TrainerAccess::core(trainer);
  safetensors::Reader reader(path);
  detail::Differences differences;
  LoadedWeights result;
  std::set<std::string> asked;
  std::vector<std::pair<std::string, std::vector<float>>> values;
  for (const auto& [parameter, in_file] : options.name_in_file) core.store().find(parameter);
  for (const ParameterInfo& info : core.store().infos()) {
    const auto renamed = options.name_in_file.find(info.name);
    const std::string name = renamed == options.name_in_file.end() ? info.name : renamed->second;
    asked.insert(name);
    const auto* found = reader.header().find(name);
    if (found == nullptr) {
      result.missing.push_back(info.name);
      if (!options.allow_missing) differences.add("tensor \"" + name + "\" is missing");
      continue;
    }
    if (found->shape != std::vector<std::int64_t>(info.shape.begin(), info.shape.end())) {
      differences.add("tensor \"" + name + "\" has shape " + detail::shape_text(found->shape) + ", parameter \"" +
                      info.name + "\" has " + info.shape.text());
      continue;
    }
    values.emplace_back(info.name, detail::as_float(reader.read(name), options.widen_16_bit, differences));
    const auto& numbers = values.back().second;
    const auto bad = std::find_if_not(numbers.begin(), numbers.end(), [](float number) { return is_finite(number); });
    if (bad != numbers.end() && !options.allow_non_finite) {
      differences.add("tensor \"" + name + "\" holds " + std::to_string(*bad) + " at index " +
                      std::to_string(bad - numbers.begin()));
    }
    result.loaded.push_back(info.name);
  }
  for (const auto& tensor : reader.header().tensors) {
    if (asked.contains(tensor.name) || detail::belongs_to_a_run(tensor.name)) continue;
    result.unused.push_back(tensor.name);
    if (!options.allow_unused) differences.add("tensor \"" + tensor.name + "\" is no parameter's");
  }
  differences.throw_if_any(path.string() + ": name_in_file gives a parameter another name, allow_missing, allow_unused and allow_non_finite pass over " +
                            "what they name; shapes are the model's.");
  for (const auto& [name, numbers] : values) trainer.write_parameter(name, numbers);
  return result;
}

}  // namespace halfstep
