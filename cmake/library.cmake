# SPDX-License-Identifier: Apache-2.0
# What is installed: libqsync.{a,so} of all rooms, the doors in include/qsync/, qsync.pc, and the program qsync. Also walls.txt, the
# declared arrows that the test of the walls reads.

get_property(QS_ROOM_LIST GLOBAL PROPERTY QS_ROOMS)
get_property(QS_LIB_LIST GLOBAL PROPERTY QS_LIBS)
list(REMOVE_DUPLICATES QS_LIB_LIST)

set(objects "")
set(walls "")
foreach(room IN LISTS QS_ROOM_LIST)
  list(APPEND objects $<TARGET_OBJECTS:qs_${room}>)
  get_property(closure GLOBAL PROPERTY QS_CLOSURE_${room})
  list(JOIN closure " " closure)
  string(APPEND walls "${room}|$<TARGET_FILE:qs_${room}>|${closure}\n")
endforeach()
file(GLOB doors CONFIGURE_DEPENDS src/*/door/qsync/*.h)
install(FILES ${doors} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qsync)

foreach(kind IN ITEMS static shared)
  string(TOUPPER ${kind} form)
  add_library(qsync_${kind} ${form} ${objects})
  set_target_properties(qsync_${kind} PROPERTIES OUTPUT_NAME qsync LINKER_LANGUAGE C)
  target_link_libraries(qsync_${kind} PRIVATE qs_flags ${QS_LIB_LIST})
endforeach()
set_target_properties(qsync_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
install(TARGETS qsync_static qsync_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Link flags for programs that take the static library: packages by name, the rest as flags.
set(QS_PC_PRIVATE "-lm -pthread")
if(QS_WITH_CPU AND QS_WITH_ONEDNN)
  string(APPEND QS_PC_PRIVATE " -ldnnl")
endif()
if(QS_SQLITE)
  string(APPEND QS_PC_PRIVATE " -lsqlite3")
endif()
if(QS_WITH_OPENMP)
  string(APPEND QS_PC_PRIVATE " ${OpenMP_C_FLAGS}")
endif()
if(QS_WITH_MPI)
  foreach(library IN LISTS MPI_C_LIBRARIES)
    string(APPEND QS_PC_PRIVATE " ${library}")
  endforeach()
endif()
configure_file(cmake/qsync.pc.in qsync.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/qsync.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The child process of the device far, beside the programs that open it.
add_executable(qsync-far src/far/main.c)
target_link_libraries(qsync-far PRIVATE qs_device qs_flags ${QS_LIB_LIST})

# The programs see every room and are seen by none: qsync (src/cli) and qsync-bench (src/bench, not installed) on what both share (src/program).
list(TRANSFORM QS_ROOM_LIST PREPEND qs_ OUTPUT_VARIABLE rooms)
file(GLOB sources CONFIGURE_DEPENDS src/program/*.c)
add_library(qsync_program STATIC ${sources})
target_include_directories(qsync_program PUBLIC src/program)
target_link_libraries(qsync_program PUBLIC ${rooms} PRIVATE qs_flags ${QS_LIB_LIST})
file(GLOB sources CONFIGURE_DEPENDS src/cli/*.c)
add_executable(qsync ${sources})
file(GLOB sources CONFIGURE_DEPENDS src/bench/*.c)
add_executable(qsync-bench ${sources})
foreach(program IN ITEMS qsync qsync-bench)
  target_link_libraries(${program} PRIVATE qsync_program ${rooms} qs_flags ${QS_LIB_LIST})
endforeach()
install(TARGETS qsync qsync-far RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/walls.txt CONTENT "${walls}")
