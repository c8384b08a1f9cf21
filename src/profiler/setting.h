// SPDX-License-Identifier: Apache-2.0
/* What is measured, and on what: set once when a measurement begins, and only read by its stages. Every rank measures its own class; ranks
 * wait for each other before each stage and agree on every failure. */
#ifndef QSYNC_PROFILER_SETTING_H
#define QSYNC_PROFILER_SETTING_H

#include "qsync/profiler.h"
#include "qsync/tuning.h"

enum { QS__MOST_RECIPES = QS_MAX_FORMATS };
/* Steps of every plan, however little time there is: the fewest whose order statistics hold a median with 95 %. */
enum { QS__LEAST_STEPS = 6 };

/* What profiles of other models have left, and what this one will leave (shared.c). */
typedef struct qs__shared {
    char *circumstances; /* NULL: nothing is shared */
    qs_timings known, found;
    double pace; /* what was taken is multiplied by it, once the steps that tell it were run */
} qs__shared;

typedef struct qs__setting {
    const qs_profile_options *options;
    const qs_job *job;
    qs_device *device;
    qs_comm *comm; /* all ranks */
    qs_comm *self; /* steps are timed without waiting for others: all-reduces are priced on their own */
    int rank, ranks;
    const qs_class *class_;   /* of this rank */
    const qs_graph *graph;    /* at the length at hand */
    qs_graph *opened;         /* of the longest, where it is to be released here */
    qs_graph_lengths lengths; /* at every length of the job */
    qs_recipe recipe[QS__MOST_RECIPES];
    int recipes;
    qs__shared *shared; /* the caller's */
    qs_dataset training, test;
    int64_t *order, ordered;      /* (ordered) permutation of the training samples, or of those of the length at hand */
    int64_t *indices;             /* (batch) scratch of qs__batch_fill */
    double data_bytes;            /* that the process grew by when it read its sample sets; what the heap rounds up included */
    double begin;                 /* clock, when measuring began; of a part that has time of its own, when that did */
    int parts_left;               /* this one, and other batches or lengths that are still to come */
    char part[64];                /* " at batch 96 (1 of 2)": what other batches than the job's add to what is told */
    double part_from, part_share; /* of the whole work */
} qs__setting;

/* options, device and communicator are set; the rest is found. Release also after a failure. */
qs_status qs__setting_open(qs__setting *setting);
void qs__setting_release(qs__setting *setting);
/* The same at another batch: the `index`-th of options->batches. Only `indices` is its own; the rest belongs to `from`, job and options to
 * the caller. */
qs_status qs__setting_at_batch(const qs__setting *from, const qs_profile_options *options, const qs_job *job, int index, qs__setting *out);
/* The same at one of the shorter lengths, with samples that are padded to it, or with shorter ones where there are none; QS_USAGE: there
 * are no such either. `indices` and `order` are its own. */
qs_status qs__setting_at_length(const qs__setting *from, int index, qs__setting *out);
/* Seconds for all of a measurement, by options->minutes, with so many plans; step_s: what a step takes in the highest precision. 0: no
 * limit. */
double qs__budget_seconds(const qs__setting *setting, int plans, double step_s);
/* By the clock: when so many plans have had their part of it. */
double qs__plans_until(const qs__setting *setting, int plans, double step_s);
double qs__conversion_seconds(const qs__setting *setting);
int qs__noise_runs(const qs_profile_options *options, int plans);
/* Tells rank 0's caller how far things are; fraction of this setting's own work. */
void qs__progress(const qs__setting *setting, double fraction, const char *what);
/* Fills inputs and target of an executor with the samples of (step, rank); `batch` samples a rank. */
qs_status qs__batch_fill(const qs__setting *setting, qs_executor *executor, int64_t step, int64_t batch);
/* Training step `step` with its samples and learning rate 0: weights stay ordinary however often it runs, and all plans may share them. */
qs_status qs__training_step(const qs__setting *setting, qs_executor *executor, int64_t step);

#endif
