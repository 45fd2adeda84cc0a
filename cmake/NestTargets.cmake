# One target per folder, and a wrong include fails to compile.
#
# Headers are included as "folder/header.h". To make that path visible only to those who declared the dependency,
# each library exports its own include root, <build>/include/<folder>, which holds a single link <folder> -> source folder.

add_library(nest_settings INTERFACE)
target_compile_features(nest_settings INTERFACE cxx_std_20)
target_include_directories(nest_settings INTERFACE "${PROJECT_SOURCE_DIR}/include")  # the public headers: nest/….h
if(NEST_WARNINGS)
  target_compile_options(nest_settings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Werror
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 sees overlaps in std::string that are not there once it inlines
endif()
if(NEST_HARDENING AND NOT NEST_SANITIZE AND NOT EMSCRIPTEN)
  include(NestHardening)
endif()
if(NEST_SANITIZE)
  # Instrumented code makes g++ 12 report uninitialised variants that are not (its manual says so); the plain build still checks.
  target_compile_options(nest_settings INTERFACE
    -fsanitize=${NEST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  # A null, misaligned or dead object is AddressSanitizer's finding too; looking twice makes compilation half as long again.
  if(NEST_SANITIZE MATCHES "address.*undefined")
    target_compile_options(nest_settings INTERFACE -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  target_link_options(nest_settings INTERFACE -fsanitize=${NEST_SANITIZE})
endif()
option(NEST_LIBFUZZER "Fuzz targets under libFuzzer (clang only) instead of the tests' own driver" OFF)
if(NEST_LIBFUZZER)
  # Which edges were taken, and words that memcmp compares; not every comparison of numbers (-fsanitize=fuzzer), which makes a reader
  # a third slower and finds little in text. Frames are not kept after their return: readers are called once for each input.
  target_compile_options(nest_settings INTERFACE
    -fsanitize-coverage=edge,inline-8bit-counters,pc-table -fsanitize-address-use-after-return=never
    -fno-builtin-memcmp -fno-builtin-bcmp -fno-builtin-strcmp -fno-builtin-strncmp)
endif()

# The library is what AddressSanitizer looks at. The tests' own code, macros for the most part, is as long to compile again.
function(nest_leave_uninstrumented target)
  if(NEST_SANITIZE MATCHES address)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
  endif()
endfunction()

# nest_library(<folder> [TOOL] [DEPENDS <folder>...] [LIBRARIES <external target>...] [ALONE <file>...])
# Builds every .cc of the calling folder into nest_<folder>, which becomes a part of the one library that strangers link
# (NestLibrary.cmake), unless it is a TOOL of those who work on nest. ALONE: files whose local names others of the folder use too, and
# which are compiled by themselves where files are compiled together (the sanitizers' build, CMAKE_UNITY_BUILD).
function(nest_library name)
  cmake_parse_arguments(arg "TOOL" "" "DEPENDS;LIBRARIES;ALONE" ${ARGN})
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  file(GLOB headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  set(root "${PROJECT_BINARY_DIR}/include/${name}")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${root}/${name}" SYMBOLIC)

  add_library(nest_${name} STATIC ${sources} ${headers})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/src/(core|research)/")
    target_compile_options(nest_${name} PRIVATE ${NEST_CORE_FLAGS})
  else()
    target_compile_options(nest_${name} PRIVATE ${NEST_LIBRARY_FLAGS})
  endif()
  target_include_directories(nest_${name} PUBLIC "${root}")
  list(TRANSFORM arg_DEPENDS PREPEND nest_)
  target_link_libraries(nest_${name} PUBLIC ${arg_DEPENDS} ${arg_LIBRARIES} PRIVATE nest_settings)
  if(NOT arg_TOOL)
    set_property(GLOBAL APPEND PROPERTY NEST_FOLDERS nest_${name})
  endif()
endfunction()

# nest_test(<folder> [OPTIMISED] [DEPENDS <folder>...] [LIBRARIES <external target>...] [ALONE <file>...] [THREADED <file>...] [PROPERTIES <property> <value>...])
# Builds every *_test.cc of the calling folder into one program, test_<folder>, and registers it with ctest: case by case where a
# process is cheap, as a whole under sanitizers. OPTIMISED: the tests themselves compute (oracles) and are compiled like the core.
# THREADED: tests that use several threads; ThreadSanitizer sees those named *Thread* and no other file with tests is compiled for it.
# Checks that need measurements kept outside the repository read the folder named by the environment variable NEST_DATA and
# skip, saying so, where it is not there.
function(nest_test name)
  cmake_parse_arguments(arg "OPTIMISED" "" "DEPENDS;LIBRARIES;ALONE;THREADED;PROPERTIES" ${ARGN})
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  if(NEST_SANITIZE MATCHES thread)
    list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
    list(APPEND sources ${arg_THREADED})
  endif()
  add_executable(test_${name} ${sources})
  add_dependencies(nest_tests test_${name})
  list(TRANSFORM arg_DEPENDS PREPEND nest_)
  target_link_libraries(test_${name} PRIVATE nest_settings ${arg_DEPENDS} ${arg_LIBRARIES} nest_test_support GTest::gmock_main)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  nest_leave_uninstrumented(test_${name})
  if(arg_OPTIMISED)
    target_compile_options(test_${name} PRIVATE ${NEST_CORE_FLAGS})
  elseif(NEST_PRECOMPILE)
    target_precompile_headers(test_${name} REUSE_FROM test_headers)
  endif()
  if(NEST_SANITIZE)
    set(chosen)
    if(NEST_SANITIZE MATCHES thread)
      set(chosen "--gtest_filter=*Thread*")
    endif()
    add_test(NAME ${name} COMMAND test_${name} --gtest_brief=1 ${chosen})
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
    if(name MATCHES "^(search|simulate)$")
      set_tests_properties(${name} PROPERTIES COST 100)  # the longest begin first
    endif()
  else()
    gtest_discover_tests(test_${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 ${arg_PROPERTIES})
  endif()
endfunction()
