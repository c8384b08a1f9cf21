// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of the profiler's statistics: the first iteration of a small mlp by hand, on any number of ranks: the same samples
 * and start weights, plain loops in double; then the figures of each tensor as its definition has them, brought together over ranks. */
#ifndef QSYNC_TESTS_STATISTICS_HAND_H
#define QSYNC_TESTS_STATISTICS_HAND_H

#include "profiler_support.h"

enum { BATCH = 8, HALF = BATCH / 2, LAYERS = 3, MOST = 4096, TENSORS = 3, SUMS = 7, EXTREMES = 3 };
static const double loss_scale = 1024;

typedef struct layer {
    const char *name;
    int inputs, outputs;
    const float *weights, *bias; /* (outputs, inputs), (outputs) */
    double src[HALF][MOST], dst[HALF][MOST], gradient[HALF][MOST];
} layer;

static float *trained; /* flat start weights */

static void layer_find(const qs_graph *graph, const char *name, layer *out) {
    const int node = qs_graph_find(graph, name);
    assert_true(node > 0);
    const qs_parameter *weights = qs_graph_parameter(graph, node, QS_WEIGHTS), *bias = qs_graph_parameter(graph, node, QS_BIAS);
    out->name = name;
    out->outputs = (int)weights->shape.dim[0];
    out->inputs = (int)weights->shape.dim[1];
    out->weights = trained + weights->offset;
    out->bias = trained + bias->offset;
    assert_true(out->inputs <= MOST && out->outputs <= MOST);
}

static void layer_forward(layer *one) {
    for (int s = 0; s < HALF; s++)
        for (int o = 0; o < one->outputs; o++) {
            double sum = (double)one->bias[o];
            for (int i = 0; i < one->inputs; i++)
                sum += (double)one->weights[o * one->inputs + i] * one->src[s][i];
            one->dst[s][o] = sum;
        }
}

static void relu_forward(const layer *from, layer *to) {
    for (int s = 0; s < HALF; s++)
        for (int o = 0; o < from->outputs; o++)
            to->src[s][o] = fmax(from->dst[s][o], 0);
}

/* Of the mean over the samples of all ranks. */
static void loss_backward(layer *last, int ranks, const int32_t *labels) {
    for (int s = 0; s < HALF; s++) {
        double sum = 0;
        for (int o = 0; o < last->outputs; o++)
            sum += exp(last->dst[s][o]);
        for (int o = 0; o < last->outputs; o++)
            last->gradient[s][o] = (exp(last->dst[s][o]) / sum - (o == labels[s])) / (HALF * ranks);
    }
}

static void layer_backward(const layer *from, layer *to) {
    for (int s = 0; s < HALF; s++)
        for (int i = 0; i < from->inputs; i++) {
            double sum = 0;
            for (int o = 0; o < from->outputs; o++)
                sum += (double)from->weights[o * from->inputs + i] * from->gradient[s][o];
            to->gradient[s][i] = to->dst[s][i] > 0 ? sum : 0;
        }
}

/* The HALF samples of a rank in the profiler's order, as a batch of its own. */
static void images_load(const bench *b, layer *first, int32_t *labels) {
    qs_dataset set;
    float *images = calloc((size_t)HALF * MOST, sizeof *images);
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, 0, &set));
    int64_t *order = calloc((size_t)set.count, sizeof *order);
    qs_random_permutation(qs_random_key(b->job.seed, 0, 0, 0), set.count, order);
    const qs_batch batch = {.input = {images}, .extent = {{32, 32}}, .target = labels};
    assert_ok(qs_batch_fill(&set, NULL, order + HALF * qs_comm_rank(b->comm), HALF, &batch));
    for (int s = 0; s < HALF; s++)
        for (int i = 0; i < first->inputs; i++)
            first->src[s][i] = (double)images[s * first->inputs + i];
    qs_dataset_release(&set);
    free(order);
    free(images);
}

static void layers_run(const bench *b, layer *layers) {
    static const char *const names[LAYERS] = {"fc1", "fc2", "fc"};
    int32_t labels[HALF];
    for (int l = 0; l < LAYERS; l++)
        layer_find(b->graph, names[l], &layers[l]);
    images_load(b, &layers[0], labels);
    for (int l = 0; l < LAYERS; l++) {
        if (l) relu_forward(&layers[l - 1], &layers[l]);
        layer_forward(&layers[l]);
    }
    loss_backward(&layers[LAYERS - 1], qs_comm_size(b->comm), labels);
    for (int l = LAYERS - 1; l > 0; l--)
        layer_backward(&layers[l], &layers[l - 1]);
}

/* ---- Figures of one tensor ---- */

typedef struct figures {
    double sum[SUMS]; /* norm2, channels' absmax² and range², variances int8, int8 by channel, bf16, fp16 */
    double extreme[EXTREMES];
    double histogram[QS_EXPONENTS];
} figures;

static double *figures_measure(int64_t count, int64_t channels, bool rows, const float *values, figures *out) {
    double *room = malloc(qs_statistics_bytes(channels));
    assert_non_null(room);
    qs_statistics_measure(count, channels, rows, values, room);
    const qs_statistics_head *head = (const qs_statistics_head *)room;
    const double *pairs = (const double *)(head + 1);
    *out = (figures){.sum = {head->norm2, 0, 0, head->variance_int8, head->variance_int8_channel, head->variance_bf16, head->variance_fp16},
                     .extreme = {head->absmax, head->maximum, -head->minimum}};
    for (int64_t c = 0; c < channels; c++) {
        const double low = pairs[2 * c], high = pairs[2 * c + 1], most = fmax(-low, high);
        out->sum[1] += most * most * (double)(count / channels);
        out->sum[2] += (high - low) * (high - low) * (double)(count / channels);
    }
    memcpy(out->histogram, head->exponents, sizeof out->histogram);
    return room;
}

static void figures_of(const double (*values)[MOST], int width, figures *out) {
    float *flat = malloc((size_t)HALF * (size_t)width * sizeof *flat);
    assert_non_null(flat);
    for (int s = 0; s < HALF; s++)
        for (int i = 0; i < width; i++)
            flat[s * width + i] = (float)values[s][i];
    free(figures_measure((int64_t)HALF * width, width, false, flat, out));
    free(flat);
}

static void layer_figures(const layer *one, figures out[TENSORS]) {
    figures_of(one->src, one->inputs, &out[0]);
    free(figures_measure((int64_t)one->inputs * one->outputs, one->outputs, true, one->weights, &out[1]));
    figures_of(one->gradient, one->outputs, &out[2]);
}

/* ---- Comparison ---- */

/* fp32 sums of up to 3072 products: relative errors below 3072 × 2^-24 of sums of magnitudes; 1e-3 of the tensor's own scale is far above
 * that and far below any wrong factor (2 for the batch or the ranks, 1024 for the loss scale). */
static void close_to(double got, double expected, double scale) {
    if (!(fabs(got - expected) <= 1e-3 * scale)) fail_msg("got %.9g, expected %.9g", got, expected);
}

/* Values that such errors carry over the border of an exponent are few. */
static void histogram_check(const double *got, const double *expected) {
    double apart = 0, all = 0;
    for (int i = 0; i < QS_EXPONENTS; i++) {
        apart += fabs(got[i] - expected[i]);
        all += expected[i];
    }
    assert_true(all > 0);
    close_to(apart, 0, 2 * all);
}

static void tensor_check(const qs_tensor_statistics *got, int which, const figures *expected, bool histogram) {
    const double *const sums[SUMS] = {got->norm2,         got->channel_absmax2,       got->channel_range2,
                                      got->variance_int8, got->variance_int8_channel, got->variance_bf16,
                                      got->variance_fp16};
    for (int i = 0; i < SUMS; i++) {
        if (i == 4 && which != 1) { /* steps by channel are measured for weights alone */
            assert_true(isnan(sums[i][0]));
            continue;
        }
        close_to(sums[i][0], expected->sum[i], expected->sum[i]);
    }
    close_to(got->absmax[0], expected->extreme[0], expected->extreme[0]);
    close_to(got->maximum[0], expected->extreme[1], expected->extreme[0]);
    close_to(got->minimum[0], -expected->extreme[2], expected->extreme[0]);
    if (histogram) histogram_check(got->range_histogram, expected->histogram);
}

/* Sums and counts are means over ranks, extremes those of all. */
static void figures_join(const bench *b, figures *all, int count) {
    const int ranks = qs_comm_size(b->comm);
    for (int i = 0; i < count; i++) {
        assert_ok(qs_comm_sum(b->comm, all[i].sum, SUMS));
        assert_ok(qs_comm_max(b->comm, all[i].extreme, EXTREMES));
        assert_ok(qs_comm_sum(b->comm, all[i].histogram, QS_EXPONENTS));
        for (int k = 0; k < SUMS; k++)
            all[i].sum[k] /= ranks;
        for (int k = 0; k < QS_EXPONENTS; k++)
            all[i].histogram[k] /= ranks;
    }
}

/* Histograms are means over iterations: compared where there is one. */
static void statistics_check(const bench *b, const layer *layers, figures (*expected)[TENSORS]) {
    const qs_statistics *got = &b->profile.statistics;
    assert_int_equal(got->batch, HALF);
    assert_int_equal(got->iterations, b->options.statistics_iterations);
    assert_int_equal(got->ranks, qs_comm_size(b->comm));
    assert_int_equal(got->operators, LAYERS);
    for (int l = 0; l < LAYERS; l++) {
        const qs_operator_statistics *one = &got->operator_[l];
        const qs_tensor_statistics *const tensors[TENSORS] = {&one->src, &one->weights, &one->diff_dst};
        assert_string_equal(one->name, layers[l].name);
        assert_int_equal(one->src.count, HALF * layers[l].inputs);
        assert_int_equal(one->weights.count, layers[l].inputs * layers[l].outputs);
        assert_int_equal(one->diff_dst.count, HALF * layers[l].outputs);
        for (int t = 0; t < TENSORS; t++)
            tensor_check(tensors[t], t, &expected[l][t], got->iterations == 1);
        if (got->iterations > 1) assert_true(one->weights.norm2[1] != one->weights.norm2[0]); /* the iterations train */
    }
}

/* Profiles the opened bench and holds it against the hand; rank 0 has the profile. */
static void profile_and_check(bench *b) {
    static layer layers[LAYERS];
    static figures expected[LAYERS][TENSORS];
    b->job.augmentation = false;
    b->job.loss_scale = loss_scale;
    b->cluster.class_[0].formats = b->cluster.class_[0].storages = 1; /* fp32 */
    trained = calloc((size_t)b->graph->trained_elements, sizeof *trained);
    float *running = calloc((size_t)b->graph->statistics_elements + 1, sizeof *running);
    qs_graph_initialize(b->graph, b->job.seed, trained, running);
    layers_run(b, layers);
    for (int l = 0; l < LAYERS; l++) {
        layer_figures(&layers[l], expected[l]);
        figures_join(b, expected[l], TENSORS);
    }
    assert_ok(qs_profile_measure(&b->options, b->device, b->comm, &b->profile));
    if (qs_comm_rank(b->comm) == 0) statistics_check(b, layers, expected);
    free(trained);
    free(running);
}

#endif
