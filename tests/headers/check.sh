#!/usr/bin/env bash
# check.sh <flags without OpenMP> <flags> <compiler> <flag>... -- <unit or folder of units>...
# Does every unit compile? Exit code 77: the compiler is not installed.
set -eu
flags_without_openmp=$1 flags=$2 compiler=$3
shift 3
options=()
while [ "$1" != -- ]; do
  options+=("$1")
  shift
done
shift
if ! command -v "$compiler" >/dev/null; then
  echo "$compiler is not installed: this check is skipped."
  exit 77
fi
if ! echo '#include <omp.h>' | "$compiler" -fopenmp -fsyntax-only -x c++ - 2>/dev/null; then
  echo "$compiler has no OpenMP here: the headers are checked without it."
  flags=$flags_without_openmp
fi
find "$@" -name '*.cpp' -print0 |
  xargs -0 -n 4 -P 2 "$compiler" "@$flags" -fsyntax-only "${options[@]}"
echo "$compiler accepts every header."
