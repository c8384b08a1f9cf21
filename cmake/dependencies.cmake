# SPDX-License-Identifier: Apache-2.0
# What the house stands on. Rooms name these in LIBS (src/CMakeLists.txt); an option that is off leaves its variable empty.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)

if(QS_WITH_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
  set(QS_POOL OpenMP::OpenMP_C)
endif()

# Only the C library: the package's own CMake files also ask for OpenCL, which nothing here uses.
if(QS_WITH_ONEDNN)
  find_path(QS_ONEDNN_INCLUDE dnnl.h REQUIRED)
  find_library(QS_ONEDNN_LIBRARY dnnl REQUIRED)
  add_library(qs_onednn INTERFACE IMPORTED)
  target_include_directories(qs_onednn INTERFACE ${QS_ONEDNN_INCLUDE})
  target_link_libraries(qs_onednn INTERFACE ${QS_ONEDNN_LIBRARY})
  set(QS_ONEDNN qs_onednn)
endif()

if(QS_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS C)
  set(QS_MPI MPI::MPI_C)
endif()
