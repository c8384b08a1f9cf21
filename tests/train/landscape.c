// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A slice of the loss landscape: at 0 the training loss of the weights, bit for bit, in every arithmetic; along the direction the loss
 * worked out in double; the direction's filters as long as the weights'. */
#include "kit/job_model.h"
#include "plan_support.h"

enum { BATCH = 16, BATCHES = 3, MOST_LAYERS = 4, MOST_OUTPUTS = 64 };

static qs_landscape_options slice_of(const bench *here, const char *weights, int points) {
    return (qs_landscape_options){.job = &here->job,
                                  .cluster = &here->cluster,
                                  .plan = here->options.plan,
                                  .weights = weights,
                                  .training_limit = here->options.training_limit,
                                  .points = points,
                                  .range = 1,
                                  .batches = BATCHES,
                                  .direction = 1};
}

/* ---- At the weights ---------------------------------------------------------------------------------------------------------------- */

/* A few steps, so that the weights are not where they began; they are saved in the bench's folder. */
static void weights_train(bench *here, char *path) {
    qs_train_result result;
    here->options.run_folder = here->folder;
    here->options.test_limit = -1;
    here->options.max_steps = 3;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    qs_train_result_release(&result);
    here->options.run_folder = NULL;
    snprintf(path, 128, "%s/weights.safetensors", here->folder);
}

/* Training that changes nothing: its loss over the first BATCHES steps. */
static double loss_at_rate_0(bench *here, const char *weights) {
    qs_train_result result;
    here->job.rate.base = 0;
    here->options.start_weights = weights;
    here->options.max_steps = BATCHES;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    const double loss = result.training_loss;
    qs_train_result_release(&result);
    return loss;
}

static void middle_is_the_training_loss(void **state) {
    static const char *const variants[][2] = {
        {"resnet8:width=0.25", "fp32"}, {"resnet8:width=0.25,norm=l1bnq", "int4:shift4"}, {"resnet8:width=0.25,norm=l2bnq", "int8/bf16"}};
    (void)state;
    for (size_t v = 0; v < COUNT_OF(variants); v++) {
        bench here;
        qs_plan plan;
        qs_landscape slice, again;
        char weights[128];
        bench_open(&here, backend_exists("cpu") ? "cpu" : "ref", "self", variants[v][0], BATCH);
        here.options.training_limit = (BATCHES - 1) * BATCH + BATCH / 2; /* the last batch is a smaller one */
        plan_fill(&here, variants[v][1], &plan);
        here.options.plan = &plan;
        here.job.epochs = 2;
        weights_train(&here, weights);
        const qs_landscape_options options = slice_of(&here, weights, 5);
        assert_ok(qs_landscape_measure(&options, here.device, here.comm, &slice));
        assert_ok(qs_landscape_measure(&options, here.device, here.comm, &again));
        assert_int_equal(slice.points, 5);
        assert_int_equal(slice.samples, here.options.training_limit);
        assert_memory_equal(slice.point, again.point, 5 * sizeof *slice.point);
        assert_true(slice.point[0].alpha == -1 && slice.point[1].alpha == -0.5 && slice.point[2].alpha == 0 && slice.point[4].alpha == 1);
        assert_true(slice.point[2].accuracy >= 0 && slice.point[2].accuracy <= 1);
        assert_true(slice.point[2].loss == loss_at_rate_0(&here, weights));
        assert_true(slice.point[0].loss != slice.point[2].loss && slice.point[4].loss != slice.point[2].loss);
        qs_landscape_release(&slice);
        qs_landscape_release(&again);
        qs_plan_release(&plan);
        bench_close(&here);
    }
}

/* ---- Along the direction ----------------------------------------------------------------------------------------------------- */

typedef struct layer {
    int64_t inputs, outputs, weights, bias; /* the last two: places in the flat buffer */
} layer;

static int layers_find(const qs_graph *graph, layer *out) {
    int layers = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        const qs_parameter *weights = qs_graph_parameter(graph, n, QS_WEIGHTS), *bias = qs_graph_parameter(graph, n, QS_BIAS);
        assert_true(layers < MOST_LAYERS && weights->shape.dim[0] <= MOST_OUTPUTS);
        out[layers++] = (layer){weights->shape.dim[1], weights->shape.dim[0], weights->offset, bias->offset};
    }
    return layers;
}

/* Loss of one image and, with its bound, what a device is off that adds in double and rounds every output to fp32: a layer passes on what
 * its inputs are off, times its weights, and adds half an ulp of its own; the loss moves by at most twice the largest error of a logit. */
static double image_loss(const layer *layers, int count, const float *weights, const float *image, int label, double *bound) {
    static double x[2][4096], off[2][4096];
    double sum = 0, worst = 0, most = -INFINITY;
    for (int64_t i = 0; i < layers[0].inputs; i++) {
        x[0][i] = (double)image[i];
        off[0][i] = 0;
    }
    for (int l = 0; l < count; l++) {
        const double *from = x[l % 2], *from_off = off[l % 2];
        for (int64_t o = 0; o < layers[l].outputs; o++) {
            const float *row = weights + layers[l].weights + o * layers[l].inputs;
            double value = (double)weights[layers[l].bias + o], error = 0;
            for (int64_t i = 0; i < layers[l].inputs; i++) {
                value += (double)row[i] * from[i];
                error += fabs((double)row[i]) * from_off[i];
            }
            off[(l + 1) % 2][o] = error + 0x1p-24 * (fabs(value) + error);
            x[(l + 1) % 2][o] = l + 1 < count ? fmax(value, 0) : value;
        }
    }
    for (int64_t o = 0; o < layers[count - 1].outputs; o++) {
        most = fmax(most, x[count % 2][o]);
        worst = fmax(worst, off[count % 2][o]);
    }
    for (int64_t o = 0; o < layers[count - 1].outputs; o++)
        sum += exp(x[count % 2][o] - most);
    *bound += 2 * worst;
    return most + log(sum) - x[count % 2][label];
}

/* Mean loss over the first batches of epoch 1. */
static double direct_loss(const bench *here, const qs_graph *graph, const float *weights, double *bound) {
    static float images[BATCH * 4096];
    layer layers[MOST_LAYERS];
    const int count = layers_find(graph, layers);
    int64_t batch = BATCH, samples, first, global;
    const int64_t *indices;
    int32_t labels[BATCH];
    double sum = 0;
    qs_dataset set;
    qs_sharding sharding;
    assert_ok(qs_dataset_load(here->job.dataset, NULL, QS_PART_TRAINING, here->options.training_limit, &set));
    assert_ok(qs_sharding_create(set.count, 1, &batch, here->job.seed, true, &sharding));
    *bound = 0;
    for (int64_t step = 0; step < BATCHES; step++) {
        assert_ok(qs_sharding_step(&sharding, 0, step, 0, &indices, &samples, &first, &global));
        assert_int_equal(samples, BATCH);
        const int64_t *extent = set.description.samples.input[0].extent;
        const qs_batch pixels = {.input = {images}, .extent = {{extent[0], extent[1]}}, .target = labels};
        assert_ok(qs_batch_fill(&set, NULL, indices, BATCH, &pixels));
        for (int i = 0; i < BATCH; i++)
            sum += image_loss(layers, count, weights, images + i * layers[0].inputs, labels[i], bound);
    }
    qs_sharding_release(&sharding);
    qs_dataset_release(&set);
    *bound = *bound / (BATCHES * BATCH) + 0x1p-24 * sum / (BATCHES * BATCH); /* a batch's sum is rounded to fp32 */
    return sum / (BATCHES * BATCH);
}

/* A chain of linear operators and relus, on the reference device. */
static void slice_is_the_loss_worked_out(void **state) {
    bench here;
    qs_graph *graph = NULL;
    qs_landscape slice;
    char path[128];
    (void)state;
    bench_open(&here, "ref", "self", "mlp:width=0.125", BATCH);
    assert_ok(job_model(&here.job, &graph));
    weights_train(&here, path);
    const size_t elements = (size_t)graph->trained_elements;
    float *weights = calloc(3 * elements, sizeof *weights), *direction = weights + elements, *moved = direction + elements;
    assert_non_null(weights);
    assert_ok(qs_weights_read(path, graph, weights, NULL));
    qs_landscape_direction(graph, here.job.seed, 1, weights, direction);
    const qs_landscape_options options = slice_of(&here, path, 5);
    assert_ok(qs_landscape_measure(&options, here.device, here.comm, &slice));
    for (int p = 0; p < slice.points; p++) {
        double bound;
        for (size_t i = 0; i < elements; i++)
            moved[i] = (float)((double)weights[i] + slice.point[p].alpha * (double)direction[i]);
        const double expected = direct_loss(&here, graph, moved, &bound);
        assert_true(bound < 1e-4 * expected); /* else it would tell nothing */
        if (!(fabs(slice.point[p].loss - expected) <= bound))
            fail_msg("alpha %g: loss %.9g, worked out %.9g +- %.2g", slice.point[p].alpha, slice.point[p].loss, expected, bound);
    }
    qs_landscape_release(&slice);
    free(weights);
    qs_graph_release(graph);
    bench_close(&here);
}

/* ---- The direction ----------------------------------------------------------------------------------------------------------- */

static double norm_of(const float *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* Each element of the direction is rounded to fp32: its norm is known to half an ulp. */
static void parameter_check(const qs_parameter *one, const float *weights, const float *direction) {
    const int64_t count = qs_shape_count(&one->shape), filters = one->shape.dim[0], a_filter = count / filters;
    if (one->role != QS_WEIGHTS) {
        assert_true(norm_of(direction, count) == 0);
        return;
    }
    for (int64_t f = 0; f < filters; f++) {
        const double wanted = norm_of(weights + f * a_filter, a_filter), got = norm_of(direction + f * a_filter, a_filter);
        if (!(fabs(got - wanted) <= 0x1p-23 * wanted)) fail_msg("%s, filter %d: norm %.9g, wanted %.9g", one->name, (int)f, got, wanted);
    }
}

static void filters_are_as_long_as_the_weights(void **state) {
    bench here;
    qs_graph *graph = NULL;
    (void)state;
    bench_open(&here, "ref", "self", "resnet8:width=0.25", BATCH);
    assert_ok(job_model(&here.job, &graph));
    const size_t elements = (size_t)graph->trained_elements;
    float *weights = calloc(4 * elements, sizeof *weights), *one = weights + elements, *same = one + elements, *other = same + elements;
    float *running = calloc((size_t)graph->statistics_elements, sizeof *running);
    assert_true(weights && running);
    qs_graph_initialize(graph, 3, weights, running);
    const qs_parameter *first = NULL;
    for (int i = 0; i < graph->parameters && !first; i++)
        if (graph->parameter[i].role == QS_WEIGHTS) first = &graph->parameter[i];
    const int64_t a_filter = qs_shape_count(&first->shape) / first->shape.dim[0];
    memset(weights + first->offset, 0, (size_t)a_filter * sizeof *weights); /* a dead filter stays one */
    qs_landscape_direction(graph, 7, 1, weights, one);
    qs_landscape_direction(graph, 7, 1, weights, same);
    qs_landscape_direction(graph, 7, 2, weights, other);
    assert_memory_equal(one, same, elements * sizeof *one);
    for (int i = 0; i < graph->parameters; i++)
        if (graph->parameter[i].gradient != QS_ROLE_COUNT)
            parameter_check(&graph->parameter[i], weights + graph->parameter[i].offset, one + graph->parameter[i].offset);
    /* Random directions in so many dimensions are all but orthogonal, to each other and to the weights. */
    double product[2] = {0, 0};
    for (size_t i = 0; i < elements; i++) {
        product[0] += (double)one[i] * (double)other[i];
        product[1] += (double)one[i] * (double)weights[i];
    }
    assert_true(fabs(product[0]) < 0.1 * norm_of(one, (int64_t)elements) * norm_of(other, (int64_t)elements));
    assert_true(fabs(product[1]) < 0.1 * norm_of(one, (int64_t)elements) * norm_of(weights, (int64_t)elements));
    free(weights);
    free(running);
    qs_graph_release(graph);
    bench_close(&here);
}

static void wrong_questions_are_refused(void **state) {
    bench here;
    qs_landscape slice;
    char weights[128];
    (void)state;
    bench_open(&here, "ref", "self", "mlp:width=0.125", BATCH);
    weights_train(&here, weights);
    qs_landscape_options options = slice_of(&here, weights, 4);
    assert_refused(qs_landscape_measure(&options, here.device, here.comm, &slice), QS_USAGE, "4 points: an odd number");
    options.points = 3;
    options.range = 0;
    assert_refused(qs_landscape_measure(&options, here.device, here.comm, &slice), QS_USAGE, "range 0");
    options.range = 1;
    options.batches = 17;
    assert_refused(qs_landscape_measure(&options, here.device, here.comm, &slice), QS_USAGE, "17 batches: the training part has 16 of 16");
    options.batches = 1;
    options.weights = "/nowhere/weights.safetensors";
    assert_refused(qs_landscape_measure(&options, here.device, here.comm, &slice), QS_BAD_FILE, "nowhere");
    bench_close(&here);
}

TEST_MAIN(middle_is_the_training_loss, slice_is_the_loss_worked_out, filters_are_as_long_as_the_weights, wrong_questions_are_refused)
