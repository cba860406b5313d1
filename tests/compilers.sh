#!/usr/bin/env bash
# Builds and runs a core of the tests with several compilers and options. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
tests/compilers.sh [compiler...]

For each compiler (g++ and clang++, those of them that are there, unless others are named):

  -O0                    C++20
  -O0 -march=native      C++23
  -O3                    C++20
  -O3 -march=native      C++23
  -O2 -ffast-math        C++20, the tests that are made for it

builds the tests below, warnings being errors, and runs them. One line each; the exit code is 0 if all passed.
Needs what tests/run.sh installs, and is no part of it: some minutes for each compiler.

Environment: TESTS, HALFSTEP_BUILD (build/compilers).
TEXT
}
case ${1:-} in -h | --help) usage; exit 0 ;; esac

tests=${TESTS:-law/every_state scaling/measure scaling/unscale optim/update_pass optim/adamw attack/values}
fast_math_tests="scaling/refusals_fast_math scenarios/overflows_seen_fast_math"
build=${HALFSTEP_BUILD:-build/compilers}
compilers=("$@")
[ $# -gt 0 ] || for compiler in g++ clang++; do command -v $compiler >/dev/null && compilers+=($compiler); done
mkdir -p "$build"

common=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fno-math-errno -Iinclude -Itests
        -DBOOST_TEST_DYN_LINK -DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP "-DHALFSTEP_SOURCE_DIR=\"$PWD\"")
for folder in "${CUDA_PATH:-/usr/local/cuda}/include/cccl" "${CUDA_PATH:-/usr/local/cuda}/include"; do
  if [ -f "$folder/thrust/version.h" ]; then common+=(-isystem "$folder"); break; fi
done

failures=0 passed=0
# run_one <test> <compiler> <option>...
run_one() {
  local test=$1 compiler=$2 result=passed log=$build/log
  shift 2
  if ! "$compiler" "${common[@]}" "${openmp[@]}" "${speed[@]}" "$@" "tests/$test.cpp" "$build/main.o" -o "$build/test" \
      -lboost_unit_test_framework -lpthread >"$log" 2>&1; then
    result="does not compile"
  elif ! OMP_WAIT_POLICY=PASSIVE "$build/test" >"$log" 2>&1; then
    result=failed
  fi
  printf '%-18s %-10s %-36s %s\n' "$result" "$compiler" "$*" "$test"
  if [ "$result" = passed ]; then
    passed=$((passed + 1))
  else
    failures=$((failures + 1))
    head -n 20 "$log"
  fi
}

for compiler in "${compilers[@]}"; do
  openmp=()
  # clang warns where a loop that is marked for it was not vectorised: a matter of speed.
  speed=()
  case $compiler in *clang*) speed=(-Wno-pass-failed) ;; esac
  if echo '#include <omp.h>' | "$compiler" -fopenmp -x c++ -E - >/dev/null 2>&1; then openmp=(-fopenmp); fi
  "$compiler" -std=c++20 -DBOOST_TEST_DYN_LINK -c tests/support/main.cpp -o "$build/main.o"
  late=-std=c++23
  echo | "$compiler" $late -x c++ -E - >/dev/null 2>&1 || late=-std=c++2b
  echo "$("$compiler" --version | head -n 1), OpenMP ${openmp[*]:-off}"
  for test in $tests; do
    run_one "$test" "$compiler" -O0 -std=c++20
    run_one "$test" "$compiler" -O0 -march=native $late
    run_one "$test" "$compiler" -O3 -std=c++20
    run_one "$test" "$compiler" -O3 -march=native $late
  done
  for test in $fast_math_tests; do run_one "$test" "$compiler" -O2 -ffast-math -std=c++20; done
done
echo "$passed passed, $failures failed"
[ $failures = 0 ]
