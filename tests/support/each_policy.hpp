#pragma once

#include <boost/test/unit_test.hpp>
#include <halfstep/policy.hpp>

namespace halfstep::test {

/// A check that each of these policies must pass.
template <class... Policies, class Check>
void under_each(const Check& check) {
  const auto under = [&](auto policy) {
    BOOST_TEST_CONTEXT(decltype(policy)::name) check(policy);
  };
  (under(Policies()), ...);
}

/// One that the usual policy of each compute type must.
template <class Check>
void under_each_policy(const Check& check) {
  under_each<Float32Policy, Float16ScaledPolicy, BFloat16Policy>(check);
}

}  // namespace halfstep::test
