# SPDX-License-Identifier: Apache-2.0
# The rules of optimisers are plain loops (update.h) that are to become vector code in every build.

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
foreach(source IN LISTS sources)
  file(STRINGS ${source} uses REGEX "^#include \"(update|adam|momentum).h\"")
  if(uses)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -O3)
  endif()
endforeach()
