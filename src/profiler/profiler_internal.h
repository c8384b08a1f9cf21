// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share: the cases that plans of a class may need, the plans that are run, samples of times, and the state of
 * one measurement. Every rank measures its own class; ranks meet before each step and agree on every failure. */
#ifndef QSYNC_PROFILER_INTERNAL_H
#define QSYNC_PROFILER_INTERNAL_H

#include "memory.h"
#include "qsync/profiler.h"

enum { QS__MOST_RECIPES = QS_MAX_FORMATS, QS__WARM_UP = 2, QS__CACHES = 8 };
/* A case in one plan says little about its time in others, since caches differ: it is to be met in so many. */
enum { QS__WANTED_PLANS = 4 };

/* ---- samples.c ------------------------------------------------------------------------------------------------------------------ */

typedef struct qs__samples {
    double *value;
    int count;
    size_t capacity;
} qs__samples;
typedef struct qs__quartiles {
    double low, median, high;
} qs__quartiles;
qs_status qs__samples_add(qs__samples *samples, double value);
/* Sorts the values. 0 values give zeros. */
qs__quartiles qs__quartiles_of(int count, double *value);
/* True when the median that the samples come from lies within `tolerance` (relative) of theirs with at least 95 % confidence, whatever
 * their distribution: by order statistics; never with fewer than 6 samples. Sorts the values. */
bool qs__median_is_known(qs__samples *samples, double tolerance);
/* The largest value that the median they come from may have, with 97.5 % confidence; INFINITY with fewer than 6 samples. Sorts the
 * values. */
double qs__median_at_most(qs__samples *samples);

/* ---- cases.c -------------------------------------------------------------------------------------------------------------------- */

/* A case with what the device says about it and what was measured. A gradient sum and an operator `add` may be the same case. */
typedef struct qs__entry {
    char *text;
    qs_case case_;
    qs_kernel_row row;
    bool as_kernel, as_conversion;
    qs__samples kernel_us, conversion_us; /* one value for every place in a measured plan: the median over time */
    qs__samples cold[QS__CACHES];         /* at the places of kernel_us: bytes that a cache of qs__cache_bytes[i] has not */
    qs__samples alone;                    /* time while the other ranks of the host wait, over the time beside them at work */
} qs__entry;
typedef struct qs__cases {
    qs_device *device;
    qs__entry *entry;
    int count;
    size_t capacity;
    int *slot; /* open addressing by hash of the text; -1: free */
    size_t slots;
} qs__cases;
/* A qs_kernel_lookup whose context is a qs__cases: asks the device once per case. */
qs_status qs__cases_lookup(void *cases, const qs_case *one, const char *case_text, qs_kernel_row *out);
/* Index of a case, -1 when absent. */
int qs__cases_find(const qs__cases *cases, const char *case_text);
void qs__cases_release(qs__cases *cases);

/* ---- The state of one measurement --------------------------------------------------------------------------------------------------- */

/* One assignment of recipes to operators. */
typedef struct qs__mix {
    unsigned char *choice; /* (nodes) index of a recipe; 0 for operators that take none */
    size_t arena_bytes;
    int kernels;
    int *kernel; /* cases of its kernels, each once; conversions are not among them */
} qs__mix;
typedef struct qs__mixes {
    qs__mix *
        mix; /* the first ones are uniform, in the order of the recipes; then, where the class simulates formats, that of operators apart */
    int count;
    size_t capacity;
} qs__mixes;

typedef struct qs__profiler {
    const qs_profile_options *options;
    const qs_job *job;
    qs_device *device;
    qs_comm *comm;
    qs_comm *self; /* steps are timed without waiting for others: all-reduces are priced on their own */
    int rank, ranks;
    const qs_class *class_;
    qs_graph *graph;
    qs_recipe recipe[QS__MOST_RECIPES];
    int recipes;
    qs_dataset training, test;
    int64_t *order;   /* (training.count) permutation */
    int64_t *indices; /* (batch) of the step at hand */
    qs__cases cases;
    qs__mixes mixes;
    qs_arena arena;
    qs__memory memory;
    int *measured;                                      /* mixes that were run, in order */
    qs__samples whole_us, overhead_us, data_us, jitter; /* one value for each of them */
    qs__samples checked;                                /* steps, median and confidence of each of options->check */
    qs_quality quality;
    int rounds;                   /* of conversions that are done */
    int planned;                  /* cases that plans may need: the first ones; statistics lower more */
    char part[64];                /* " at batch 96 (1 of 2)": what other batches than the job's add to what is told */
    double part_from, part_share; /* of the whole work */
    const qs_profile *mine, *all; /* what is measured so far beside that: this rank's class; all-reduces and statistics */
} qs__profiler;

/* Tells rank 0's caller how far things are; fraction of this profiler's own work. */
void qs__progress(const qs__profiler *profiler, double fraction, const char *what);
/* Which part of the whole work that is: the job's own batch (-1), or the index of another one. */
void qs__progress_divide(qs__profiler *profiler, const qs__profiler *whole, int batch);
/* Fills the images and labels of a schedule with the samples of (step, rank); `batch` samples a rank. */
qs_status qs__profile_batch(qs__profiler *profiler, qs_executor *executor, int64_t step, int64_t batch);

/* ---- mixes.c ----------------------------------------------------------------------------------------------------------------------- */

qs_status qs__mix_lower(qs__profiler *profiler, const unsigned char *choice, qs_mode mode, int64_t batch, qs_schedule **out);
/* profiler->cases then holds every case that any plan of the class may contain. */
qs_status qs__mixes_enumerate(qs__profiler *profiler);
/* The same mixes at this profiler's batch. */
qs_status qs__mixes_repeat(qs__profiler *profiler, const qs__mixes *like);
void qs__mixes_release(qs__mixes *mixes);
/* At most `most` mixes whose kernels cover the cases as far as possible, uniform ones first. */
qs_status qs__mixes_cover(const qs__profiler *profiler, int most, int *chosen, int *chosen_count);

/* ---- Measurements; collective -------------------------------------------------------------------------------------------------------- */

/* memory.c: what the process and its kernels hold; before anything else is lowered, alone on every rank. */
qs_status qs__memory_measure(qs__profiler *profiler);
/* plans.c: whole training steps of covering plans. */
qs_status qs__plans_measure(qs__profiler *profiler);
/* Sizes of caches that are tried as the explanation of how times differ from place to place. */
extern const int64_t qs__cache_bytes[QS__CACHES];
/* cold.c: the one of them that explains most, over all cases. */
int64_t qs__cache_choose(const qs__cases *cases);
/* cold.c: what a cold byte costs every kernel of the class, for its cache_bytes. */
void qs__cold_fill(const qs__cases *cases, qs_class_profile *out);
/* rows.c: the times of a case. */
qs_status qs__row_times(const qs__entry *entry, qs_kernel_cost *out);
/* rows.c: conversions are fitted while other ranks wait; makes them times beside busy ranks. */
void qs__company_add(const qs__profiler *profiler, qs_class_profile *out);
/* rows.c: how well the finished figures of the class give the steps of the plans they came from. */
qs_status qs__quality_fill(qs__profiler *profiler, qs_class_profile *profile);
/* profile.c: a row for every case; conversions of the class must be there. */
qs_status qs__kernels_fill(qs__profiler *profiler, qs_class_profile *out);
/* rows.c: what the rows of another batch take from all of them together, for the cache_bytes of the class. */
void qs__kernels_finish(const qs__profiler *profiler, qs_class_profile *out);
/* alone.c: kernels that no plan reached. */
qs_status qs__alone_measure(qs__profiler *profiler);
/* conversions.c: fits of everything that lowering converts; appended to out. */
qs_status qs__conversions_measure(qs__profiler *profiler, qs_class_profile *out);
/* collectives.c: nothing with one rank. */
qs_status qs__collectives_measure(qs__profiler *profiler, qs_profile *out);
/* statistics.c */
qs_status qs__statistics_measure(qs__profiler *profiler, qs_statistics *out);

/* ---- tune.c ------------------------------------------------------------------------------------------------------------------------- */

/* Which candidate to take, by samples of each one's time over that of the first, which is taken unless another one's median is at most 0.98
 * with 97.5 % confidence: then of these the one whose samples have the least median. Sorts the samples. */
int qs__fastest_of(int candidates, qs__samples *ratio);

/* ---- fill.c: operands for kernels outside a step ----------------------------------------------------------------------------------- */

/* Plausible values for an operand: normal floats, positive variances and steps, zeros where codes have a meaning. */
void qs__operand_fill(const qs_operand *operand, void *data);
/* Synthetic images and labels of a training step. Before every step: the arena may use their memory again once they were read. */
qs_status qs__inputs_fill(const qs_graph *graph, const qs_schedule *schedule, qs_executor *executor);
/* All operands of a case; data[i] NULL where absent. */
void qs__operands_fill(const qs_case *one, void *const *data);
/* Bytes of all operands and scratch, each on its own pages; the places in it when data is not NULL. */
size_t qs__operands_place(const qs_case *one, size_t scratch_bytes, char *memory, void **data, void **scratch);
/* Writes to every line of `bytes`, so that caches hold them and little else. */
void qs__cache_flush(char *memory, size_t bytes);
/* Reads every line. */
void qs__cache_read(const char *memory, size_t bytes);

#endif
