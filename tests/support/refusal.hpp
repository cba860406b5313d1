#pragma once

#include <boost/test/unit_test.hpp>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <typeinfo>

namespace halfstep::test {

/// The message of the error that `call(object)` throws.
template <class Error>
std::string refusal_of(void (*call)(const void*), const void* object) {
  try {
    call(object);
  } catch (const Error& error) {
    BOOST_TEST((typeid(error) == typeid(Error)), "an error of another type: " << error.what());
    return error.what();
  } catch (const std::exception& error) {
    BOOST_ERROR("an error of another type: " << error.what());
    return error.what();
  }
  BOOST_ERROR("accepted");
  return "";
}

/// The message of the error that a call throws, which must be an `Error` and none that derives from it.
template <class Error, class Call>
std::string refusal(const Call& call) {
  return refusal_of<Error>([](const void* object) { (*static_cast<const Call*>(object))(); }, &call);
}

inline bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Checks that a message is this one.
inline void check_is(const std::string& text, const std::string& expected,
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  BOOST_TEST(text == expected,
             file << "(" << line << "): \"" << text << "\" instead of \"" << expected << "\"");
}

/// Checks that a message holds each of these.
inline void check_holds(const std::string& text, std::initializer_list<std::string_view> parts,
                        const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  for (const std::string_view part : parts) {
    BOOST_TEST(holds(text, part),
               file << "(" << line << "): \"" << part << "\" is not in \"" << text << "\"");
  }
}

}  // namespace halfstep::test
