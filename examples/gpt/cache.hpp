#pragma once

#include <cstddef>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <string>
#include <vector>

#include "sizes.hpp"

namespace gpt {

/// Keys and values of the tokens that a model has seen, of every layer, so that the next token costs one row
/// instead of the whole sequence. T is the type that attention computes in.
template <class T, halfstep::Device D>
class KeyValueCache {
 public:
  using Rows = halfstep::Variable<T>;

  /// Requires sizes that are valid. Takes its memory when it is first used.
  explicit KeyValueCache(const ModelSizes& sizes)
      : context_(sizes.context),
        width_(sizes.key_value_width()),
        keys_(static_cast<std::size_t>(sizes.layers)),
        values_(keys_.size()) {}

  /// Tokens whose keys and values are here.
  std::int64_t tokens() const { return tokens_; }
  std::int64_t context() const { return context_; }
  void clear() { tokens_ = 0; }
  void advance(std::int64_t count) { tokens_ += count; }

  /// Stores the keys and values of the tokens after those that are here, [1, count, width] as columns of
  /// `packed` from `first` on or in a tensor of their own, and gives back all of the layer's, [1, tokens() +
  /// count, width]. The tokens count once `advance` was called.
  template <class Tape>
  Rows keys(Tape& tape, std::int64_t layer, const Rows& packed, std::int64_t first) {
    return store(tape, keys_[static_cast<std::size_t>(layer)], packed, first);
  }
  template <class Tape>
  Rows values(Tape& tape, std::int64_t layer, const Rows& packed, std::int64_t first) {
    return store(tape, values_[static_cast<std::size_t>(layer)], packed, first);
  }

  struct CopyColumns {
    const T* from;
    T* to;
    std::int64_t from_columns;
    std::int64_t first;
    std::int64_t columns;
    HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
      to[i] = from[i / columns * from_columns + first + i % columns];
    }
  };

 private:
  template <class Tape>
  Rows store(Tape& tape, halfstep::Buffer<T, D>& buffer, const Rows& packed, std::int64_t first) {
    const std::int64_t count = packed.rows();
    if (buffer.data() == nullptr) buffer = halfstep::Buffer<T, D>(tape.device(), context_ * width_);
    halfstep::compute::for_each(
        tape.device(), count * width_,
        CopyColumns{packed.data(), buffer.data() + tokens_ * width_, packed.columns(), first, width_});
    return {halfstep::Tensor<const T>(buffer.data(), {1, tokens_ + count, width_}), nullptr};
  }

  std::int64_t context_;
  std::int64_t width_;
  std::int64_t tokens_ = 0;
  std::vector<halfstep::Buffer<T, D>> keys_, values_;
};

}  // namespace gpt
