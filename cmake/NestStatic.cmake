# What `make dist` ships, linked once more from the objects of the build, with archives in place of shared libraries:
#   nest-static   <build>/static/nest, the program as one file that needs nothing of the machine but Linux
#   nest-wheel    <build>/wheel/nest/_core….so, the Python module, which needs the C library and Python only
# What has no archive stays out (ONNX, CBC), and `nest --version` says so. Neither target is part of `all`.

# The archive of a library as <variable>; empty where only a shared library is installed.
function(nest_find_archive variable name)
  find_library(${variable} NAMES "lib${name}.a")
  mark_as_advanced(${variable})
endfunction()

nest_find_archive(NEST_YAML_ARCHIVE yaml-cpp)
nest_find_archive(NEST_PUGIXML_ARCHIVE pugixml)
nest_find_archive(NEST_SQLITE_ARCHIVE sqlite3)
nest_find_archive(NEST_FMT_ARCHIVE fmt)
if(NEST_SANITIZE OR NOT NEST_YAML_ARCHIVE OR NOT NEST_PUGIXML_ARCHIVE OR (SQLite3_FOUND AND NOT NEST_SQLITE_ARCHIVE))
  message(STATUS "Archives of yaml-cpp, pugixml or SQLite not found: the static program is left out")
  return()
endif()

# nest_lean_folder(<folder> <package>...): the objects of nest_<folder>, compiled without what the packages add, as nest_<folder>_lean.
function(nest_lean_folder name)
  get_target_property(sources nest_${name} SOURCES)
  get_target_property(folder nest_${name} SOURCE_DIR)
  get_target_property(libraries nest_${name} INTERFACE_LINK_LIBRARIES)
  list(FILTER libraries EXCLUDE REGEX "Onnx::Onnx|LINK_ONLY")
  get_target_property(includes nest_${name} INTERFACE_INCLUDE_DIRECTORIES)
  get_target_property(options nest_${name} COMPILE_OPTIONS)
  add_library(nest_${name}_lean OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(nest_${name}_lean PRIVATE ${includes})
  target_link_libraries(nest_${name}_lean PRIVATE ${libraries} nest_settings)
  if(options)
    target_compile_options(nest_${name}_lean PRIVATE ${options})
  endif()
endfunction()

get_property(folders GLOBAL PROPERTY NEST_FOLDERS)
if(Onnx_FOUND)
  nest_lean_folder(onnx_graph)
  list(TRANSFORM folders REPLACE "^nest_onnx_graph$" "nest_onnx_graph_lean")
endif()
if(Cbc_FOUND)
  nest_lean_folder(rivals)
  list(TRANSFORM folders REPLACE "^nest_rivals$" "nest_rivals_lean")
endif()
set(objects "$<TARGET_OBJECTS:nest_preset_data>")
foreach(folder IN LISTS folders)
  list(APPEND objects "$<TARGET_OBJECTS:${folder}>")
endforeach()

set(sources "")
set(archives "${NEST_YAML_ARCHIVE}" "${NEST_PUGIXML_ARCHIVE}")
if(SQLite3_FOUND)
  list(APPEND archives "${NEST_SQLITE_ARCHIVE}")
endif()
if(NEST_FMT_ARCHIVE)
  list(APPEND archives "${NEST_FMT_ARCHIVE}")
else()
  set(sources "${PROJECT_SOURCE_DIR}/cmake/static/fmt.cc")
endif()
add_library(nest_lean STATIC EXCLUDE_FROM_ALL ${objects} ${sources})
target_include_directories(nest_lean SYSTEM PRIVATE "$<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>")
set_target_properties(nest_lean PROPERTIES LINKER_LANGUAGE CXX UNITY_BUILD OFF CXX_VISIBILITY_PRESET hidden)
target_link_libraries(nest_lean INTERFACE ${archives} Threads::Threads)

add_executable(nest-static EXCLUDE_FROM_ALL "$<TARGET_OBJECTS:nest>" "${PROJECT_SOURCE_DIR}/cmake/static/no_dlopen.cc")
set_target_properties(nest-static PROPERTIES OUTPUT_NAME nest RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/static" LINKER_LANGUAGE CXX UNITY_BUILD OFF)
target_link_libraries(nest-static PRIVATE nest_settings nest_lean -static-pie)  # behind CMake's own -pie, which it replaces
target_link_options(nest-static PRIVATE -Wl,--gc-sections -Wl,--wrap=dlopen,--wrap=dlsym,--wrap=dlclose,--wrap=dlerror)

if(NOT TARGET nest_core)
  return()
endif()
add_library(nest-wheel MODULE EXCLUDE_FROM_ALL "$<TARGET_OBJECTS:nest_core>" "${PROJECT_SOURCE_DIR}/cmake/static/threaded.cc")
get_target_property(suffix nest_core SUFFIX)
set_target_properties(nest-wheel PROPERTIES OUTPUT_NAME _core PREFIX "" SUFFIX "${suffix}" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/wheel/nest"
  LINKER_LANGUAGE CXX UNITY_BUILD OFF)
target_link_libraries(nest-wheel PRIVATE nest_settings nest_lean)
# The C++ library inside, and hidden: other modules of the same process bring their own.
target_link_options(nest-wheel PRIVATE -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections)
