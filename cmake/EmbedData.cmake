# Files of data/ as text inside the program, so that it needs no installation folder.
#
# nest_embed_data(<target> FOLDERS <folder>...)
# Builds the library <target> from every *.json and *.yaml of the named sub-folders of the calling folder. It offers
#     #include "preset_data/preset_data.h"
#     std::span<const EmbeddedFile> embedded_files("models");
# The generated source is made anew when a file is added, removed or changed. Run as a script (cmake -P) this file writes it.

if(CMAKE_SCRIPT_MODE_FILE)
  # Arguments: OUTPUT, ROOT, and FOLDERS separated by commas.
  string(REPLACE "," ";" folders "${FOLDERS}")
  set(tables "")
  set(lookups "")
  foreach(folder IN LISTS folders)
    file(GLOB files "${ROOT}/${folder}/*.json" "${ROOT}/${folder}/*.yaml")
    list(SORT files)
    list(LENGTH files count)
    if(count EQUAL 0)
      continue()
    endif()
    set(entries "")
    foreach(file IN LISTS files)
      get_filename_component(name "${file}" NAME_WLE)
      file(READ "${file}" text)
      string(FIND "${text}" ")nest_data\"" end_mark)
      if(NOT end_mark EQUAL -1)
        message(FATAL_ERROR "${file}: contains the mark that ends an embedded text")
      endif()
      string(APPEND entries "    {\"${name}\", R\"nest_data(${text})nest_data\"},\n")
    endforeach()
    string(APPEND tables "constexpr EmbeddedFile k_${folder}[] = {\n${entries}};\n\n")
    string(APPEND lookups "  if (folder == \"${folder}\") return k_${folder};\n")
  endforeach()
  file(WRITE "${OUTPUT}"
    "// Generated from the files under data/.\n#include \"preset_data/preset_data.h\"\n\nnamespace nest {\nnamespace {\n\n"
    "${tables}"
    "}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files([[maybe_unused]] std::string_view folder) {\n"
    "${lookups}"
    "  return {};\n}\n\n}  // namespace nest\n")
  return()
endif()

set(NEST_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(nest_embed_data target)
  cmake_parse_arguments(arg "" "" "FOLDERS" ${ARGN})
  set(inputs "")
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB files CONFIGURE_DEPENDS
      "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.json" "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.yaml")
    list(APPEND inputs ${files})
  endforeach()
  # The list of files is an input too: a removed file must not stay embedded.
  set(manifest "${CMAKE_CURRENT_BINARY_DIR}/${target}.files")
  string(REPLACE ";" "\n" listing "${inputs}")
  file(CONFIGURE OUTPUT "${manifest}" CONTENT "${listing}\n" @ONLY)

  set(output "${CMAKE_CURRENT_BINARY_DIR}/${target}.cc")
  list(JOIN arg_FOLDERS "," folders)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DROOT=${CMAKE_CURRENT_SOURCE_DIR}" "-DFOLDERS=${folders}"
            -P "${NEST_EMBED_SCRIPT}"
    DEPENDS ${inputs} "${manifest}" "${NEST_EMBED_SCRIPT}"
    COMMENT "Embedding data/{${folders}}"
    VERBATIM)

  set(root "${PROJECT_BINARY_DIR}/include/preset_data")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/preset_data" "${root}/preset_data" SYMBOLIC)
  add_library(${target} STATIC "${output}")
  target_include_directories(${target} PUBLIC "${root}")
  target_link_libraries(${target} PRIVATE nest_settings)
endfunction()
