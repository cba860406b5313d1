#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

#include <halfstep/numeric/bits.hpp>
#include <halfstep/state/checkpoints.hpp>
#include <halfstep/state/weights.hpp>

#include "state/ring_trainers.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(weights_tests)

using namespace halfstep;

namespace {

using Ring = test::RingWithMomentum;

template <class T>
TensorData tensor(std::string name, std::vector<std::int64_t> shape, float first) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(T(first + static_cast<float>(i) * 0.25f));
  TensorData data{std::move(name), dtype_of<T>, std::move(shape), {}};
  data.bytes.resize(values.size() * sizeof(T));
  std::memcpy(data.bytes.data(), values.data(), data.bytes.size());
  return data;
}

std::filesystem::path write(const test::TemporaryFolder& folder, const std::vector<TensorData>& tensors) {
  const auto path = folder.path() / "weights.safetensors";
  publish(system_files(), path, [&](const ByteSink& sink) { safetensors::write(sink, StateFile{tensors, {}}); });
  return path;
}

std::vector<TensorData> all() {
  return {tensor<float>("hidden.weight", {24, 2}, 1), tensor<float>("hidden.bias", {24}, 2),
          tensor<float>("output.weight", {2, 24}, 3), tensor<float>("output.bias", {2}, 4)};
}

void refused(Ring& trainer, const std::filesystem::path& path, const LoadWeightsOptions& options,
             const std::vector<std::string>& words) {
  const auto before = trainer.read_parameter("hidden.weight");
  std::string message;
  try {
    load_weights(trainer, path, options);
  } catch (const Error& error) {
    message = error.what();
  }
  for (const std::string& word : words) {
    BOOST_TEST(message.find(word) != std::string::npos, "\"" << word << "\" is not in: " << message);
  }
  BOOST_TEST(trainer.read_parameter("hidden.weight") == before);
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_of_another_programs_file_are_read_by_name) {
  const test::TemporaryFolder folder;
  Ring trainer{{}};
  const LoadedWeights loaded = load_weights(trainer, write(folder, all()));
  BOOST_TEST(loaded.loaded.size() == 4u);
  BOOST_TEST(loaded.missing.empty());
  BOOST_TEST(trainer.read_parameter("output.bias") == (std::vector<float>{4.0f, 4.25f}));
  BOOST_TEST(trainer.state().update_number == 0);
}

BOOST_AUTO_TEST_CASE(weights_of_a_checkpoint_are_read_without_its_moments) {
  const test::TemporaryFolder folder;
  Ring saved{{}, {}, {.seed = 7}};
  saved.save(folder.path());
  Ring trainer{{}};
  load_weights(trainer, Generations(folder.path()).latest().value().path);
  BOOST_TEST(trainer.read_parameter("hidden.weight") == saved.read_parameter("hidden.weight"));
}

BOOST_AUTO_TEST_CASE(names_may_differ_and_parts_may_be_missing_or_left_over_only_if_said) {
  const test::TemporaryFolder folder;
  auto tensors = all();
  tensors[2].name = "classifier.weight";
  tensors.pop_back();
  tensors.push_back(tensor<float>("pooler.weight", {3}, 0));
  const auto path = write(folder, tensors);
  Ring trainer{{}};
  refused(trainer, path, {}, {"output.weight", "output.bias", "classifier.weight", "pooler.weight"});
  const LoadedWeights loaded = load_weights(
      trainer, path,
      {.name_in_file = {{"output.weight", "classifier.weight"}}, .allow_missing = true, .allow_unused = true});
  BOOST_TEST(loaded.missing == (std::vector<std::string>{"output.bias"}));
  BOOST_TEST(loaded.unused == (std::vector<std::string>{"pooler.weight"}));
  BOOST_TEST(trainer.read_parameter("output.weight")[0] == 3.0f);
  refused(trainer, path, {.name_in_file = {{"no.such", "x"}}}, {"no.such", "hidden.weight"});
}

BOOST_AUTO_TEST_CASE(sixteen_bit_weights_are_widened_only_if_asked_and_other_types_never) {
  const test::TemporaryFolder folder;
  auto tensors = all();
  tensors[0] = tensor<float16>("hidden.weight", {24, 2}, 1);
  tensors[1] = tensor<bfloat16>("hidden.bias", {24}, 2);
  Ring trainer{{}};
  const auto path = write(folder, tensors);
  refused(trainer, path, {}, {"F16", "BF16", "widen_16_bit"});
  load_weights(trainer, path, {.widen_16_bit = true});
  BOOST_TEST(trainer.read_parameter("hidden.weight")[3] == 1.75f);
  BOOST_TEST(trainer.read_parameter("hidden.bias")[1] == 2.25f);
  tensors[3] = tensor<double>("output.bias", {2}, 0);
  refused(trainer, write(folder, tensors), {.widen_16_bit = true}, {"output.bias", "F64"});
}

BOOST_AUTO_TEST_CASE(numbers_that_are_not_finite_are_taken_only_if_asked) {
  const test::TemporaryFolder folder;
  auto tensors = all();
  const float bad = halfstep::detail::float_of(0x7f80'0000u);
  std::memcpy(tensors[3].bytes.data() + sizeof bad, &bad, sizeof bad);
  Ring trainer{{}};
  const auto path = write(folder, tensors);
  refused(trainer, path, {}, {"output.bias", "inf at index 1", "allow_non_finite"});
  load_weights(trainer, path, {.allow_non_finite = true});
  BOOST_TEST(trainer.read_parameter("output.bias")[1] == bad);
}

BOOST_AUTO_TEST_CASE(another_shape_is_refused_with_both) {
  const test::TemporaryFolder folder;
  auto tensors = all();
  tensors[0] = tensor<float>("hidden.weight", {2, 24}, 1);
  Ring trainer{{}};
  refused(trainer, write(folder, tensors), {}, {"hidden.weight", "[2, 24]", "[24, 2]"});
}

BOOST_AUTO_TEST_SUITE_END()
