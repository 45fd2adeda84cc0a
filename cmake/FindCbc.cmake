# COIN-OR CBC, a solver of integer programs (Debian: coinor-libcbc-dev). Defines Cbc_FOUND and Cbc::Cbc.
find_path(Cbc_INCLUDE_DIR NAMES coin/Cbc_C_Interface.h)
find_library(Cbc_LIBRARY NAMES Cbc)
find_library(Cbc_SOLVER_LIBRARY NAMES CbcSolver)
mark_as_advanced(Cbc_INCLUDE_DIR Cbc_LIBRARY Cbc_SOLVER_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cbc REQUIRED_VARS Cbc_SOLVER_LIBRARY Cbc_LIBRARY Cbc_INCLUDE_DIR)

if(Cbc_FOUND AND NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc UNKNOWN IMPORTED)
  set_target_properties(Cbc::Cbc PROPERTIES
    IMPORTED_LOCATION "${Cbc_SOLVER_LIBRARY}"
    INTERFACE_LINK_LIBRARIES "${Cbc_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Cbc_INCLUDE_DIR}")
endif()
