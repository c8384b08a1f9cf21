# SPDX-License-Identifier: Apache-2.0
# The room tuning keeps its rows in SQLite, or, in a build without it, nowhere.

if(QS_SQLITE)
  set(QS_TUNING_SOURCES tuning/store/sqlite.c)
  set(QS_TUNING_LIBS ${QS_SQLITE})
else()
  set(QS_TUNING_SOURCES tuning/store/none.c)
endif()
