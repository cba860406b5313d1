#pragma once

#include <boost/test/unit_test.hpp>
#include <exception>
#include <string>
#include <typeinfo>

namespace halfstep::test {

/// The message of the error that a call throws, which must be an `Error` and none that derives from it.
template <class Error, class Call>
std::string refusal(const Call& call) {
  try {
    call();
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

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace halfstep::test
