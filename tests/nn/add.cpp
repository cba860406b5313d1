#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/add.hpp>
#include <type_traits>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(add_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct Sum {
  std::vector<double> a, b;
  std::vector<float> dy, values, gradient_of_a, gradient_of_b;
  bool operator==(const Sum&) const = default;
};

template <class A, class B>
Sum sum_of(const Shape& a_shape, const Shape& b_shape) {
  Session<Float32Policy> session;
  Watched<A> a(a_shape, random_numbers(a_shape.size(), -2.0f, 2.0f, 3));
  Watched<B> b(b_shape, random_numbers(b_shape.size(), -2.0f, 2.0f, 4));
  const auto dy = rounded<detail::sum_type<A, B>>(random_numbers(a_shape.size(), -1.0f, 1.0f, 5));
  const auto y = add(session.tape, watch(session.tape, a), watch(session.tape, b));
  BOOST_TEST((y.shape() == a_shape));
  session.backward(weighted_sum(session.tape, y, dy));
  return {a.exact(), b.exact(), dy, floats(y.value()), a.gradient, b.gradient};
}

std::vector<float> exact_sums(const Sum& sum) {
  std::vector<float> sums;
  for (std::size_t i = 0; i < sum.a.size(); ++i) {
    sums.push_back(static_cast<float>(sum.a[i] + sum.b[i % sum.b.size()]));
  }
  return sums;
}

std::vector<double> exact_gradient_of_b(const Sum& sum) {
  std::vector<double> db(sum.b.size());
  for (std::size_t i = 0; i < sum.dy.size(); ++i) db[i % db.size()] += static_cast<double>(sum.dy[i]);
  return db;
}

/// Beside the sum in double.
template <class A, class B>
void check_add(const Shape& a_shape, const Shape& b_shape) {
  BOOST_TEST_CONTEXT(a_shape.text() << " + " << b_shape.text()) {
    const Sum sum = sum_of<A, B>(a_shape, b_shape);
    BOOST_TEST((sum.gradient_of_a == rounded<A>(sum.dy)));
    // A float holds the sum of two numbers of 16 bits of like size, and rounds that of two floats as the sum's
    // type does.
    BOOST_TEST((sum.values == rounded<detail::sum_type<A, B>>(exact_sums(sum))));
    const std::int64_t terms = a_shape.size() / b_shape.size();
    check_close(sum.gradient_of_b, exact_gradient_of_b(sum), tolerance_of<B>.over(terms));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_and_gradients_are_those_in_double) {
  // Rank 0 to 4; b whole, its last extents, a row, one number; longer than a chunk, and b across its borders.
  check_add<float, float>(Shape(), Shape());
  check_add<float, float>({2, 3, 4, 5}, {2, 3, 4, 5});
  check_add<float, float>({3, 5, 1, 7}, {5, 1, 7});
  check_add<float, float>({5, 29, 101}, {101});
  check_add<float, float>({97, 1}, {1});
  check_add<float16, float16>({3, 9000}, {9000});
  check_add<bfloat16, bfloat16>({2, 5003}, {2, 5003});
  check_add<float, bfloat16>({4, 33}, {4, 33});
  check_add<bfloat16, float>({6, 4, 33}, {4, 33});
}

BOOST_AUTO_TEST_CASE(the_sum_has_the_wider_type_of_its_terms) {
  Session<Float16ScaledPolicy> session;
  Watched<float> f({2}, {1, 2});
  Watched<float16> h({2}, {1, 2});
  Watched<bfloat16> b({2}, {1, 2});
  auto& tape = session.tape;
  const auto x = watch(tape, f);
  const auto y = watch(tape, h);
  const auto z = watch(tape, b);
  static_assert(std::is_same_v<decltype(add(tape, x, x)), Variable<float>>);
  static_assert(std::is_same_v<decltype(add(tape, y, y)), Variable<float16>>);
  static_assert(std::is_same_v<decltype(add(tape, x, y)), Variable<float>>);
  static_assert(std::is_same_v<decltype(add(tape, z, y)), Variable<float>>);
  const std::vector<float> host{0.5f, 0.25f};
  BOOST_TEST(floats(add(tape, y, Tensor<const float>(host.data(), {2})).value()) ==
             (std::vector<float>{1.5f, 2.25f}));
}

BOOST_AUTO_TEST_CASE(the_gradient_goes_on_to_one_term_in_the_same_memory_where_that_is_possible) {
  const std::vector<float> dy{1.0f, -2.0f, 4.0f};
  const auto gradients = [&](bool later_use, bool same) {
    Session<Float32Policy> session;
    auto& tape = session.tape;
    Watched<float> a({3}, {1, 2, 3}), b({3}, {4, 5, 6});
    const auto x = watch(tape, a);
    const auto y = same ? x : watch(tape, b);
    const auto sum = add(tape, x, y);
    auto loss = weighted_sum(tape, sum, dy);
    if (later_use) loss = total(tape, loss, weighted_sum(tape, x, {10.0f, 20.0f, 30.0f}));
    session.backward(loss);
    BOOST_TEST((x.slot()->data == sum.slot()->data) == !later_use);
    return std::pair(a.gradient, b.gradient);
  };
  BOOST_TEST((gradients(false, false) == std::pair(dy, dy)));
  BOOST_TEST((gradients(true, false) == std::pair(std::vector<float>{11, 18, 34}, dy)));
  BOOST_TEST((gradients(false, true).first == std::vector<float>{2, -4, 8}));
  BOOST_TEST((gradients(true, true).first == std::vector<float>{12, 16, 38}));
}

BOOST_AUTO_TEST_CASE(an_earlier_use_of_a_term_adds_to_the_gradient_that_was_handed_on) {
  Session<Float32Policy> session;
  auto& tape = session.tape;
  Watched<float> a({2}, {1, 2}), b({2}, {3, 4});
  const auto x = watch(tape, a), y = watch(tape, b);
  const auto early = weighted_sum(tape, x, {5.0f, 6.0f});
  session.backward(total(tape, early, weighted_sum(tape, add(tape, x, y), {1.0f, 1.0f})));
  BOOST_TEST(a.gradient == (std::vector<float>{6.0f, 7.0f}));
  BOOST_TEST(b.gradient == (std::vector<float>{1.0f, 1.0f}));
}

BOOST_AUTO_TEST_CASE(a_loss_s_own_gradient_is_left_alone) {
  // A trainer takes any shape of one element for a loss.
  for (const Shape& shape : {Shape(), Shape{1}, Shape{1, 1}}) {
    Session<Float32Policy> session;
    auto& tape = session.tape;
    Watched<float> a(shape, {1});
    const auto x = watch(tape, a);
    const auto early = add(tape, x, x);
    const auto loss = add(tape, x, early);
    float seed = 8.0f;
    tape.backward(loss, &seed);
    BOOST_TEST(seed == 8.0f, shape.text());
    BOOST_TEST(a.gradient == std::vector<float>{24.0f}, shape.text());
  }
}

BOOST_AUTO_TEST_CASE(only_those_that_want_a_gradient_get_one) {
  Session<Float16ScaledPolicy> session;
  auto& tape = session.tape;
  const std::vector<float> values{1.0f, 2.0f};
  const Tensor<const float> constant(values.data(), {2});
  Watched<float16> half({2}, values);
  Watched<float> full({2}, values);
  session.backward(weighted_sum(tape, add(tape, constant, watch(tape, half)), {0.5f, 0.25f}));
  BOOST_TEST(half.gradient == (std::vector<float>{0.5f, 0.25f}));
  tape.begin(Pass::training);
  session.backward(weighted_sum(tape, add(tape, constant, watch(tape, full)), {0.5f, 0.25f}));
  BOOST_TEST(full.gradient == (std::vector<float>{0.5f, 0.25f}));
  BOOST_TEST(!add(tape, constant, constant).requires_gradient());
  tape.begin(Pass::inference);
  BOOST_TEST(!add(tape, watch(tape, full), constant).requires_gradient());
  const Tensor<const float> none(nullptr, {0, 2});
  BOOST_TEST(add(tape, none, constant).size() == 0);
  BOOST_TEST(add(tape, none, none).size() == 0);
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_the_number_of_threads) {
  const auto [one, two] = with_one_and_two_threads([] {
    return std::pair(sum_of<bfloat16, float>({40, 61, 53}, {61, 53}),
                     sum_of<float, float>({40, 61, 53}, {61, 53}));
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_add_are_refused_by_name) {
  Session<Float32Policy> session;
  const std::vector<float> values(12, 1.0f);
  const auto tensor = [&](const Shape& shape) { return Tensor<const float>(values.data(), shape); };
  for (const Shape& b : {Shape{2, 2, 3}, Shape{4}, Shape{3, 4}, Shape{4, 1}, Shape{1, 4, 3}}) {
    const auto text = refusal<ShapeError>([&] { add(session.tape, tensor({4, 3}), tensor(b)); });
    BOOST_TEST((holds(text, "[4, 3]") && holds(text, b.text())), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
