# The flavours asan and emulated, and the blocks of the docs, by clang++ where that is installed with OpenMP: it
# builds them in half of g++'s time, and so a second compiler runs nearly every test. One build has one compiler: they
# are a build inside the build, in second_compiler/, whose tests take part in this one's.

set(trial ${CMAKE_CURRENT_BINARY_DIR}/second_compiler_trial)
file(WRITE ${trial}.cpp "#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n")
find_program(HALFSTEP_SECOND_COMPILER NAMES clang++ DOC "The compiler of the tests in second_compiler.cmake, if it can")
set(works 1)
if(HALFSTEP_SECOND_COMPILER AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT HALFSTEP_ONLY_SECOND_COMPILER)
  execute_process(COMMAND ${HALFSTEP_SECOND_COMPILER} -fopenmp ${HALFSTEP_SANITIZERS} ${trial}.cpp -o ${trial}
                  COMMAND_ECHO NONE OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE works)
endif()

if(NOT works EQUAL 0)
  if(HALFSTEP_SANITIZE)
    # -O0: with optimisation these files take two to three times as long to compile, which is most of what they cost.
    halfstep_flavour(asan halfstep::evidence -O0 ${HALFSTEP_SANITIZERS})
    halfstep_tests(asan ${asan_files})
  endif()
  include(cuda/emulated.cmake)
  add_subdirectory(docs)
  return()
endif()

set(folder ${CMAKE_CURRENT_BINARY_DIR}/second_compiler)
set(options -D CMAKE_CXX_COMPILER=${HALFSTEP_SECOND_COMPILER} -D HALFSTEP_ONLY_SECOND_COMPILER=ON
            -D HALFSTEP_BUILD_EXAMPLES=OFF -D HALFSTEP_SANITIZE=${HALFSTEP_SANITIZE}
            -D HALFSTEP_WITH_ONEDNN=${HALFSTEP_WITH_ONEDNN} -D HALFSTEP_WITH_OPENMP=${HALFSTEP_WITH_OPENMP})
# Where things were found, or are to be. CMAKE_CXX_FLAGS are for the other compiler.
get_cmake_property(choices CACHE_VARIABLES)
list(FILTER choices INCLUDE REGEX
     "^(CMAKE_(PREFIX_PATH|BUILD_TYPE|MAKE_PROGRAM|DISABLE_FIND_PACKAGE_.*)|(CUDAToolkit|Boost|dnnl|fmt)_(ROOT|DIR)|\
HALFSTEP_((ONEDNN|JSON|ZLIB|FMT|THRUST)_.*|TEST_UNIT))$")
foreach(choice IN LISTS choices)
  if(${choice})
    string(REPLACE ";" "\\;" value "${${choice}}")
    list(APPEND options -D "${choice}=${value}")
  endif()
endforeach()
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
add_custom_target(halfstep_second_compiler ALL
  COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${folder} -G ${CMAKE_GENERATOR} --log-level=WARNING ${options}
  COMMAND ${CMAKE_COMMAND} --build ${folder} --parallel ${cores}
  COMMENT "Building the tests of second_compiler.cmake with ${HALFSTEP_SECOND_COMPILER}"
  USES_TERMINAL VERBATIM)
file(CONFIGURE OUTPUT second_compiler_tests.cmake @ONLY CONTENT [[
if(EXISTS "@folder@/tests/CTestTestfile.cmake")
  subdirs("@folder@/tests")
else()
  add_test(second_compiler "@CMAKE_COMMAND@" -E false)
  message("Some tests are not built yet: build the target halfstep_second_compiler, or all.")
endif()
]])
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/second_compiler_tests.cmake)
