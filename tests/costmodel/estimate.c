// SPDX-License-Identifier: Apache-2.0
// covers: v100 t4 a10 a100 l4 h100
/* Profiles of devices that are not at hand: the table, rooflines against what the published figures allow, every case that mixtures need,
 * all-reduces over links, and what is refused. */
#include "kit/kit.h"
#include "qsync/costmodel.h"

static const char pair[] =
    "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
    "\"fast\":{\"role\":\"training\",\"backend\":\"cuda\",\"device\":\"v100\",\"count\":2,\"formats\":[\"fp32\",\"fp16\"]},"
    "\"slow\":{\"role\":\"inference\",\"backend\":\"cuda\",\"device\":\"t4\",\"count\":2,\"memory\":{\"capacity\":\"16GiB\"},"
    "\"formats\":[\"fp32\",\"fp16\",\"int8\"],\"storage\":[\"fp32\",\"fp16\",\"int8\"]}},"
    "\"links\":[{\"between\":[\"fast\",\"slow\"],\"kind\":\"network\",\"bytes_per_second\":\"10GB\",\"latency_us\":20}]}";

typedef struct made {
    qs_graph *graph;
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
} made;

static qs_status make(const char *model, const char *cluster, made *out) {
    const qs_model_input input = {3, 32, 32, 10};
    qs_job_default(&out->job);
    out->job.batch = 32;
    strcpy(out->job.algorithm, "ring");
    assert_ok(qs_model_build(model, &input, &out->graph));
    assert_ok(qs_cluster_parse(cluster, "cluster", &out->cluster));
    return qs_profile_estimate(out->graph, &out->cluster, &out->job, 32, 32, &out->profile);
}

static void release(made *one) {
    qs_graph_release(one->graph);
    qs_cluster_release(&one->cluster);
    qs_profile_release(&one->profile);
}

/* ---- The table ----------------------------------------------------------------------------------------------------------------- */

TEST(table) {
    const qs_published_device *one = NULL, *t4 = NULL;
    for (size_t i = 0; qs_published_name_at(i); i++) {
        assert_ok(qs_published_find(qs_published_name_at(i), &one));
        assert_string_equal(one->name, qs_published_name_at(i));
        assert_true(one->fp32 > 0 && one->fp16 > one->fp32 && one->memory > 0 && one->link > 0 && one->capacity > 0);
        assert_true(one->int8 == 0 || one->int8 > one->fp16);
        assert_true(one->bf16 == 0 || one->bf16 == one->fp16);
    }
    assert_ok(qs_published_find("t4", &t4));
    assert_true(qs_published_rate(t4, qs_format_of("int8")) == 130 && qs_published_rate(t4, qs_format_of("bf16")) == 0);
    assert_true(qs_published_rate(t4, qs_format_of("e5m2")) == 0 && qs_published_rate(t4, qs_format_of("tf32")) == 0);
    assert_refused(qs_published_find("k80", &one), QS_USAGE, "v100, t4, a10, a100, l4, h100");
}

/* ---- Rooflines ------------------------------------------------------------------------------------------------------------------ */

/* What both classes have takes longer on the T4 by no less than the smaller and no more than the larger ratio of published figures. */
TEST(ratios) {
    const double launch = 4, least = 125.0 / 65, most = 900.0 / 320;
    made one = {0};
    int shared = 0;
    assert_ok(make("resnet8", pair, &one));
    const qs_class_profile *fast = qs_profile_class(&one.profile, "fast"), *slow = qs_profile_class(&one.profile, "slow");
    assert_true(fast->estimated && slow->estimated);
    for (int i = 0; i < fast->kernels; i++) {
        const qs_kernel_cost *other = qs_class_profile_kernel(slow, fast->kernel[i].case_text);
        if (!other) continue;
        shared++;
        const double ratio = (other->us - launch) / (fast->kernel[i].us - launch);
        if (!(ratio > least * (1 - 1e-9) && ratio < most * (1 + 1e-9))) fail_msg("%s: %g", fast->kernel[i].case_text, ratio);
    }
    assert_true(shared > 50);
    release(&one);
}

/* Every matrix product, by hand: half of the published rate in the format of its operands, three quarters of the bandwidth. */
TEST(compute_bound) {
    made one = {0};
    assert_ok(make("mlp", pair, &one));
    const qs_class_profile *slow = qs_profile_class(&one.profile, "slow");
    int gemms = 0;
    for (int i = 0; i < slow->kernels; i++) {
        qs_case case_;
        assert_ok(qs_case_parse(slow->kernel[i].case_text, &case_));
        if (case_.op->kind != QS_ADJUSTABLE) continue;
        const bool integer = case_.operand[0].format->kind == QS_KIND_INTEGER;
        const double rate = integer ? 130e6 : case_.operand[0].format->bits == 16 ? 65e6 : 8.1e6;
        const double compute = qs_case_flops(&case_) / (rate * 0.5), memory = qs_case_bytes(&case_) / (320e3 * 0.75);
        gemms++;
        assert_true(fabs(slow->kernel[i].us - (4 + (compute > memory ? compute : memory))) < 1e-9 * slow->kernel[i].us);
    }
    assert_true(gemms > 6);
    release(&one);
}

/* A device that is lent by half takes twice as long for everything. */
TEST(lent_in_part) {
    char *half = replaced(pair, "\"device\":\"t4\",", "\"device\":\"t4\",\"share\":\"50%\",");
    made whole = {0}, part = {0};
    assert_ok(make("lenet5", pair, &whole));
    assert_ok(make("lenet5", half, &part));
    const qs_class_profile *a = qs_profile_class(&whole.profile, "slow"), *b = qs_profile_class(&part.profile, "slow");
    assert_int_equal(a->kernels, b->kernels);
    for (int i = 0; i < a->kernels; i++)
        assert_true(b->kernel[i].us == 2 * a->kernel[i].us);
    for (int i = 0; i < a->conversions; i++)
        assert_true(b->conversion[i].piece[0].us_per_element == 2 * a->conversion[i].piece[0].us_per_element);
    assert_int_equal(part.cluster.class_[1].memory_limit, INT64_C(8) << 30);
    release(&whole);
    release(&part);
    free(half);
}

/* Products take as much longer as their format is slower, and nothing else does. */
TEST(slow_in_some_formats) {
    char *text = replaced(pair, "\"device\":\"t4\",", "\"device\":\"t4\",\"speed\":{\"fp32\":0.25,\"fp16\":0.5,\"int8\":1},");
    made plain = {0}, slow = {0};
    int products[QS_MAX_FORMATS] = {0};
    assert_ok(make("lenet5", pair, &plain));
    assert_ok(make("lenet5", text, &slow));
    const qs_class_profile *a = qs_profile_class(&plain.profile, "slow"), *b = qs_profile_class(&slow.profile, "slow");
    assert_int_equal(a->kernels, b->kernels);
    for (int i = 0; i < a->kernels; i++) {
        qs_case one;
        assert_ok(qs_case_parse(a->kernel[i].case_text, &one));
        const qs_format *format = one.operand[0].format;
        const int times = one.op->kind != QS_ADJUSTABLE ? 1 : format->kind == QS_KIND_INTEGER ? 1 : format->bits == 16 ? 2 : 4;
        products[times] += one.op->kind == QS_ADJUSTABLE;
        assert_true(b->kernel[i].us == times * a->kernel[i].us);
    }
    assert_true(products[1] > 0 && products[2] > 0 && products[4] > 0);
    for (int i = 0; i < a->conversions; i++)
        assert_true(b->conversion[i].piece[0].us_per_element == a->conversion[i].piece[0].us_per_element);
    release(&plain);
    release(&slow);
    free(text);
}

/* ---- Completeness --------------------------------------------------------------------------------------------------------------- */

static void mix_price(const made *one, const qs_class *class_, const qs_class_profile *profile, const qs_recipe *const *recipe) {
    const qs_lowering lowering = {.graph = one->graph,
                                  .batch = one->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &one->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(class_),
                                  .lookup = qs_lookup_profile,
                                  .context = (void *)profile};
    qs_schedule *schedule = NULL;
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    double *us = calloc((size_t)schedule->steps, sizeof *us);
    assert_ok(qs_cost_schedule(profile, schedule, NULL, us));
    for (int s = 0; s < schedule->steps; s++)
        assert_true(schedule->step[s].kind != QS_STEP_KERNEL || (us[s] >= 4 && isfinite(us[s])));
    free(us);
    qs_schedule_release(schedule);
}

/* Mixtures of every density find all their cases and fits. */
TEST(mixtures) {
    static const char *const models[] = {"resnet8", "lenet5", "mobilenet_v2:width=0.25"};
    for (size_t m = 0; m < 3; m++) {
        made one = {0};
        qs_recipe recipe[QS_MAX_FORMATS];
        const qs_recipe *list[512] = {NULL};
        int recipes = 0;
        assert_ok(make(models[m], pair, &one));
        assert_ok(qs_class_recipes(&one.cluster.class_[1], QS_MAX_FORMATS, recipe, &recipes));
        assert_int_equal(recipes, 3);
        assert_true(one.graph->nodes < 512);
        for (uint64_t mix = 0; mix < 60; mix++) {
            const uint64_t key = qs_random_key(mix, 77, 0, 0);
            for (int n = one.graph->samples.inputs; n < one.graph->nodes; n++) {
                const bool rare = qs_random_bits(key, 2 * (uint64_t)n) % 60 < mix;
                list[n] = &recipe[(mix + (rare ? qs_random_bits(key, 2 * (uint64_t)n + 1) : 0)) % 3];
            }
            mix_price(&one, &one.cluster.class_[1], &one.profile.class_[1], list);
        }
        release(&one);
    }
}

/* An estimate is a profile like any other file, and the same each time. */
/* Codes of normalisations in fixed point are priced on a class that multiplies none. */
TEST(codes) {
    made usual = {0}, fixed = {0};
    assert_ok(make("resnet8", pair, &usual));
    assert_ok(make("resnet8:norm=l1bnq", pair, &fixed));
    int quantize[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        const qs_class_profile *fast = k ? &fixed.profile.class_[0] : &usual.profile.class_[0];
        for (int i = 0; i < fast->conversions; i++)
            quantize[k] += strcmp(fast->conversion[i].kind, "quantize") == 0;
    }
    assert_int_equal(quantize[0], 0);
    assert_true(quantize[1] > 0);
    release(&usual);
    release(&fixed);
}

TEST(file) {
    made one = {0}, same = {0};
    qs_profile again;
    char *text = NULL, *other = NULL;
    assert_ok(make("resnet8", pair, &one));
    assert_ok(make("resnet8", pair, &same));
    assert_ok(qs_profile_text(&one.profile, &text));
    assert_ok(qs_profile_text(&same.profile, &other));
    assert_string_equal(text, other);
    free(other);
    assert_ok(qs_profile_parse(text, "estimate", &again));
    assert_ok(qs_profile_text(&again, &other));
    assert_string_equal(text, other);
    free(text);
    free(other);
    qs_profile_release(&again);
    release(&one);
    release(&same);
}

/* Rows of several batches are those of each alone, every case once. */
TEST(batches) {
    made one = {0}, alone = {0};
    qs_profile several, again;
    char *text = NULL;
    assert_ok(make("resnet8", pair, &one));
    assert_ok(qs_profile_estimate(one.graph, &one.cluster, &one.job, 25, 36, &several));
    assert_int_equal(several.batches, 6);
    assert_true(several.batch_row[0].samples == 26 && several.batch_row[5].samples == 36 && !several.batch_row[3].measured);
    assert_non_null(qs_profile_batch_find(&several, 32));
    one.job.batch = 28;
    assert_ok(qs_profile_estimate(one.graph, &one.cluster, &one.job, 28, 28, &alone.profile));
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < alone.profile.class_[c].kernels; i++) {
            const qs_kernel_cost *row = &alone.profile.class_[c].kernel[i];
            const qs_kernel_cost *same = qs_class_profile_kernel(&several.class_[c], row->case_text);
            assert_true(same && same->us == row->us);
        }
    assert_ok(qs_profile_text(&several, &text));
    assert_ok(qs_profile_parse(text, "several", &again));
    free(text);
    assert_int_equal(qs_profile_estimate(one.graph, &one.cluster, &one.job, 29, 40, &alone.profile), QS_USAGE);
    assert_int_equal(qs_profile_estimate(one.graph, &one.cluster, &one.job, 28, 20000, &alone.profile), QS_USAGE);
    qs_profile_release(&several);
    qs_profile_release(&again);
    qs_profile_release(&alone.profile);
    release(&one);
}

/* ---- All-reduces ---------------------------------------------------------------------------------------------------------------- */

/* Four ranks on two hosts in a ring: six messages of a quarter, each as slow as the network: 20 us and 70 % of 10 GB/s. Two on one host:
 * two messages of a half over half of the T4's 32 GB/s. */
TEST(all_reduces) {
    static const int host[] = {0, 0, 1, 1};
    const double bytes = 4e6;
    made one = {0};
    qs_all_reduce_cost cost;
    assert_ok(make("lenet5", pair, &one));
    assert_ok(qs_cost_all_reduce_on(&one.profile, &(qs_all_reduce){"ring", 4, host, "network", NULL}, (int64_t)bytes, &cost));
    const double network = 6 * (20 + bytes / 4 / (0.7 * 10e3));
    assert_true(fabs(cost.us - network) < 1e-9 * network);
    assert_ok(qs_cost_all_reduce_on(&one.profile, &(qs_all_reduce){"ring", 2, NULL, NULL, NULL}, (int64_t)bytes, &cost));
    const double local = 2 * (5 + bytes / 2 / (0.7 * 16e3));
    assert_true(fabs(cost.us - local) < 1e-9 * local);
    release(&one);
}

static void refuse(qs_status expected, const char *from, const char *to, const char *part) {
    char *text = replaced(pair, from, to);
    made one = {0};
    assert_refused(make("lenet5", text, &one), expected, part);
    release(&one);
    free(text);
}

TEST(refusals) {
    refuse(QS_USAGE, "\"device\":\"t4\",", "", "class slow names no \"device\"");
    refuse(QS_USAGE, "\"device\":\"t4\"", "\"device\":\"k80\"", "class slow: no published figures of a device \"k80\"");
    refuse(QS_UNSUPPORTED, "\"fp16\",\"int8\"],\"storage\"", "\"bf16\",\"int8\"],\"storage\"", "NVIDIA T4 has no published rate in bf16");
    refuse(QS_UNSUPPORTED, "\"storage\":[\"fp32\",\"fp16\"", "\"storage\":[\"fp32\",\"bf16\"", "no published rate in bf16");
    made shared = {0};
    assert_ok(make("lenet5", pair, &shared));
    qs_profile_release(&shared.profile);
    snprintf(shared.job.algorithm, sizeof shared.job.algorithm, "shared");
    assert_int_equal(qs_profile_estimate(shared.graph, &shared.cluster, &shared.job, 32, 32, &shared.profile), QS_UNSUPPORTED);
    snprintf(shared.job.algorithm, sizeof shared.job.algorithm, "library");
    snprintf(shared.job.wire, sizeof shared.job.wire, "int8");
    assert_refused(qs_profile_estimate(shared.graph, &shared.cluster, &shared.job, 32, 32, &shared.profile), QS_UNSUPPORTED,
                   "what packing takes is not published");
    release(&shared);
    refuse(QS_MISMATCH, "16GiB", "17GiB", "NVIDIA T4 has 16 GiB");
    refuse(QS_UNSUPPORTED, "\"device\":\"t4\",", "\"device\":\"t4\",\"cuda\":{\"multiprocessors\":20},",
           "class slow: published figures are of whole GPUs, not of 20 multiprocessors");
    refuse(QS_MISMATCH, "\"bytes_per_second\":\"10GB\",", "", "add \"bytes_per_second\" to a link of kind network");
}

TEST_MAIN(table, ratios, compute_bound, lent_in_part, slow_in_some_formats, mixtures, batches, codes, file, all_reduces, refusals)
