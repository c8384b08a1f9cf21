// SPDX-License-Identifier: Apache-2.0
/* Loss, accuracy and what else is measured on a set, sharded over ranks. A step's samples are cut into pieces of the program's batch; the
 * last piece is padded, run->samples tells the loss to ignore the rest. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

/* What a set is evaluated by. */
typedef struct evaluation {
    const qs__length_programs *at;
    const qs_dataset *dataset;
    qs__culprit *culprit; /* NULL: not looked for */
    qs__sums sums;
    qs__measuring measuring;
} evaluation;

static qs_status piece_run(evaluation *one, const qs__program *program, const int64_t *indices, int64_t count) {
    const qs_run run = {.samples = count, .global_samples = count, .loss_scale = 1};
    const bool was_finite = isfinite(one->sums.loss);
    QS_TRY(qs_executor_load(program->executor, program->graph, one->dataset, NULL, indices, count));
    QS_TRY(qs_executor_run(program->executor, &run));
    QS_TRY(qs__sums_add(&one->sums, program, one->dataset, indices, count));
    QS_TRY(qs__measuring_add(&one->measuring, program, indices, count));
    if (!one->culprit || !was_finite || isfinite(one->sums.loss)) return QS_OK;
    QS_TRY(qs_executor_load(program->executor, program->graph, one->dataset, NULL, indices, count));
    return qs__culprit_find(program, program->graph, &run, qs__phase_end(program->schedule, QS_FORWARD), one->culprit);
}

static qs_status part_run(evaluation *one, qs_sharding *sharding, int rank) {
    const int64_t steps = qs_sharding_steps(sharding);
    for (int64_t step = 0; step < steps; step++) {
        const int64_t *indices;
        int64_t count, first, global;
        int length;
        QS_TRY(qs_sharding_size(sharding, 0, step, &length, &global));
        QS_TRY(qs_sharding_step(sharding, 0, step, rank, &indices, &count, &first, &global));
        const qs__program *program = &one->at[length].evaluation;
        const int64_t batch = program->schedule->batch;
        for (int64_t at = 0; at < count; at += batch) {
            QS_TRY(piece_run(one, program, indices + at, count - at < batch ? count - at : batch));
        }
    }
    return QS_OK;
}

qs_status qs__evaluation_run(const qs__length_programs *at, const qs_dataset *dataset, qs_sharding *sharding, qs_comm *comm,
                             qs__culprit *culprit, qs_evaluation *out) {
    evaluation one = {.at = at, .dataset = dataset, .culprit = culprit};
    qs_status status = qs__measuring_start(dataset, &one.measuring);
    if (status == QS_OK) status = part_run(&one, sharding, qs_comm_rank(comm));
    QS_GOTO(qs_comm_agree(comm, status));
    double all[] = {one.sums.loss, one.sums.correct, one.sums.samples};
    QS_GOTO(qs_comm_sum(comm, all, 3));
    const qs__sums sums = {all[0], all[1], all[2]};
    *out = (qs_evaluation){.loss = qs__mean(all[0], &sums), .accuracy = qs__mean(all[1], &sums), .samples = (int64_t)all[2]};
    status = qs__measuring_finish(&one.measuring, comm, out);
done:
    qs__measuring_release(&one.measuring);
    return status;
}

/* ---- Saved weights ----------------------------------------------------------------------------------------------------------- */

typedef struct evaluator {
    qs_graph *graph;
    const qs_recipe **bound, **recipe; /* (nodes) of the plan; the same to nearest. NULL: fp32 */
    qs_graph_lengths lengths;
    qs_dataset test;
    qs_sharding sharding;
    int64_t *batch;                          /* (ranks) */
    qs__length_programs at[QS_MOST_LENGTHS]; /* their evaluation alone */
    qs_memory *memory;
} evaluator;

/* Samples are independent: where a batch does not fit the memory, smaller pieces do as well. */
static qs_status program_fit(const qs_graph *graph, const qs_evaluate_options *options, const qs__formats *formats, qs_device *device,
                             qs__program *out) {
    const qs__kernels kernels = {.device = device};
    qs_status status = QS_OK;
    for (int64_t batch = options->job->batch; batch > 0; batch /= 2) {
        qs__program_release(out);
        QS_TRY(qs__program_lower(graph, options->job, formats, QS_MODE_EVALUATION, batch, &kernels, out));
        status = qs_schedule_fits(out->schedule, options->memory_limit, "evaluation");
        if (status != QS_INFEASIBLE) return status;
    }
    return status;
}

static qs_status evaluator_fill(evaluator *here, const qs_evaluate_options *options, qs_device *device, qs_comm *comm) {
    const qs_job *job = options->job;
    const int ranks = qs_comm_size(comm);
    size_t bytes = 0;
    if (options->plan) QS_TRY(qs_plan_bind(options->plan, options->class_name, here->graph, &here->bound));
    QS_TRY(qs__recipes_to_nearest(here->graph, here->bound, &here->recipe));
    const qs__formats formats = {.recipe = here->recipe, .half = options->half ? options->half : qs_format_of("fp32")};
    QS_TRY(qs_graph_lengths_make(here->graph, &job->lengths, &here->lengths));
    QS_TRY(qs_job_samples(job, here->graph, options->data_folder, QS_PART_TEST, options->test_limit, &here->test));
    QS_TRY(qs_allocate((size_t)ranks, sizeof *here->batch, &here->batch));
    for (int i = 0; i < ranks; i++)
        here->batch[i] = job->batch;
    QS_TRY(qs_sharding_create(here->test.count, ranks, here->batch, job->seed, false, &here->sharding));
    QS_TRY(qs_sharding_lengths(&here->sharding, &job->lengths, here->test.length));
    for (int k = 0; k < here->lengths.count; k++) {
        qs__program *program = &here->at[k].evaluation;
        QS_TRY(program_fit(here->lengths.graph[k], options, &formats, device, program));
        if (program->schedule->arena_bytes > bytes) bytes = program->schedule->arena_bytes;
    }
    QS_TRY(qs_memory_reserve(device, bytes, &here->memory));
    for (int k = 0; k < here->lengths.count; k++)
        QS_TRY(qs_executor_create(here->at[k].evaluation.schedule, device, comm, here->memory, &here->at[k].evaluation.executor));
    return QS_OK;
}

static void evaluator_release(evaluator *here) {
    for (int k = 0; k < here->lengths.count; k++)
        qs__program_release(&here->at[k].evaluation);
    qs_memory_release(here->memory);
    qs_sharding_release(&here->sharding);
    qs_dataset_release(&here->test);
    qs_graph_lengths_release(&here->lengths);
    qs_graph_release(here->graph);
    free(here->batch);
    free(here->bound);
    free(here->recipe);
}

qs_status qs_evaluate(const qs_evaluate_options *options, qs_device *device, qs_comm *comm, qs_evaluation *out) {
    evaluator here = {0};
    QS_TRY(qs_model_share(options->job, NULL, comm, &here.graph));
    const qs__program *program = &here.at[0].evaluation;
    qs_status status = qs_comm_agree(comm, evaluator_fill(&here, options, device, comm));
    if (status == QS_OK)
        status = qs_comm_agree(comm, qs_comm_rank(comm) == 0 ? qs__weights_load(program, here.graph, options->weights, NULL, NULL) : QS_OK);
    if (status == QS_OK) status = qs__weights_send(program, comm);
    if (status == QS_OK) status = qs__evaluation_run(here.at, &here.test, &here.sharding, comm, NULL, out);
    evaluator_release(&here);
    return status;
}
