// SPDX-License-Identifier: Apache-2.0
/* Whole schedules run by the reference kernels on plain memory: the gradients they leave are those of the loss they compute (finite
 * differences), and lower precision leaves the same gradients up to its noise. Independent of devices and of the training room. */
#include "kit/random_graph.h"

#define BATCH 2

typedef struct model_run {
    qs_graph *graph;
    qs_schedule *schedule;
    runner run;
    float *masters; /* in the arena */
    float *start;   /* copy of them */
    float *gradients;
    double loss;
} model_run;

static qs_graph *model_of(const char *model, const qs_model_input *input) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(model, input, &graph));
    return graph;
}

static model_run model_start(qs_graph *graph, const char *recipe) {
    model_run one = {.graph = graph};
    qs_job job = stub_job(BATCH);
    job.bucket_bytes = 4096;
    one.schedule = lower_uniform(one.graph, &job, QS_MODE_TRAIN, recipe);
    one.run = runner_make(one.schedule, one.graph);
    one.masters = runner_buffer(&one.run, one.schedule->masters);
    const size_t bytes = one.schedule->buffer[one.schedule->masters].bytes;
    one.start = malloc(bytes);
    one.gradients = malloc(bytes);
    memcpy(one.start, one.masters, bytes);
    one.loss = runner_run(&one.run, one.graph->classes, QS_UPDATE);
    memcpy(one.gradients, runner_buffer(&one.run, one.schedule->gradients), bytes);
    memcpy(one.masters, one.start, bytes);
    return one;
}

static void model_end(model_run *one) {
    free(one->start);
    free(one->gradients);
    free(one->run.memory);
    qs_schedule_release(one->schedule);
    qs_graph_release(one->graph);
}

static double norm(const float *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* Loss at start + h · direction of one parameter, by the forward steps alone. */
static double loss_at(model_run *one, const qs_parameter *parameter, const float *direction, double h) {
    const int64_t count = qs_shape_count(&parameter->shape);
    float *w = one->masters + parameter->offset;
    for (int64_t i = 0; i < count; i++)
        w[i] = (float)((double)one->start[parameter->offset + i] + h * (double)direction[i]);
    const double loss = runner_run(&one->run, one->graph->classes, QS_FORWARD);
    memcpy(w, one->start + parameter->offset, (size_t)count * sizeof *w);
    return loss;
}

/* Along its own gradient g (normalised) the loss must rise by |g|: a strong signal, which a gradient wrong in any part misses. */
static void parameter_check(model_run *one, const qs_parameter *parameter) {
    const int64_t count = qs_shape_count(&parameter->shape);
    const float *gradient = one->gradients + parameter->offset;
    const double size = norm(gradient, count);
    float *direction = malloc((size_t)count * sizeof *direction);
    if (!(size > 0) || !isfinite(size)) fail_msg("%s: gradient of norm %g", parameter->name, size);
    for (int64_t i = 0; i < count; i++)
        direction[i] = (float)((double)gradient[i] / size);
    /* A step that changes the loss by about 1e-4 of itself, unless the parameter matters too little: few of the values that stand near a
     * kink (ReLU, pooling) cross it, and fp32 noise of the loss (some 1e-7 of it a stored value, averaged) stays below 1 % of the change.
     * A kink that is crossed lies on one side of the start: the slope on the other one counts. */
    const double h = fmin(1e-4 * one->loss / size, 1e-2), noise = 1e-6 * one->loss / h;
    const double up = (loss_at(one, parameter, direction, h) - one->loss) / h;
    const double down = (one->loss - loss_at(one, parameter, direction, -h)) / h;
    if (!(fmin(fabs(up - size), fabs(down - size)) <= 0.02 * size + noise))
        fail_msg("%s: the loss rises by %.6g and %.6g along the gradient, whose norm is %.6g", parameter->name, down, up, size);
    free(direction);
}

static void finite_differences(qs_graph *graph) {
    model_run one = model_start(graph, "fp32");
    assert_true(isfinite(one.loss) && one.loss > 0);
    for (int i = 0; i < one.graph->parameters; i++)
        if (one.graph->parameter[i].gradient != QS_ROLE_COUNT) parameter_check(&one, &one.graph->parameter[i]);
    model_end(&one);
}

static const qs_model_input small = {3, 16, 16, 10};

TEST(mlp) {
    finite_differences(model_of("mlp", NULL));
}
TEST(lenet5) {
    finite_differences(model_of("lenet5", NULL));
}
TEST(resnet8) {
    finite_differences(model_of("resnet8:width=0.5", &small));
}

/* Sums of values with many readers, in any order. */
TEST(random_graphs) {
    for (uint64_t number = 0; number < 40; number++)
        finite_differences(random_graph(number));
}

/* Cosine between the gradients of a recipe and those of fp32. What turns gradients most is ReLU near zero: of values with a relative error
 * e about 0.4·e lie on the other side, whose gradients appear or vanish, so the relative noise is sqrt(0.4·e) a layer, and 1 - cos about
 * 0.2·e·layers: 0.003 for bf16 (e = 2^-9) and 0.02 for int8 (e about 1.5 %) over seven layers; the bounds allow ten times that. */
static void precision_keeps_gradients(const char *model, const qs_model_input *input, const char *recipe, double least) {
    model_run exact = model_start(model_of(model, input), "fp32"), rough = model_start(model_of(model, input), recipe);
    double dot = 0;
    for (int64_t i = 0; i < exact.graph->trained_elements; i++)
        dot += (double)exact.gradients[i] * (double)rough.gradients[i];
    const double cosine =
        dot / (norm(exact.gradients, exact.graph->trained_elements) * norm(rough.gradients, exact.graph->trained_elements));
    if (!(cosine >= least)) fail_msg("%s in %s: cosine %.4f with the fp32 gradients", model, recipe, cosine);
    if (!(fabs(rough.loss - exact.loss) <= 0.1 * exact.loss)) fail_msg("%s in %s: loss %g, fp32 %g", model, recipe, rough.loss, exact.loss);
    model_end(&exact);
    model_end(&rough);
}

TEST(lower_precision) {
    const char *const models[] = {"mlp", "lenet5", "resnet8:width=0.5"};
    for (int m = 0; m < 3; m++) {
        const qs_model_input *input = m == 2 ? &small : NULL;
        precision_keeps_gradients(models[m], input, "bf16", 0.97);
        precision_keeps_gradients(models[m], input, "fp16", 0.97);
        precision_keeps_gradients(models[m], input, "int8/bf16", 0.8);
        precision_keeps_gradients(models[m], input, "int8/fp32", 0.8);
        precision_keeps_gradients(models[m], input, "int8:tensor", 0.8);
        precision_keeps_gradients(models[m], input, "int6:shift4", 0.8);
    }
}

/* A zero learning rate leaves the masters alone; a small one lowers the loss of the same batch. */
TEST(a_step_lowers_the_loss) {
    model_run one = model_start(model_of("resnet8:width=0.5", &small), "bf16");
    one.run.run.learning_rate = 1e-3;
    runner_run(&one.run, one.graph->classes, QS_UPDATE);
    const double after = runner_run(&one.run, one.graph->classes, QS_FORWARD);
    if (!(after < one.loss)) fail_msg("loss %g before the step, %g after", one.loss, after);
    model_end(&one);
}

TEST_MAIN(mlp, lenet5, resnet8, random_graphs, lower_precision, a_step_lowers_the_loss)
