# cmake -D SOURCE=… -D HEADER=… -P commit.cmake: a header that names the commit of the working tree, "unknown" outside of
# git. Written only when it changes, so that a build that changes nothing rebuilds nothing.
cmake_minimum_required(VERSION 3.25)
execute_process(
  COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude *
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define KVPLANE_COMMIT \"@commit@\"\n" @ONLY)
