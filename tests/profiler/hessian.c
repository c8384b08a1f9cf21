// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Top eigenvalues of the Hessian blocks of a small mlp against exact ones. For fixed signs of the relus the logits are linear in one
 * layer's weights, so its block is Jᵀ (diag p - p pᵀ) J / batch; products with it are formed in double and iterated to convergence. */
#include "profiler_support.h"

enum { BATCH = 16, HALF = BATCH / 2, LAYERS = 3, MOST = 3072, MOST_WEIGHTS = 32 * MOST };

typedef struct layer {
    int node, inputs, outputs;
    const float *weights, *bias;
    double src[HALF][MOST], dst[HALF][32];
} layer;

static layer layers[LAYERS];
static double probability[HALF][32], v[MOST_WEIGHTS], hv[MOST_WEIGHTS];

/* ---- The exact block ------------------------------------------------------------------------------------------------- */

static void network_forward(void) {
    for (int l = 0; l < LAYERS; l++)
        for (int s = 0; s < HALF; s++)
            for (int o = 0; o < layers[l].outputs; o++) {
                double sum = (double)layers[l].bias[o];
                for (int i = 0; i < layers[l].inputs; i++)
                    sum += (double)layers[l].weights[o * layers[l].inputs + i] * layers[l].src[s][i];
                layers[l].dst[s][o] = sum;
                if (l + 1 < LAYERS) layers[l + 1].src[s][o] = fmax(sum, 0);
            }
    for (int s = 0; s < HALF; s++) {
        double sum = 0;
        for (int o = 0; o < layers[LAYERS - 1].outputs; o++)
            sum += exp(layers[LAYERS - 1].dst[s][o]);
        for (int o = 0; o < layers[LAYERS - 1].outputs; o++)
            probability[s][o] = exp(layers[LAYERS - 1].dst[s][o]) / sum;
    }
}

/* Change of layer l's output -> change of the logits. */
static void tangent_forward(int l, int sample, double *change) {
    for (int k = l + 1; k < LAYERS; k++) {
        double next[32] = {0};
        for (int o = 0; o < layers[k].outputs; o++)
            for (int i = 0; i < layers[k].inputs; i++)
                if (layers[k - 1].dst[sample][i] > 0) next[o] += (double)layers[k].weights[o * layers[k].inputs + i] * change[i];
        memcpy(change, next, sizeof next);
    }
}

/* The transposed way. */
static void tangent_backward(int l, int sample, double *change) {
    for (int k = LAYERS - 1; k > l; k--) {
        double next[32] = {0};
        for (int o = 0; o < layers[k].outputs; o++)
            for (int i = 0; i < layers[k].inputs; i++)
                if (layers[k - 1].dst[sample][i] > 0) next[i] += (double)layers[k].weights[o * layers[k].inputs + i] * change[o];
        memcpy(change, next, sizeof next);
    }
}

static void loss_curvature(int sample, double *change) {
    const int outputs = layers[LAYERS - 1].outputs;
    double mean = 0;
    for (int o = 0; o < outputs; o++)
        mean += probability[sample][o] * change[o];
    for (int o = 0; o < outputs; o++)
        change[o] = probability[sample][o] * (change[o] - mean) / HALF;
}

static void exact_product(int l) {
    const int inputs = layers[l].inputs, outputs = layers[l].outputs;
    memset(hv, 0, sizeof hv);
    for (int s = 0; s < HALF; s++) {
        double change[32] = {0};
        for (int o = 0; o < outputs; o++)
            for (int i = 0; i < inputs; i++)
                change[o] += v[o * inputs + i] * layers[l].src[s][i];
        tangent_forward(l, s, change);
        loss_curvature(s, change);
        tangent_backward(l, s, change);
        for (int o = 0; o < outputs; o++)
            for (int i = 0; i < inputs; i++)
                hv[o * inputs + i] += change[o] * layers[l].src[s][i];
    }
}

static double exact_top(int l) {
    static double found[LAYERS]; /* every test has the same network */
    const int count = layers[l].inputs * layers[l].outputs;
    if (found[l] > 0) return found[l];
    double value = 0, before = 1;
    for (int i = 0; i < count; i++)
        v[i] = (double)qs_random_normal(5, (uint64_t)i) / sqrt(count);
    for (int iteration = 0; iteration < 300 && fabs(value - before) > 1e-6 * value; iteration++) {
        double norm = 0;
        before = value;
        exact_product(l);
        for (int i = 0; i < count; i++)
            norm += hv[i] * hv[i];
        value = sqrt(norm);
        for (int i = 0; i < count; i++)
            v[i] = hv[i] / value;
    }
    return found[l] = value;
}

/* ---- The network that is measured --------------------------------------------------------------------------------------------------- */

static float *trained;

static void network_open(bench *b) {
    static float images[HALF * MOST];
    int32_t labels[HALF];
    qs_dataset set;
    int64_t *order = NULL;
    bench_open(b, NULL, "ref", "mlp:width=0.125", BATCH);
    assert_ok(qs_allocate((size_t)b->graph->trained_elements, sizeof *trained, &trained));
    float none;
    assert_int_equal(b->graph->statistics_elements, 0);
    qs_graph_initialize(b->graph, b->job.seed, trained, &none);
    for (int n = 1, l = 0; n < b->graph->nodes; n++) {
        if (b->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        assert_true(l < LAYERS);
        const qs_parameter *weights = qs_graph_parameter(b->graph, n, QS_WEIGHTS), *bias = qs_graph_parameter(b->graph, n, QS_BIAS);
        layers[l].node = n;
        layers[l].outputs = (int)weights->shape.dim[0];
        layers[l].inputs = (int)weights->shape.dim[1];
        layers[l].weights = trained + weights->offset;
        layers[l].bias = trained + bias->offset;
        assert_true(layers[l].inputs <= MOST && layers[l].outputs <= 32);
        l++;
    }
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, 0, &set));
    assert_ok(qs_allocate((size_t)set.count, sizeof *order, &order));
    qs_random_permutation(qs_random_key(b->job.seed, 0, 0, 0), set.count, order);
    const qs_augmentation augmentation = {.enabled = b->job.augmentation, .pad = 4, .seed = b->job.seed};
    const qs_batch batch = {.input = {images}, .extent = {{32, 32}}, .target = labels};
    assert_ok(qs_batch_fill(&set, &augmentation, order, HALF, &batch));
    for (int s = 0; s < HALF; s++)
        for (int i = 0; i < layers[0].inputs; i++)
            layers[0].src[s][i] = (double)images[s * layers[0].inputs + i];
    network_forward();
    free(order);
    qs_dataset_release(&set);
}

static void network_close(bench *b) {
    free(trained);
    bench_close(b);
}

static qs_hessian_options options_for(const bench *b) {
    qs_hessian_options options;
    qs_hessian_options_default(&options);
    options.job = &b->job;
    options.warm_up = 0;
    return options;
}

/* Converged. Without kinks the error is that of fp32 gradients, 1e-7 ‖g‖/(h λ) with h of 1e-5 to 1e-4, and of the third derivative, (h
 * times the norm of a sample's input)²/6: both below 1e-3 where λ is of the order of ‖g‖ and more. So fine a step that no unit is likely to
 * change its sign: 384 units, each within 2^-13 of its size with a chance of about as much. */
TEST(top_is_exact) {
    bench b;
    double top[16];
    network_open(&b);
    qs_hessian_options options = options_for(&b);
    assert_true(b.graph->nodes <= 16);
    options.iterations = 60;
    options.tolerance = 1e-4;
    options.relative_step = ldexp(1, -13);
    assert_ok(qs_hessian_measure(&options, b.device, top));
    for (int l = 0; l < LAYERS; l++) {
        const double exact = exact_top(l);
        if (fabs(top[layers[l].node] - exact) > 1e-2 * exact)
            fail_msg("layer %d: top eigenvalue %g, exact %g", l, top[layers[l].node], exact);
    }
    network_close(&b);
}

/* The usual options: the iteration ends when the Rayleigh quotient moved by less than 1 %, from below; with the next eigenvalue at a
 * ratio r what is missing is less than r²/(1 - r²) of the last move: 5 % up to r = 0.91. A step 16 times as small says the same: no kinks
 * are met. */
TEST(top_by_default) {
    bench b;
    double top[16], finer[16];
    network_open(&b);
    qs_hessian_options options = options_for(&b);
    assert_ok(qs_hessian_measure(&options, b.device, top));
    options.relative_step = ldexp(1, -12);
    assert_ok(qs_hessian_measure(&options, b.device, finer));
    for (int n = 0; n < b.graph->nodes; n++)
        if (b.graph->node[n].op == NULL || b.graph->node[n].op->kind != QS_ADJUSTABLE) assert_true(top[n] == 0);
    for (int l = 0; l < LAYERS; l++) {
        const double exact = exact_top(l), got = top[layers[l].node];
        if (fabs(got - exact) > 0.05 * exact) fail_msg("layer %d: top eigenvalue %g, exact %g", l, got, exact);
        if (fabs(got - finer[layers[l].node]) > 0.01 * exact) fail_msg("layer %d: %g, finer step %g", l, got, finer[layers[l].node]);
    }
    network_close(&b);
}

/* Ranks share the operators: parts add up to the whole, bit for bit. */
TEST(parts_make_the_whole) {
    bench b;
    double whole[16], part[2][16];
    network_open(&b);
    qs_hessian_options options = options_for(&b);
    options.iterations = 2;
    assert_ok(qs_hessian_measure(&options, b.device, whole));
    options.parts = 2;
    for (options.part = 0; options.part < 2; options.part++)
        assert_ok(qs_hessian_measure(&options, b.device, part[options.part]));
    for (int n = 0; n < b.graph->nodes; n++)
        assert_true(part[0][n] + part[1][n] == whole[n] && (part[0][n] == 0 || part[1][n] == 0));
    options.part = 2;
    assert_refused(qs_hessian_measure(&options, b.device, whole), QS_USAGE, "part 2 of 2");
    network_close(&b);
}

TEST(profile_takes_it) {
    bench b;
    network_open(&b);
    assert_refused(qs_profile_hessian(&b.options, b.device, b.comm, &b.profile), QS_USAGE, "has none");
    assert_ok(qs_allocate(1, sizeof *b.profile.statistics.operator_, &b.profile.statistics.operator_));
    b.profile.statistics.operators = 1;
    snprintf(b.profile.statistics.operator_[0].name, QS_NAME, "fc");
    assert_ok(qs_profile_hessian(&b.options, b.device, b.comm, &b.profile));
    assert_true(b.profile.statistics.operator_[0].hessian_top > 0);
    network_close(&b);
}

TEST_MAIN(top_is_exact, top_by_default, parts_make_the_whole, profile_takes_it)
