# kvplane_sdk_add_plugin(NAME SOURCES ...): a plugin built outside kvplane's tree, against an installed kvplane only.
#
#   list(APPEND CMAKE_MODULE_PATH ${KVPLANE_ROOT}/share/kvplane/sdk)
#   include(KvplanePluginSdk)
#   kvplane_sdk_add_plugin(mine SOURCES mine.c)     makes mine.so
#
# It exports its query function alone, leaves no symbol undefined and may be linked with any other library.
set(KVPLANE_SDK_DIR ${CMAKE_CURRENT_LIST_DIR})
get_filename_component(KVPLANE_SDK_PREFIX ${KVPLANE_SDK_DIR}/../../.. ABSOLUTE)
find_path(KVPLANE_SDK_INCLUDE_DIR kvplane/plugin.h HINTS ${KVPLANE_SDK_PREFIX}/include NO_DEFAULT_PATH REQUIRED)

function(kvplane_sdk_add_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "kvplane_sdk_add_plugin(${name}): give its files, as SOURCES a.c b.cpp")
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${KVPLANE_SDK_INCLUDE_DIR})
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(C IN_LIST languages)
    target_compile_features(${name} PRIVATE c_std_11)
  endif()
  if(CXX IN_LIST languages)
    target_compile_features(${name} PRIVATE cxx_std_17)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  endif()
  target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,--version-script=${KVPLANE_SDK_DIR}/plugin.map)
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX ".so" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON LINK_DEPENDS ${KVPLANE_SDK_DIR}/plugin.map)
endfunction()
