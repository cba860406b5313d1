// What tests include, by themselves or through halfstep, that takes long to read: read once for all of them. No header
// of halfstep is here: a test file names those it tests, and tests/headers sees that each of them stands alone.
#pragma once

#include <fmt/format.h>
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>

#include <algorithm>
#include <array>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

// What is optimised has no JSON, and reading it costs g++ a second in each program.
#ifndef __OPTIMIZE__
#include <nlohmann/json.hpp>
#endif
#if HALFSTEP_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "support/lean_checks.hpp"
