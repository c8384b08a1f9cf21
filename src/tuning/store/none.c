// SPDX-License-Identifier: Apache-2.0
/* A build without SQLite remembers nothing. */
#include "store/store.h"

qs_status qs__store_read(const char *path, const qs_device_info *device, qs_tuning *out) {
    (void)device;
    (void)out;
    return qs_fail(QS_UNSUPPORTED, "%s: this build has no SQLite to read it with", path);
}

qs_status qs__store_write(const char *path, const qs_device_info *device, const qs_tuning *tuning) {
    (void)device;
    (void)tuning;
    return qs_fail(QS_UNSUPPORTED, "%s: this build has no SQLite: what was measured is not remembered", path);
}

qs_status qs__timings_read(const char *path, const qs_device_info *device, const char *circumstances, int64_t since, qs_timings *out) {
    (void)device;
    (void)circumstances;
    (void)since;
    (void)out;
    return qs_fail(QS_UNSUPPORTED, "%s: this build has no SQLite to read it with", path);
}

qs_status qs__timings_write(const char *path, const qs_device_info *device, const char *circumstances, const qs_timings *timings) {
    (void)device;
    (void)circumstances;
    (void)timings;
    return qs_fail(QS_UNSUPPORTED, "%s: this build has no SQLite: what was measured is not remembered", path);
}
