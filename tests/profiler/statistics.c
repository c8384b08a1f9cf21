// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Statistics of the first iteration of a small mlp against a computation by hand: the same samples and start weights, plain loops in
 * double. */
#include "profiler_support.h"

enum { BATCH = 8, HALF = BATCH / 2, LAYERS = 3, MOST = 4096 };
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

/* Of the mean over HALF samples. */
static void loss_backward(layer *last, const int32_t *labels) {
    for (int s = 0; s < HALF; s++) {
        double sum = 0;
        for (int o = 0; o < last->outputs; o++)
            sum += exp(last->dst[s][o]);
        for (int o = 0; o < last->outputs; o++)
            last->gradient[s][o] = (exp(last->dst[s][o]) / sum - (o == labels[s])) / HALF;
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

typedef struct figures {
    double count, norm2, absmax, minimum, maximum;
} figures;

static void figures_add(figures *to, double value) {
    if (to->count == 0) to->minimum = to->maximum = value;
    to->count++;
    to->norm2 += value * value;
    to->absmax = fmax(to->absmax, fabs(value));
    to->minimum = fmin(to->minimum, value);
    to->maximum = fmax(to->maximum, value);
}

/* fp32 sums of up to 3072 products: relative errors below 3072 × 2^-24 of sums of magnitudes; 1e-3 of the tensor's own scale is far above
 * that and far below any wrong factor (2 for the batch, 1024 for the loss scale). */
static void close_to(double got, double expected, double scale) {
    if (!(fabs(got - expected) <= 1e-3 * scale)) fail_msg("got %.9g, expected %.9g", got, expected);
}

static void tensor_check(const qs_tensor_statistics *got, const figures *expected) {
    assert_int_equal(got->count, (int64_t)expected->count);
    close_to(got->norm2[0], expected->norm2, expected->norm2);
    close_to(got->absmax[0], expected->absmax, expected->absmax);
    close_to(got->minimum[0], expected->minimum, expected->absmax);
    close_to(got->maximum[0], expected->maximum, expected->absmax);
    assert_true(got->variance_int8[0] > 0 && got->variance_bf16[0] >= 0 && got->variance_fp16[0] >= 0);
    assert_true(got->variance_bf16[0] < got->variance_int8[0]);
}

/* Each weight's channel is its row. */
static double rows_absmax2(const layer *one) {
    double sum = 0;
    for (int o = 0; o < one->outputs; o++) {
        double most = 0;
        for (int i = 0; i < one->inputs; i++)
            most = fmax(most, fabs((double)one->weights[o * one->inputs + i]));
        sum += most * most * one->inputs;
    }
    return sum;
}

static void layer_check(const qs_operator_statistics *got, const layer *one) {
    figures src = {0}, weights = {0}, diff_dst = {0};
    for (int s = 0; s < HALF; s++) {
        for (int i = 0; i < one->inputs; i++)
            figures_add(&src, one->src[s][i]);
        for (int o = 0; o < one->outputs; o++)
            figures_add(&diff_dst, one->gradient[s][o]);
    }
    for (int i = 0; i < one->inputs * one->outputs; i++)
        figures_add(&weights, (double)one->weights[i]);
    assert_string_equal(got->name, one->name);
    tensor_check(&got->src, &src);
    tensor_check(&got->weights, &weights);
    tensor_check(&got->diff_dst, &diff_dst);
    close_to(got->weights.channel_absmax2[0], rows_absmax2(one), rows_absmax2(one));
}

/* The first HALF samples of the profiler's order, as a batch of its own. */
static void images_load(const bench *b, layer *first, int32_t *labels) {
    qs_dataset set;
    float *images = calloc((size_t)HALF * MOST, sizeof *images);
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, 0, &set));
    int64_t *order = calloc((size_t)set.count, sizeof *order);
    qs_random_permutation(qs_random_key(b->job.seed, 0, 0, 0), set.count, order);
    const qs_augmentation none = {.enabled = false};
    qs_batch_fill(&set, &none, order, HALF, set.height, set.width, images, labels);
    for (int s = 0; s < HALF; s++)
        for (int i = 0; i < first->inputs; i++)
            first->src[s][i] = (double)images[s * first->inputs + i];
    qs_dataset_release(&set);
    free(order);
    free(images);
}

static void first_iteration_equals_hand_computation(void **state) {
    static layer layers[LAYERS];
    static const char *const names[LAYERS] = {"fc1", "fc2", "fc"};
    int32_t labels[HALF];
    bench b;
    (void)state;
    bench_open(&b, NULL, "ref", "mlp:width=0.125", BATCH);
    b.job.augmentation = false;
    b.job.loss_scale = loss_scale;
    b.cluster.class_[0].formats = b.cluster.class_[0].storages = 1; /* fp32 */
    trained = calloc((size_t)b.graph->trained_elements, sizeof *trained);
    float *running = calloc((size_t)b.graph->statistics_elements + 1, sizeof *running);
    qs_graph_initialize(b.graph, b.job.seed, trained, running);
    for (int l = 0; l < LAYERS; l++)
        layer_find(b.graph, names[l], &layers[l]);
    images_load(&b, &layers[0], labels);
    for (int l = 0; l < LAYERS; l++) {
        if (l) relu_forward(&layers[l - 1], &layers[l]);
        layer_forward(&layers[l]);
    }
    loss_backward(&layers[LAYERS - 1], labels);
    for (int l = LAYERS - 1; l > 0; l--)
        layer_backward(&layers[l], &layers[l - 1]);
    assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
    const qs_statistics *got = &b.profile.statistics;
    assert_int_equal(got->batch, HALF);
    assert_int_equal(got->iterations, 2);
    assert_int_equal(got->ranks, 1);
    assert_int_equal(got->operators, LAYERS);
    for (int l = 0; l < LAYERS; l++) {
        layer_check(&got->operator_[l], &layers[l]);
        assert_true(got->operator_[l].weights.norm2[1] != got->operator_[l].weights.norm2[0]); /* the iterations train */
    }
    free(trained);
    free(running);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_iteration_equals_hand_computation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
