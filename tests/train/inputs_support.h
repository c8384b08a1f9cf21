// SPDX-License-Identifier: Apache-2.0
/* Models of two inputs, ids and fp32 numbers, one for each kind of target, and sets of arrays that they can learn. */
#ifndef QSYNC_TRAIN_INPUTS_SUPPORT_H
#define QSYNC_TRAIN_INPUTS_SUPPORT_H

#include "train_support.h"

enum { LENGTH = 7, NUMBERS = 5, FEATURES = 12, IDS = 40, TRAINING = 384, TEST_SAMPLES = 96, KINDS = 4, NO_CLASS = 255 };

static inline int32_t draw(uint64_t seed, int64_t i, int32_t below) {
    return (int32_t)(qs_random_bits(seed, (uint64_t)i) % (uint32_t)below);
}

typedef struct two_inputs {
    qs_graph *graph;
    qs_dataset training, test;
} two_inputs;

static inline int node_add(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int first, int second,
                           int64_t outputs) {
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, attributes, second < 0 ? 1 : 2, (int[]){first, second}, outputs, outputs > 0, &node));
    return node;
}

/* What samples are: `classes` of the first two kinds. The numbers are a vector, or one for each position and logit. */
static inline qs_samples samples_of(qs_target_kind kind, int64_t classes) {
    const bool positions = kind == QS_TARGET_CLASS_PER_POSITION || kind == QS_TARGET_SPAN;
    qs_samples out = {.unit = "tokens", .inputs = 2};
    out.input[0] = (qs_input){.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}, .varies = true, .bound = classes};
    out.input[1] = (qs_input){.name = "numbers", .type = QS_INPUT_F32, .rank = 1, .extent = {NUMBERS}};
    if (positions)
        out.input[1] = (qs_input){
            .name = "numbers", .type = QS_INPUT_F32, .rank = 2, .extent = {LENGTH, kind == QS_TARGET_SPAN ? 2 : classes}, .varies = true};
    out.target = (qs_target){.kind = kind,
                             .classes = kind <= QS_TARGET_CLASS_PER_POSITION ? classes : 0,
                             .extent = kind == QS_TARGET_CLASS  ? 1
                                       : kind == QS_TARGET_REAL ? 3
                                                                : LENGTH,
                             .ignored = kind == QS_TARGET_CLASS_PER_POSITION ? -1 : 0};
    return out;
}

/* embedding, pooled, beside the numbers, and two linear layers; or logits of positions: embedding + numbers, and a
 * linear layer over positions. */
static inline qs_graph *graph_of(const qs_samples *samples) {
    const qs_target *target = &samples->target;
    const qs_attributes table = {.vocabulary = (double)samples->input[0].bound};
    const bool positions = target->kind == QS_TARGET_CLASS_PER_POSITION || target->kind == QS_TARGET_SPAN;
    qs_graph *graph = NULL;
    assert_ok(qs_graph_create("two inputs", samples->unit, samples->inputs, samples->input, &graph));
    int at = node_add(graph, "table", "embedding", &table, 0, -1, positions ? samples->input[1].extent[1] : FEATURES);
    if (positions) {
        at = node_add(graph, "sum", "add", NULL, at, 1, 0);
        at = node_add(graph, "logits", "linear", NULL, at, -1, samples->input[1].extent[1]);
    } else {
        at = node_add(graph, "pool", "global_average_pool", NULL, at, -1, 0);
        at = node_add(graph, "flatten", "flatten", NULL, at, -1, 0);
        at = node_add(graph, "both", "concat", NULL, at, 1, 0);
        at = node_add(graph, "hidden", "linear", NULL, at, -1, 24);
        at = node_add(graph, "gelu", "gelu", NULL, at, -1, 0);
        at = node_add(graph, "last", "linear", NULL, at, -1, target->kind == QS_TARGET_REAL ? target->extent : target->classes);
    }
    assert_ok(qs_graph_finish(graph, at, target));
    return graph;
}

/* One class: the sample's id (one for all positions). A class for each position: a permutation of its id, every fifth without. A span: from
 * the id 1 to the id 2. Real numbers: sums of numbers. All samples are of any length up to LENGTH; spans of all of it. */
static inline void set_make(const qs_samples *samples, int64_t count, uint64_t seed, qs_dataset *out) {
    const qs_target *target = &samples->target;
    const int32_t ids = (int32_t)samples->input[0].bound;
    const int64_t numbers = samples->input[1].extent[0] * (samples->input[1].rank > 1 ? samples->input[1].extent[1] : 1),
                  values = qs_target_values(target);
    qs_data_description is = {.name = "two inputs", .samples = *samples};
    int32_t *id = calloc((size_t)(count * LENGTH), sizeof *id), *length = calloc((size_t)count, sizeof *length),
            *label = calloc((size_t)(count * values), sizeof *label);
    float *number = calloc((size_t)(count * numbers), sizeof *number), *real = calloc((size_t)(count * values), sizeof *real);
    assert_true(id && length && label && number && real);
    if (target->kind == QS_TARGET_CLASS_PER_POSITION) is.samples.target.ignored = ids <= NO_CLASS ? NO_CLASS : -1;
    for (int64_t i = 0; i < count * numbers; i++)
        number[i] = 0.5f * qs_random_normal(seed, (uint64_t)i);
    for (int64_t n = 0; n < count; n++) {
        const int32_t same = draw(seed + 1, n, ids), first = draw(seed + 2, n, LENGTH - 1),
                      last = first + 1 + draw(seed + 3, n, LENGTH - 1 - first);
        length[n] = target->kind == QS_TARGET_SPAN ? LENGTH : 1 + draw(seed + 4, n, LENGTH);
        for (int64_t k = 0; k < LENGTH; k++) {
            int32_t *here = &id[n * LENGTH + k];
            *here = target->kind == QS_TARGET_CLASS ? same : draw(seed + 5, n * LENGTH + k, ids);
            if (target->kind == QS_TARGET_SPAN) *here = k == first ? 1 : k == last ? 2 : 3 + *here % (ids - 3);
            if (target->kind == QS_TARGET_CLASS_PER_POSITION)
                label[n * LENGTH + k] = k % 5 == 4 ? is.samples.target.ignored : (*here * 7 + 3) % ids;
        }
        if (target->kind == QS_TARGET_CLASS) label[n] = (same * 7 + 3) % ids;
        if (target->kind == QS_TARGET_SPAN) label[2 * n] = first, label[2 * n + 1] = last;
        for (int64_t k = 0; target->kind == QS_TARGET_REAL && k < values; k++)
            real[n * values + k] = number[n * numbers + k] - number[n * numbers + k + 1];
    }
    if (target->kind == QS_TARGET_CLASS) /* so that a mean over positions tells the id: samples are whole */
        for (int64_t n = 0; n < count; n++)
            length[n] = LENGTH;
    assert_ok(qs_dataset_of_arrays(&is, count, (const void *const[]){id, number}, length,
                                   target->kind == QS_TARGET_REAL ? (const void *)real : label, out));
    free(id), free(length), free(label), free(number), free(real);
}

static inline void two_open(two_inputs *out, qs_target_kind kind, int64_t classes, int64_t training) {
    const qs_samples samples = samples_of(kind, classes);
    out->graph = graph_of(&samples);
    set_make(&samples, training, 100, &out->training);
    set_make(&samples, TEST_SAMPLES, 200, &out->test);
}

static inline void two_close(two_inputs *one) {
    qs_graph_release(one->graph);
    qs_dataset_release(&one->training);
    qs_dataset_release(&one->test);
}

/* A job on them by adam. */
static inline void two_job(bench *here, const two_inputs *one, int epochs) {
    snprintf(here->job.dataset, sizeof here->job.dataset, "two inputs");
    assert_ok(qs_job_optimizer_set(&here->job, "adam"));
    here->job.epochs = epochs;
    here->job.rate.base = 0.02;
    here->options.graph = one->graph;
    here->options.training = &one->training;
    here->options.test = &one->test;
    here->options.training_limit = here->options.test_limit = 0;
}

#endif
