# SPDX-License-Identifier: Apache-2.0
# A room = src/<name>: its door (door/qsync/<name>.h) and its *.c files, compiled with only the doors of its dependencies on the
# include path. Sight is transitive through doors; upward includes do not compile.

add_library(qs_flags INTERFACE)
target_compile_definitions(qs_flags INTERFACE _GNU_SOURCE)
# Numerics: no contraction, no fast-math. The two -fno options change no value, only errno and trapping flags that nobody reads, and let
# loops with sqrt, rounding and comparisons be vectorised.
target_compile_options(qs_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off
  -fno-math-errno -fno-trapping-math
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
  file(STRINGS ${file} lines REGEX "^[A-Z_]+\\(")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[A-Z_]+\\(\"?([A-Za-z0-9_.-]+).*" "\\1" name "${line}")
    list(APPEND names ${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# qs_require_tests(<room> <list.def>): every member of src/<room>/<list.def> has its test, or the configure step stops and names it;
# src/CMakeLists.txt calls it for every list there is, so a room does nothing for it.
# Its test is the file tests/<room>/<member>.c, or any tests/<room>/*.c that names it in a line "// covers: <members>" (one file often
# tests a whole family by its table).
function(qs_require_tests room list)
  qs_list(members ${CMAKE_CURRENT_SOURCE_DIR}/${room}/${list})
  set(folder ${CMAKE_SOURCE_DIR}/tests/${room})
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*.c ${folder}/*.sh)
  set(covered "")
  foreach(test IN LISTS tests)
    get_filename_component(name ${test} NAME_WE)
    file(STRINGS ${test} lines REGEX "^(//|#) covers: ")
    string(REGEX REPLACE "(//|#) covers: " "" lines "${lines}")
    string(REPLACE " " ";" lines "${lines}")
    list(APPEND covered ${name} ${lines})
  endforeach()
  list(REMOVE_ITEM members ${covered} "")
  if(members)
    list(JOIN members " " members)
    message(SEND_ERROR "src/${room}/${list}: no test of ${members}. Write tests/${room}/<member>.c, or name the member in a line "
      "\"// covers: <members>\" of the test that covers it.")
  endif()
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
  list(TRANSFORM ROOM_DEPS PREPEND qs_ OUTPUT_VARIABLE targets)
  target_link_libraries(qs_${name} PUBLIC ${targets} PRIVATE qs_flags ${ROOM_LIBS})
  set_property(GLOBAL APPEND PROPERTY QS_ROOMS ${name})
  set_property(GLOBAL APPEND PROPERTY QS_LIBS ${ROOM_LIBS})
  set(closure ${ROOM_DEPS})
  foreach(dependency IN LISTS ROOM_DEPS)
    get_property(below GLOBAL PROPERTY QS_CLOSURE_${dependency})
    list(APPEND closure ${below})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY QS_CLOSURE_${name} ${closure})
endfunction()
