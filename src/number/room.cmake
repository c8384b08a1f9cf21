# SPDX-License-Identifier: Apache-2.0
# number's kernels are one source compiled once per instruction set; which one runs is decided at run time.

qs_list(formats ${CMAKE_CURRENT_SOURCE_DIR}/number/formats.def)
set(format_test ${CMAKE_SOURCE_DIR}/tests/number/formats.c)
if(BUILD_TESTING AND EXISTS ${format_test})
  file(READ ${format_test} text)
  foreach(format IN LISTS formats)
    string(FIND "${text}" "\"${format}" place)
    if(place LESS 0)
      message(FATAL_ERROR "format ${format} of src/number/formats.def has no line in tests/number/formats.c")
    endif()
  endforeach()
endif()

set(QS_NUMBER_VECTOR_SOURCES number/vector/portable.c)
# -Wno-psabi: vectors wider than the machine's registers are passed to inlined functions only.
set(vector_options -O3 -fno-math-errno -fno-trapping-math -Wno-psabi)
if(QS_WITH_FUZZING) # of what files say these see values alone; instrumented they take clang many minutes
  list(APPEND vector_options -fno-sanitize=all)
endif()
set_source_files_properties(number/vector/portable.c PROPERTIES COMPILE_OPTIONS "${vector_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND QS_NUMBER_VECTOR_SOURCES number/vector/avx2.c number/vector/avx512.c)
  set_source_files_properties(number/vector/avx2.c PROPERTIES COMPILE_OPTIONS "${vector_options};-mavx2;-mf16c")
  set_source_files_properties(number/vector/avx512.c PROPERTIES COMPILE_OPTIONS
    "${vector_options};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mf16c")
endif()
