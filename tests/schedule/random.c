// SPDX-License-Identifier: Apache-2.0
/* Random models under random recipes keep what a schedule must keep, and their steps leave finite gradients in memory that starts as NaN.
 */
#include "kit/random_graph.h"
#include "schedule_check.h"

#define GRAPHS 150
#define RUNS 25

static qs_job random_job(uint64_t number) {
    qs_job job = stub_job(1 + (int64_t)(number % 5) * 3);
    job.dynamic_loss_scaling = number % 3 == 0;
    job.clip_norm = number % 5 == 0 ? 0.5 : 0;
    job.bucket_bytes = (int64_t)(number % 4) * 2000 + 1;
    return job;
}

TEST(invariants) {
    for (uint64_t number = 0; number < GRAPHS; number++) {
        qs_recipe *own = NULL;
        qs_graph *graph = random_graph(number);
        const qs_recipe **list = random_recipes(graph, number, &own);
        const qs_job job = random_job(number);
        qs_lowering lowering = lowering_of(graph, &job, (qs_mode)(number % 3), list);
        lowering.half = qs_format_of(number % 2 ? "bf16" : "fp32");
        lowering.joins = number % 4 < 2;
        qs_schedule *schedule = lower(&lowering);
        schedule_check(schedule, graph, &job);
        qs_schedule_release(schedule);
        qs_graph_release(graph);
        free(list);
        free(own);
    }
}

/* Dropout, sums and conversions included: a value that was never written would be NaN. */
TEST(gradients_are_finite) {
    for (uint64_t number = 0; number < RUNS; number++) {
        qs_recipe *own = NULL;
        qs_graph *graph = random_graph(number);
        const qs_recipe **list = random_recipes(graph, number, &own);
        const qs_job job = stub_job(2);
        qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
        lowering.joins = number % 2;
        qs_schedule *schedule = lower(&lowering);
        runner run = runner_make(schedule, graph);
        const double loss = runner_run(&run, graph->samples.target.classes, QS_UPDATE);
        const float *gradients = runner_buffer(&run, schedule->gradients);
        if (!isfinite(loss)) fail_msg("graph %d: loss %g", (int)number, loss);
        for (int64_t i = 0; i < graph->trained_elements; i++)
            if (!isfinite(gradients[i])) fail_msg("graph %d: gradient %d is %g", (int)number, (int)i, (double)gradients[i]);
        free(run.memory);
        qs_schedule_release(schedule);
        qs_graph_release(graph);
        free(list);
        free(own);
    }
}

TEST_MAIN(invariants, gradients_are_finite)
