# SPDX-License-Identifier: Apache-2.0
# Sources of the room device by option: one folder for each line of devices.def whose library is there, and the folders inside it, which are
# its subjects. A file whose name ends in an instruction set (vector/avx2.c, integer/products_avx2_vnni.c) is compiled for that set.

qs_list(QS_DEVICES ${CMAKE_CURRENT_LIST_DIR}/devices.def)
set(QS_DEVICE_SOURCES "")
add_library(qs_device_options INTERFACE)
foreach(device IN LISTS QS_DEVICES)
  if((device STREQUAL "cpu" AND NOT QS_WITH_CPU) OR (device STREQUAL "cuda" AND NOT QS_WITH_CUDA))
    continue()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/${device}/*.c)
  if(NOT sources)
    message(FATAL_ERROR "device ${device} of devices.def has no source file in src/device/${device}")
  endif()
  list(APPEND QS_DEVICE_SOURCES ${sources})
  string(TOUPPER ${device} upper)
  target_compile_definitions(qs_device_options INTERFACE QS_WITH_${upper})
endforeach()
set(QS_DEVICE_LIBS qs_device_options Threads::Threads)
if(QS_WITH_CPU)
  # The bridge to oneDNN: the file for the version that was found, or that of builds without.
  list(FILTER QS_DEVICE_SOURCES EXCLUDE REGEX "/library/(library|none|v[0-9]+)[.]c$")
  set(library ${CMAKE_CURRENT_LIST_DIR}/cpu/library)
  if(QS_WITH_ONEDNN)
    list(APPEND QS_DEVICE_SOURCES ${library}/library.c ${library}/v${QS_ONEDNN_MAJOR}.c)
    find_package(OpenMP REQUIRED COMPONENTS C)
    list(APPEND QS_DEVICE_LIBS ${QS_ONEDNN} OpenMP::OpenMP_C)
  else()
    list(APPEND QS_DEVICE_SOURCES ${library}/none.c)
  endif()
  # What was measured of kernels says nothing of others: a digest of their sources tells them apart.
  set(digest ${CMAKE_CURRENT_BINARY_DIR}/device/kernels_digest.h)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cpu/*)
  add_custom_command(OUTPUT ${digest} DEPENDS ${kernels} ${CMAKE_SOURCE_DIR}/cmake/digest.cmake VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_LIST_DIR}/cpu -DOUT=${digest} -DNAME=QS_KERNELS_DIGEST -P ${CMAKE_SOURCE_DIR}/cmake/digest.cmake)
  list(APPEND QS_DEVICE_SOURCES ${digest})
  target_include_directories(qs_device_options INTERFACE ${CMAKE_CURRENT_BINARY_DIR}/device)
  # Our own kernels, by instruction set. -Wno-psabi: vectors are passed to inlined functions only. What needs more than AVX-512 as it is
  # given here (bf16) says so function by function: the rest runs on every processor with AVX-512.
  set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set(options_portable)
  set(options_avx2 -mavx2)
  set(options_avx2_vnni -mavx2 -mavxvnni)
  set(options_avx512 ${avx512})
  set(options_avx512_vnni ${avx512} -mavx512vnni)
  set(options_avx512_amx ${options_avx512_vnni} -mamx-tile -mamx-int8 -mamx-bf16)
  set(options_neon_dot -march=armv8.2-a+dotprod)
  set(here portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND here avx2 avx2_vnni avx512 avx512_vnni avx512_amx)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND here neon_dot)
  endif()
  foreach(set portable avx2 avx2_vnni avx512 avx512_vnni avx512_amx neon_dot)
    set(of_set ${QS_DEVICE_SOURCES})
    list(FILTER of_set INCLUDE REGEX "[/_]${set}[.]c$")
    if(set IN_LIST here)
      set_source_files_properties(${of_set} PROPERTIES COMPILE_OPTIONS "-O3;-Wno-psabi;${options_${set}}")
    else()
      list(REMOVE_ITEM QS_DEVICE_SOURCES ${of_set})
    endif()
  endforeach()
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/cpu/peak.c PROPERTIES COMPILE_OPTIONS "-O3;-Wno-psabi")
endif()

if(QS_WITH_CUDA)
  # Our own kernels, for every architecture in one image a file, as arrays in the program. No contraction: elementwise operators have the
  # bits of the reference.
  list(APPEND QS_DEVICE_LIBS qs_cuda)
  set(flags -std=c++17 -O3 --fmad=false -I${CMAKE_CURRENT_LIST_DIR} --Werror all-warnings --generate-line-info)
  foreach(room base number tensor op)
    list(APPEND flags -I${CMAKE_SOURCE_DIR}/src/${room}/door)
  endforeach()
  foreach(architecture IN LISTS QS_CUDA_ARCHITECTURES)
    list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cuda/*.cu)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cuda/*.cuh ${CMAKE_CURRENT_LIST_DIR}/cuda/*jobs.h
    ${CMAKE_CURRENT_LIST_DIR}/views.h)
  set(arrays "")
  set(rows "")
  set(count 0)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/device/cuda)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    set(image ${CMAKE_CURRENT_BINARY_DIR}/device/cuda/${name})
    add_custom_command(OUTPUT ${image}.fatbin DEPENDS ${source} ${headers} VERBATIM
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${flags} -fatbin -o ${image}.fatbin ${source})
    add_custom_command(OUTPUT ${image}_image.c DEPENDS ${image}.fatbin VERBATIM
      COMMAND ${QS_BIN2C} --const --type longlong --name qs__cuda_image_${name} ${image}.fatbin > ${image}_image.c)
    list(APPEND QS_DEVICE_SOURCES ${image}_image.c)
    string(APPEND arrays "extern const unsigned long long qs__cuda_image_${name}[];\n")
    string(APPEND rows "    {\"${name}\", qs__cuda_image_${name}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  list(JOIN QS_CUDA_ARCHITECTURES " " architectures)
  set(digest ${CMAKE_CURRENT_BINARY_DIR}/device/cuda_digest.h)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cuda/*)
  add_custom_command(OUTPUT ${digest} DEPENDS ${kernels} ${CMAKE_SOURCE_DIR}/cmake/digest.cmake VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_LIST_DIR}/cuda -DOUT=${digest} -DNAME=QS_CUDA_DIGEST -P ${CMAKE_SOURCE_DIR}/cmake/digest.cmake)
  list(APPEND QS_DEVICE_SOURCES ${digest})
  target_include_directories(qs_device_options INTERFACE ${CMAKE_CURRENT_BINARY_DIR}/device)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/device/cuda/images.c)
  file(CONFIGURE OUTPUT ${list} CONTENT "/* Written by src/device/room.cmake. */
#include \"cuda/cuda.h\"

${arrays}
const qs__cuda_module qs__cuda_modules[] = {
${rows}};
const int qs__cuda_module_count = ${count};
const char qs__cuda_architectures[] = \"${architectures}\";
" @ONLY)
  list(APPEND QS_DEVICE_SOURCES ${list})
endif()
