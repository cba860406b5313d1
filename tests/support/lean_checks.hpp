// At each check and in each test case Boost.Test's macros write out code that is the same everywhere: of a check its
// report, of a case its name, five times, into a stream. Compiling that takes longer than compiling many a test. Here
// these two macros call functions instead. What a test does and what its failure says stay as they are, but for the
// name of the case at "last checkpoint", which stands in the line above it anyway: so precompiled.hpp reads this for
// all files at once, and one that is built without it has Boost's own.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>

namespace halfstep::test {

[[gnu::noinline]] inline void reached(const char* file, std::size_t line) {
  boost::unit_test::unit_test_log.set_checkpoint(file, line);
}

[[gnu::noinline]] inline void report(const boost::test_tools::assertion_result& result, const char* text,
                                     const char* file, std::size_t line,
                                     boost::test_tools::tt_detail::tool_level level) {
  using namespace boost::test_tools::tt_detail;
  report_assertion(result, boost::unit_test::lazy_ostream::instance() << text, file, line, level,
                   CHECK_BUILT_ASSERTION, 0);
}

template <class Expression>
[[gnu::noinline]] void check(const Expression& expression, const char* text, const char* file,
                             std::size_t line, boost::test_tools::tt_detail::tool_level level) {
  report(expression.evaluate(), text, file, line, level);
}

}  // namespace halfstep::test

#undef BOOST_TEST_CHECKPOINT
#define BOOST_TEST_CHECKPOINT(message) ::halfstep::test::reached(__FILE__, __LINE__)

#undef BOOST_TEST_TOOL_ET_IMPL
#define BOOST_TEST_TOOL_ET_IMPL(expression, level)                                                         \
  do {                                                                                                     \
    ::halfstep::test::reached(__FILE__, __LINE__);                                                         \
    ::halfstep::test::check(BOOST_TEST_BUILD_ASSERTION(expression), BOOST_STRINGIZE(expression), __FILE__, \
                            __LINE__, ::boost::test_tools::tt_detail::level);                              \
  } while (::boost::test_tools::tt_detail::dummy_cond())
