// The main function of every test program; each test file is linked with it.
#define BOOST_TEST_MODULE halfstep
#include <boost/test/unit_test.hpp>
