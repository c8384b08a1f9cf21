# SPDX-License-Identifier: Apache-2.0
# What a planner is made of stands in folders: the planners themselves (members), their searches (search), lower bounds (bound).

file(GLOB QS_PLANNER_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/planner/members/*.c
  ${CMAKE_CURRENT_SOURCE_DIR}/planner/search/*.c ${CMAKE_CURRENT_SOURCE_DIR}/planner/bound/*.c)
