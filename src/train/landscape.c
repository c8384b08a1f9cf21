// SPDX-License-Identifier: Apache-2.0
/* A slice of the loss landscape: a trainer is set up as for the run, and instead of steps that update the weights its forward parts run at
 * one point of the slice after the other. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tells these draws from those of training, whose streams are small numbers, and from start values. */
static const uint64_t stream = 0x64697265; /* "dire" */

/* ---- The direction ------------------------------------------------------------------------------------------------------------------ */

static double norm_of(const float *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

static void filter_scale(const float *weights, int64_t count, float *direction) {
    const double scale = norm_of(weights, count) / norm_of(direction, count);
    for (int64_t i = 0; i < count; i++)
        direction[i] = (float)(scale * (double)direction[i]);
}

static void parameter_draw(const qs_parameter *parameter, uint64_t key, const float *weights, float *direction) {
    const int64_t count = qs_shape_count(&parameter->shape), a_filter = count / parameter->shape.dim[0];
    for (int64_t i = 0; i < count; i++)
        direction[i] = qs_random_normal(key, (uint64_t)i);
    for (int64_t first = 0; first < count; first += a_filter)
        filter_scale(weights + first, a_filter, direction + first);
}

void qs_landscape_direction(const qs_graph *graph, uint64_t seed, int64_t number, const float *weights, float *direction) {
    memset(direction, 0, (size_t)(graph->trained_elements + graph->frozen_elements) * sizeof *direction);
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *one = &graph->parameter[i];
        if (one->role != QS_WEIGHTS) continue;
        parameter_draw(one, qs_random_key(seed, (uint64_t)number, (uint64_t)i, stream), weights + one->offset, direction + one->offset);
    }
}

/* ---- Points ------------------------------------------------------------------------------------------------------------------------- */

typedef struct slice {
    const qs_landscape_options *options;
    qs__trainer *trainer;
    float *weights, *direction, *moved; /* (elements of the masters) */
} slice;

static int64_t elements_of(const qs_graph *graph) {
    return graph->trained_elements + graph->frozen_elements;
}

static qs_status weights_set(const slice *one, double alpha) {
    const qs__program *program = qs__main(&one->trainer->plans.present);
    const int64_t elements = elements_of(one->trainer->setting.graph);
    for (int64_t i = 0; i < elements; i++)
        one->moved[i] = (float)((double)one->weights[i] + alpha * (double)one->direction[i]);
    return qs_executor_write(program->executor, program->schedule->masters, 0, (size_t)elements * sizeof *one->moved, one->moved);
}

/* The samples of this rank in all batches. */
static qs_status batches_run(const slice *one, qs__sums *sums) {
    qs__trainer *trainer = one->trainer;
    qs__counters counters = trainer->counters;
    for (counters.step = 0; counters.step < one->options->batches; counters.step++) {
        qs__sample_step step;
        QS_TRY(qs__sample_step_find(&trainer->setting, &trainer->plans, &counters, 0, counters.step, &step));
        if (step.run.samples == 0) continue;
        QS_TRY(qs__sample_step_load(&trainer->setting, &step));
        QS_TRY(qs__executor_phase(step.program->executor, QS_FORWARD, &step.run, NULL));
        QS_TRY(qs__sums_add(sums, step.program, &trainer->setting.training, step.indices, step.run.samples));
    }
    return QS_OK;
}

static qs_status point_measure(const slice *one, double alpha, qs_landscape_point *out) {
    qs__sums sums = {0};
    qs_status status = weights_set(one, alpha);
    if (status == QS_OK) status = batches_run(one, &sums);
    QS_TRY(qs_comm_agree(one->trainer->setting.comm, status));
    double all[] = {sums.loss, sums.correct, sums.samples};
    QS_TRY(qs_comm_sum(one->trainer->setting.comm, all, 3));
    *out = (qs_landscape_point){.alpha = alpha, .loss = all[0] / all[2], .accuracy = all[1] / all[2]};
    return QS_OK;
}

static qs_status points_measure(const slice *one, qs_landscape *out) {
    const qs_landscape_options *options = one->options;
    const int last = options->points - 1;
    for (int i = 0; i <= last; i++) {
        QS_TRY(point_measure(one, options->range * (2 * i - last) / last, &out->point[i]));
        if (options->progress && one->trainer->setting.rank == 0) options->progress(options->progress_context, i + 1, options->points);
    }
    return QS_OK;
}

static qs_status slice_make(const slice *one) {
    const qs__trainer *trainer = one->trainer;
    if (one->options->batches > trainer->setting.steps_per_epoch)
        return qs_fail(QS_USAGE, "%lld batches: the training part has %lld of %lld samples", (long long)one->options->batches,
                       (long long)trainer->setting.steps_per_epoch, (long long)trainer->setting.global_batch);
    const qs__program *main = qs__main(&trainer->plans.present);
    QS_TRY(qs_executor_read(main->executor, main->schedule->masters, 0, (size_t)elements_of(trainer->setting.graph) * sizeof *one->weights,
                            one->weights));
    qs_landscape_direction(trainer->setting.graph, trainer->setting.job->seed, one->options->direction, one->weights, one->direction);
    return QS_OK;
}

static qs_status trainer_measure(const qs_landscape_options *options, qs__trainer *trainer, qs_landscape *out) {
    const size_t elements = (size_t)elements_of(trainer->setting.graph);
    slice one = {.options = options, .trainer = trainer};
    qs_status status = qs_allocate(3 * elements, sizeof *one.weights, &one.weights);
    if (status == QS_OK) {
        one.direction = one.weights + elements;
        one.moved = one.direction + elements;
        status = slice_make(&one);
    }
    QS_GOTO(qs_comm_agree(trainer->setting.comm, status));
    QS_GOTO(points_measure(&one, out));
    for (int64_t step = 0; step < options->batches; step++) {
        int length;
        int64_t samples;
        QS_GOTO(qs_sharding_size(&trainer->plans.sharding, 0, step, &length, &samples));
        out->samples += samples;
    }
done:
    free(one.weights);
    return status;
}

/* ---- All together ------------------------------------------------------------------------------------------------------------------- */

static qs_status options_check(const qs_landscape_options *options) {
    if (options->points < 3 || options->points % 2 == 0)
        return qs_fail(QS_USAGE, "%d points: an odd number, at least 3, so that the weights themselves are among them", options->points);
    if (!(options->range > 0 && isfinite(options->range)))
        return qs_fail(QS_USAGE, "range %g: how far to go along the direction, above 0", options->range);
    if (options->batches < 1) return qs_fail(QS_USAGE, "%lld batches: at least 1", (long long)options->batches);
    return QS_OK;
}

qs_status qs_landscape_measure(const qs_landscape_options *options, qs_device *device, qs_comm *comm, qs_landscape *out) {
    qs_job job = *options->job;
    job.augmentation = false;
    job.epochs = 1;
    const qs_train_options run = {.job = &job,
                                  .cluster = options->cluster,
                                  .plan = options->plan,
                                  .data_folder = options->data_folder,
                                  .training_limit = options->training_limit,
                                  .test_limit = -1,
                                  .start_weights = options->weights};
    qs__trainer trainer = {0};
    qs_landscape made = {0};
    qs_status status;
    QS_GOTO(options_check(options));
    QS_GOTO(qs_allocate((size_t)options->points, sizeof *made.point, &made.point));
    made.points = options->points;
    QS_GOTO(qs__trainer_create(&run, device, comm, &trainer));
    QS_GOTO(trainer_measure(options, &trainer, &made));
    *out = made;
done:
    qs__trainer_release(&trainer);
    if (status != QS_OK) qs_landscape_release(&made);
    return status;
}

void qs_landscape_release(qs_landscape *landscape) {
    free(landscape->point);
    *landscape = (qs_landscape){0};
}
