# SPDX-License-Identifier: Apache-2.0
# What the house stands on. Rooms name these in LIBS (src/CMakeLists.txt); an option that is off leaves its variable empty.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# Not a must: without it every run starts from the order of the lists.
if(QS_WITH_SQLITE)
  pkg_check_modules(SQLITE IMPORTED_TARGET sqlite3)
  if(SQLITE_FOUND)
    set(QS_SQLITE PkgConfig::SQLITE)
  else()
    message(STATUS "no SQLite: kernels found faster by measurement are not remembered")
  endif()
endif()

if(QS_WITH_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
  set(QS_POOL OpenMP::OpenMP_C)
endif()

# Only the C library: the package's own CMake files also ask for OpenCL, which nothing here uses.
if(QS_WITH_CPU AND QS_WITH_ONEDNN)
  find_path(QS_ONEDNN_INCLUDE dnnl.h REQUIRED)
  find_library(QS_ONEDNN_LIBRARY dnnl REQUIRED)
  add_library(qs_onednn INTERFACE IMPORTED)
  target_include_directories(qs_onednn INTERFACE ${QS_ONEDNN_INCLUDE})
  target_link_libraries(qs_onednn INTERFACE ${QS_ONEDNN_LIBRARY})
  set(QS_ONEDNN qs_onednn)
  # Its C interface differs between 2.x and 3.x.
  find_file(QS_ONEDNN_VERSION_HEADER NAMES oneapi/dnnl/dnnl_version.h dnnl_version.h PATHS ${QS_ONEDNN_INCLUDE} NO_DEFAULT_PATH REQUIRED)
  file(STRINGS ${QS_ONEDNN_VERSION_HEADER} QS_ONEDNN_MAJOR REGEX "^#define DNNL_VERSION_MAJOR ")
  string(REGEX REPLACE "[^0-9]" "" QS_ONEDNN_MAJOR "${QS_ONEDNN_MAJOR}")
  if(NOT QS_ONEDNN_MAJOR MATCHES "^[23]$")
    message(FATAL_ERROR "oneDNN ${QS_ONEDNN_MAJOR}.x in ${QS_ONEDNN_INCLUDE}: 2.x and 3.x are known")
  endif()
endif()

if(QS_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS C)
  set(QS_MPI MPI::MPI_C)
endif()

# Headers and the compiler; the libraries themselves are found at run time.
if(QS_WITH_CUDA)
  find_package(CUDAToolkit 12.0 REQUIRED)
  find_path(QS_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
  find_path(QS_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
  find_program(QS_BIN2C bin2c HINTS ${CUDAToolkit_BIN_DIR} REQUIRED)
  add_library(qs_cuda INTERFACE IMPORTED)
  target_include_directories(qs_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${QS_CUDNN_INCLUDE} ${QS_NCCL_INCLUDE})
  target_link_libraries(qs_cuda INTERFACE ${CMAKE_DL_LIBS})
endif()
