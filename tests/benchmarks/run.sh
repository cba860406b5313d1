#!/usr/bin/env bash
# Builds and runs all benchmarks, one after another. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/setup.sh

usage() {
  cat <<'TEXT'
tests/benchmarks/run.sh [--build FOLDER] [--build-only] [-D NAME=VALUE]... [NAME]... [options of Google Benchmark]

Installs what is missing with the system's package manager (Debian, Ubuntu), builds the benchmarks and runs those whose
names hold one of NAME (all, if none is given) one after another. Let nothing else run meanwhile.

  --build FOLDER    build there instead of in build/benchmarks
  --build-only      run none
  -D NAME=VALUE     an option for CMake, e.g. -D HALFSTEP_WITH_ONEDNN=OFF
  --benchmark_...   goes to each program, e.g. --benchmark_filter=float16
TEXT
}

build=build/benchmarks
build_only=
cmake_options=()
benchmark_options=()
names=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --build-only) build_only=yes ;;
    -D) cmake_options+=(-D "${2:?-D needs NAME=VALUE}"); shift ;;
    -D*) cmake_options+=("$1") ;;
    -*) benchmark_options+=("$1") ;;
    *) names+=("$1") ;;
  esac
  shift
done

say "Looking for what the benchmarks need"
need_toolchain
need have_header benchmark/benchmark.h libbenchmark-dev
need have_header fmt/core.h libfmt-dev
install_missing

say "Configuring $build"
configure "$build" -D HALFSTEP_BUILD_TESTS=OFF -D HALFSTEP_BUILD_EXAMPLES=OFF -D HALFSTEP_BUILD_BENCHMARKS=ON \
  "${cmake_options[@]}"

say "Building"
cmake --build "$build" -j "$(nproc)" --target benchmarks || fail "The build failed: the first error above says where."
[ -z "$build_only" ] || exit 0

result=0
ran=0
for program in "$build"/tests/benchmarks/benchmark.*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  name=${program##*/benchmark.}
  wanted=$([ ${#names[@]} -eq 0 ] && echo yes || true)
  for part in "${names[@]}"; do
    case $name in *"$part"*) wanted=yes ;; esac
  done
  [ -n "$wanted" ] || continue
  say "$name"
  "$program" "${benchmark_options[@]}" || result=1
  ran=$((ran + 1))
done
[ $ran -gt 0 ] || fail "No benchmark has '${names[*]}' in its name."
exit $result
