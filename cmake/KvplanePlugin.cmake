# kvplane_add_plugin(NAME SOURCES ... [PACKAGES ...]): a plugin of this tree. It sees the ABI headers and the
# header-only SDK, never the runtime, exports its query function alone and leaves no symbol undefined.
function(kvplane_add_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES;PACKAGES" ${ARGN})
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE kvplane_abi kvplane_sdk ${arg_PACKAGES})
  target_compile_options(${name} PRIVATE -fno-gnu-unique)
  if(NOT KVPLANE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  target_link_options(${name} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/abi/sdk/plugin.map)
  set_target_properties(${name} PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${KVPLANE_PLUGIN_DIR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/abi/sdk/plugin.map)
  add_dependencies(product ${name})
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kvplane)
endfunction()
