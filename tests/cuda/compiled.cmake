# What CUDA's own compiler says of the device Cuda, and clang where one is installed that can.

find_package(CUDAToolkit 12.4 QUIET)
if(NOT TARGET CUDA::cublasLt)
  return()
endif()

add_test(NAME cuda.compiles
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cuda/compile.sh ${CMAKE_CURRENT_BINARY_DIR}/cuda_compiled)
add_test(NAME cuda.compiles_all
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cuda/compile.sh ${CMAKE_CURRENT_BINARY_DIR}/cuda_compiled_all all
         CONFIGURATIONS Long)
add_test(NAME cuda.clang COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cuda/clang.sh ${CMAKE_CURRENT_BINARY_DIR}/cuda_clang)
# What a GPU will be asked for must compile before.
add_test(NAME cuda.gpu_check_builds
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cuda/gpu_check.sh --build-only
                 --folder ${CMAKE_CURRENT_BINARY_DIR}/gpu_check -D CMAKE_CUDA_FLAGS=-Werror=all-warnings
         CONFIGURATIONS Long)
set_tests_properties(cuda.compiles cuda.compiles_all cuda.clang cuda.gpu_check_builds PROPERTIES
                     LABELS cuda SKIP_RETURN_CODE 77 TIMEOUT 1800 COST 10000)
set_tests_properties(cuda.compiles_all cuda.gpu_check_builds PROPERTIES
                     LABELS "cuda;long" RUN_SERIAL ON TIMEOUT 3600)
