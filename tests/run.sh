#!/usr/bin/env bash
# Builds and runs all tests. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/support/setup.sh

usage() {
  cat <<'TEXT'
tests/run.sh [--long] [--no-sanitizers] [--build FOLDER] [-D NAME=VALUE]... [ctest options]

Installs what is missing with the system's package manager (Debian, Ubuntu), configures, builds and runs the tests, and
ends with ctest's summary. Python's safetensors and TensorBoard, which read our files in two tests, go into the build
folder by pip; where that cannot reach them the two are skipped. The first run takes minutes, the next seconds. No GPU and
no CUDA toolkit are needed; with a toolkit the device Cuda is tested too, emulated.

  --long            the tests labelled long instead: hours (every float, all of CUDA by nvcc, fuzzers, and plainly what
                    the ordinary run tests under sanitizers alone)
  --no-sanitizers   no program under AddressSanitizer, UndefinedBehaviorSanitizer or ThreadSanitizer, every test plainly
  --build FOLDER    build there instead of in build/tests
  -D NAME=VALUE     an option for CMake, e.g. -D HALFSTEP_WITH_ONEDNN=OFF
  anything else     goes to ctest, e.g. -R numeric, -L headers, --rerun-failed

Environment: CXX chooses the compiler (CXX=clang++), HALFSTEP_HIDE_CUDA=1 keeps away from a CUDA toolkit.
Exit code: 0 if every test passed.
TEXT
}

build=build/tests
cmake_options=()
ctest_options=()
targets=(all)
sanitize=ON
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --long) ctest_options+=(-C Long -L long) targets=(halfstep_long_tests) ;;
    --no-sanitizers) sanitize=OFF ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    -D) cmake_options+=(-D "${2:?-D needs NAME=VALUE}"); shift ;;
    -D*) cmake_options+=("$1") ;;
    *) ctest_options+=("$1") ;;
  esac
  shift
done

say "Looking for what the tests need"
need_toolchain
need have_header boost/test/unit_test.hpp libboost-test-dev
need_example_libraries
want have_program clang++ clang libomp-dev
want have_python_module ensurepip python3-venv
install_missing

# Files are also read by the readers that people use: packages of Python's, installed while the tests build.
has_readers() { [ -x "$(command -v "$1")" ] && "$1" -c 'import numpy, safetensors, tensorboard' >/dev/null 2>&1; }
install_readers() {
  python3 -m venv "$python"
  timeout 120 "$python/bin/python3" -m pip install -q --no-compile --disable-pip-version-check --retries 0 --timeout 5 \
    numpy safetensors tensorboard
}
installing=
mkdir -p "$build"
python=$(cd "$build" && pwd)/python
if [ "${targets[0]}" = all ] && ! has_readers python3; then
  if ! has_readers "$python/bin/python3" && have_python_module ensurepip; then
    (install_readers) >"$build/python.log" 2>&1 &
    installing=$!
  fi
  if [ -n "$installing" ] || has_readers "$python/bin/python3"; then
    cmake_options=(-D "HALFSTEP_PYTHON=$python/bin/python3" "${cmake_options[@]}")
  fi
fi

say "Configuring $build"
# The tests of the examples train little: -O1 compiles faster than -O2 makes them.
configure "$build" -D HALFSTEP_SANITIZE=$sanitize -D HALFSTEP_EXAMPLES_OPTIMIZATION=-O1 "${cmake_options[@]}"

say "Building with $(nproc) jobs"
cmake --build "$build" -j "$(nproc)" --target "${targets[@]}" || fail "The build failed: the first error above says where. Nothing was tested."
if [ -n "$installing" ] && ! wait "$installing"; then
  say "No readers from Python: see $build/python.log. The tests state.python and evidence.python are skipped."
  cmake -U HALFSTEP_PYTHON "$build" >/dev/null # the system's Python, which says that it has none
fi

say "Testing"
log=$build/ctest.log
result=0
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error "${ctest_options[@]}" | tee "$log" || result=$?

# The same figures in one plain line, for programs that read the end of this output.
awk '/\*\*\*Skipped/ { skipped++ }
     / tests? passed, .* out of / { failed = $4; total = $NF; ended = 1 }
     END {
       if (!ended) exit
       printf "\n%d passed, %d failed", total - failed - skipped, failed
       if (skipped) printf ", %d skipped", skipped
       print ""
     }' "$log"
exit $result
