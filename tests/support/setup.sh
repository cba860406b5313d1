# Read by tests/run.sh, tests/benchmarks/run.sh and examples/run.sh: finds out what the machine lacks, installs it with the
# system's package manager, and configures a build. Nothing is downloaded from elsewhere.

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf '\n%s\n' "$*" >&2
  exit 1
}

have_program() { command -v "$1" >/dev/null 2>&1; }
have_python_module() { python3 -c "import $1" >/dev/null 2>&1; }
compiler() { echo "${CXX:-g++}"; }
# Without a compiler there is nothing to ask: every header then counts as missing.
have_header() { echo "#include <$1>" | "$(compiler)" -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# CCCL of a CUDA toolkit, or the system's Thrust. Only headers are used, so no GPU and no driver are needed.
have_thrust() {
  local nvcc folder
  nvcc=$(readlink -f "$(command -v nvcc || true)" 2>/dev/null || true)
  for folder in "${CUDA_PATH:-/usr/local/cuda}/include" ${nvcc:+"${nvcc%/bin/nvcc}/include"}; do
    if [ -z "${HALFSTEP_HIDE_CUDA:-}" ] && [ -f "$folder/cccl/thrust/version.h" -o -f "$folder/thrust/version.h" ]; then
      return 0
    fi
  done
  have_header thrust/version.h
}
# As CMake looks: in the compiler's own folders and below CMAKE_PREFIX_PATH or DNNLROOT.
have_onednn() { have_header oneapi/dnnl/dnnl.hpp || [ -n "${DNNLROOT:-}" ]; }

# install <packages>: fails if the system's package manager does not give them.
install_packages() {
  local as_root=()
  if ! have_program apt-get; then
    echo "This script installs packages on Debian and Ubuntu only. Please install what these Debian packages hold: $*" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! have_program sudo; then
      echo "Not root, and no sudo. Please have an administrator run: apt-get install $*" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# need <check> <argument> <packages>: notes the packages if the check fails; want does the same for what can be missed.
needed=() wanted=()
need() { "$1" "$2" || needed+=("${@:3}"); }
want() { "$1" "$2" || wanted+=("${@:3}"); }

need_toolchain() {
  case $(compiler) in
    *clang*) need have_program "$(compiler)" clang g++ libomp-dev ;; # g++ brings the C++ library
    *) need have_program "$(compiler)" g++ ;;
  esac
  need have_program cmake cmake
  have_program ninja || need have_program make ninja-build
  need have_thrust "" libthrust-dev
  want have_onednn "" libdnnl-dev
  need have_header zlib.h zlib1g-dev
  need have_header nlohmann/json.hpp nlohmann-json3-dev
}
need_example_libraries() {
  need have_header fmt/core.h libfmt-dev
  need have_header CLI/CLI.hpp libcli11-dev
  want have_header pcre2posix.h libpcre2-dev # pcre2.h cannot be read by itself
}

# Installs what need and want have noted. What is wanted but cannot be had costs speed or some checks, not the build.
install_missing() {
  if [ ${#needed[@]} -gt 0 ]; then
    say "Installing ${needed[*]}"
    install_packages "${needed[@]}" ||
      fail "Without these packages nothing can be built: ${needed[*]}. Install them and run this script again."
  fi
  local package
  for package in "${wanted[@]}"; do
    say "Installing $package"
    install_packages "$package" || echo "Going on without $package: $(without "$package")"
  done
  local found
  found=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
  if [ "$(printf '3.25\n%s\n' "$found" | sort -V | head -n 1)" != 3.25 ]; then
    fail "CMake 3.25 or newer is needed, but $(command -v cmake) is $found. Put a newer one first on PATH ('pip install cmake' has one)."
  fi
}
without() {
  case $1 in
    python3-venv) echo "the readers of Python are not installed for the tests." ;;
    libdnnl-dev) echo "matmuls use the portable loops, which are slower." ;;
    libpcre2-dev) echo "the example gpt reads no vocabulary whose file splits text by a pattern of its own." ;;
    bible-kjv) echo "the example gpt has no text of its own." ;;
    clang | libomp-dev) echo "the checks with a second compiler are skipped or do without OpenMP." ;;
    *) echo "some checks are skipped." ;;
  esac
}

# configure <build folder> <option>...: with Ninja where it is there; a folder keeps the generator it was made with.
configure() {
  local build=$1 generator=()
  shift
  if [ ! -f "$build/CMakeCache.txt" ] && have_program ninja; then
    generator=(-G Ninja)
  fi
  [ -z "${HALFSTEP_HIDE_CUDA:-}" ] || set -- "$@" -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  cmake -S . -B "$build" "${generator[@]}" "$@" ||
    fail "The build in $build could not be configured; the lines above say why. If that folder is from another machine or compiler, remove it and run this script again."
}
