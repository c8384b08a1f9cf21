// SPDX-License-Identifier: Apache-2.0
/* tuning: which kernels measurement found the fastest, and what cases took, remembered from one run to the next.
 *
 * The file. One SQLite file for all programs of a user: QSYNC_CACHE=FILE, else qsync/tuning.sqlite below XDG_CACHE_HOME, else below
 * ~/.cache; QSYNC_CACHE=off: none. It may be deleted at any time. Rows are kept apart by everything that a choice depends on: processor,
 * instruction-set ceiling, kernel library, digest of our own kernels (with the compiler), threads, and the case. Whatever changes, the old
 * rows are not found any more; they hurt nobody.
 *
 * Many at once. Readers and writers wait for one another, up to ten seconds. Choices are written in one transaction: all or none. A row is
 * replaced by a later measurement.
 *
 * What goes wrong never stops a run. Reading gives no choices where the file is not there; where it is no such file, is damaged or another
 * program's, it is left as it is, and a warning says so. Writing does fail (QS_BAD_FILE): whoever measured wants to know.
 *
 * A cache only proposes: who reads it hands the choices to a device (qs_device_prefer). Profiles record the kernels that were taken, plans
 * take over those of the profile, and runs of a plan take the plan's. */
#ifndef QSYNC_TUNING_H
#define QSYNC_TUNING_H

#include "qsync/device.h"

typedef struct qs_tuning {
    int choices;
    qs_kernel_choice *choice; /* by ascending case */
} qs_tuning;
QS_API void qs_tuning_release(qs_tuning *tuning);

/* Where the cache is by the environment, on the heap; NULL: there is none, by the user's choice or for want of a home. */
QS_API qs_status qs_tuning_path(char **out);
/* The choices for a device (qs_device_describe). path NULL: none. Fails for want of memory only. */
QS_API qs_status qs_tuning_read(const char *path, const qs_device_info *device, qs_tuning *out);
/* Adds choices, in the place of earlier ones for the same device and cases; makes file and folder. QS_UNSUPPORTED in a build without
 * SQLite. */
QS_API qs_status qs_tuning_write(const char *path, const qs_device_info *device, const qs_tuning *tuning);

/* One line a choice, "kernel<tab>case": what one rank sends to the others of its class. */
QS_API qs_status qs_tuning_text(const qs_tuning *tuning, char **out);
QS_API qs_status qs_tuning_parse(const char *text, qs_tuning *out);

/* ---- What cases took ------------------------------------------------------------------------------------------------------------- */

/* In the same file: what profiles have measured, for those of other models that hold the same cases. Rows are kept apart by all that
 * choices are, by the kernel, and by circumstances: what else their times depend on, as whoever measures puts it. A later measurement
 * replaces an earlier one, and whoever writes drops what is older than QS_TIMINGS_MOST_DAYS. What samples are is his business as well. */
enum { QS_TIMINGS_MOST_DAYS = 365, QS_DAY_SECONDS = 24 * 60 * 60 };
typedef struct qs_timing {
    char *case_text, *samples;
    char kernel[64];
    int64_t measured; /* seconds since 1970 */
} qs_timing;
typedef struct qs_timings {
    int count;
    qs_timing *timing; /* of a file: by ascending case and kernel */
    size_t capacity;
} qs_timings;
QS_API void qs_timings_release(qs_timings *timings);
/* Copies the texts. */
QS_API qs_status qs_timings_add(qs_timings *timings, const char *case_text, const char *kernel, int64_t measured, const char *samples);
/* Among those of a file; NULL: not there. */
QS_API const qs_timing *qs_timings_find(const qs_timings *timings, const char *case_text, const char *kernel);
/* Those that were measured at `since` or later. Reads as qs_tuning_read does, and writes as qs_tuning_write; nothing is written for a
 * device that does not say which kernels it has. */
QS_API qs_status qs_timings_read(const char *path, const qs_device_info *device, const char *circumstances, int64_t since, qs_timings *out);
QS_API qs_status qs_timings_write(const char *path, const qs_device_info *device, const char *circumstances, const qs_timings *timings);

#endif
