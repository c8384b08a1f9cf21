// SPDX-License-Identifier: Apache-2.0
/* What a process holds in memory. The kernel's cheap counters (statm, status) may lag by some pages a thread, the roll-up walks the page
 * tables. */
#include "train_internal.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

int64_t qs_resident_bytes(void) {
    char line[128];
    long long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %lld kB", &kib) == 1) break;
    fclose(file);
    return (int64_t)kib * 1024;
}

void qs_heap_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
