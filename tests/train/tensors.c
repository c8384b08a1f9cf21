// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Formats of tensors: one step of a small residual net against arithmetic written down here, with every tensor rounded behind its operator
 * (docs/method.md eq. (7.1)); what is saved takes the bytes of its format; what a plan cannot mean is refused by name. */
#include "train_support.h"

enum { BATCH = 3, SIDE = 4, IN = 2, CHANNELS = 4, CLASSES = 3, PIXELS = SIDE * SIDE };
enum { IMAGES = BATCH * PIXELS * IN, VALUES = BATCH * PIXELS * CHANNELS, LOGITS = BATCH * CLASSES };
enum { WEIGHTS1 = CHANNELS * 9 * IN, WEIGHTS2 = CHANNELS * 9 * CHANNELS, WEIGHTS3 = CLASSES * PIXELS * CHANNELS };
static const float loss_scale = 512;

/* ---- The net: relu1 = relu(conv1), sum = relu1 + conv2(relu1), logits = fc(relu(sum)) ----------------------------------------------- */

static int node_add(qs_graph *graph, const char *name, const char *op, int a, int b, int64_t outputs, bool bias) {
    const qs_attributes window = {.kernel = {3, 3}, .padding = {1, 1}};
    const int input[] = {a, b};
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, strcmp(op, "conv2d") == 0 ? &window : NULL, b >= 0 ? 2 : 1, input, outputs, bias, &node));
    return node;
}

static qs_graph *net_make(void) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("net", IN, SIDE, SIDE, &graph));
    const int conv1 = node_add(graph, "conv1", "conv2d", 0, -1, CHANNELS, true);
    const int relu1 = node_add(graph, "relu1", "relu", conv1, -1, 0, false);
    const int conv2 = node_add(graph, "conv2", "conv2d", relu1, -1, CHANNELS, false);
    const int sum = node_add(graph, "sum", "add", relu1, conv2, 0, false);
    const int relu2 = node_add(graph, "relu2", "relu", sum, -1, 0, false);
    const int flat = node_add(graph, "flat", "flatten", relu2, -1, 0, false);
    assert_ok(qs_graph_finish(graph, node_add(graph, "fc", "linear", flat, -1, CLASSES, true), NULL));
    return graph;
}

/* Low formats everywhere, a narrower one for gradients of the sum, so that its readers' differ from its own; dθ in high precision. */
static const char plan_text[] = "{\"schema\":\"qsync/plan/2\",\"classes\":{\"single\":{\"operators\":{},\"tensors\":{"
                                "\"input\":{\"value\":\"fp(4,3,4)\",\"saved\":\"fp(4,3,4)\"},"
                                "\"conv1\":{\"value\":\"fp(4,3,4)\",\"gradient\":\"fp(5,2,0):overflow=inf\"},"
                                "\"relu1\":{\"value\":\"fp(4,3,4)\",\"saved\":\"fp(4,3,4)\",\"gradient\":\"fp(5,2,0):overflow=inf\"},"
                                "\"conv2\":{\"value\":\"fp(4,2,4)\",\"saved\":\"fp(4,2,4)\",\"gradient\":\"fp(5,2,0):overflow=inf\"},"
                                "\"sum\":{\"value\":\"fp(4,3,4)\",\"gradient\":\"fp(6,9,0):overflow=inf\"},"
                                "\"relu2\":{\"value\":\"fp(4,3,4)\",\"saved\":\"fp(6,9,0)\",\"gradient\":\"fp(6,9,0):overflow=inf\"},"
                                "\"fc\":{\"value\":\"fp(6,9,0)\",\"saved\":\"fp(6,9,0)\",\"gradient\":\"fp(5,2,0):overflow=inf\"},"
                                "\"conv1.weights\":{\"value\":\"fp(4,3,4)\",\"gradient\":\"fp(6,9,0):overflow=inf\"},"
                                "\"conv1.bias\":{\"value\":\"fp(4,3,4)\",\"gradient\":\"fp(6,9,0):overflow=inf\"},"
                                "\"conv2.weights\":{\"value\":\"fp(4,3,4)\",\"gradient\":\"fp(6,9,0):overflow=inf\"},"
                                "\"fc.weights\":{\"value\":\"fp(4,3,4)\",\"gradient\":\"fp(6,9,0):overflow=inf\"},"
                                "\"fc.bias\":{\"value\":\"fp(6,9,0)\"}}}}}";

/* ---- The arithmetic: products in double, each result rounded once ------------------------------------------------------------------- */

static void rounded(const char *format, int64_t count, const double *exact, double *out) {
    const qs_format *to = qs_format_of(format);
    for (int64_t i = 0; i < count; i++)
        out[i] = qs_round_value(to, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (float)exact[i], 0, NULL);
}

/* Weights of output o, tap (y, x), input i; images are channels-last. `back`: adds weights^T gradient to src instead. */
static void convolve(int inputs, double *src, const double *weights, const double *bias, double *dst, bool back) {
    for (int64_t at = 0; at < VALUES; at++) {
        const int o = at % CHANNELS, x = at / CHANNELS % SIDE, y = at / CHANNELS / SIDE % SIDE, n = (int)(at / CHANNELS / PIXELS);
        double sum = bias ? bias[o] : 0;
        for (int tap = 0; tap < 9 * inputs; tap++) {
            const int i = tap % inputs, sx = x + tap / inputs % 3 - 1, sy = y + tap / inputs / 3 - 1;
            if (sx < 0 || sy < 0 || sx >= SIDE || sy >= SIDE) continue;
            double *one = &src[((n * SIDE + sy) * SIDE + sx) * inputs + i];
            if (back)
                *one += weights[o * 9 * inputs + tap] * dst[at];
            else
                sum += *one * weights[o * 9 * inputs + tap];
        }
        if (!back) dst[at] = sum;
    }
}

static void convolve_weights(int inputs, const double *src, const double *diff, double *weights) {
    for (int64_t at = 0; at < VALUES; at++) {
        const int o = at % CHANNELS, x = at / CHANNELS % SIDE, y = at / CHANNELS / SIDE % SIDE, n = (int)(at / CHANNELS / PIXELS);
        for (int tap = 0; tap < 9 * inputs; tap++) {
            const int i = tap % inputs, sx = x + tap / inputs % 3 - 1, sy = y + tap / inputs / 3 - 1;
            if (sx < 0 || sy < 0 || sx >= SIDE || sy >= SIDE) continue;
            weights[o * 9 * inputs + tap] += src[((n * SIDE + sy) * SIDE + sx) * inputs + i] * diff[at];
        }
    }
}

typedef struct oracle {
    double images[IMAGES], w1[WEIGHTS1], b1[CHANNELS], w2[WEIGHTS2], w3[WEIGHTS3], b3[CLASSES];
    double relu1[VALUES], conv1[VALUES], sum[VALUES], relu2[VALUES], logits[LOGITS];
    double d_logits[LOGITS], d_sum[VALUES], d_relu1[VALUES], d_conv1[VALUES];
    double g_w1[WEIGHTS1], g_b1[CHANNELS], g_w2[WEIGHTS2], g_w3[WEIGHTS3], g_b3[CLASSES];
} oracle;

static void forward(oracle *o) {
    static double conv2[VALUES], work[VALUES];
    convolve(IN, o->images, o->w1, o->b1, work, false);
    rounded("fp(4,3,4)", VALUES, work, o->conv1);
    for (int i = 0; i < VALUES; i++)
        o->relu1[i] = fmax(o->conv1[i], 0);
    convolve(CHANNELS, o->relu1, o->w2, NULL, work, false);
    rounded("fp(4,2,4)", VALUES, work, conv2);
    for (int i = 0; i < VALUES; i++)
        work[i] = o->relu1[i] + conv2[i];
    rounded("fp(4,3,4)", VALUES, work, o->sum);
    for (int i = 0; i < VALUES; i++)
        o->relu2[i] = fmax(o->sum[i], 0);
    for (int at = 0; at < LOGITS; at++) {
        work[at] = o->b3[at % CLASSES];
        for (int i = 0; i < PIXELS * CHANNELS; i++)
            work[at] += o->relu2[at / CLASSES * PIXELS * CHANNELS + i] * o->w3[at % CLASSES * PIXELS * CHANNELS + i];
    }
    rounded("fp(6,9,0)", LOGITS, work, o->logits);
}

static void loss_gradient(oracle *o, const int32_t *labels) {
    double exact[LOGITS];
    for (int at = 0; at < LOGITS; at++) {
        const double *row = &o->logits[at / CLASSES * CLASSES];
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += exp(row[c] - row[at % CLASSES]);
        exact[at] = (1 / sum - (labels[at / CLASSES] == at % CLASSES)) * (double)loss_scale / BATCH;
    }
    rounded("fp(5,2,0)", LOGITS, exact, o->d_logits);
}

static void backward(oracle *o) {
    static double work[VALUES], d_relu2[VALUES], d_conv2[VALUES];
    const int features = PIXELS * CHANNELS;
    for (int at = 0; at < WEIGHTS3; at++)
        for (int n = 0; n < BATCH; n++)
            o->g_w3[at] += o->d_logits[n * CLASSES + at / features] * o->relu2[n * features + at % features];
    for (int at = 0; at < LOGITS; at++)
        o->g_b3[at % CLASSES] += o->d_logits[at];
    for (int at = 0; at < VALUES; at++)
        for (int c = 0; c < CLASSES; c++)
            work[at] = (c ? work[at] : 0) + o->d_logits[at / features * CLASSES + c] * o->w3[c * features + at % features];
    rounded("fp(6,9,0)", VALUES, work, d_relu2);
    for (int i = 0; i < VALUES; i++)
        o->d_sum[i] = o->sum[i] > 0 ? d_relu2[i] : 0;
    rounded("fp(5,2,0)", VALUES, o->d_sum, d_conv2);
    convolve_weights(CHANNELS, o->relu1, d_conv2, o->g_w2);
    memset(work, 0, sizeof work);
    convolve(CHANNELS, work, o->w2, NULL, d_conv2, true);
    for (int i = 0; i < VALUES; i++)
        work[i] = (float)work[i] + o->d_sum[i];
    rounded("fp(5,2,0)", VALUES, work, o->d_relu1);
    for (int i = 0; i < VALUES; i++)
        o->d_conv1[i] = o->conv1[i] > 0 ? o->d_relu1[i] : 0;
    convolve_weights(IN, o->images, o->d_conv1, o->g_w1);
    for (int i = 0; i < VALUES; i++)
        o->g_b1[i % CHANNELS] += o->d_conv1[i];
}

/* ---- The step ----------------------------------------------------------------------------------------------------------------------- */

typedef struct stepped {
    qs_plan plan;
    qs_graph *graph;
    qs_tensor_table tensors;
    qs_schedule *schedule;
    qs_memory *memory;
    qs_executor *executor;
} stepped;

static void net_lower(bench *here, const char *text, stepped *out) {
    memset(out, 0, sizeof *out);
    out->graph = net_make();
    assert_ok(qs_plan_parse(text, "plan", &out->plan));
    assert_ok(qs_tensors_bind(&out->plan.class_[0], out->graph, &out->tensors));
    const qs_lowering lowering = {.graph = out->graph,
                                  .batch = BATCH,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_format_of("bf16"),
                                  .tensors = &out->tensors,
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &out->schedule));
    assert_ok(qs_memory_reserve(here->device, out->schedule->arena_bytes, &out->memory));
    assert_ok(qs_executor_create(out->schedule, here->device, here->comm, out->memory, &out->executor));
}

static void stepped_release(stepped *one) {
    qs_executor_release(one->executor);
    qs_memory_release(one->memory);
    qs_schedule_release(one->schedule);
    qs_tensor_table_release(&one->tensors);
    qs_plan_release(&one->plan);
    qs_graph_release(one->graph);
}

static size_t offset_of(const stepped *one, const char *name) {
    for (int i = 0; i < one->graph->parameters; i++)
        if (strcmp(one->graph->parameter[i].name, name) == 0) return (size_t)one->graph->parameter[i].offset * sizeof(float);
    fail_msg("no parameter %s", name);
    return 0;
}

/* Fills fp32 memory at random and gives the oracle its rounded form. */
static void fill(const stepped *one, int buffer, size_t offset, uint64_t key, int64_t count, double scale, const char *format,
                 double *as_read) {
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)(scale * (double)qs_random_normal(key, (uint64_t)i));
        assert_ok(qs_executor_write(one->executor, buffer, offset + (size_t)i * sizeof value, sizeof value, &value));
        as_read[i] = value;
    }
    rounded(format, count, as_read, as_read);
}

static void inputs_fill(const stepped *one, oracle *o, int32_t *labels) {
    const int masters = one->schedule->masters;
    fill(one, one->schedule->input[0], 0, 11, IMAGES, 1, "fp(4,3,4)", o->images);
    fill(one, masters, offset_of(one, "conv1.weights"), 12, WEIGHTS1, 0.5, "fp(4,3,4)", o->w1);
    fill(one, masters, offset_of(one, "conv1.bias"), 13, CHANNELS, 0.2, "fp(4,3,4)", o->b1);
    fill(one, masters, offset_of(one, "conv2.weights"), 14, WEIGHTS2, 0.3, "fp(4,3,4)", o->w2);
    fill(one, masters, offset_of(one, "fc.weights"), 15, WEIGHTS3, 0.2, "fp(4,3,4)", o->w3);
    fill(one, masters, offset_of(one, "fc.bias"), 16, CLASSES, 0.2, "fp(6,9,0)", o->b3);
    for (int n = 0; n < BATCH; n++)
        labels[n] = n % CLASSES;
    assert_ok(qs_executor_write(one->executor, one->schedule->target, 0, BATCH * sizeof *labels, labels));
}

/* Every tensor before this one was rounded to the same bits on both sides, or the difference would be a whole spacing of a low format:
 * 2^-4 of a value. What is left are sums of at most 48 products in fp32, and the one rounding of the gradient (2^-10). `format` NULL: the
 * gradient is not rounded. */
static void gradient_compare(const stepped *one, const char *name, int64_t count, const double *exact, const char *format) {
    float *actual = bytes_read(one->executor, one->schedule->gradients, offset_of(one, name), (size_t)count * sizeof *actual);
    double expected[WEIGHTS3];
    if (format)
        rounded(format, count, exact, expected);
    else
        memcpy(expected, exact, (size_t)count * sizeof *exact);
    for (int64_t i = 0; i < count; i++) {
        const double bound = format ? 0 : 48 * 0x1p-24 * (fabs(expected[i]) + 1e-3);
        if (!(fabs((double)actual[i] - expected[i]) <= bound))
            fail_msg("%s[%lld]: %.9g, expected %.9g", name, (long long)i, actual[i], expected[i]);
    }
    free(actual);
}

static void step_compare(const char *backend) {
    static oracle o;
    bench here;
    stepped one;
    if (!backend_exists(backend)) skip();
    memset(&o, 0, sizeof o);
    bench_open(&here, backend, "self", "lenet5", BATCH);
    net_lower(&here, plan_text, &one);
    int32_t labels[BATCH];
    inputs_fill(&one, &o, labels);
    forward(&o);
    loss_gradient(&o, labels);
    backward(&o);
    assert_ok(qs_executor_run(one.executor,
                              &(qs_run){.samples = BATCH, .global_samples = BATCH, .loss_scale = (double)loss_scale, .learning_rate = 0}));
    gradient_compare(&one, "fc.bias", CLASSES, o.g_b3, NULL);
    gradient_compare(&one, "fc.weights", WEIGHTS3, o.g_w3, "fp(6,9,0)");
    gradient_compare(&one, "conv2.weights", WEIGHTS2, o.g_w2, "fp(6,9,0)");
    gradient_compare(&one, "conv1.bias", CHANNELS, o.g_b1, "fp(6,9,0)");
    gradient_compare(&one, "conv1.weights", WEIGHTS1, o.g_w1, "fp(6,9,0)");
    stepped_release(&one);
    bench_close(&here);
}

TEST(step_ref) {
    step_compare("ref");
}
TEST(step_cpu) {
    step_compare("cpu");
}

/* ---- What is saved ------------------------------------------------------------------------------------------------------------------ */

/* Bytes of a buffer that lives from forward to backward; -1: there is none of that name. */
static int64_t saved_bytes(const qs_schedule *schedule, const char *name) {
    for (int b = 0; b < schedule->buffers; b++)
        if (strcmp(schedule->buffer[b].name, name) == 0)
            return schedule->buffer[b].category == QS_SAVED_ACTIVATIONS ? (int64_t)schedule->buffer[b].bytes : 0;
    return -1;
}

/* One byte an element in fp(4,3,4), two in fp(6,9,0), 7 bits in fp(4,2,4); nothing for outputs that no backward pass reads. */
TEST(packed_bytes) {
    bench here;
    stepped one;
    bench_open(&here, "ref", "self", "lenet5", BATCH);
    net_lower(&here, plan_text, &one);
    assert_int_equal(saved_bytes(one.schedule, "input:packed:fp(4,3,4)"), IMAGES);
    assert_int_equal(saved_bytes(one.schedule, "relu1:packed:fp(4,3,4)"), VALUES);
    assert_int_equal(saved_bytes(one.schedule, "relu2:packed:fp(6,9,0)"), 2 * VALUES);
    assert_int_equal(saved_bytes(one.schedule, "fc:packed:fp(6,9,0)"), 2 * LOGITS);
    assert_int_equal(saved_bytes(one.schedule, "conv2:packed:fp(4,2,4)"), -1);
    int64_t saved = 0;
    for (int b = 0; b < one.schedule->buffers; b++)
        if (one.schedule->buffer[b].category == QS_SAVED_ACTIVATIONS) saved += (int64_t)one.schedule->buffer[b].bytes;
    assert_int_equal(saved, IMAGES + VALUES + 2 * VALUES + 2 * LOGITS + 2 * (VALUES / 8)); /* and two masks of relu */
    stepped_release(&one);
    bench_close(&here);
}

/* ---- Refusals ----------------------------------------------------------------------------------------------------------------------- */

static void refuse(const char *tensor, const char *why) {
    char *text = NULL;
    qs_plan plan;
    qs_tensor_table table;
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    assert_ok(qs_format_text(&text, "{\"schema\":\"qsync/plan/2\",\"classes\":{\"single\":{\"operators\":{},\"tensors\":{%s}}}}", tensor));
    assert_ok(qs_plan_parse(text, "plan", &plan));
    assert_refused(qs_tensors_bind(&plan.class_[0], graph, &table), QS_MISMATCH, why);
    qs_plan_release(&plan);
    qs_graph_release(graph);
    free(text);
}

TEST(refusals) {
    refuse("\"conv9\":{\"value\":\"bf16\"}", "class single: tensor conv9: model resnet8 has no operator and no parameter of that name");
    refuse("\"loss\":{\"value\":\"bf16\"}", "tensor loss: the loss stays in fp32");
    refuse("\"stem.bn.running_mean\":{\"value\":\"bf16\"}", "running statistics stay in fp32");
    refuse("\"fc.weights\":{\"value\":\"bf16\",\"saved\":\"bf16\"}", "masters of parameters are kept in fp32");
}

/* A recipe that stores a value in bf16, or has the weights in int8, leaves nothing to round. */
TEST(recipes_contradict) {
    static const char *const plans[][2] = {
        {"{\"conv2\":\"bf16\"},\"tensors\":{\"conv2\":{\"value\":\"fp(4,3,4)\"}}", "tensor conv2: the plan gives it a format of its own"},
        {"{\"conv2\":\"bf16\"},\"tensors\":{\"conv2.weights\":{\"value\":\"fp(4,3,4)\"}}", "tensor conv2.weights: the plan gives it"}};
    for (size_t i = 0; i < 2; i++) {
        bench here;
        char *text = NULL;
        qs_plan plan;
        qs_graph *graph = net_make();
        const qs_recipe **recipe = NULL;
        qs_tensor_table tensors;
        qs_schedule *schedule = NULL;
        bench_open(&here, "ref", "self", "lenet5", BATCH);
        assert_ok(qs_format_text(&text, "{\"schema\":\"qsync/plan/2\",\"classes\":{\"single\":{\"operators\":%s}}}", plans[i][0]));
        assert_ok(qs_plan_parse(text, "plan", &plan));
        assert_ok(qs_plan_bind(&plan, "single", graph, &recipe));
        assert_ok(qs_tensors_bind(&plan.class_[0], graph, &tensors));
        const qs_lowering lowering = {.graph = graph,
                                      .batch = BATCH,
                                      .mode = QS_MODE_TRAIN,
                                      .job = &here.job,
                                      .recipe = recipe,
                                      .half = qs_format_of("bf16"),
                                      .tensors = &tensors,
                                      .lookup = qs_lookup_device,
                                      .context = here.device};
        assert_refused(qs_schedule_lower(&lowering, &schedule), QS_UNSUPPORTED, plans[i][1]);
        qs_tensor_table_release(&tensors);
        qs_plan_release(&plan);
        qs_graph_release(graph);
        free(recipe);
        free(text);
        bench_close(&here);
    }
}

TEST_MAIN(step_ref, step_cpu, packed_bytes, refusals, recipes_contradict)
