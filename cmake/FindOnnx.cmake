# The messages of ONNX files, and the protobuf they need (Debian: libonnx-dev, libprotobuf-dev). Defines Onnx_FOUND and Onnx::Onnx.
find_package(Protobuf QUIET)
find_path(Onnx_INCLUDE_DIR NAMES onnx/onnx_pb.h)
find_library(Onnx_LIBRARY NAMES onnx)
find_library(Onnx_PROTO_LIBRARY NAMES onnx_proto)
mark_as_advanced(Onnx_INCLUDE_DIR Onnx_LIBRARY Onnx_PROTO_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Onnx REQUIRED_VARS Onnx_LIBRARY Onnx_PROTO_LIBRARY Onnx_INCLUDE_DIR Protobuf_FOUND)

if(Onnx_FOUND AND NOT TARGET Onnx::Onnx)
  add_library(Onnx::Onnx UNKNOWN IMPORTED)
  set_target_properties(Onnx::Onnx PROPERTIES
    IMPORTED_LOCATION "${Onnx_LIBRARY}"
    INTERFACE_LINK_LIBRARIES "${Onnx_PROTO_LIBRARY};protobuf::libprotobuf"
    INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx"
    INTERFACE_INCLUDE_DIRECTORIES "${Onnx_INCLUDE_DIR}")
endif()
