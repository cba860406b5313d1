# The flavour asan. One build has one compiler, so where another than the build's own is to make it, it is a build inside
# the build, in asan/, whose tests take part in this one's.

set(trial ${CMAKE_CURRENT_BINARY_DIR}/asan_trial)
file(WRITE ${trial}.cpp "#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
find_program(HALFSTEP_ASAN_COMPILER NAMES clang++ DOC "The compiler of the flavour asan, if it has what it needs")
set(works 1)
if(HALFSTEP_ASAN_COMPILER AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT HALFSTEP_ONLY_ASAN)
  execute_process(COMMAND ${HALFSTEP_ASAN_COMPILER} -fopenmp ${HALFSTEP_SANITIZERS} ${trial}.cpp -o ${trial}
                  COMMAND_ECHO NONE OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE works)
endif()

if(NOT works EQUAL 0)
  # -O0: with optimisation these files take two to three times as long to compile, which is most of what they cost.
  halfstep_flavour(asan halfstep::evidence -O0 ${HALFSTEP_SANITIZERS})
  halfstep_tests(asan ${asan_files})
  return()
endif()

set(folder ${CMAKE_CURRENT_BINARY_DIR}/asan)
set(options -D CMAKE_CXX_COMPILER=${HALFSTEP_ASAN_COMPILER} -D HALFSTEP_ONLY_ASAN=ON -D HALFSTEP_BUILD_EXAMPLES=OFF
            -D HALFSTEP_WITH_ONEDNN=${HALFSTEP_WITH_ONEDNN} -D HALFSTEP_WITH_OPENMP=${HALFSTEP_WITH_OPENMP}
            -D HALFSTEP_THRUST_INCLUDE_DIR=${HALFSTEP_THRUST_INCLUDE_DIR})
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
add_custom_target(halfstep_asan ALL
  COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${folder} -G ${CMAKE_GENERATOR} --log-level=WARNING ${options}
  COMMAND ${CMAKE_COMMAND} --build ${folder} --parallel ${cores}
  COMMENT "Building the tests under AddressSanitizer and UndefinedBehaviorSanitizer with ${HALFSTEP_ASAN_COMPILER}"
  USES_TERMINAL VERBATIM)
file(CONFIGURE OUTPUT asan_tests.cmake @ONLY CONTENT [[
if(EXISTS "@folder@/tests/CTestTestfile.cmake")
  include("@folder@/tests/CTestTestfile.cmake")
else()
  add_test(asan "@CMAKE_COMMAND@" -E false)
  message("The tests under the sanitizers are not built yet: build the target halfstep_asan, or all.")
endif()
]])
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/asan_tests.cmake)
