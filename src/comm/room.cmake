# SPDX-License-Identifier: Apache-2.0
# The mpi communicator stands in its own folder because it depends on an option.

if(QS_WITH_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
  add_library(qs_mpi INTERFACE)
  target_link_libraries(qs_mpi INTERFACE MPI::MPI_C)
  target_compile_definitions(qs_mpi INTERFACE QS_HAS_MPI)
  set(QS_COMM_LIBS qs_mpi)
  set(QS_COMM_SOURCES comm/mpi/all_reduce.c comm/mpi/mpi.c comm/mpi/compressed.c comm/mpi/window.c comm/mpi/common.c)
endif()
