// The table in docs/writing-a-policy.md is what the types say.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <halfstep/halfstep.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(operation_types_tests)

using namespace halfstep;

namespace operation_types_test {

template <class Result>
struct ValueOf {
  using type = typename std::remove_cvref_t<Result>::value_type;
};
template <>
struct ValueOf<Loss> {
  using type = typename decltype(Loss::sum)::value_type;
};

struct Row {
  /// The operation as it is called, its tag, and the group that the tag belongs to.
  std::string_view call, tag, group;
  /// What it computes in, sums in and gives.
  std::string_view compute, sums, gives;

  std::string cell() const {
    return std::string(compute) + " / " + std::string(sums) + " / " + std::string(gives);
  }
};

/// An operation that has a type of its own, called with values of the compute type.
template <class Policy, class Tag, class Result>
constexpr Row row(std::string_view call, std::string_view group = "") {
  return {call,
          halfstep::detail::short_type_name<Tag>(),
          group,
          numeric_traits<operation_type<Policy, Tag>>::name,
          numeric_traits<typename Policy::accumulator_type>::name,
          numeric_traits<typename ValueOf<Result>::type>::name};
}

/// An operation that works in the type of its input, with what it gives for values of the compute type and
/// for floats.
template <class Policy, class Tag, class OfCompute, class OfFloat>
constexpr Row row_of_any_type(std::string_view call, std::string_view words) {
  static_assert(std::is_same_v<typename ValueOf<OfCompute>::type, typename Policy::compute_type>);
  static_assert(std::is_same_v<typename ValueOf<OfFloat>::type, float>);
  return {call,  halfstep::detail::short_type_name<Tag>(),                "",
          words, numeric_traits<typename Policy::accumulator_type>::name, words};
}

template <class Policy>
struct Calls {
  using T = typename Policy::compute_type;
  using TapeType = Tape<Policy, Host>;
  static TapeType& tape();
  static Variable<T> x();
  static Variable<float> f();
  static Tensor<const std::int32_t> ids();

  static constexpr auto rows() {
    using namespace operation;
    return std::to_array<Row>({
        row<Policy, Matmul, decltype(std::declval<const Linear&>()(tape(), x()))>("Linear"),
        row<Policy, Matmul, decltype(std::declval<const halfstep::Embedding&>().project(tape(), x()))>(
            "embedding.project"),
        row<Policy, Convolution, decltype(std::declval<const Convolution2d&>()(tape(), x()))>("Convolution2d",
                                                                                              "Matmul"),
        row<Policy, Attention, decltype(attention(tape(), x(), AttentionOptions{}))>("attention", "Matmul"),
        row<Policy, Relu, decltype(relu(tape(), x()))>("relu", "Activation"),
        row<Policy, Gelu, decltype(gelu(tape(), x()))>("gelu", "Activation"),
        row<Policy, Silu, decltype(silu(tape(), x()))>("silu", "Activation"),
        row<Policy, Swiglu, decltype(swiglu(tape(), x(), x()))>("swiglu", "Activation"),
        row<Policy, Rotary, decltype(rotary(tape(), x(), RotaryOptions{}))>("rotary", "Activation"),
        row<Policy, halfstep::operation::LayerNorm,
            decltype(std::declval<const halfstep::LayerNorm&>()(tape(), x()))>("LayerNorm", "Normalization"),
        row<Policy, halfstep::operation::RmsNorm,
            decltype(std::declval<const halfstep::RmsNorm&>()(tape(), x()))>("RmsNorm", "Normalization"),
        row<Policy, halfstep::operation::Embedding,
            decltype(std::declval<const halfstep::Embedding&>()(tape(), ids()))>("Embedding"),
        row<Policy, halfstep::operation::Loss, decltype(cross_entropy(tape(), x(), ids()))>("cross_entropy"),
        row<Policy, Matmul,
            decltype(head_cross_entropy(tape(), x(), std::declval<const Parameter&>(), ids()))>(
            "head_cross_entropy"),
        row<Policy, halfstep::operation::Loss,
            decltype(mean_squared_error(tape(), x(), std::declval<Tensor<const float>>()))>(
            "mean_squared_error"),
        row<Policy, halfstep::operation::Loss, decltype(sum(tape(), x()))>("sum"),
        row_of_any_type<Policy, Add, decltype(add(tape(), x(), x())), decltype(add(tape(), f(), x()))>(
            "add", "the wider"),
        row_of_any_type<Policy, Dropout, decltype(dropout(tape(), x(), 0.1f)),
                        decltype(dropout(tape(), f(), 0.1f))>("dropout", "its input"),
        row_of_any_type<Policy, MaxPool, decltype(max_pool2d(tape(), x(), 2)),
                        decltype(max_pool2d(tape(), f(), 2))>("max_pool2d", "its input"),
        row_of_any_type<Policy, AveragePool, decltype(average_pool2d(tape(), x(), 2)),
                        decltype(average_pool2d(tape(), f(), 2))>("average_pool2d", "its input"),
    });
  }
};

/// The table's lines, but for PyTorch's column.
std::vector<std::string> lines_of_the_types() {
  static constexpr std::array columns{Calls<Float32Policy>::rows(), Calls<BFloat16Policy>::rows(),
                                      Calls<Float16ScaledPolicy>::rows()};
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < columns[0].size(); ++i) {
    const Row& row = columns[0][i];
    const std::string article = row.group.starts_with('A') ? ", an `" : ", a `";
    std::string line = "| `" + std::string(row.call) + "` | `" + std::string(row.tag) + "`";
    if (!row.group.empty()) line += article + std::string(row.group) + "`";
    for (const auto& column : columns) line += " | " + column[i].cell();
    lines.push_back(line + " |");
  }
  return lines;
}

std::vector<std::string> lines_of_the_page() {
  std::ifstream page(HALFSTEP_SOURCE_DIR "/docs/writing-a-policy.md");
  BOOST_TEST_REQUIRE(page.good());
  std::vector<std::string> lines;
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| operation | tag |", 0) == 0) in_table = true;
    if (in_table && line.empty()) break;
    if (in_table) lines.push_back(line);
  }
  BOOST_TEST_REQUIRE(lines.size() > 2u);
  lines.erase(lines.begin(), lines.begin() + 2);
  return lines;
}

struct OneOperationInFloat : BFloat16Policy {
  using in_float = operation::List<operation::Attention>;
};
struct NormsIn16Bits : BFloat16Policy {
  using in_compute_type = operation::List<operation::Normalization>;
};

}  // namespace operation_types_test
using namespace operation_types_test;

BOOST_AUTO_TEST_CASE(the_documented_table_is_what_the_types_say) {
  const auto expected = lines_of_the_types();
  for (const std::string& line : expected) BOOST_TEST_MESSAGE(line);
  const auto found = lines_of_the_page();
  BOOST_TEST(found.size() == expected.size());
  for (std::size_t i = 0; i < (std::min)(expected.size(), found.size()); ++i) {
    BOOST_TEST(found[i].substr(0, expected[i].size()) == expected[i]);
    BOOST_TEST(found[i].size() > expected[i].size() + 4, "without PyTorch's: " << found[i]);
  }
}

BOOST_AUTO_TEST_CASE(one_line_moves_an_operation_a_group_or_a_layer) {
  using One = Calls<OneOperationInFloat>;
  using Norms = Calls<NormsIn16Bits>;
  using Plain = Calls<BFloat16Policy>;
  static_assert(
      std::is_same_v<decltype(attention(One::tape(), One::x(), AttentionOptions{})), Variable<float>>);
  static_assert(
      std::is_same_v<decltype(std::declval<const Linear&>()(One::tape(), One::x())), Variable<bfloat16>>);
  static_assert(std::is_same_v<decltype(std::declval<const RmsNorm&>()(Norms::tape(), Norms::x())),
                               Variable<bfloat16>>);
  static_assert(
      std::is_same_v<decltype(std::declval<const ComputeIn<float, Linear>&>()(Plain::tape(), Plain::x())),
                     Variable<float>>);
  static constexpr auto moved = One::rows(), norms = Norms::rows();
  BOOST_TEST(moved[3].cell() == "float32 / float32 / float32");
  BOOST_TEST(moved[0].cell() == "bfloat16 / float32 / bfloat16");
  BOOST_TEST(norms[9].cell() == "bfloat16 / float32 / bfloat16");
}

BOOST_AUTO_TEST_SUITE_END()
