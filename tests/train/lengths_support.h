// SPDX-License-Identifier: Apache-2.0
/* Sequences of ids of lengths of their own, with a class each, and small transformers of them. */
#ifndef QSYNC_TRAIN_LENGTHS_SUPPORT_H
#define QSYNC_TRAIN_LENGTHS_SUPPORT_H

#include "train_support.h"

enum { LONGEST = 16, WORDS = 30, SENTENCES = 301, TESTED = 75 };
static const qs_lengths several = {3, {4, 8, LONGEST}};
static const char small_bert[] = "bert:layers=2,hidden=32,heads=2,inner=48,vocab=30,positions=16,dropout=0";

typedef struct sentences {
    qs_graph *graph;
    qs_dataset training, test;
} sentences;

/* Most are short, as sentences are; a class is whether the first word is of the upper half. */
static inline void sentences_make(int64_t count, uint64_t seed, qs_dataset *out) {
    static const char *const names[] = {"ids", "types", "keep"};
    qs_data_description is = {.name = "sentences", .samples = {.unit = "sentences", .inputs = 3}};
    int32_t *value[3], *length = calloc((size_t)count, sizeof *length), *label = calloc((size_t)count, sizeof *label);
    for (int i = 0; i < 3; i++) {
        is.samples.input[i] = (qs_input){.type = QS_INPUT_I32, .rank = 1, .extent = {LONGEST}, .varies = true, .bound = i ? 2 : WORDS};
        snprintf(is.samples.input[i].name, sizeof is.samples.input[i].name, "%s", names[i]);
        value[i] = calloc((size_t)count * LONGEST, sizeof **value);
        assert_non_null(value[i]);
    }
    is.samples.target = (qs_target){.kind = QS_TARGET_CLASS, .classes = 2, .extent = 1};
    assert_true(length && label);
    for (int64_t n = 0; n < count; n++) {
        const uint32_t drawn = qs_random_bits(seed, (uint64_t)n) % 100;
        length[n] = 1 + (int32_t)(drawn < 50 ? drawn % 4 : drawn < 80 ? drawn % 8 : drawn % LONGEST);
        for (int32_t k = 0; k < length[n]; k++) {
            value[0][n * LONGEST + k] = (int32_t)(qs_random_bits(seed + 1, (uint64_t)(n * LONGEST + k)) % WORDS);
            value[2][n * LONGEST + k] = 1;
        }
        label[n] = value[0][n * LONGEST] >= WORDS / 2;
    }
    assert_ok(qs_dataset_of_arrays(&is, count, (const void *const[]){value[0], value[1], value[2]}, length, label, out));
    for (int i = 0; i < 3; i++)
        free(value[i]);
    free(length);
    free(label);
}

static inline void sentences_open(bench *here, const char *model, sentences *out) {
    sentences_make(SENTENCES, 100, &out->training);
    sentences_make(TESTED, 200, &out->test);
    assert_ok(qs_model_open(model, &out->training.description.samples, &out->graph));
    snprintf(here->job.dataset, sizeof here->job.dataset, "sentences");
    assert_ok(qs_job_optimizer_set(&here->job, "adam"));
    here->job.epochs = 2;
    here->job.rate.base = 0.003;
    here->job.lengths = several;
    here->options.graph = out->graph;
    here->options.training = &out->training;
    here->options.test = &out->test;
    here->options.training_limit = here->options.test_limit = 0;
}

static inline void sentences_close(sentences *one) {
    qs_graph_release(one->graph);
    qs_dataset_release(&one->training);
    qs_dataset_release(&one->test);
}

#endif
