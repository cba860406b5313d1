#!/usr/bin/env bash
# Builds the examples and runs one: digits under the three policies, or gpt on the King James text. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/support/setup.sh

usage() {
  cat <<'TEXT'
examples/run.sh [digits | gpt] [--device host | cuda] [--build FOLDER] [-D NAME=VALUE]... [options of the program]

Installs what is missing with the system's package manager (Debian, Ubuntu), configures and builds. Then

  digits   (if none is named) trains the digits model under Float32Policy, BFloat16Policy and
           Float16ScaledPolicy: progress while it runs, one table at the end
  gpt      trains a GPT of 4 layers, 128 wide, for 300 steps on the King James Bible, byte by byte, from scratch

The first run takes minutes, later ones start training within seconds. No GPU and no CUDA toolkit are needed, unless

  --device cuda     trains on an NVIDIA GPU: the same sources, compiled by nvcc (a CUDA toolkit of 12.4 or newer)
  --build FOLDER    build there instead of in build/examples, or in build/examples-cuda
  -D NAME=VALUE     an option for CMake, e.g. -D HALFSTEP_WITH_ONEDNN=OFF
  anything else     goes to the program, e.g. --epochs 5 or --json figures.json for digits,
                    --policy float16 or --generate "In the beginning" for gpt (docs/gpt.md)

Environment: CXX chooses the compiler (CXX=clang++), HALFSTEP_HIDE_CUDA=1 keeps away from a CUDA toolkit.
The programs are in the build folder's examples/. For digits all are built: quickstart, custom_policy and more.
TEXT
}

program=digits
case ${1:-} in
  digits | gpt) program=$1; shift ;;
esac
build=
device=host
cmake_options=()
program_options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --device) device=${2:?--device needs host or cuda}; shift ;;
    --device=*) device=${1#*=} ;;
    -D) cmake_options+=(-D "${2:?-D needs NAME=VALUE}"); shift ;;
    -D*) cmake_options+=("$1") ;;
    *) program_options+=("$1") ;;
  esac
  shift
done

case $device in
  host) : "${build:=build/examples}" ;;
  cuda) : "${build:=build/examples-cuda}"
    have_program nvcc || [ -x "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" ] ||
      fail "--device cuda needs nvcc of a CUDA toolkit, which was not found; install one and put its bin/ on PATH." ;;
  *) fail "--device is $device; it must be host or cuda." ;;
esac

# The whole text, a verse a line after its place: "Ge1:1 In the beginning ...". Four megabytes, made once.
king_james() {
  if [ -s build/king-james.txt ]; then
    return
  fi
  have_program bible || fail "The King James text comes from Debian's package bible-kjv, which could not be installed; give another file with --text."
  mkdir -p build
  bible -f ge1:1-rev22:21 >build/king-james.part || fail "The program bible did not give the text; give another file with --text."
  mv build/king-james.part build/king-james.txt
}

say "Looking for what the examples need"
need_toolchain
need_example_libraries
own_text=
case " ${program_options[*]} " in
  *" --text"* | *" --steps 0 "*) own_text=1 ;;
esac
if [ $program = gpt ] && [ -z "$own_text" ] && [ ! -s build/king-james.txt ]; then
  want have_program bible bible-kjv
fi
install_missing

say "Configuring $build"
configure "$build" -D HALFSTEP_BUILD_TESTS=OFF -D HALFSTEP_EXAMPLES_DEVICE=$device "${cmake_options[@]}"

say "Building with $(nproc) jobs"
targets=()
[ $program = digits ] && [ $device = host ] || targets=(--target "example_$program")
cmake --build "$build" -j "$(nproc)" "${targets[@]}" || fail "The build failed: the first error above says where."

if [ $program = gpt ]; then
  [ -n "$own_text" ] || king_james
  say "Training a GPT"
  exec "$build/examples/gpt" "${program_options[@]}"
fi
say "Training on 1,437 handwritten digits under three policies"
exec "$build/examples/digits" --policy all "${program_options[@]}"
