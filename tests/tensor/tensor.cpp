#include <boost/test/unit_test.hpp>
#include <numeric>
#include <string>
#include <vector>

#include <halfstep/tensor/tensor.hpp>

BOOST_AUTO_TEST_SUITE(tensor_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(a_tensor_is_a_view_of_memory_that_others_own) {
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.0f);
  Tensor<float> tensor(values.data(), {2, 3});
  tensor[4] = 40;
  BOOST_TEST(values[4] == 40.0f);
  const Tensor<const float> readable = tensor;
  BOOST_TEST(readable.data() == values.data());
  BOOST_TEST(std::accumulate(readable.begin(), readable.end(), 0.0f) == 51.0f);
  BOOST_TEST(readable.rows() == 2);
  BOOST_TEST(readable.columns() == 3);
}

BOOST_AUTO_TEST_CASE(reshaping_keeps_the_elements_and_refuses_another_number_of_them) {
  std::vector<int> values(12);
  const Tensor<int> tensor(values.data(), {3, 4});
  BOOST_CHECK(tensor.reshaped({2, 6}).shape() == (Shape{2, 6}));
  BOOST_TEST(tensor.reshaped({12}).data() == values.data());
  BOOST_CHECK_EXCEPTION(tensor.reshaped({5, 2}), ShapeError, [](const ShapeError& error) {
    const std::string text = error.what();
    return text.find("[3, 4]") != std::string::npos && text.find("[5, 2]") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_default_tensor_is_empty) {
  const Tensor<float> none;
  BOOST_TEST(none.size() == 0);
  BOOST_TEST(none.data() == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
