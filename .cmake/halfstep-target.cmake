# What a target needs to use halfstep: used for the target of the source tree and for that of the installed package.
#
#   halfstep_set_up_target(<target> INCLUDE <dir> ONEDNN <AUTO|ON|OFF> OPENMP <AUTO|ON|OFF>)
#
# Adds to <target>'s interface: C++20, the headers, Thrust's headers, -fno-math-errno, and where they are wanted and
# found OpenMP and oneDNN. CUDA sources get what they need by the same target; they link CUDA::cublasLt, which the
# program names (find_package(CUDAToolkit)). Sets HALFSTEP_FOUND_SUMMARY in the caller's scope.
#
#   halfstep_find_state()
#   halfstep_add_state(<target>)
#
# What the headers of state/ and compressed files need besides: nlohmann/json and zlib. The first sets
# HALFSTEP_STATE_SUMMARY, and HALFSTEP_STATE_MISSING, empty where both were found; the second adds them to <target>.
#
#   halfstep_find_evidence()
#   halfstep_add_evidence(<target>)
#
# What the headers of evidence/ need besides those two: {fmt}. HALFSTEP_EVIDENCE_SUMMARY and HALFSTEP_EVIDENCE_MISSING
# likewise.
#
# Dependencies are named by path rather than by imported target: imported targets are local to the directory that
# found them, which would break a consumer that adds halfstep from a subdirectory.
#
# Cache variables that a user may set:
#   HALFSTEP_THRUST_INCLUDE_DIR        the folder that holds thrust/version.h
#   HALFSTEP_THRUST_DEVICE_SYSTEM      what THRUST_DEVICE_SYSTEM means in C++ sources: OMP, CPP, TBB; NONE leaves it alone
#   HALFSTEP_ONEDNN_INCLUDE_DIR, HALFSTEP_ONEDNN_LIBRARY
#   HALFSTEP_JSON_INCLUDE_DIR          the folder that holds nlohmann/json.hpp
#   HALFSTEP_ZLIB_INCLUDE_DIR, HALFSTEP_ZLIB_LIBRARY
#   HALFSTEP_FMT_INCLUDE_DIR, HALFSTEP_FMT_LIBRARY
#   CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON keeps the search away from a CUDA toolkit

# A missing dependency is fatal in the source tree; the package says it through find_package instead.
macro(_halfstep_missing text)
  if(CMAKE_FIND_PACKAGE_NAME STREQUAL "halfstep")
    set(HALFSTEP_MISSING "${text}" PARENT_SCOPE)
    return()
  endif()
  message(FATAL_ERROR "halfstep: ${text}")
endmacro()

# CCCL of a CUDA toolkit (newest) before the system's Thrust. Only its headers are used: nothing of CUDA is linked.
function(_halfstep_find_thrust)
  if(HALFSTEP_THRUST_INCLUDE_DIR)
    return()
  endif()
  find_package(CUDAToolkit QUIET)
  set(toolkit)
  foreach(dir IN LISTS CUDAToolkit_INCLUDE_DIRS)
    list(APPEND toolkit "${dir}/cccl" "${dir}")
  endforeach()
  find_path(HALFSTEP_THRUST_INCLUDE_DIR thrust/version.h HINTS ${toolkit}
            DOC "Folder that holds thrust/version.h (CCCL or libthrust-dev)")
  mark_as_advanced(HALFSTEP_THRUST_INCLUDE_DIR)
endfunction()

# A user's own target or dnnl_DIR first; else header and library as they lie. The package file of some distributions
# demands OpenCL even for a program that never asks for a GPU, so it is not the first choice.
function(_halfstep_find_onednn)
  if(NOT TARGET DNNL::dnnl AND dnnl_DIR)
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
    find_package(dnnl CONFIG QUIET)
  endif()
  if(TARGET DNNL::dnnl)
    set(HALFSTEP_ONEDNN_USE DNNL::dnnl PARENT_SCOPE)
    set(HALFSTEP_ONEDNN_VERSION "${dnnl_VERSION}" PARENT_SCOPE)
    return()
  endif()
  find_path(HALFSTEP_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS ENV DNNLROOT PATH_SUFFIXES include)
  find_library(HALFSTEP_ONEDNN_LIBRARY dnnl HINTS ENV DNNLROOT PATH_SUFFIXES lib)
  mark_as_advanced(HALFSTEP_ONEDNN_INCLUDE_DIR HALFSTEP_ONEDNN_LIBRARY)
  if(HALFSTEP_ONEDNN_INCLUDE_DIR AND HALFSTEP_ONEDNN_LIBRARY)
    set(version)
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS "${HALFSTEP_ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" line
           REGEX "#define DNNL_VERSION_${part} " LIMIT_COUNT 1)
      string(REGEX MATCH "[0-9]+" number "${line}")
      list(APPEND version "${number}")
    endforeach()
    list(JOIN version "." version)
    set(HALFSTEP_ONEDNN_VERSION "${version}" PARENT_SCOPE)
    set(HALFSTEP_ONEDNN_USE "${HALFSTEP_ONEDNN_LIBRARY}" PARENT_SCOPE)
  endif()
endfunction()

function(halfstep_set_up_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "INCLUDE;ONEDNN;OPENMP" "")
  set(found)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE "${arg_INCLUDE}")
  # Without it sqrt sets errno, and no loop with a sqrt is vectorised.
  target_compile_options(${target} INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang,IntelLLVM>:-fno-math-errno>")

  set(openmp FALSE)
  # Said outright: CMake 3.25 does not know every nvcc's default.
  target_compile_options(${target} INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>")

  if(NOT arg_OPENMP STREQUAL "OFF")
    find_package(OpenMP QUIET COMPONENTS CXX)
    set(openmp ${OpenMP_CXX_FOUND})
    if(NOT openmp AND NOT arg_OPENMP STREQUAL "AUTO")
      _halfstep_missing("HALFSTEP_WITH_OPENMP is ${arg_OPENMP}, but the C++ compiler offers no OpenMP. \
Install it (libomp-dev for clang), or set HALFSTEP_WITH_OPENMP to AUTO or OFF.")
    endif()
  endif()
  if(openmp)
    separate_arguments(flags NATIVE_COMMAND "${OpenMP_CXX_FLAGS}")
    target_compile_options(${target} INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
    list(JOIN flags "," for_host)
    target_compile_options(${target} INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=${for_host}>")
    target_include_directories(${target} SYSTEM INTERFACE ${OpenMP_CXX_INCLUDE_DIRS})
    target_link_libraries(${target} INTERFACE ${OpenMP_CXX_LIBRARIES})
    list(APPEND found "OpenMP ${OpenMP_CXX_VERSION}")
  else()
    list(APPEND found "no OpenMP")
  endif()

  _halfstep_find_thrust()
  if(NOT HALFSTEP_THRUST_INCLUDE_DIR)
    _halfstep_missing("Thrust was not found. Install libthrust-dev or a CUDA toolkit, or set \
HALFSTEP_THRUST_INCLUDE_DIR to the folder that holds thrust/version.h.")
  endif()
  target_include_directories(${target} SYSTEM INTERFACE "${HALFSTEP_THRUST_INCLUDE_DIR}")
  # Undefined, it means CUDA, and Thrust would ask for CUDA's headers. CUDA sources keep that meaning.
  set(system "${HALFSTEP_THRUST_DEVICE_SYSTEM}")
  if(NOT system AND openmp)
    set(system OMP)
  elseif(NOT system)
    set(system CPP)
  endif()
  if(NOT system STREQUAL "NONE")
    target_compile_definitions(${target} INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_${system}>")
  endif()
  file(STRINGS "${HALFSTEP_THRUST_INCLUDE_DIR}/thrust/version.h" line REGEX "#define THRUST_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" number "${line}")
  math(EXPR major "${number} / 100000")
  math(EXPR minor "${number} / 100 % 1000")
  math(EXPR patch "${number} % 100")
  list(APPEND found "Thrust ${major}.${minor}.${patch} in ${HALFSTEP_THRUST_INCLUDE_DIR}")

  set(HALFSTEP_ONEDNN_USE)
  if(NOT arg_ONEDNN STREQUAL "OFF")
    _halfstep_find_onednn()
    if(NOT HALFSTEP_ONEDNN_USE AND NOT arg_ONEDNN STREQUAL "AUTO")
      _halfstep_missing("HALFSTEP_WITH_ONEDNN is ${arg_ONEDNN}, but oneDNN (dnnl.hpp and libdnnl) was not found. \
Install libdnnl-dev, set HALFSTEP_ONEDNN_INCLUDE_DIR and HALFSTEP_ONEDNN_LIBRARY, or set HALFSTEP_WITH_ONEDNN to AUTO or OFF.")
    endif()
  endif()
  if(HALFSTEP_ONEDNN_USE)
    # Not in CUDA sources: with oneDNN's headers nvcc 13.0 crashes, and such a program multiplies on the GPU.
    target_compile_definitions(${target} INTERFACE $<$<COMPILE_LANGUAGE:CXX>:HALFSTEP_WITH_ONEDNN=1>)
    if(HALFSTEP_ONEDNN_INCLUDE_DIR AND NOT HALFSTEP_ONEDNN_USE STREQUAL "DNNL::dnnl")
      target_include_directories(${target} SYSTEM INTERFACE "${HALFSTEP_ONEDNN_INCLUDE_DIR}")
    endif()
    target_link_libraries(${target} INTERFACE "${HALFSTEP_ONEDNN_USE}")
    list(APPEND found "oneDNN ${HALFSTEP_ONEDNN_VERSION}")
  else()
    list(APPEND found "no oneDNN (portable matmul)")
  endif()

  list(JOIN found ", " found)
  set(HALFSTEP_FOUND_SUMMARY "${found}" PARENT_SCOPE)
endfunction()

function(halfstep_find_state)
  set(found)
  set(missing)
  if(TARGET nlohmann_json::nlohmann_json AND NOT HALFSTEP_JSON_INCLUDE_DIR)
    list(APPEND found "nlohmann/json of this build")
  else()
    find_path(HALFSTEP_JSON_INCLUDE_DIR nlohmann/json.hpp DOC "Folder that holds nlohmann/json.hpp")
    if(HALFSTEP_JSON_INCLUDE_DIR)
      list(APPEND found "nlohmann/json in ${HALFSTEP_JSON_INCLUDE_DIR}")
    else()
      list(APPEND missing "nlohmann/json (install nlohmann-json3-dev or set HALFSTEP_JSON_INCLUDE_DIR)")
    endif()
  endif()
  if(TARGET ZLIB::ZLIB AND NOT HALFSTEP_ZLIB_LIBRARY)
    list(APPEND found "zlib of this build")
  else()
    find_path(HALFSTEP_ZLIB_INCLUDE_DIR zlib.h)
    find_library(HALFSTEP_ZLIB_LIBRARY NAMES z zlib)
    if(HALFSTEP_ZLIB_INCLUDE_DIR AND HALFSTEP_ZLIB_LIBRARY)
      list(APPEND found "zlib in ${HALFSTEP_ZLIB_LIBRARY}")
    else()
      list(APPEND missing
           "zlib (install zlib1g-dev or set HALFSTEP_ZLIB_INCLUDE_DIR and HALFSTEP_ZLIB_LIBRARY)")
    endif()
  endif()
  mark_as_advanced(HALFSTEP_JSON_INCLUDE_DIR HALFSTEP_ZLIB_INCLUDE_DIR HALFSTEP_ZLIB_LIBRARY)
  list(JOIN missing " and " missing)
  list(JOIN found ", " found)
  set(HALFSTEP_STATE_MISSING "${missing}" PARENT_SCOPE)
  if(missing)
    set(HALFSTEP_STATE_SUMMARY "no halfstep::state, for want of ${missing}" PARENT_SCOPE)
  else()
    set(HALFSTEP_STATE_SUMMARY "${found}" PARENT_SCOPE)
  endif()
endfunction()

function(halfstep_add_state target)
  if(HALFSTEP_JSON_INCLUDE_DIR)
    target_include_directories(${target} SYSTEM INTERFACE "${HALFSTEP_JSON_INCLUDE_DIR}")
  else()
    target_link_libraries(${target} INTERFACE nlohmann_json::nlohmann_json)
  endif()
  if(HALFSTEP_ZLIB_LIBRARY)
    target_include_directories(${target} SYSTEM INTERFACE "${HALFSTEP_ZLIB_INCLUDE_DIR}")
    target_link_libraries(${target} INTERFACE "${HALFSTEP_ZLIB_LIBRARY}")
  else()
    target_link_libraries(${target} INTERFACE ZLIB::ZLIB)
  endif()
endfunction()

function(halfstep_find_evidence)
  set(missing)
  if(TARGET fmt::fmt AND NOT HALFSTEP_FMT_LIBRARY)
    set(found "{fmt} of this build")
  else()
    find_path(HALFSTEP_FMT_INCLUDE_DIR fmt/format.h)
    find_library(HALFSTEP_FMT_LIBRARY NAMES fmt)
    mark_as_advanced(HALFSTEP_FMT_INCLUDE_DIR HALFSTEP_FMT_LIBRARY)
    if(HALFSTEP_FMT_INCLUDE_DIR AND HALFSTEP_FMT_LIBRARY)
      set(found "{fmt} in ${HALFSTEP_FMT_LIBRARY}")
    else()
      set(missing "{fmt} (install libfmt-dev or set HALFSTEP_FMT_INCLUDE_DIR and HALFSTEP_FMT_LIBRARY)")
    endif()
  endif()
  if(missing)
    set(HALFSTEP_EVIDENCE_SUMMARY "no halfstep::evidence, for want of ${missing}" PARENT_SCOPE)
  else()
    set(HALFSTEP_EVIDENCE_SUMMARY "${found}" PARENT_SCOPE)
  endif()
  set(HALFSTEP_EVIDENCE_MISSING "${missing}" PARENT_SCOPE)
endfunction()

function(halfstep_add_evidence target)
  # {fmt} looks at format strings while it compiles; nvcc cannot, which must be said to {fmt} 9.
  target_compile_definitions(${target} INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=;FMT_USE_CONSTEXPR=1>")
  if(HALFSTEP_FMT_LIBRARY)
    target_include_directories(${target} SYSTEM INTERFACE "${HALFSTEP_FMT_INCLUDE_DIR}")
    target_link_libraries(${target} INTERFACE "${HALFSTEP_FMT_LIBRARY}")
  else()
    target_link_libraries(${target} INTERFACE fmt::fmt)
  endif()
endfunction()
