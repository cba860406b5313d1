# The flavour emulated: tests/cuda/*.cpp, the device Cuda without a GPU. Any compiler builds it, with CUDA's headers; the
# runtime and cuBLASLt's computing calls are doubles (double/), NVIDIA's library does the rest of cuBLASLt. What needs a
# GPU's own compiler is compile.sh's.

find_package(CUDAToolkit 12.4 QUIET)
if(NOT TARGET CUDA::cublasLt)
  add_test(NAME cuda COMMAND ${CMAKE_COMMAND} -E echo "skipped: no CUDA toolkit of version 12.4 or newer was found")
  set_tests_properties(cuda PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped" LABELS cuda)
  return()
endif()

add_library(halfstep_emulated INTERFACE)
target_link_libraries(halfstep_emulated INTERFACE halfstep::evidence CUDA::cublasLt)
target_include_directories(halfstep_emulated SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(halfstep_emulated INTERFACE HALFSTEP_CUDA_EMULATION)

file(GLOB cuda_double CONFIGURE_DEPENDS cuda/double/*.cpp)
add_library(halfstep_cuda_double OBJECT ${cuda_double})
target_link_libraries(halfstep_cuda_double PRIVATE halfstep_emulated)
target_include_directories(halfstep_cuda_double PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(halfstep_cuda_double PRIVATE ${HALFSTEP_WARNINGS} -O1)

# What runs here is an emulation of a GPU's threads, for which no loop is vectorised: -O1 would only compile longer. One
# unit reads the headers sooner than they were precompiled.
set(not_precompiled)
if(HALFSTEP_TEST_UNIT EQUAL 0)
  set(not_precompiled NOT_PRECOMPILED)
endif()
halfstep_flavour(emulated halfstep_emulated ${not_precompiled} -O0)
target_sources(tests_emulated INTERFACE $<TARGET_OBJECTS:halfstep_cuda_double>)
file(GLOB cuda_files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS cuda/*.cpp)
# Threads that share a kernel's work.
if(HALFSTEP_HAS_THREAD_SANITIZER)
  set(team_files ${cuda_files})
  list(FILTER team_files INCLUDE REGEX "^cuda/teams")
  list(FILTER cuda_files EXCLUDE REGEX "^cuda/teams")
  halfstep_tsan_test(tsan.cuda.teams halfstep_emulated ${team_files} $<TARGET_OBJECTS:halfstep_cuda_double>)
endif()
# Scenarios that name no device train on this one.
file(GLOB scenario_files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS scenarios/training_*.cpp)
halfstep_tests(emulated ${cuda_files} ${scenario_files})
