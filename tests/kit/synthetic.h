// SPDX-License-Identifier: Apache-2.0
/* Made-up clusters and profiles for tests of the DECIDE side, by the generator of qsync-bench: what tests ask of it, and rows of simulated
 * formats and of other batches. */
#ifndef QSYNC_TESTS_KIT_SYNTHETIC
#define QSYNC_TESTS_KIT_SYNTHETIC

#include "../../src/bench/synthetic.h"
#include "kit.h"
#include "schedule.h"

/* A quick training device, and a weak one that is quick only in few bits. */
#define SYNTHETIC_STRONG \
    { .name = "strong", .count = 1, .formats = {"fp32"}, .fp32 = 200e3, .half = 200e3, .int8 = 200e3, .bytes = 40e3 }
#define SYNTHETIC_WEAK                                                                                                                   \
    {                                                                                                                                    \
        .name = "weak", .inference = true, .count = 1, .formats = {"fp32", "bf16", "int8"}, .fp32 = 120e3, .half = 240e3, .int8 = 480e3, \
        .bytes = 30e3                                                                                                                    \
    }

/* ---- Cases ---- */

/* On with a profile that has rows. */
static inline synthetic_costs synthetic_again(const synthetic_device *device, qs_class_profile *profile) {
    return (synthetic_costs){
        .device = device, .profile = profile, .kernels = (size_t)profile->kernels, .conversions = (size_t)profile->conversions};
}

/* Those of one lowering. */
static inline void synthetic_mix(synthetic_costs *one, const qs_graph *graph, const qs_class *class_, const qs_job *job,
                                 const qs_recipe *const *list) {
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = job,
                                  .recipe = list,
                                  .half = qs_class_half(class_),
                                  .joins = one->profile->joins,
                                  .lookup = synthetic_lookup,
                                  .context = one};
    qs_schedule *schedule = lower(&lowering);
    for (int s = 0; s < schedule->steps; s++)
        if (schedule->step[s].conversion) assert_ok(synthetic_conversion(one, &schedule->step[s].case_));
    qs_schedule_release(schedule);
}

/* ---- Simulated formats ---- */

static inline void synthetic_any_size(synthetic_costs *one, const char *pass, const char *from, const char *to, const char *rest) {
    char text[QS_CASE_TEXT];
    qs_case case_;
    qs_kernel_row row;
    snprintf(text, sizeof text, "%s src=%s[64] dst=%s[64]%s", pass, from, to, rest);
    assert_ok(qs_case_parse(text, &case_));
    assert_ok(synthetic_lookup(one, &case_, qs_case_text(&case_, text), &row));
    assert_ok(synthetic_conversion(one, &case_));
}

/* The model in fp32 with operators apart that one kernel does otherwise: as where tensors are rounded one by one. */
static inline void synthetic_apart(synthetic_costs *one, const qs_graph *graph, const qs_class *class_, const qs_job *job) {
    const qs_recipe **none = calloc((size_t)graph->nodes, sizeof *none);
    qs_tensor_table tensors = {.value = calloc((size_t)graph->nodes, sizeof *tensors.value),
                               .parameter = calloc((size_t)graph->parameters + 1, sizeof *tensors.parameter)};
    qs_lowering lowering = lowering_of(graph, job, QS_MODE_TRAIN, none);
    assert_true(none && tensors.value && tensors.parameter);
    lowering.half = qs_class_half(class_);
    lowering.tensors = &tensors;
    lowering.lookup = synthetic_lookup;
    lowering.context = one;
    qs_schedule_release(lower(&lowering));
    qs_tensor_table_release(&tensors);
    free(none);
}

/* What a profile of a class that stores these formats, without computing in them, has for assigning tensors to them. */
static inline void synthetic_simulates(const qs_graph *graph, const qs_job *job, qs_class *class_, const synthetic_device *device,
                                       int formats, const char *const *format, qs_class_profile *out) {
    synthetic_costs one = synthetic_again(device, out);
    synthetic_apart(&one, graph, class_, job);
    for (int f = 0; f < formats; f++) {
        char rest[128];
        class_->storage[class_->storages++] = qs_format_of(format[f]);
        snprintf(rest, sizeof rest, " to=%s", format[f]);
        synthetic_any_size(&one, "round/forward", "fp32", "fp32", rest);
        snprintf(rest, sizeof rest, " packed=%s[64] to=%s", format[f], format[f]);
        synthetic_any_size(&one, "round/pack", "fp32", "fp32", rest);
        synthetic_any_size(&one, "cast/forward", "fp32", format[f], "");
        synthetic_any_size(&one, "cast/forward", format[f], "fp32", "");
    }
    qs_class_profile_sort(out);
}

/* ---- Profile ---- */

static inline qs_cluster synthetic_cluster(int count, const synthetic_device *device) {
    qs_cluster cluster;
    assert_ok(synthetic_cluster_make(count, device, &cluster));
    return cluster;
}

static inline void synthetic_statistics(const qs_graph *graph, int64_t batch, int ranks, uint64_t seed, qs_statistics *out) {
    assert_ok(synthetic_statistics_make(graph, batch, ranks, seed, 0.1, out));
}

static inline qs_profile synthetic_profile(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device,
                                           const qs_job *job) {
    const qs_collective_cost shared = {
        .ranks = 2, .algorithm = "shared", .alpha_us = 20, .us_per_byte = 5e-4, .r2 = 1, .temporary_per_byte = 0.5};
    qs_profile profile;
    assert_ok(synthetic_profile_make(graph, cluster, device, job, &shared, &profile));
    for (int c = 0; c < profile.classes; c++)
        profile.class_[c].base_bytes = 50 << 20;
    synthetic_statistics(graph, job->batch / 2 > 0 ? job->batch / 2 : 1, qs_cluster_ranks(cluster), 7, &profile.statistics);
    return profile;
}

/* ---- Recordings ---- */

/* In recordings of the device every kernel and every conversion takes a share of its time, from `least` to `most`. */
static inline void synthetic_records(double least, double most, uint64_t seed, qs_class_profile *profile) {
    const uint64_t key = qs_random_key(seed, 41, 0, 0);
    profile->recorded = (least + most) / 2;
    for (int i = 0; i < profile->kernels; i++)
        profile->kernel[i].us_recorded = profile->kernel[i].us * (least + (most - least) * (double)qs_random_uniform(key, (uint64_t)i));
    for (int i = 0; i < profile->conversions; i++)
        profile->conversion[i].recorded = least + (most - least) * (double)qs_random_uniform(key, (uint64_t)(profile->kernels + i));
}

/* ---- Other batches ---- */

/* Rows of a profile that was made for job->batch at so many ascending batches, that one among them. */
static inline void synthetic_batches_add(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device,
                                         const qs_job *job, int batches, const int64_t *batch, qs_profile *profile) {
    profile->batch_row = calloc((size_t)batches, sizeof *profile->batch_row);
    assert_non_null(profile->batch_row);
    for (int b = 0; b < batches; b++) {
        qs_job other = *job;
        other.batch = batch[b];
        profile->batch_row[profile->batches++] = (qs_profile_batch){batch[b], true};
        for (int c = 0; c < cluster->classes && batch[b] != job->batch; c++) {
            synthetic_costs rows = synthetic_again(&device[c], &profile->class_[c]);
            assert_ok(synthetic_cases(&rows, graph, &cluster->class_[c], &other));
        }
    }
}

#endif
