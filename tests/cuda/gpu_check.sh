#!/usr/bin/env bash
# What only a GPU can show, in under 8 minutes. --help says more.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
gpu=$root/tests/cuda/gpu

usage() {
  cat <<'TEXT'
tests/cuda/gpu_check.sh [--build-only] [--folder FOLDER] [--arch N] [-D NAME=VALUE]...

Runs on an NVIDIA GPU what the tests elsewhere emulate, and takes figures; ends with one table. Builds what is missing
by nvcc, or runs the programs that lie in FOLDER: a machine without a compiler takes along this repository's tests/cuda/
and a FOLDER that another filled.

  --build-only      build and stop; needs no GPU
  --folder FOLDER   where programs, logs and the table's JSON (summary.json) go, build/gpu-check at first; FOLDER.build
                    holds what only a compiler needs
  --arch N          GPUs to compile for, 90 at first, where there is no GPU to ask; e.g. --arch "80;90;100"
  -D NAME=VALUE     an option for CMake

Parts, each with its limit of time:
  tests      the tests of tests/cuda/, Host against Cuda: every operation, every policy, 50 steps, bad values
  sanitizer  memcheck and racecheck of 50 training steps, where compute-sanitizer is installed
  figures    update and measure pass against a copy's bandwidth, products against cuBLASLt called bare, training steps
  PyTorch    the same training steps, eager and compiled, where Python (HALFSTEP_PYTHON, or python3) has it for CUDA

States: passed, failed, measured (a figure without a goal), not run (what is needed is not there; it counts as nothing).
Exit code: 0 if nothing failed, 1 if something did, 77 where there is no GPU.
TEXT
}
fail() {
  printf '%s\n' "gpu_check.sh: $*" >&2
  exit 1
}

folder=$root/build/gpu-check
build_only=
arch=
cmake_options=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build-only) build_only=1 ;;
    --folder) folder=${2:?--folder needs a folder}; shift ;;
    --arch) arch=${2:?--arch needs a number}; shift ;;
    -D) cmake_options+=(-D "${2:?-D needs NAME=VALUE}"); shift ;;
    -D*) cmake_options+=("$1") ;;
    *) usage >&2; fail "there is no option $1" ;;
  esac
  shift
done
mkdir -p "$folder/logs" || fail "$folder cannot be made"
folder=$(cd "$folder" && pwd)
programs=(gpu_tests gpu_figures)

nvcc=$(command -v nvcc || echo "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc")
gpus=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | sort -u |
  grep -E '^[0-9]+$' | paste -sd ';')
missing() {
  local program
  for program in "${programs[@]}"; do [ -x "$folder/$program" ] || return 0; done
  return 1
}

# A folder that was filled here is kept up to date; one that was carried along is taken as it is.
build() {
  [ -x "$nvcc" ] || { echo "nvcc was found neither on PATH nor in CUDA_PATH"; return 1; }
  command -v cmake >/dev/null || { echo "cmake was not found"; return 1; }
  local generator=()
  ! command -v ninja >/dev/null || generator=(-G Ninja)
  [ ! -f "$folder.build/CMakeCache.txt" ] || generator=()
  cmake -S "$gpu" -B "$folder.build" "${generator[@]}" --log-level=WARNING -D CMAKE_CUDA_COMPILER="$nvcc" \
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_CUDA_FLAGS_RELEASE= -D CMAKE_CXX_FLAGS_RELEASE= \
    -D CMAKE_CUDA_ARCHITECTURES="${arch:-${gpus:-90}}" -D CMAKE_RUNTIME_OUTPUT_DIRECTORY="$folder" \
    "${cmake_options[@]}" >"$folder/logs/build.log" 2>&1 &&
    cmake --build "$folder.build" -j "$(nproc)" >>"$folder/logs/build.log" 2>&1 && return
  tail -n 30 "$folder/logs/build.log"
  echo "the programs could not be built: $folder/logs/build.log has it all"
  return 1
}
if [ -z "$build_only" ] && missing && [ -z "$gpus" ] && [ ! -e /dev/nvidiactl ]; then
  echo "There is no NVIDIA GPU with a driver on this machine: nothing was checked. (--build-only builds all the same.)"
  exit 77
fi
if [ -n "$build_only" ] || missing || { [ -f "$folder.build/CMakeCache.txt" ] && [ -x "$nvcc" ]; }; then
  echo "Building in $folder"
  started=$SECONDS
  build || fail "nothing was checked"
  echo "Built in $((SECONDS - started)) s"
fi
if [ -n "$build_only" ]; then
  ls -l "${programs[@]/#/$folder/}"
  exit 0
fi

# cuBLASLt comes with the toolkit, or with PyTorch.
if ldd "$folder/gpu_tests" 2>/dev/null | grep -q "libcublasLt.*not found"; then
  places=("${CUDA_PATH:-/usr/local/cuda}/lib64")
  while read -r place; do places+=("$place"); done < <(
    "${HALFSTEP_PYTHON:-python3}" -c '
import glob, site, sys
for folder in [*site.getsitepackages(), *sys.path]:
    print(*glob.glob(folder + "/nvidia/*/lib"), sep="\n")' 2>/dev/null | sort -u)
  LD_LIBRARY_PATH=$(IFS=:; echo "${places[*]}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi

# From here on nothing is fatal: each part adds its lines. All together stay under 8 minutes.
began=$SECONDS
budget=455
states=() seconds=() names=() results=()
add() {
  states+=("$1") seconds+=("$2") names+=("$3") results+=("$4")
  printf '%-9s %4s s  %s: %s\n' "$1" "$2" "$3" "$4"
}

# run <log> <limit in seconds> <command>...: sets status, took and problem, a sentence for what did not end by itself.
run() {
  local log=$folder/logs/$1.log limit=$2 left=$((budget - (SECONDS - began))) start=$SECONDS
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  problem='' took=0 status=125
  if [ "$limit" -lt 1 ]; then
    problem="no time was left"
    : >"$log"
    return
  fi
  { timeout -k 5 "$limit" "$@" >"$log" 2>&1; } 2>/dev/null
  status=$?
  took=$((SECONDS - start))
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    problem="ended after its limit of $limit s"
  elif [ "$status" -gt 128 ] && [ "$status" -lt 193 ]; then
    problem="crashed (signal $((status - 128))): $(last_line "$log")"
  elif [ "$status" != 0 ]; then
    problem="ended with $status: $(last_line "$log")"
  fi
}
last_line() { grep -v '^[[:space:]]*$' "$1" | tail -n 1 | tr '\t' ' ' | cut -c -200; }

run device 60 "$folder/gpu_figures" device "$folder/logs/device.json"
if [ "$status" = 77 ]; then
  cat "$folder/logs/device.log"
  [ -z "$gpus" ] || fail "there is a GPU, and these programs cannot use it (see above): nothing was checked"
  echo "There is no NVIDIA GPU with a driver on this machine: nothing was checked."
  exit 77
fi
device=$(sed -n 's/^measured\tdevice\t//p' "$folder/logs/device.log")
if [ "$status" = 0 ] && [ -n "$device" ]; then
  echo "$device"
else
  add failed "$took" device "${problem:-said nothing}"
fi

# The tests, suite by suite: what crashes takes no other along.
tests() {
  run tests 30 "$folder/gpu_tests" --list_content
  local suites suite line cases
  suites=$(sed -n 's/^\([a-z0-9_]*_tests\)\*$/\1/p' "$folder/logs/tests.log")
  [ -n "$suites" ] || add failed "$took" tests "${problem:-no tests were found}"
  for suite in $suites; do
    run "$suite" 60 "$folder/gpu_tests" --run_test="$suite" --report_level=short \
      --catch_system_errors=no --color_output=no
    line=$(grep -E 'test cases? out of' "$folder/logs/$suite.log" | head -n 1 | sed 's/^[[:space:]]*//')
    cases=${line%% *}
    if [ -z "$problem" ] && [[ $cases =~ ^[1-9][0-9]*$ ]]; then
      add passed "$took" "tests: ${suite%_tests}" "$cases passed"
    else
      add failed "$took" "tests: ${suite%_tests}" "${problem:-no test ran}${line:+ ($line)}, see logs/$suite.log"
    fi
  done
}

# sanitizer <tool> <what its summary says of a clean run>
sanitizer() {
  local program found only
  program=$(command -v compute-sanitizer || echo "${CUDA_PATH:-/usr/local/cuda}/bin/compute-sanitizer")
  if [ ! -x "$program" ]; then
    add "not run" 0 "$1" "compute-sanitizer was found neither on PATH nor in CUDA_PATH"
    return
  fi
  only=()
  # A kernel of cuBLASLt's is not ours to mend; and what a call answers is looked at by the program itself: that an
  # event has not passed yet is no error.
  [ "$1" != racecheck ] || only=(--kernel-name kns=run_kernel)
  run "$1" 60 "$program" --tool "$1" --report-api-errors no "${only[@]}" --error-exitcode 86 "$folder/gpu_tests" \
    --run_test=trainer_tests/fifty_steps_end_as_on_the_host_in_float16 --catch_system_errors=no \
    --color_output=no
  found=$(grep -oE '(ERROR|RACECHECK) SUMMARY: .*' "$folder/logs/$1.log" | tail -n 1)
  if grep -q "Device not supported" "$folder/logs/$1.log"; then
    add "not run" "$took" "$1" "compute-sanitizer does not support this device here"
  elif [ -z "$problem" ] && [[ $found == *"$2"* ]] && grep -q "No errors detected" "$folder/logs/$1.log"; then
    add passed "$took" "$1" "50 training steps: $found"
  else
    add failed "$took" "$1" "${problem:-the test did not pass}${found:+; $found}, see logs/$1.log"
  fi
}

# lines <log> <part>: takes over the lines that a program of figures has printed, and how it ended if they do not tell.
lines() {
  local state name result count=0 failed=0
  while IFS=$'\t' read -r state name result; do
    case $state in
      passed | failed | measured | "not run") ;;
      *) continue ;;
    esac
    add "$state" - "$name" "$result"
    count=$((count + 1))
    [ "$state" != failed ] || failed=1
  done <"$folder/logs/$1.log"
  if [ "$status" = 77 ] && [ "$1" = pytorch ]; then
    add "not run" "$took" "$2" "$(last_line "$folder/logs/$1.log")"
  elif [ "$count" = 0 ] || { [ -n "$problem" ] && { [ "$failed" = 0 ] || [ "$status" != 1 ]; }; }; then
    add failed "$took" "$2" "${problem:-said nothing}, see logs/$1.log"
  fi
}
figures() {
  rm -f "$folder/logs/$1.json"
  run "$1" "$2" "$folder/gpu_figures" "$1" "$folder/logs/$1.json"
  lines "$1" "figures: $1"
}

pytorch() {
  local python left
  rm -f "$folder/logs/pytorch.json"
  python=$(command -v "${HALFSTEP_PYTHON:-python3}")
  if [ -z "$python" ]; then
    add "not run" 0 PyTorch "there is no ${HALFSTEP_PYTHON:-python3}"
    return
  fi
  left=$((budget - (SECONDS - began) - 5))
  [ $left -lt 170 ] || left=170
  run pytorch "$left" "$python" "$gpu/pytorch_step.py" "$folder/logs/training.json" "$folder/logs/pytorch.json" "$left"
  lines pytorch PyTorch
}

tests
sanitizer memcheck "ERROR SUMMARY: 0 errors"
sanitizer racecheck "RACECHECK SUMMARY: 0 hazards"
figures passes 40
figures products 50
figures training 50
pytorch

count() {
  local state number=0
  for state in "${states[@]}"; do [ "$state" != "$1" ] || number=$((number + 1)); done
  echo $number
}
passed=$(count passed) failed=$(count failed) measured=$(count measured) not_run=$(count "not run")
took=$((SECONDS - began))

printf '\n%s\n%s\n\n' "$device" "$(date -u +%Y-%m-%dT%H:%MZ)"
for i in "${!states[@]}"; do
  printf '%-9s %5s  %-64s  %s\n' "${states[i]}" "${seconds[i]}" "${names[i]}" "${results[i]}"
done
printf '\n%d passed, %d failed, %d measured, %d not run, in %d s\n' "$passed" "$failed" "$measured" "$not_run" "$took"

text() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
file_or_null() { if [ -s "$1" ]; then cat "$1"; else echo null; fi; }
{
  printf '{"date": "%s", "device": %s, "seconds": %d,\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(text "$device")" "$took"
  printf '"passed": %d, "failed": %d, "measured": %d, "not run": %d,\n' "$passed" "$failed" "$measured" "$not_run"
  printf '"lines": ['
  for i in "${!states[@]}"; do
    [ "$i" = 0 ] || printf ','
    [ "${seconds[i]}" != - ] || seconds[i]=null
    printf '\n{"state": %s, "seconds": %s, "name": %s, "result": %s}' "$(text "${states[i]}")" "${seconds[i]}" \
      "$(text "${names[i]}")" "$(text "${results[i]}")"
  done
  printf '],\n"figures": {'
  for part in passes products training pytorch; do
    [ $part = passes ] || printf ','
    printf '\n"%s": %s' $part "$(file_or_null "$folder/logs/$part.json")"
  done
  printf '}}\n'
} >"$folder/summary.json"
echo "$folder/summary.json has it as JSON, $folder/logs what each part said"
[ "$failed" = 0 ] && [ $((passed + measured)) -gt 0 ]
