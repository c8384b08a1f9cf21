// SPDX-License-Identifier: Apache-2.0
/* What the files that time kernels share: samples of times; the cases that plans of a class contain, and plans that contain them; and the
 * stages of a measurement. A stage gets the setting and what stages before it found, and fills what is its own. Stages that take a
 * communicator from the setting are collective. */
#ifndef QSYNC_PROFILER_TIMING_H
#define QSYNC_PROFILER_TIMING_H

#include "../setting.h"

/* ---- samples.c ---- */

typedef struct qs__samples {
    double *value;
    int count;
    size_t capacity;
} qs__samples;
typedef struct qs__quartiles {
    double low, median, high;
} qs__quartiles;
qs_status qs__samples_add(qs__samples *samples, double value);
/* 0 without samples. */
double qs__mean_of(const qs__samples *samples);
/* Sorts the values. 0 values give zeros. */
qs__quartiles qs__quartiles_of(int count, double *value);
/* Half the distance of the order statistics that hold the median with 95 %, over the median; INFINITY with too few. Sorts the values. */
double qs__confidence_of(int count, double *value);
/* Half of the interval that holds the median with 95 %, whatever the distribution, by order statistics; of fewer than 6 samples, none of
 * whose intervals does, all of their range; INFINITY with fewer than 2. Sorts the values. */
double qs__half_width_of(int count, double *value);
/* True when the median that the samples come from lies within `tolerance` (relative) of theirs with at least 95 % confidence, whatever
 * their distribution: by order statistics; never with fewer than 6 samples. Sorts the values. */
bool qs__median_is_known(qs__samples *samples, double tolerance);
/* The largest value that the median they come from may have, with 97.5 % confidence; INFINITY with fewer than 6 samples. Sorts the
 * values. */
double qs__median_at_most(qs__samples *samples);
/* Whole steps and their parts: medians of the whole, of what comes before its parts, and of the loop's own work, which is what no part and
 * nothing before them took. Delays hit a part now and then and only ever lengthen it, so medians of parts add up to less than the median
 * of the whole; what is missing is the parts' and no loop's: each takes `stretch` times its median, and all is the whole again. */
typedef struct qs__split {
    double whole, before, loop, stretch;
} qs__split;
/* whole[count], before[count], part[count x parts] of the same steps; scratch[count]. */
qs__split qs__split_of(int count, int parts, const double *whole, const double *before, const double *part, double *scratch);

/* ---- cases.c ---- */

enum { QS__WARM_UP = 2, QS__CACHES = 8 };
/* A case in one plan says little about its time in others, since caches differ: so many measured plans should contain it. */
enum { QS__WANTED_PLANS = 4 };
/* Sizes of caches that are tried as the explanation of how times differ from place to place. */
extern const int64_t qs__cache_bytes[QS__CACHES];

/* Samples of a case that a profile of another model has left (shared.c), as in qs__entry. */
typedef struct qs__elsewhere {
    qs__samples kernel_us, cold[QS__CACHES], half_us, alone;
} qs__elsewhere;
/* How many of each list were measured here: they stand in front. */
typedef struct qs__own {
    int places, plans, alone;
} qs__own;

/* A case with what the device says about it and what was measured. A gradient sum and an operator `add` may be the same case. */
typedef struct qs__entry {
    char *text;
    qs_case case_;
    qs_kernel_row row;
    bool as_kernel, as_conversion;
    qs__samples kernel_us, conversion_us; /* one value for every place in a measured plan: the median over time */
    qs__samples cold[QS__CACHES];         /* at the places of kernel_us: bytes that a cache of qs__cache_bytes[i] has not */
    qs__samples half_us;                  /* one value for every plan with such places: half the 95 % interval of their times' sum */
    qs__samples alone;                    /* time while the other ranks of the host wait, over the time beside them at work */
    qs__elsewhere elsewhere;
    qs__own own; /* once the lists are whole */
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
/* (steps × QS__CACHES) bytes that each step of a plan finds cold. */
qs_status qs__cold_bytes(const qs_schedule *schedule, int64_t *cold);
/* What a kernel took at one place of a plan: beside its neighbours at work and, unless 0, while they waited; its row of cold bytes. */
qs_status qs__place_keep(qs__cases *cases, const qs_step *step, const int64_t *cold, double us, double alone_us);
void qs__elsewhere_release(qs__elsewhere *elsewhere);
void qs__cases_release(qs__cases *cases);

/* One assignment of recipes to operators. */
typedef struct qs__mix {
    unsigned char *choice; /* (nodes) index of a recipe; 0 for operators that take none */
    size_t arena_bytes;
    int kernels;
    int *kernel; /* cases of its kernels, each once; conversions are not among them */
} qs__mix;
/* The first ones are uniform, in the order of the recipes; where the class emulates formats, that of operators apart follows. */
typedef struct qs__mixes {
    qs__mix *mix;
    int count;
    size_t capacity;
} qs__mixes;
/* The class stores float formats that it does not compute in: tensors may be assigned to them, which is emulated in fp32. */
bool qs__class_emulates(const qs_class *one);
/* Of the setting: graph, job, class and recipes. */
qs_status qs__mix_lower(const qs__setting *setting, qs__cases *cases, const unsigned char *choice, qs_mode mode, int64_t batch,
                        qs_schedule **out);
/* A plan that is checked. Cases are asked of the device itself: those of the profile stay the ones that its own plans may need. */
qs_status qs__check_lower(const qs__setting *setting, const qs_plan *plan, qs_schedule **out);
/* Mixes that together contain every case that any plan of the class may contain; `cases` then holds these. */
qs_status qs__mixes_list(const qs__setting *setting, qs__cases *cases, qs__mixes *out);
/* The same mixes at this setting's batch. */
qs_status qs__mixes_repeat(const qs__setting *setting, const qs__mixes *like, qs__cases *cases, qs__mixes *out);
void qs__mixes_release(qs__mixes *mixes);
/* At most `most` mixes whose kernels cover the cases as far as possible, uniform ones first. */
qs_status qs__mixes_cover(const qs__setting *setting, const qs__cases *cases, const qs__mixes *mixes, int most, int *chosen,
                          int *chosen_count);

/* ---- memory.c: what kernels hold of a process, by case ---- */

typedef struct qs__held {
    char *text; /* of the case */
    double held_bytes, shared_bytes;
} qs__held;
typedef struct qs__code {
    char kernel[64];
    double bytes;
} qs__code;
typedef struct qs__memory {
    double base_bytes; /* of a process that evaluates in fp32, without arena and data */
    qs__held *held;    /* cases of the uniform plans */
    int count;
    size_t capacity;
    qs__code *code; /* kernels by name */
    int codes;
    size_t code_capacity;
    double files;  /* resident pages of files when they were last looked at */
    qs__held mean; /* of all of them: what other cases are taken for */
} qs__memory;
/* What the process and its kernels hold; before anything else is lowered, alone on every rank. */
qs_status qs__memory_measure(const qs__setting *setting, qs__memory *out);
/* Never NULL. */
const qs__held *qs__held_of(const qs__memory *memory, const char *text);
/* Resident pages of code that a kernel brings, whatever its case; 0 for a kernel that no uniform plan has. */
double qs__code_of(const qs__memory *memory, const char *kernel);
void qs__memory_release(qs__memory *memory);

/* ---- alone.c: kernels outside a step, their operands ---- */

/* Plausible values for an operand in memory of the device: normal floats, positive variances and steps, zeros where codes have a meaning.
 * */
qs_status qs__operand_fill(qs_queue *queue, const qs_operand *operand, qs_location at);
/* Synthetic images and labels of a training step. Before every step: the arena may use their memory again once they were read. */
qs_status qs__inputs_fill(const qs_graph *graph, const qs_schedule *schedule, qs_executor *executor);
/* Times kernels that no plan reached, or, as options->context says, all of them. */
qs_status qs__alone_measure(const qs__setting *setting, qs__cases *cases);

/* ---- steps.c: whole training steps ---- */

/* What steps of the measured plans showed beside the samples of their cases. */
typedef struct qs__step_figures {
    int *measured;                                      /* mixes that were run, in order */
    qs__samples whole_us, overhead_us, data_us, jitter; /* one value for each of them */
    qs__samples recorded_us;      /* the same: kernels of a step where it is started as recordings of the device; 0: it makes none of it */
    qs__samples recorded_loop_us; /* what such a step takes beside them, one value for each plan whose steps are faster so */
    qs__samples checked;          /* QS__CHECK_FIGURES of each of options->check, and one a class */
    qs_quality quality;
} qs__step_figures;
/* Of a check: steps, median of all, undisturbed ones, their median, its confidence; behind them what kernels took of a rank of each class,
 * the median of undisturbed steps. */
enum { QS__CHECK_FIGURES = 5 };
/* Runs mixes that cover the cases, and the checks; mixes NULL: the checks alone, in every round. */
qs_status qs__steps_measure(const qs__setting *setting, const qs__mixes *mixes, qs__cases *cases, qs__step_figures *out);
void qs__step_figures_release(qs__step_figures *figures);

/* ---- recordings.c: steps that are started as recordings of the device ---- */

/* What the kernels of a step take so; 0 where there are no recordings; and what the step takes beside them, 0 where recordings are not
 * taken. Runs steps, counted in `*steps`, until the executor knows, and a few more. `timeline` is beside those that come later. */
qs_status qs__recordings_time(const qs__setting *setting, qs_executor *executor, qs_timeline *timeline, int64_t *steps, double *us,
                              double *loop_us);
/* What every row takes so, by the steps of the measured plans; the class's other figures are finished. Conversions that have a share keep
 * it. */
qs_status qs__recordings_fill(const qs__setting *setting, const qs__mixes *mixes, qs__cases *cases, const qs__step_figures *figures,
                              qs_class_profile *out);

/* ---- ../shared.c: fits of conversions that profiles of other models have left ---- */

/* False: none of this kind, or of steps of other sizes. pieces and piece[] of *out are filled. */
bool qs__shared_fit(const qs__setting *setting, const qs_case *kind, size_t step_bytes, qs_conversion_cost *out);
qs_status qs__shared_fit_found(const qs__setting *setting, const qs_case *kind, size_t step_bytes, const qs_conversion_cost *row);

/* ---- kinds.c, conversions.c ---- */

/* Cases of any size (qs_case_of_any_size) that assigning tensors to the formats needs which a class emulates: they join the others as
 * conversions. */
qs_status qs__any_size_cases(const qs_class *class_, qs__cases *cases);

/* Bytes of scratch that a conversion may take, whatever its size: steps and maxima. */
enum { QS__CONVERSION_SCRATCH = 1 << 20 };
/* Fits of everything that lowering converts; appended to out, of which `*kinds_done` kinds are there. After each kind kind_done is called,
 * unless it is the last. */
qs_status qs__conversions_measure(const qs__setting *setting, const qs__cases *cases, size_t step_bytes, int *kinds_done,
                                  void (*kind_done)(void *context), void *context, qs_class_profile *out);

/* ---- collectives.c: nothing with one rank ---- */

qs_status qs__collectives_measure(const qs__setting *setting, qs_profile *out);

/* ---- rows.c: from samples to figures ---- */

/* The one cache size that explains most, over all cases. */
int64_t qs__cache_choose(const qs__cases *cases);
/* What a cold byte costs every kernel of the class, for its cache_bytes. */
void qs__cold_fill(const qs__cases *cases, qs_class_profile *out);
/* A row for every case; conversions of the class must be there. */
qs_status qs__kernels_fill(const qs__setting *setting, const qs__memory *memory, qs__cases *cases, qs_class_profile *out);
/* What rows take from all of them together, for the cache_bytes of the class. */
void qs__kernels_finish(const qs__cases *cases, qs_class_profile *out);
/* The whole class, conversions given; and how well its finished figures give the steps of the plans that they come from. */
qs_status qs__class_fill(const qs__setting *setting, const qs__memory *memory, const qs__mixes *mixes, qs__cases *cases,
                         qs__step_figures *figures, qs_class_profile *out);

/* ---- batches.c: kernels at other local batches than the job's ---- */

typedef struct qs__batch qs__batch;
typedef struct qs__batches {
    int count;
    qs__batch *at; /* (count) ascending */
} qs__batches;
/* Nothing where no batches are asked for. Release also after a failure. */
qs_status qs__batches_measure(const qs__setting *setting, const qs__mixes *mixes, qs__batches *out);
/* Adds the rows of all batches to the finished class, and their list to the profile. */
qs_status qs__batches_fill(const qs__setting *setting, const qs__memory *memory, const qs__mixes *mixes, qs__cases *cases,
                           qs__batches *batches, qs_class_profile *out, qs_profile *all);
void qs__batches_release(qs__batches *batches);

/* ---- lengths.c: kernels at shorter lengths than the longest ---- */

typedef struct qs__length qs__length;
typedef struct qs__shorter {
    int count;
    qs__length *at; /* (count) ascending */
} qs__shorter;
/* Nothing where the job has one length. Release also after a failure. */
qs_status qs__lengths_measure(const qs__setting *setting, const qs__mixes *mixes, qs__shorter *out);
/* Adds the rows of all lengths to the finished class, and their list, with how many samples have each, to the profile. */
qs_status qs__lengths_fill(const qs__setting *setting, const qs__memory *memory, qs__shorter *shorter, qs_class_profile *out,
                           qs_profile *all);
void qs__lengths_release(qs__shorter *shorter);

/* ---- copies.c: between host and device ---- */

/* Alone on a rank; `known` stays false where the host sees the device's memory. */
qs_status qs__copies_measure(const qs__setting *setting, qs_copy_cost *out);

/* ---- tune.c ---- */

/* Which candidate to take, by samples of each one's time over that of the first, which is taken unless another one's median is at most 0.98
 * with 97.5 % confidence: then of these the one whose samples have the least median. Sorts the samples. */
int qs__fastest_of(int candidates, qs__samples *ratio);

#endif
