// SPDX-License-Identifier: Apache-2.0
/* Cores for threads. A process tells what it may run on, every process deals the cores of its machine in the same way, and the pool's
 * threads are held to what was dealt. The first thread of several is held to all cores of its process only: threads that the kernel
 * library makes later inherit its mask, and must not all land on one core. */
#include "base_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int threads;
    unsigned round; /* 0: nothing was pinned yet */
    int core[QS_MOST_CORES];
} pinned;

static bool is_in(const uint64_t *mask, int core) {
    return mask[core / 64] >> (core % 64) & 1;
}

static void put_in(uint64_t *mask, int core) {
    mask[core / 64] |= UINT64_C(1) << (core % 64);
}

/* Containers of one machine share its kernel, whatever their host names say. */
static uint64_t machine_of(void) {
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!file) return 0;
    if (!fgets(text, sizeof text, file)) text[0] = 0;
    fclose(file);
    return qs_hash(text, strlen(text), 0);
}

void qs_cores_read(int threads, qs_cores *out) {
    cpu_set_t set;
    *out = (qs_cores){.machine = machine_of(), .threads = threads, .current = sched_getcpu()};
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (int core = 0; core < CPU_SETSIZE && core < QS_MOST_CORES; core++)
        if (CPU_ISSET(core, &set)) put_in(out->allowed, core);
}

static int allowed_count(const qs_cores *one) {
    int count = 0;
    for (int core = 0; core < QS_MOST_CORES; core++)
        count += is_in(one->allowed, core);
    return count;
}

static bool core_take(const qs_cores *one, int core, uint64_t *taken) {
    if (core < 0 || core >= QS_MOST_CORES || !is_in(one->allowed, core) || is_in(taken, core)) return false;
    put_in(taken, core);
    return true;
}

/* Where it runs now first: that core was idle, and another run on this machine has its own. */
static bool cores_take(const qs_cores *one, uint64_t *taken, int *core) {
    int count = 0;
    if (count < one->threads && core_take(one, one->current, taken)) core[count++] = one->current;
    for (int next = 0; next < QS_MOST_CORES && count < one->threads; next++)
        if (core_take(one, next, taken)) core[count++] = next;
    return count == one->threads;
}

bool qs_cores_deal(int processes, const qs_cores *process, int mine, int *core) {
    uint64_t taken[QS_MOST_CORES / 64] = {0};
    int dealt[QS_MOST_CORES], own[QS_MOST_CORES] = {0};
    if (process[mine].threads < 1 || process[mine].threads > QS_MOST_CORES) return false;
    /* Those with little choice first: what a launcher has bound stays where it was bound. */
    for (int allowed = 0; allowed <= QS_MOST_CORES; allowed++) {
        for (int p = 0; p < processes; p++) {
            if (process[p].machine != process[mine].machine || allowed_count(&process[p]) != allowed) continue;
            if (process[p].threads > allowed || !cores_take(&process[p], taken, dealt)) return false;
            if (p == mine) memcpy(own, dealt, (size_t)process[p].threads * sizeof *own);
        }
    }
    memcpy(core, own, (size_t)process[mine].threads * sizeof *core);
    return true;
}

static bool mask_set(int count, const int *core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        CPU_SET(core[i], &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

qs_status qs_threads_pin(int threads, const int *core) {
    if (threads < 1 || threads > QS_MOST_CORES)
        return qs_fail(QS_USAGE, "%d threads to pin: between 1 and %d are allowed", threads, QS_MOST_CORES);
    for (int i = 0; i < threads; i++)
        if (core[i] < 0 || core[i] >= CPU_SETSIZE) return qs_fail(QS_USAGE, "core %d: between 0 and %d", core[i], CPU_SETSIZE - 1);
    if (!mask_set(threads, core)) return qs_fail(QS_UNSUPPORTED, "the system does not let this process choose its cores");
    memcpy(pinned.core, core, (size_t)threads * sizeof *core);
    pinned.threads = threads;
    pinned.round++;
    return QS_OK;
}

void qs__thread_place(int worker) {
    static _Thread_local unsigned placed;
    if (placed == pinned.round) return;
    placed = pinned.round;
    if (worker > 0 && worker < pinned.threads) (void)mask_set(1, &pinned.core[worker]); /* a core that went away: run anywhere */
}
