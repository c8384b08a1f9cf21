// SPDX-License-Identifier: Apache-2.0
/* The one thread pool. With OpenMP it is OpenMP's own team, shared with the kernel library, so that no two pools fight for the cores;
 * without OpenMP it is serial. This file holds the only OpenMP pragma of the project; the ranges are computed here.
 *
 * The job is passed through a static with explicit release and acquire steps instead of the team's own barriers: thread sanitizers do not
 * see inside the OpenMP runtime, and would report every hand-over as a race. */
#include "base_internal.h"

#include <assert.h>
#include <stdatomic.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { THREADS_LIMIT = 1024 };

static int pool_threads = 1;

qs_status qs_threads_set(int threads) {
    if (threads < 1 || threads > THREADS_LIMIT) {
        return qs_fail(QS_USAGE, "%d threads: between 1 and %d are allowed", threads, THREADS_LIMIT);
    }
#ifdef _OPENMP
    omp_set_dynamic(0); /* the team has exactly the threads asked for: determinism is promised per thread count */
    omp_set_num_threads(threads);
#endif
    pool_threads = threads;
    return QS_OK;
}

int qs_threads(void) {
    return pool_threads;
}

#ifdef _OPENMP

static struct {
    qs_parallel_body body;
    void *context;
    int64_t count, grain, pieces;
    int workers;
    atomic_uint posted, finished;
} job;

/* First piece of a worker: the pieces are dealt evenly, the first ones get the remainder. */
static int64_t first_piece(int64_t pieces, int workers, int worker) {
    int64_t rest = pieces % workers;
    return pieces / workers * worker + (worker < rest ? worker : rest);
}

static void run_share(int worker) {
    int64_t begin = first_piece(job.pieces, job.workers, worker) * job.grain;
    int64_t end_piece = first_piece(job.pieces, job.workers, worker + 1);
    int64_t end = end_piece == job.pieces ? job.count : end_piece * job.grain;
    if (begin < end) job.body(job.context, begin, end);
}

static void run_team(int64_t count, int64_t grain, int64_t pieces, int workers, qs_parallel_body body, void *context) {
    job.body = body;
    job.context = context;
    job.count = count;
    job.grain = grain;
    job.pieces = pieces;
    job.workers = workers;
    atomic_fetch_add_explicit(&job.posted, 1, memory_order_release);
#pragma omp parallel num_threads(workers)
    {
        (void)atomic_load_explicit(&job.posted, memory_order_acquire);
        qs__thread_place(omp_get_thread_num());
        /* A system short of threads may give a smaller team: each member then takes several shares. */
        for (int worker = omp_get_thread_num(); worker < job.workers; worker += omp_get_num_threads()) {
            run_share(worker);
        }
        atomic_fetch_add_explicit(&job.finished, 1, memory_order_release);
    }
    (void)atomic_load_explicit(&job.finished, memory_order_acquire);
}

#endif

void qs_parallel(int64_t count, int64_t grain, qs_parallel_body body, void *context) {
    assert(grain > 0);
    (void)grain; /* a build without threads takes the whole range at once */
    if (count <= 0) return;
#ifdef _OPENMP
    int64_t pieces = count / grain + (count % grain != 0);
    int workers = pieces < pool_threads ? (int)pieces : pool_threads;
    if (workers > 1 && !omp_in_parallel()) {
        run_team(count, grain, pieces, workers, body, context);
        return;
    }
#endif
    body(context, 0, count);
}
