# SPDX-License-Identifier: Apache-2.0
# The room profiler has two subjects in folders of their own: timing (what kernels, conversions and messages take) and noise (statistics and
# the ground truth of gradient noise).

file(GLOB QS_PROFILER_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/timing/*.c ${CMAKE_CURRENT_LIST_DIR}/noise/*.c)
