// SPDX-License-Identifier: Apache-2.0
/* costmodel: a profile's figures for any step of any schedule, and the fits behind the conversions.
 *
 * Kernels are priced by the row of their case (measured on the model's shapes): its mean over places in plans, and, for a whole schedule,
 * what its place there adds (bytes found cold). Conversions placed by lowering (cast, absmax, quantize, dequantize, gradient sums) are
 * priced by linear fits t(n) = a·n + b over sizes that are not the model's own, in at most three pieces where caches bend the line
 * (docs/method.md §4.4). A missing cost is an error that names the case, never 0. */
#ifndef QSYNC_COSTMODEL_H
#define QSYNC_COSTMODEL_H

#include "qsync/pace.h"
#include "qsync/record.h"
#include "qsync/schedule.h"

/* A qs_kernel_lookup whose context is a const qs_class_profile: lowering in DECIDE. QS_MISMATCH names a case the profile lacks. */
QS_API qs_status qs_lookup_profile(void *class_profile, const qs_case *one, const char *case_text, qs_kernel_row *out);
/* Rounding to a simulated format and casts run by one kernel whatever the size and the way of rounding, and without scratch: the case that
 * stands for all of those between the same formats, into *out; false for other operators. A profile has a row of it for every storage
 * format of a class that stores formats it does not compute in, so that any assignment of these to tensors finds its kernels. */
QS_API bool qs_case_of_any_size(const qs_case *one, qs_case *out);
/* The same from a plan's kernel rows (context: const qs_class_plan). */
QS_API qs_status qs_lookup_plan(void *class_plan, const qs_case *one, const char *case_text, qs_kernel_row *out);

/* What if some ranks were slower than measured: every step of theirs takes `factor` times as long. */
typedef struct qs_slowdown {
    const char *class_name; /* all ranks of a class; NULL: one rank */
    int rank;
    double factor;
} qs_slowdown;

/* How the kernels of a step are started, on devices that make recordings of them (device.h): as a class says, in the order of its field. */
typedef enum qs_start { QS_START_FASTER, QS_START_ONE_BY_ONE, QS_START_RECORDED } qs_start;

typedef struct qs_cost_options {
    bool no_casts; /* conversions cost nothing: the dPRO ablation */
    qs_start start;
    int slowdowns; /* the replayer's: the factors of those that name a rank are multiplied */
    const qs_slowdown *slowdown;
} qs_cost_options;
/* The same (NULL: none) for a class, whose kernels are started as it says. */
QS_API qs_cost_options qs_cost_options_of(const qs_cost_options *options, const qs_class *class_);

/* Does this conversion read weights? Values and gradients are converted sample by sample and in one step for all; so a cast or quantize
 * pass that is not batched, and an absmax pass per channel, read weights. (An absmax pass over all of a tensor does not tell.) */
QS_API bool qs_conversion_of_weights(const qs_case *one);
/* What its steps are, of maxima as well. */
QS_API qs_conversion_steps qs_conversion_steps_of(const qs_case *one);
/* One row serves both formats: equal ones, and signed and unsigned codes of as many bits. */
QS_API bool qs_conversion_formats_alike(const qs_format *a, const qs_format *b);
/* Format of what a conversion leaves: of its packed result where it has one, else of its dst; NULL where it has neither (absmax). */
QS_API const qs_format *qs_conversion_target(const qs_case *one);
/* Does a fitted row price this conversion, if it is of weights or of values alike? Of rounding to a simulated format, all ways that draw no
 * random numbers cost the same, and to all formats; with packing, they are told apart by the packed one. */
QS_API bool qs_conversion_is_of(const qs_conversion_cost *row, const qs_case *one);
/* The row that prices a conversion: of weights for weights and of values for values where the profile has it, else the other one; NULL
 * when it has neither. */
QS_API const qs_conversion_cost *qs_cost_conversion(const qs_class_profile *profile, const qs_case *one);
/* Microseconds of every step of a schedule on a class, into us[schedule->steps]; all-reduce steps get 0 (the replayer places them). Where
 * the class has cache_bytes, kernels are corrected for what they find in a cache of that size: the only cost that depends on the packed
 * arena. */
QS_API qs_status qs_cost_schedule(const qs_class_profile *profile, const qs_schedule *schedule, const qs_cost_options *options, double *us);
/* The same while the other ranks of the host wait, into alone_us[schedule->steps]: us, from qs_cost_schedule, times what each row has
 * measured. False (and nothing is written) when the profile has no such times: us holds. */
QS_API bool qs_cost_schedule_alone(const qs_class_profile *profile, const qs_schedule *schedule, const double *us, double *alone_us);
/* us, from qs_cost_schedule, of kernels that are started one by one, becomes what they take in recordings, where the profile knows that: by
 * the options' start, or if all together are faster so. Returns whether they are. */
QS_API bool qs_cost_schedule_recorded(const qs_class_profile *profile, const qs_schedule *schedule, const qs_cost_options *options,
                                      double *us);
/* Microseconds of one step wherever it stands, started by itself. */
QS_API qs_status qs_cost_step(const qs_class_profile *profile, const qs_step *step, double *us);
/* A certain lower bound of what a step takes in any schedule of at most so many bytes: with all in the cache that this can hold, by itself
 * or in a recording, whichever is less; together with busy ranks of its host, or alone there. */
QS_API qs_status qs_cost_step_least(const qs_class_profile *profile, const qs_step *step, size_t arena_bytes, bool together, double *us);
/* No step of the class is faster than so many times its speed beside busy ranks, whatever these do: at least 1. */
QS_API double qs_cost_most_speed(const qs_class_profile *profile);
/* Microseconds of the copies that take a batch of samples to a device whose memory the host does not see; 0 where it does. */
QS_API double qs_cost_inputs(const qs_class_profile *profile, const qs_samples *samples, int64_t batch);
/* Before the first step of a training step: making the batch, its copies, and that of the loss to the host. */
QS_API double qs_cost_data(const qs_class_profile *profile, const qs_samples *samples, int64_t batch);
/* Microseconds that an iteration takes beside its kernels: that, and the loop's own work; or what is left of both where kernels are started
 * as recordings and the profile has measured it, of its own batch, whatever `batch` is. FASTER, and without samples: the lesser. */
QS_API double qs_cost_loop(const qs_class_profile *profile, const qs_samples *samples, int64_t batch, qs_start start);
/* By how much longer a class's steps may take than predicted, as a share, with this confidence (1/2 and more, one-sided, of normal errors):
 * the greater of what two kinds of errors come to that a profile knows of itself: how far its figures are from the plans that they are
 * from (quality.closure_mean), and from the iterations of plans that were timed beside them (checks). 0: it knows neither, or 1/2 is
 * asked for. */
QS_API double qs_cost_doubt(const qs_profile *profile, const qs_class_profile *one, double confidence);
/* An all-reduce of a job on a cluster. */
typedef struct qs_all_reduce {
    const char *algorithm; /* the job's; NULL: that of the profile's first row */
    int ranks;
    const int *host;     /* (ranks) host of every rank (qs_cluster_hosts); NULL: all on one */
    const char *network; /* kind of the links between hosts (qs_cluster_network); NULL: "network" */
    const char *wire;    /* the job's; NULL: that of the profile's first row */
} qs_all_reduce;
typedef struct qs_all_reduce_cost {
    double us, cpu_share;
    bool extrapolated;          /* no row has these ranks on so many hosts: put together from messages by the algorithm's formula */
    int from_ranks, from_hosts; /* the largest row behind it */
} qs_all_reduce_cost;
/* Microseconds of an all-reduce of `bytes`. A row of the same algorithm, ranks and hosts gives its line; other numbers follow from the time
 * of one message over each kind of link, that time from the rows by least squares: a ring of n ranks takes 2 (n - 1) messages of bytes/n,
 * each as slow as its slowest link; recursive doubling ceil(log2 n) messages of all bytes (two more than log2 rounded down where n is no
 * power of two), each round as slow as its slowest link, the ranks of a host sharing its network; `shared` of n ranks on a host takes n + 3
 * accesses to memory a byte, beyond four ranks 5 + 1/n, as if every rank kept the pace of memory that was measured, and on several hosts 4
 * more and the ring of one rank of each. A compressed wire has rows of its own; `library` then takes n - 1 messages of the packed bytes, or
 * 2 (n - 1) of half the packed and half the fp32 bytes of a part (comm.h), and so do the hosts of `shared`. `bytes` are those of the values
 * in fp32. QS_MISMATCH names algorithm, wire and link that have no row. One rank costs 0.
 * Where the profile of a class has `copies`, those of the slowest such class are added: a bucket comes to the host and its sums go back; of
 * one rank it comes to the host alone, to be looked at. cpu_share is then 0, or the part of the all-reduce itself where another class
 * computes beside it. */
QS_API qs_status qs_cost_all_reduce_on(const qs_profile *profile, const qs_all_reduce *what, int64_t bytes, qs_all_reduce_cost *out);
/* The wires that a profile has all-reduces of an algorithm on, the more exact one first; NULL past the end. */
QS_API const char *qs_cost_wire_at(const qs_profile *profile, const char *algorithm, size_t index);
/* The same for ranks that share one host, in the algorithm of the profile's first row. */
QS_API qs_status qs_cost_all_reduce(const qs_profile *profile, int ranks, int64_t bytes, double *us, double *cpu_share);

/* Bytes of memory that a process needs for all-reduces, the longest of `bytes`: what the algorithm allocates for one and what it holds all
 * the while. By the row of the same ranks and hosts, else by the first of the algorithm, windows in proportion to the ranks of a host; 0
 * where the profile has none. */
QS_API int64_t qs_cost_all_reduce_memory(const qs_profile *profile, const qs_all_reduce *what, int64_t bytes);

/* ---- The cost mapper (Algorithm 1, docs/method.md §4.5) ---------------------------------------------------------------------- */

/* A draft with its costs on a class: a change of one operator prices the steps that it adds and no others. Prices are those of
 * qs_cost_step, or what qs_cost_schedule_recorded makes of them: what depends on the packed arena (caches) is for qs_cost_schedule to add,
 * once a plan is worth packing. Cases are priced once and remembered: the profile must stay as it is while the mapper lives. */
typedef struct qs_cost_mapper qs_cost_mapper;

/* lowering as for qs_schedule_draft_create (qs_lookup_profile, usually). Release with qs_cost_mapper_release. */
QS_API qs_status qs_cost_mapper_create(const qs_lowering *lowering, const qs_class_profile *profile, const qs_cost_options *options,
                                       qs_cost_mapper **out);
QS_API void qs_cost_mapper_release(qs_cost_mapper *mapper);
/* qs_schedule_change, undo and keep with costs. A missing cost is QS_MISMATCH that names the case; the mapper is then as it was. */
QS_API qs_status qs_cost_mapper_change(qs_cost_mapper *mapper, int node, const qs_recipe *recipe, qs_draft_change *change);
QS_API qs_status qs_cost_mapper_undo(qs_cost_mapper *mapper, qs_draft_change *change);
QS_API void qs_cost_mapper_keep(qs_cost_mapper *mapper);
/* For live bytes, recipes and qs_schedule_finish. */
QS_API const qs_schedule_draft *qs_cost_mapper_draft(const qs_cost_mapper *mapper);
/* Microseconds of all steps, and of a phase's; all-reduces count 0. */
QS_API double qs_cost_mapper_us(const qs_cost_mapper *mapper);
QS_API double qs_cost_mapper_phase_us(const qs_cost_mapper *mapper, qs_phase phase);
/* From the first step to the start of each bucket's all-reduce, into us[buckets]. */
QS_API void qs_cost_mapper_ready(const qs_cost_mapper *mapper, double *us);
/* Whether these are times in recordings; it may differ from change to change. */
QS_API bool qs_cost_mapper_recorded(const qs_cost_mapper *mapper);
/* Microseconds of every step in order, in recordings or started one by one, into us (NULL: only counted); returns how many there are. */
QS_API int qs_cost_mapper_steps(const qs_cost_mapper *mapper, bool recorded, double *us);

/* ---- Another pace ------------------------------------------------------------------------------------------------------------ */

/* A profile as it would be with each class at its pace: pace[cluster->classes], those of a profile's class that the cluster lacks are 1.
 * Kernels and conversions take so many times as long, all-reduces by the slowest class; overheads, data and copies stay. *out shares all
 * else with `profile`, which outlives it; release with qs_profile_at_pace_release. */
QS_API qs_status qs_profile_at_pace(const qs_profile *profile, const qs_cluster *cluster, const qs_pace *pace, qs_profile *out);
QS_API void qs_profile_at_pace_release(qs_profile *profile);
/* A profile whose steps take so many times as long beside busy ranks of their host, and what they took while those wait: classes without
 * such times stay as they are (docs/method.md eq. (4.16)). *out shares as above, and is released alike. */
QS_API qs_status qs_profile_beside(const qs_profile *profile, double factor, qs_profile *out);

/* ---- Estimated profiles ------------------------------------------------------------------------------------------------------ */

/* A device as its maker describes it (published.def): rates in 1e12 operations a second, 0 where it has none; memory and link (to other
 * devices of its host, both directions together) in 1e9 bytes a second; capacity in GiB. */
typedef struct qs_published_device {
    const char *name, *product;
    double fp32, tf32, fp16, bf16, int8, fp8, memory, link, capacity;
} qs_published_device;
QS_API const char *qs_published_name_at(size_t index);
/* By name, "v100"; QS_USAGE lists. */
QS_API qs_status qs_published_find(const char *name, const qs_published_device **out);
/* Of dense matrix products in a format; 0 when none is published. */
QS_API double qs_published_rate(const qs_published_device *device, const qs_format *format);

/* A profile without the hardware, marked `estimated`: every class of the cluster names a published device. Kernels are priced by a
 * roofline: 4 us of launch and the larger of operations over half of the published rate and bytes over three quarters of the bandwidth
 * (grouped convolutions, and what is no matrix product, at the fp32 rate), divided by the class's speed; conversions by bytes alone;
 * messages by 70 % of a link: the slowest device link within a host, the slowest bytes_per_second between hosts. Scratch, the process and
 * the loading of data count 0. The profile knows the job's batch and those around it in steps of a sixteenth of it, from `least` to `most`
 * (both the job's: no others), so that classes can have unequal ones. Right for comparing devices and formats; for absolute times measure.
 * Of a job with several lengths there are rows for each; how many samples have it (length_row[].samples, 0 here) is the caller's to count.
 * No statistics: those are of data, and come from a measured profile of the same model.
 *
 * QS_USAGE for a class without a device or with one that is not published, and for batches that the job's is not among; QS_UNSUPPORTED for
 * a format that it has no rate for, for all-reduce `shared` and for compressed wires; QS_MISMATCH for more memory than it has, or several
 * hosts whose links do not tell their pace. Release with qs_profile_release. */
QS_API qs_status qs_profile_estimate(const qs_graph *graph, const qs_cluster *cluster, const qs_job *job, int64_t least, int64_t most,
                                     qs_profile *out);

/* ---- Fits ---------------------------------------------------------------------------------------------------------------- */
typedef struct qs_fit {
    int pieces;
    qs_fit_piece piece[3];
} qs_fit;
/* Least squares with relative weights over (elements, us), ascending by elements; one, two or three pieces, whichever leaves the smallest
 * error by a margin that pays for its parameters. Intercepts and slopes are never negative. QS_USAGE with fewer than 3 points. */
QS_API qs_status qs_fit_make(int points, const double *elements, const double *us, qs_fit *out);
/* One piece over all points (an all-reduce's α-β): the same weights and signs. QS_USAGE with fewer than 2 points. */
QS_API qs_status qs_fit_line(int points, const double *x, const double *us, qs_fit_piece *out);
QS_API double qs_fit_value(int pieces, const qs_fit_piece *piece, double elements);

#endif
