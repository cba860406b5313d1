// The main function of the tests on a GPU, with all of Boost.Test: the program is carried to machines that
// have none.
#define BOOST_TEST_MODULE halfstep on a GPU
#include <boost/test/included/unit_test.hpp>
