# The libraries of the browser's build (Emscripten). Debian has them compiled for this machine only: those that are
# headers are taken as they are, yaml-cpp and pugixml are compiled from Debian's sources (page/wasm/sources fetches them).
# Threads, ONNX, SQLite, CBC and SimGrid are left out: whoever asks for what needs them is told so.
set(NEST_BROWSER_SOURCES "" CACHE PATH "The folder that page/wasm/sources filled")
file(GLOB yaml_sources "${NEST_BROWSER_SOURCES}/yaml-cpp/src/*.cpp")
if(NOT yaml_sources OR NOT EXISTS "${NEST_BROWSER_SOURCES}/pugixml/src/pugixml.cpp")
  message(FATAL_ERROR "NEST_BROWSER_SOURCES=${NEST_BROWSER_SOURCES}: holds no yaml-cpp and pugixml; `make page-wasm` fetches them")
endif()

# /usr/include itself would hide Emscripten's own headers.
set(headers "${PROJECT_BINARY_DIR}/headers")
file(MAKE_DIRECTORY "${headers}")
foreach(folder IN ITEMS fmt nlohmann toml++)
  if(NOT EXISTS "/usr/include/${folder}")
    message(FATAL_ERROR "/usr/include/${folder} is missing: `make deps` installs it")
  endif()
  file(CREATE_LINK "/usr/include/${folder}" "${headers}/${folder}" SYMBOLIC)
endforeach()
add_library(nest_browser_headers INTERFACE)
target_include_directories(nest_browser_headers SYSTEM INTERFACE "${headers}")
target_compile_definitions(nest_browser_headers INTERFACE FMT_HEADER_ONLY)
foreach(name IN ITEMS fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus Threads::Threads)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${name} INTERFACE nest_browser_headers)
  target_include_directories(${name} SYSTEM INTERFACE "${headers}")
endforeach()

add_library(yaml-cpp STATIC ${yaml_sources})
target_include_directories(yaml-cpp SYSTEM PUBLIC "${NEST_BROWSER_SOURCES}/yaml-cpp/include")
target_compile_definitions(yaml-cpp PUBLIC YAML_CPP_STATIC_DEFINE)
set_target_properties(yaml-cpp PROPERTIES UNITY_BUILD OFF)
add_library(pugixml STATIC "${NEST_BROWSER_SOURCES}/pugixml/src/pugixml.cpp")
target_include_directories(pugixml SYSTEM PUBLIC "${NEST_BROWSER_SOURCES}/pugixml/src")
add_library(pugixml::pugixml ALIAS pugixml)

# Exceptions as WebAssembly knows them: calls that may throw cost nothing, unlike those of -fexceptions, which go through
# JavaScript.
add_compile_options(-fwasm-exceptions)
add_link_options(-fwasm-exceptions)
