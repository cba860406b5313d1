#!/usr/bin/env bash
# clang.sh <folder>: clang as the CUDA compiler. Where one is installed that can use the CUDA toolkit found here, it
# builds main.cpp and gpu.cu of linked/, a trainer under each policy, and the example quickstart, for sm_90 and without
# a warning, and sees that no kernel spills registers and that 16-bit numbers are converted by the GPU's instructions.
# HALFSTEP_CUDA_CLANG names the clang++ to try; otherwise the newest on PATH is taken that can.
set -euo pipefail
folder=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { echo "clang.sh: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

nvcc=$(command -v nvcc || echo "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc")
[ -x "$nvcc" ] || skip "no CUDA toolkit was found: no nvcc on PATH or in CUDA_PATH"
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
cuda=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
mkdir -p "$folder"

# Clang warns of each toolkit that came after it, and mostly can use it: what counts is whether it compiles this.
cat >"$folder/trial.cu" <<'TEXT'
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>

template <std::floating_point T>
__global__ void twice(const __grid_constant__ T value, T* to) {
  to[threadIdx.x] = value + __half2float(__float2half(static_cast<float>(value)));
}

int main() { twice<<<1, 1>>>(1.0f, static_cast<float*>(nullptr)); }
TEXT
# The older way to put device code into a program: the newer one needs programs that come in packages of their own.
flags=(-x cuda "--cuda-path=$toolkit" --cuda-gpu-arch=sm_90 -Wno-unknown-cuda-version --no-offload-new-driver
       -std=c++20)
libraries=("-L$toolkit/lib64" -lcublasLt -lcudart)

candidates=("${HALFSTEP_CUDA_CLANG:-}")
if [ -z "${candidates[0]}" ]; then
  mapfile -t candidates < <(compgen -c clang++ | grep -E '^clang\+\+(-[0-9]+)?$' | sort -Vru)
fi
[ ${#candidates[@]} -gt 0 ] || skip "no clang++ was found"
clang=
tried=
for candidate in "${candidates[@]}"; do
  version=$("$candidate" -dumpversion) || continue
  if "$candidate" "${flags[@]}" "$folder/trial.cu" -o "$folder/trial" "${libraries[@]}" >"$folder/trial.log" 2>&1; then
    clang=$candidate
    break
  fi
  [[ "$tried" == *" $version "* ]] || tried+="${tried:+and }clang $version "
done
[ -n "$clang" ] || skip "${tried}cannot use CUDA $cuda"

# As CMake sets up a CUDA source for the library: with the toolkit's Thrust, and with what {fmt} 9 must be told.
flags+=(-O2 -I "$root/include" -isystem "$toolkit/include/cccl" -DFMT_CONSTEVAL= -DFMT_USE_CONSTEXPR=1)
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
# compile <source> <object>
compile() {
  "$clang" "${flags[@]}" "${warnings[@]}" -Xcuda-ptxas -v -c "$root/$1" -o "$folder/$2" >"$folder/$2.log" 2>&1 ||
    { grep -E -A6 "error|warning" "$folder/$2.log" | head -60 || true; fail "clang refuses $1, which nvcc accepts"; }
  grep -q "bytes spill stores" "$folder/$2.log" || fail "ptxas said nothing of any kernel of $1"
  ! grep -B1 -E "[1-9][0-9]* bytes spill (stores|loads)" "$folder/$2.log" || fail "these kernels of $1 spill registers"
}
compile tests/cuda/linked/gpu.cu gpu.o
compile examples/quickstart.cpp quickstart.o
"$clang" -std=c++20 -O0 -I "$root/include" -isystem "$toolkit/include/cccl" -isystem "$toolkit/include" \
  -DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP -c "$root/tests/cuda/linked/main.cpp" -o "$folder/main.o"
"$clang" "$folder/main.o" "$folder/gpu.o" -o "$folder/linked" "${libraries[@]}"
"$clang" "$folder/quickstart.o" -o "$folder/quickstart" "${libraries[@]}"

"$clang" "${flags[@]}" --cuda-device-only -S "$root/tests/cuda/linked/conversions.cu" -o "$folder/conversions.ptx"
for instruction in cvt.rn.f16.f32 cvt.f32.f16 cvt.rn.bf16.f32; do
  grep -q "$instruction" "$folder/conversions.ptx" || fail "no $instruction: 16-bit numbers are converted by hand"
done

status=0
LD_LIBRARY_PATH="$toolkit/lib64:${LD_LIBRARY_PATH:-}" "$folder/linked" >"$folder/linked.txt" || status=$?
cat "$folder/linked.txt"
[ $status = 0 ] || [ $status = 77 ] || fail "the program ended with $status"
functions=$(cat "$folder"/*.o.log | grep -c "bytes spill stores")
echo "clang $version with CUDA $cuda: $functions functions, none of which spills"
