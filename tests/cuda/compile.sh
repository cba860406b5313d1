#!/usr/bin/env bash
# compile.sh <folder>: what a machine without a GPU can show of CUDA's own compiler. Builds by nvcc, for sm_80, sm_90 and
# sm_100 in one go,
#   - examples: quickstart, custom_policy, digits, from the sources that the CPU runs;
#   - linked/: a trainer under each policy, in two CUDA files (-rdc, without CUDA's 16-bit operators) and a C++ file;
# and sees that no kernel spills registers, that 16-bit numbers are converted by the GPU's instructions, and that a program
# started without a GPU says so.
set -euo pipefail
folder=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { echo "compile.sh: $*" >&2; exit 1; }

nvcc=$(command -v nvcc || echo "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc")
if [ ! -x "$nvcc" ]; then
  echo "skipped: no nvcc was found on PATH or in CUDA_PATH"
  exit 77
fi
generator=()
! command -v ninja >/dev/null || generator=(-G Ninja)
cmake -S "$root/tests/cuda/linked" -B "$folder" "${generator[@]}" --log-level=WARNING -D CMAKE_CUDA_COMPILER="$nvcc" \
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_CUDA_FLAGS_RELEASE= -D CMAKE_CUDA_ARCHITECTURES=OFF -D HALFSTEP_BUILD_EXAMPLES=ON \
  -D "CMAKE_CUDA_FLAGS=-gencode arch=compute_80,code=[sm_80,sm_90,sm_100,compute_80] -Xptxas -v" ||
  fail "the build could not be configured"
cmake --build "$folder" -j "$(nproc)" --target linked example_quickstart example_custom_policy example_digits \
  >"$folder/build.log" 2>&1 || { tail -40 "$folder/build.log"; fail "nvcc refuses what the host's compiler accepts"; }
kernels=$(grep -c "bytes spill stores" "$folder/build.log" || true)
if [ "$kernels" -gt 0 ]; then
  cp "$folder/build.log" "$folder/kernels.log"  # a second run builds nothing, and has nothing to say
fi
[ -s "$folder/kernels.log" ] || fail "ptxas said nothing of any kernel"
! grep -B2 -E "[1-9][0-9]* bytes spill (stores|loads)" "$folder/kernels.log" || fail "these kernels spill registers"
! grep -E "warning.*#[0-9]+-D" "$folder/kernels.log" || fail "nvcc warns of the lines above"

"$nvcc" -std=c++20 -arch=compute_80 -ptx -I "$root/include" "$root/tests/cuda/linked/conversions.cu" -o "$folder/conversions.ptx"
for instruction in cvt.rn.f16.f32 cvt.f32.f16 cvt.rn.bf16.f32; do
  grep -q "$instruction" "$folder/conversions.ptx" || fail "no $instruction in the kernels: 16-bit numbers are converted by hand"
done

status=0
"$folder/linked" >"$folder/linked.txt" || status=$?
cat "$folder/linked.txt"
[ $status = 0 ] || [ $status = 77 ] || fail "the program ended with $status"
echo "$(grep -c "bytes spill stores" "$folder/kernels.log") kernels of three architectures, none of which spills"
