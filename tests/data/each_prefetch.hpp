#pragma once

#include <boost/test/unit_test.hpp>
#include <span>

namespace halfstep::test {

/// A check that every number of batches loaded ahead must pass.
inline void for_each_prefetch(std::span<const int> prefetches, void (*check)(int prefetch)) {
  for (const int prefetch : prefetches) {
    BOOST_TEST_CONTEXT("prefetch " << prefetch) check(prefetch);
  }
}

}  // namespace halfstep::test
