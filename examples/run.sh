#!/usr/bin/env bash
# Builds the examples and trains the digits model under the three policies. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/support/setup.sh

usage() {
  cat <<'TEXT'
examples/run.sh [--build FOLDER] [-D NAME=VALUE]... [options of digits]

Installs what is missing with the system's package manager (Debian, Ubuntu), configures, builds the examples and trains the
digits model on the CPU under Float32Policy, BFloat16Policy and Float16ScaledPolicy. Progress while it runs, one table at the
end. The first run takes minutes, later ones start training within seconds. No GPU and no CUDA toolkit are needed.

  --build FOLDER    build there instead of in build/examples
  -D NAME=VALUE     an option for CMake, e.g. -D HALFSTEP_WITH_ONEDNN=OFF
  anything else     goes to digits, e.g. --epochs 5, --seed 3, --json figures.json

Environment: CXX chooses the compiler (CXX=clang++), HALFSTEP_HIDE_CUDA=1 keeps away from a CUDA toolkit.
All examples are then in the build folder's examples/: quickstart, custom_policy, digits and more.
TEXT
}

build=build/examples
cmake_options=()
digits_options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    -D) cmake_options+=(-D "${2:?-D needs NAME=VALUE}"); shift ;;
    -D*) cmake_options+=("$1") ;;
    *) digits_options+=("$1") ;;
  esac
  shift
done

say "Looking for what the examples need"
need_toolchain
need_example_libraries
install_missing

say "Configuring $build"
configure "$build" -D HALFSTEP_BUILD_TESTS=OFF "${cmake_options[@]}"

say "Building with $(nproc) jobs"
cmake --build "$build" -j "$(nproc)" || fail "The build failed: the first error above says where."

say "Training on 1,437 handwritten digits under three policies"
exec "$build/examples/digits" --policy all "${digits_options[@]}"
