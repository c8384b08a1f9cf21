// SPDX-License-Identifier: Apache-2.0
/* Inside the room tuning: rows in a file. sqlite.c, or none.c in a build without SQLite. */
#ifndef QSYNC_TUNING_STORE_H
#define QSYNC_TUNING_STORE_H

#include "qsync/tuning.h"

/* All rows of a device. QS_BAD_FILE with the reason when the file cannot be used. */
qs_status qs__store_read(const char *path, const qs_device_info *device, qs_tuning *out);
qs_status qs__store_write(const char *path, const qs_device_info *device, const qs_tuning *tuning);
/* choices.c: appends a copy. */
qs_status qs__choice_add(qs_tuning *tuning, const char *case_text, const char *kernel);

/* The same of timings, whose table a file may lack that has choices. */
qs_status qs__timings_read(const char *path, const qs_device_info *device, const char *circumstances, int64_t since, qs_timings *out);
qs_status qs__timings_write(const char *path, const qs_device_info *device, const char *circumstances, const qs_timings *timings);

#endif
