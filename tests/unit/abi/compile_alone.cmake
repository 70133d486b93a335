# Compiles every header of INCLUDE/kvplane on its own with COMPILER as STANDARD: pedantic, no implicit padding.
if(STANDARD MATCHES "\\+\\+")
  set(language c++)
else()
  set(language c)
endif()
file(GLOB headers ${INCLUDE}/kvplane/*.h)
if(NOT headers)
  message(FATAL_ERROR "no headers in ${INCLUDE}/kvplane")
endif()
foreach(header ${headers})
  execute_process(
    COMMAND ${COMPILER} -x ${language} -std=${STANDARD} -fsyntax-only -pedantic -Wall -Wextra -Wconversion -Wpadded
      -Werror -include ${header} /dev/null
    RESULT_VARIABLE result ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${header} as ${STANDARD}:\n${text}")
  endif()
endforeach()
