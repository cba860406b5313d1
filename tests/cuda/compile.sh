#!/usr/bin/env bash
# compile.sh <folder> [all]: what a machine without a GPU can show of CUDA's own compiler. Builds by nvcc, for sm_80,
# sm_90 and sm_100 in one go, by linked/,
#   - a program of a trainer under each policy, with -rdc and without CUDA's 16-bit operators, and a C++ file;
#   - the kernels of every example, of gpt under one policy, which has nearly every operation;
# or, with `all`, every example as its user builds it, under all of its policies. Sees that no kernel spills registers,
# that 16-bit numbers are converted by the GPU's instructions, and that a program started without a GPU says so.
set -euo pipefail
folder=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { echo "compile.sh: $*" >&2; exit 1; }
case ${2:-} in
  "") targets=(linked) program=(linked) without_gpu=77 ;;
  all) targets=(halfstep_examples) program=(halfstep/examples/digits --epochs 1) without_gpu=1 ;;
  *) fail "$2 is none of my arguments" ;;
esac

nvcc=$(command -v nvcc || echo "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc")
if [ ! -x "$nvcc" ]; then
  echo "skipped: no nvcc was found on PATH or in CUDA_PATH"
  exit 77
fi
generator=()
! command -v ninja >/dev/null || generator=(-G Ninja)
gpus=sm_80,sm_90
case $("$nvcc" --list-gpu-code) in *sm_100*) gpus+=,sm_100 ;; esac # from CUDA 12.8 on
# Nothing but a few rows is computed on the CPU: host code is not optimised.
cmake -S "$root/tests/cuda/linked" -B "$folder" "${generator[@]}" --log-level=WARNING -D CMAKE_CUDA_COMPILER="$nvcc" \
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_CUDA_FLAGS_RELEASE= -D CMAKE_CXX_FLAGS_RELEASE= -D CMAKE_CUDA_ARCHITECTURES=OFF \
  -D LINKED_GPUS=$gpus -D HALFSTEP_EXAMPLES_OPTIMIZATION=-O0 -D CMAKE_CUDA_FLAGS="-Xptxas -v" ||
  fail "the build could not be configured"

# ptxas speaks of a kernel only when it compiles it: what a run said that failed or was stopped is kept for the next
# one, which compiles the rest.
log=$folder/build.log
touch "$log"
earlier=$(wc -l <"$log")
built=true
cmake --build "$folder" -j "$(nproc)" --target "${targets[@]}" >>"$log" 2>&1 || built=false
$built || tail -n +$((earlier + 1)) "$log" | grep -E -A4 "error|undefined reference" | head -60 || true
# What is refused is built again by the next run, which would have nothing to refuse otherwise.
refuse() {
  if cmake --build "$folder" --target clean >"$folder/clean.log"; then rm -f "$log" "$folder/kernels.log"; fi
  fail "$*"
}
! grep -B2 -E "[1-9][0-9]* bytes spill (stores|loads)" "$log" || refuse "these kernels spill registers"
! grep -E "warning.*#[0-9]+-D" "$log" || refuse "nvcc warns of the lines above"
$built || fail "nvcc refuses what the host's compiler accepts"
if grep -q "bytes spill stores" "$log"; then
  cp "$log" "$folder/kernels.log"  # a second run builds nothing, and has nothing to say
fi
rm "$log"
[ -s "$folder/kernels.log" ] || fail "ptxas said nothing of any kernel"
grep -q RotaryRows "$folder/kernels.log" || fail "ptxas said nothing of the kernels of the example gpt"

"$nvcc" -std=c++20 -arch=compute_80 -ptx -I "$root/include" "$root/tests/cuda/linked/conversions.cu" \
  -o "$folder/conversions.ptx"
for instruction in cvt.rn.f16.f32 cvt.f32.f16 cvt.rn.bf16.f32; do
  grep -q "$instruction" "$folder/conversions.ptx" ||
    fail "no $instruction in the kernels: 16-bit numbers are converted by hand"
done

status=0
"$folder/${program[0]}" "${program[@]:1}" >"$folder/program.txt" 2>&1 || status=$?
cat "$folder/program.txt"
if [ $status != 0 ]; then
  [ $status = $without_gpu ] || fail "the program ended with $status"
  grep -q "there is no NVIDIA GPU" "$folder/program.txt" || fail "the program ended with $status"
fi
echo "$(grep -c "bytes spill stores" "$folder/kernels.log") kernels for $gpus, none of which spills"
