# What LIBRARY exports is what HEADER declares with KVP_EXPORT.
execute_process(COMMAND ${NM} --dynamic --defined-only --format=posix ${LIBRARY}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+\n" lines "${symbols}")
list(TRANSFORM lines REPLACE " .*" "")
list(SORT lines)

file(STRINGS ${HEADER} declared REGEX "^KVP_EXPORT ")
list(TRANSFORM declared REPLACE ".*[ *](kvp_[a-z_]+)\\(.*" "\\1")
list(SORT declared)
if(NOT lines STREQUAL declared)
  message(FATAL_ERROR "exported: ${lines}\ndeclared: ${declared}")
endif()
