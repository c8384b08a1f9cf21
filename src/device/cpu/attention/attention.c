// SPDX-License-Identifier: Apache-2.0
/* Attention by our own kernels, see attention.h: tasks are dealt to threads in pieces that follow each other, each with scratch of its
 * own. */
#include "cpu/attention/attention.h"
#include "cpu/staging.h"

#include <string.h>

typedef struct job {
    const qs__attention_job *work;
    const qs__attention_kernels *kernels;
    char *scratch;
    size_t bytes; /* of a thread */
    int64_t threads;
} job;

const qs__attention_kernels *qs__attention_of(const qs__cpu *cpu) {
#if defined(__x86_64__)
    if (cpu->tiles) return &qs__attention_avx512_amx;
    if (!strcmp(cpu->kernels->name, "avx512")) return &qs__attention_avx512;
    if (!strcmp(cpu->kernels->name, "avx2")) return &qs__attention_avx2;
#else
    (void)cpu;
#endif
    return &qs__attention_portable;
}

qs__attention_job qs__attention_work(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    qs__attention_job work = {.size = qs_case_attention(one), .backward = qs_case_position(one, QS_DIFF_DST) >= 0};
    work.pairs = chain->cpu->bf16 && qs__attention_of(chain->cpu)->multiply[1];
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        const bool factor = operand->format && operand->role != QS_KEEP && !qs_pass_writes(one->pass, i);
        if (factor && qs__cpu_type(operand->format) != QS__BF16) work.pairs = false;
    }
    return work;
}

static int64_t threads_of(const qs__attention_job *work) {
    const int64_t tasks = qs__attention_tasks(work);
    return qs_threads() < tasks ? qs_threads() : tasks;
}

static void share(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t tasks = qs__attention_tasks(j->work);
    for (int64_t t = begin; t < end; t++)
        j->kernels->run(j->work, tasks * t / j->threads, tasks * (t + 1) / j->threads, j->scratch + (size_t)t * j->bytes);
}

static qs_status run(const qs__chain *chain, const qs_run *of) {
    qs__attention_job work = qs__attention_work(chain);
    work.run = of;
    work.keep = qs__cpu_data(chain, QS_KEEP);
    work.queries = qs__staged_in(chain, QS_SRC);
    work.keys = qs__staged_in(chain, QS_SRC2);
    work.values = qs__staged_in(chain, QS_SRC3);
    if (work.backward) {
        work.diff = qs__staged_in(chain, QS_DIFF_DST);
        work.diff_queries = qs__staged_out(chain, QS_DIFF_SRC);
        work.diff_keys = qs__staged_out(chain, QS_DIFF_SRC2);
        work.diff_values = qs__staged_out(chain, QS_DIFF_SRC3);
    } else {
        work.dst = qs__staged_out(chain, QS_DST);
    }
    job j = {.work = &work, .kernels = qs__attention_of(chain->cpu), .scratch = chain->scratch + chain->offset[0]};
    j.bytes = j.kernels->scratch(&work);
    j.threads = threads_of(&work);
    qs_parallel(j.threads, 1, share, &j);
    return QS_OK;
}

qs_status qs__build_attention(qs__chain *chain) {
    qs__attention_job work = qs__attention_work(chain);
    const qs__attention_kernels *kernels = qs__attention_of(chain->cpu);
    static const int32_t some;
    work.keep = qs__case_has(&chain->one, QS_KEEP) ? &some : NULL; /* scratch is measured with it */
    chain->offset[0] = qs__chain_reserve(chain, kernels->scratch(&work) * (size_t)threads_of(&work));
    QS_TRY(qs__staged_build(chain, "attention", run));
    snprintf(chain->name, sizeof chain->name, "own:attention:%s%s", kernels->name, work.pairs ? "_bf16" : "");
    return QS_OK;
}
