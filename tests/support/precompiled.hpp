// What nearly every test includes, read once for all of them: reading it anew in each would be most of the work of the
// whole run. A test file names the headers that it tests all the same; tests/headers sees that each stands alone.
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>

#include <algorithm>
#include <array>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <halfstep/halfstep.hpp>
#if __has_include(<nlohmann/json.hpp>) && __has_include(<zlib.h>)
#include <halfstep/state/checkpoints.hpp>
#endif
