# SPDX-License-Identifier: Apache-2.0
# A room = src/<name>: its door (door/qsync/<name>.h) and its *.c files, compiled with only the doors of its dependencies on the
# include path. Sight is transitive through doors; upward includes do not compile.

find_package(PkgConfig REQUIRED)

add_library(qs_flags INTERFACE)
target_compile_definitions(qs_flags INTERFACE _GNU_SOURCE)
target_compile_options(qs_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off
  $<$<BOOL:${QS_WERROR}>:-Werror>)
foreach(sanitizer IN LISTS QS_SANITIZE)
  target_compile_options(qs_flags INTERFACE -fsanitize=${sanitizer} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(qs_flags INTERFACE -fsanitize=${sanitizer})
endforeach()

set_property(GLOBAL PROPERTY QS_ROOMS "")

# qs_list(<out> <file.def>): the first argument of each line of a .def list, in order. The same file is read by the C preprocessor;
# CMake configures again when it changes.
function(qs_list out file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^QS_[A-Z_]+\\(")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^QS_[A-Z_]+\\(([a-z0-9_]+).*" "\\1" name "${line}")
    list(APPEND names ${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# qs_room(<name> [DEPS <rooms>] [LIBS <targets>] [SOURCES <more files>]): the *.c files of src/<name> itself; those of subfolders are
# named in SOURCES because they depend on options.
function(qs_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.c)
  if(NOT sources AND NOT ROOM_SOURCES)
    message(FATAL_ERROR "room ${name} has no source file in src/${name}")
  endif()
  add_library(qs_${name} STATIC ${sources} ${ROOM_SOURCES})
  target_include_directories(qs_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/${name}/door PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  list(TRANSFORM ROOM_DEPS PREPEND qs_)
  target_link_libraries(qs_${name} PUBLIC ${ROOM_DEPS} PRIVATE qs_flags ${ROOM_LIBS})
  set_property(GLOBAL APPEND PROPERTY QS_ROOMS ${name})
endfunction()
