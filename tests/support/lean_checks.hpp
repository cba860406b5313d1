// At each check and in each test case Boost.Test's macros write out code that is the same everywhere: of a check its
// report, of a case its name, five times, into a stream, and for each type of a template's how a name is made of it.
// Compiling that takes longer than compiling many a test. Here these macros call functions instead. What a test does
// and what its failure says stay as they are, but for the name of the case at "last checkpoint", which stands in the
// line above it anyway: so precompiled.hpp reads this for all files at once, and one that is built without it has
// Boost's own. They are made of what Boost.Test 1.74 is made of, so with any other they stay Boost's too.
#pragma once

#include <boost/version.hpp>

#if BOOST_VERSION / 100 == 1074

#include <boost/core/demangle.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <typeinfo>

namespace halfstep::test::lean {

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

/// A test case of a template for one type.
struct TypedCase {
  const std::type_info& type;
  void (*run)();
};

struct TypedCases : boost::unit_test::ut_detail::template_test_case_gen_base {
  TypedCases(const char* name, const char* file, std::size_t line, std::initializer_list<TypedCase> cases) {
    for (const auto& [type, run] : cases) {
      const std::string full_name = std::string(name) + '<' + boost::core::demangle(type.name()) + '>';
      m_test_cases.push_back(boost::unit_test::make_test_case(run, full_name, file, line));
    }
  }
};

template <class Invoker, class Type>
constexpr TypedCase typed_case() {
  return {typeid(Type), [] { Invoker::run(static_cast<boost::type<Type>*>(nullptr)); }};
}

template <class Invoker, class List>
struct TypedCasesOf;
template <class Invoker, template <class...> class List, class... Types>
struct TypedCasesOf<Invoker, List<Types...>> : TypedCases {
  TypedCasesOf(const char* name, const char* file, std::size_t line)
      : TypedCases(name, file, line, {typed_case<Invoker, Types>()...}) {}
};

}  // namespace halfstep::test::lean

#undef BOOST_TEST_CHECKPOINT
#define BOOST_TEST_CHECKPOINT(message) ::halfstep::test::lean::reached(__FILE__, __LINE__)

#undef BOOST_TEST_TOOL_ET_IMPL
#define BOOST_TEST_TOOL_ET_IMPL(expression, level)                                                     \
  do {                                                                                                 \
    ::halfstep::test::lean::reached(__FILE__, __LINE__);                                               \
    ::halfstep::test::lean::check(BOOST_TEST_BUILD_ASSERTION(expression), BOOST_STRINGIZE(expression), \
                                  __FILE__, __LINE__, ::boost::test_tools::tt_detail::level);          \
  } while (::boost::test_tools::tt_detail::dummy_cond())

#undef BOOST_FIXTURE_TEST_CASE_TEMPLATE
#define BOOST_FIXTURE_TEST_CASE_TEMPLATE(test_name, type_name, types, fixture)                         \
  template <class type_name>                                                                           \
  struct test_name : public fixture {                                                                  \
    void test_method();                                                                                \
  };                                                                                                   \
                                                                                                       \
  struct BOOST_AUTO_TC_INVOKER(test_name) {                                                            \
    template <class Type>                                                                              \
    static void run(boost::type<Type>*) {                                                              \
      ::halfstep::test::lean::reached(__FILE__, __LINE__);                                             \
      test_name<Type> test;                                                                            \
      boost::unit_test::setup_conditional(test);                                                       \
      test.test_method();                                                                              \
      boost::unit_test::teardown_conditional(test);                                                    \
    }                                                                                                  \
  };                                                                                                   \
                                                                                                       \
  BOOST_AUTO_TU_REGISTRAR(test_name)                                                                   \
  (::halfstep::test::lean::TypedCasesOf<BOOST_AUTO_TC_INVOKER(test_name), types>(#test_name, __FILE__, \
                                                                                 __LINE__),            \
   boost::unit_test::decorator::collector_t::instance());                                              \
                                                                                                       \
  template <class type_name>                                                                           \
  void test_name<type_name>::test_method()

#endif
