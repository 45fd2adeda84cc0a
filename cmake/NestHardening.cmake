# What makes a mistake in nest, or in what it links, end the program rather than do what a file from strangers wants. Every flag is asked
# of the compiler first; what each costs is measured in SECURITY.md. tests/install/hardened_test.sh looks at what was built.
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)

# Buffers on the stack end in a word that is checked before a function returns; a large frame touches every page on its way; calls and
# jumps by address land on marks only, where processor and system look at them.
foreach(flag IN ITEMS stack-protector-strong stack-clash-protection cf-protection)
  string(MAKE_C_IDENTIFIER "NEST_HAS_${flag}" known)
  check_cxx_compiler_flag("-f${flag}" ${known})
  if(${known})
    target_compile_options(nest_settings INTERFACE "-f${flag}")
  endif()
endforeach()

# The C library checks sizes that are known where it is called. It needs an optimiser to know them; 3: sizes known when the program runs too.
foreach(level IN ITEMS 3 2)
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}")
  check_cxx_source_compiles("
    #include <cstdlib>
    #if !defined(__USE_FORTIFY_LEVEL) || __USE_FORTIFY_LEVEL < ${level}
    #error unknown
    #endif
    int main() { return 0; }" NEST_HAS_FORTIFY_${level})
  unset(CMAKE_REQUIRED_FLAGS)
  if(NEST_HAS_FORTIFY_${level})
    set(optimised "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")
    target_compile_options(nest_settings INTERFACE "$<${optimised}:-U_FORTIFY_SOURCE>" "$<${optimised}:-D_FORTIFY_SOURCE=${level}>")
    break()
  endif()
endforeach()

# Tables of addresses are read-only before the program begins; no stack is executed.
foreach(flag IN ITEMS relro now noexecstack)
  check_linker_flag(CXX "-Wl,-z,${flag}" NEST_HAS_LINK_${flag})
  if(NEST_HAS_LINK_${flag})
    target_link_options(nest_settings INTERFACE "-Wl,-z,${flag}")
  endif()
endforeach()
