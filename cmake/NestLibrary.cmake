# The one library that others link: nest::nest, file libnest. It holds the objects of every folder that is not a tool, and shows
# the headers of include/ only. A static library (-DBUILD_SHARED_LIBS=ON: a shared one), installed with its headers, a CMake
# package (find_package(nest)) and a pkg-config file. In another project, add_subdirectory(nest) gives the same nest::nest.
#
# The target is called libnest because nest is the program; both files are called after nest.
include(GNUInstallDirs)

get_property(folders GLOBAL PROPERTY NEST_FOLDERS)
set(packages "")  # the optional ones that were found
set(libraries "")
foreach(package IN ITEMS Onnx Cbc SQLite3)
  if(${package}_FOUND)
    list(APPEND packages ${package})
    string(REPLACE "SQLite3::" "SQLite::" library "${package}::${package}")  # CMake's own module calls it so
    list(APPEND libraries "${library}")
  endif()
endforeach()
set(objects "$<TARGET_OBJECTS:nest_preset_data>")
foreach(folder IN LISTS folders)
  list(APPEND objects "$<TARGET_OBJECTS:${folder}>")
endforeach()

add_library(libnest ${objects})
add_library(nest::nest ALIAS libnest)
set_target_properties(libnest PROPERTIES
  OUTPUT_NAME nest EXPORT_NAME nest LINKER_LANGUAGE CXX VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_compile_features(libnest PUBLIC cxx_std_20)
target_include_directories(libnest PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(libnest PRIVATE fmt::fmt yaml-cpp pugixml::pugixml Threads::Threads)
target_link_libraries(libnest PRIVATE ${libraries})
if(NEST_SANITIZE)
  target_link_options(libnest PUBLIC "$<BUILD_INTERFACE:-fsanitize=${NEST_SANITIZE}>")
endif()

if(NOT NEST_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(place "${CMAKE_INSTALL_LIBDIR}/cmake/nest")
install(TARGETS libnest EXPORT nest)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/nest" TYPE INCLUDE)
# Manual pages and completions, where the program was asked for them (tools/dist/tree).
install(DIRECTORY "${PROJECT_BINARY_DIR}/share/" TYPE DATA OPTIONAL)
install(EXPORT nest NAMESPACE nest:: FILE nestTargets.cmake DESTINATION "${place}")
set(needs "fmt yaml-cpp pugixml Threads ${packages}")  # whoever links a static library also links what it needs
string(REPLACE ";" " " NEST_NEEDS "${needs}")
if(BUILD_SHARED_LIBS)
  set(NEST_NEEDS "")
endif()
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/nestConfig.cmake.in" "${PROJECT_BINARY_DIR}/nestConfig.cmake" INSTALL_DESTINATION "${place}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/nestConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/nestConfig.cmake" "${PROJECT_BINARY_DIR}/nestConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/FindCbc.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindOnnx.cmake" DESTINATION "${place}")

set(NEST_PC_LIBRARIES "")
set(NEST_PC_PRIVATE ".private")
if(NOT BUILD_SHARED_LIBS)
  set(NEST_PC_PRIVATE "")
  if("Cbc" IN_LIST packages)
    string(APPEND NEST_PC_LIBRARIES " -lCbcSolver -lCbc")
  endif()
  if("Onnx" IN_LIST packages)
    string(APPEND NEST_PC_LIBRARIES " -lonnx -lonnx_proto -lprotobuf")
  endif()
  if("SQLite3" IN_LIST packages)
    string(APPEND NEST_PC_LIBRARIES " -lsqlite3")
  endif()
  string(APPEND NEST_PC_LIBRARIES " -pthread")
endif()
# The prefix as seen from the file's own folder: what was installed may be moved.
file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" NEST_PC_PREFIX "\${pcfiledir}/${up}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/nest.pc.in" "${PROJECT_BINARY_DIR}/nest.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/nest.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
