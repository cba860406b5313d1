#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include <halfstep/tensor/shape.hpp>

BOOST_AUTO_TEST_SUITE(shape_tests)

using namespace halfstep;

namespace {

bool says(const ShapeError& error, const char* text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_and_columns_see_a_shape_as_a_matrix) {
  const Shape shape{2, 3, 5};
  BOOST_TEST(shape.rank() == 3);
  BOOST_TEST(shape.size() == 30);
  BOOST_TEST(shape.rows() == 6);
  BOOST_TEST(shape.columns() == 5);
  BOOST_TEST(shape[0] == 2);
  BOOST_TEST(shape[-1] == 5);
  BOOST_TEST(shape.text() == "[2, 3, 5]");
  BOOST_CHECK(shape.with_columns(7) == (Shape{2, 3, 7}));
}

BOOST_AUTO_TEST_CASE(the_empty_shape_is_a_scalar_and_a_zero_extent_is_no_element) {
  const Shape scalar{};
  BOOST_TEST(scalar.size() == 1);
  BOOST_TEST(scalar.rows() == 1);
  BOOST_TEST(scalar.columns() == 1);
  BOOST_TEST(scalar.text() == "[]");
  BOOST_TEST((Shape{4, 0}.size()) == 0);
  BOOST_TEST((Shape{0, 4}.rows()) == 0);
}

BOOST_AUTO_TEST_CASE(shapes_are_equal_by_rank_and_extents) {
  BOOST_CHECK((Shape{2, 3} == Shape{2, 3}));
  BOOST_CHECK(!(Shape{2, 3} == Shape{3, 2}));
  BOOST_CHECK(!(Shape{6} == Shape{6, 1}));
}

BOOST_AUTO_TEST_CASE(a_shape_that_cannot_be_is_refused_with_its_extents) {
  BOOST_CHECK_EXCEPTION((Shape{2, -3}), ShapeError, [](const ShapeError& e) { return says(e, "[2, -3]"); });
  const std::int64_t large = std::int64_t{1} << 32;
  BOOST_CHECK_EXCEPTION((Shape{large, large}), ShapeError, [](const ShapeError& e) { return says(e, "4294967296"); });
  BOOST_CHECK_THROW((Shape{large, large, 0}), ShapeError);
  BOOST_CHECK_THROW((Shape{0, large, large}), ShapeError);
  BOOST_CHECK_THROW((Shape{large, 1}).with_columns(large), ShapeError);
  BOOST_CHECK_THROW((Shape{2, 1}).with_columns(-1), ShapeError);
  const std::vector<std::int64_t> seven(7, 1);
  BOOST_CHECK_EXCEPTION((Shape{std::span<const std::int64_t>(seven)}), ShapeError,
                        [](const ShapeError& e) { return says(e, "7"); });
}

BOOST_AUTO_TEST_SUITE_END()
