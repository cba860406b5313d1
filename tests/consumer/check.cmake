# cmake -D way=... -P check.cmake: builds and runs a project that takes halfstep in that way; any failure is fatal.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${folder})
set(options -D CMAKE_CXX_COMPILER=${compiler} -D HALFSTEP_SOURCE=${halfstep} -G ${generator})
set(project ${way})
if(NOT way STREQUAL "bare")
  list(APPEND options -D HALFSTEP_THRUST_INCLUDE_DIR=${thrust})
endif()
if(way STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install ${halfstep_build} --prefix ${folder}/prefix)
  list(APPEND options -D CMAKE_PREFIX_PATH=${folder}/prefix)
elseif(way STREQUAL "bare")
  set(project add_subdirectory)
  list(APPEND options -D HALFSTEP_WITH_ONEDNN=OFF -D HALFSTEP_WITH_OPENMP=OFF)
  # The system's Thrust, where it is installed beside a toolkit's.
  find_path(system_thrust thrust/version.h)
  if(system_thrust)
    list(APPEND options -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
  endif()
endif()

# Programs of state/ and evidence/ take most of the time to compile, and have what they need from the same lines of CMake
# whatever of OpenMP and oneDNN there is: halfstep::evidence, which takes halfstep::state along, is tried in the source
# tree and installed, and that halfstep::state does without it once.
set(programs consumer)
if(way STREQUAL "find_package")
  list(APPEND programs consumer_state consumer_evidence)
elseif(way STREQUAL "add_subdirectory")
  list(APPEND programs consumer_evidence)
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/${project} -B ${folder}/build ${options})
run(${CMAKE_COMMAND} --build ${folder}/build --target ${programs})
foreach(program IN LISTS programs)
  run(${folder}/build/${program} ${folder}/written)
endforeach()
