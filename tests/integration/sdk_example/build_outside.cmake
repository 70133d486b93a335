# Installs what ABI_BUILD has to FOLDER/prefix, then builds EXAMPLE there from a copy, so that no path leads back here.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
run(${CMAKE_COMMAND} --install ${ABI_BUILD} --prefix ${FOLDER}/prefix)
file(COPY ${EXAMPLE}/ DESTINATION ${FOLDER}/source)
# A plugin must be built with the sanitizer of the program that loads it.
set(flags "-Wall -Wextra -Werror -pedantic")
if(SANITIZE)
  string(APPEND flags " -fsanitize=${SANITIZE}")
endif()
run(${CMAKE_COMMAND} -S ${FOLDER}/source -B ${FOLDER}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_C_FLAGS=${flags} -DKVPLANE_ROOT=${FOLDER}/prefix)
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
