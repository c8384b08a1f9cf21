# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=<sources> -DOUT=<header> -DNAME=<macro> -P digest.cmake: a header that changes when a file of the folder does.

file(GLOB_RECURSE files ${FOLDER}/*)
list(SORT files)
set(all "")
foreach(file IN LISTS files)
  file(SHA1 ${file} one)
  string(APPEND all ${one})
endforeach()
string(SHA1 digest "${all}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUT} "// SPDX-License-Identifier: Apache-2.0\n#define ${NAME} \"${digest}\"\n")
