// SPDX-License-Identifier: Apache-2.0
/* One training step shared by the ranks of the launcher, against the same step of one rank alone. */
#ifndef QSYNC_TRAIN_EXACT_SUPPORT_H
#define QSYNC_TRAIN_EXACT_SUPPORT_H

#include "step_support.h"

/* Samples first .. first+count of a set that both ranks make. */
static inline void step_run(one_step *here, const qs_dataset *dataset, int64_t first, int64_t count, int64_t global) {
    int64_t indices[64];
    for (int64_t i = 0; i < count; i++)
        indices[i] = first + i;
    assert_ok(qs_executor_load(here->executor, here->graph, dataset, NULL, indices, count));
    const qs_run run = {.first_sample = first, .samples = count, .global_samples = global, .loss_scale = 1, .learning_rate = 0.01};
    assert_ok(qs_executor_run(here->executor, &run));
}

/* A gradient sums at most 64 samples × 1024 places, twice in another order; errors of random sign grow with the root of the length, through
 * the layers before (11 of them at most, each with sums of at most 4608): 2^-24 × (sqrt(65536) + 11 × sqrt(4608)) = 6e-5 of the largest. */
static const double tolerance = 0x1p-24 * (256 + 11 * 68);

static inline void tensor_compare(const qs_parameter *parameter, const float *expected, const float *actual) {
    const int64_t count = qs_shape_count(&parameter->shape);
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs((double)actual[i] - (double)expected[i]) <= tolerance * largest)) {
            fail_msg("%s[%lld]: %.9g, alone %.9g", parameter->name, (long long)i, actual[i], expected[i]);
        }
    }
}

/* counts: samples of every rank; 0 leaves a rank with nothing to do but to add zeros. Gradients and the summed loss must be those of one
 * rank with all samples. */
static inline void compare_with_one(const char *backend, const char *model, int64_t batch, const int64_t *counts) {
    bench here;
    qs_comm *self = NULL;
    qs_dataset dataset = {0};
    one_step shared, alone;
    bench_open(&here, backend, NULL, model, batch);
    const int rank = qs_comm_rank(here.comm);
    int64_t all = 0, before = 0;
    for (int r = 0; r < qs_comm_size(here.comm); r++) {
        if (r < rank) before += counts[r];
        all += counts[r];
    }
    assert_ok(qs_comm_open("self", &self));
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, all, &dataset));
    step_open(&shared, &here, here.comm, model, 32, counts[rank] ? counts[rank] : batch);
    step_open(&alone, &here, self, model, 32, all);
    assert_ok(qs_executor_initialize(shared.executor, shared.graph, 5));
    assert_ok(qs_executor_initialize(alone.executor, alone.graph, 5));
    step_run(&shared, &dataset, before, counts[rank], all);
    step_run(&alone, &dataset, 0, all, all);
    float *expected = buffer_read(alone.executor, alone.schedule, alone.schedule->gradients);
    float *actual = buffer_read(shared.executor, shared.schedule, shared.schedule->gradients);
    for (int i = 0; i < shared.graph->parameters; i++) {
        const qs_parameter *parameter = &shared.graph->parameter[i];
        if (parameter->gradient != QS_ROLE_COUNT) tensor_compare(parameter, expected + parameter->offset, actual + parameter->offset);
    }
    double loss = counts[rank] ? (double)loss_read(shared.executor, shared.schedule) : 0;
    const double alone_loss = (double)loss_read(alone.executor, alone.schedule);
    assert_ok(qs_comm_sum(here.comm, &loss, 1));
    assert_true(fabs(loss - alone_loss) <= tolerance * alone_loss);
    free(expected);
    free(actual);
    step_close(&alone);
    step_close(&shared);
    qs_dataset_release(&dataset);
    qs_comm_close(self);
    bench_close(&here);
}

#endif
