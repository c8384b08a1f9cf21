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
    one.loss = runner_run(&one.run, one.graph->samples.target.classes, QS_UPDATE);
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
    const double loss = runner_run(&one->run, one->graph->samples.target.classes, QS_FORWARD);
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

/* Attention over the positions of a sequence from its parts, with a mask that is added to the scores and learned: two heads share keys and
 * values, so their gradients are sums over heads. */
static qs_graph *attention_graph(void) {
    const qs_input sequence = {.name = "sequence", .type = QS_INPUT_F32, .rank = 2, .extent = {5, 12}};
    qs_graph *graph = NULL;
    int input = 0, q, k, v, at;
    assert_ok(qs_graph_create("attention", "sequences", 1, &sequence, &graph));
    assert_ok(qs_graph_add(graph, "q", "linear", NULL, 1, &input, 16, true, &q));
    assert_ok(qs_graph_add(graph, "k", "linear", NULL, 1, &input, 8, true, &k));
    assert_ok(qs_graph_add(graph, "v", "linear", NULL, 1, &input, 8, true, &v));
    const qs_attributes scores = {.heads = 4, .key_heads = 2, .transposed = 1}, weights = {.scale = 0.5, .causal = 1},
                        context = {.heads = 4, .key_heads = 2, .merged = 1};
    assert_ok(qs_graph_add(graph, "scores", "matmul", &scores, 2, (int[]){q, k}, 0, false, &at));
    assert_ok(qs_graph_add(graph, "mask", "offset", &(qs_attributes){.over = 1}, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "probabilities", "softmax", &weights, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "context", "matmul", &context, 2, (int[]){at, v}, 0, false, &at));
    assert_ok(qs_graph_add(graph, "output", "linear", NULL, 1, &at, 12, true, &at));
    assert_ok(qs_graph_add(graph, "flatten", "flatten", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "classes", "linear", NULL, 1, &at, 10, true, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* The gradients of a recipe and those of fp32 point in the same direction. */
static void directions_agree(qs_graph *(*make)(void), const char *recipe, double least) {
    model_run exact = model_start(make(), "fp32"), rough = model_start(make(), recipe);
    const int64_t elements = exact.graph->trained_elements;
    double dot = 0;
    for (int64_t i = 0; i < elements; i++)
        dot += (double)exact.gradients[i] * (double)rough.gradients[i];
    dot /= norm(exact.gradients, elements) * norm(rough.gradients, elements);
    if (!(dot >= least)) fail_msg("%s: cosine %.4f with the fp32 gradients", recipe, dot);
    model_end(&exact);
    model_end(&rough);
}

/* No kinks: what a recipe's rounding does to each factor goes on about as large, 2^-9 of a value in bf16, under 1 % in int8 and under 4 %
 * in int6, through seven products, in random directions. */
TEST(attention_in_parts) {
    static const struct {
        const char *recipe;
        double least;
    } recipes[] = {{"bf16", 0.999},           {"int8/bf16", 0.98},        {"int8:tensor", 0.98},
                   {"int6:shift4", 0.9},      {"int8:hadamard16", 0.98},  {"int8:tensor:nearest-even", 0.98},
                   {"int8:tensor:mse", 0.98}, {"bf16/int8:tensor", 0.98}, {"bf16/log4/log4:draw2", 0.8},
                   {"mxfp8", 0.98},           {"mxint8", 0.99},           {"nvfp4:stochastic", 0.8}};
    finite_differences(attention_graph());
    for (size_t r = 0; r < COUNT_OF(recipes); r++)
        directions_agree(attention_graph, recipes[r].recipe, recipes[r].least);
}

/* Windows that are dilated, padded unlike or transposed, and what stands around them in networks that make images; no kinks. */
static qs_graph *windows_graph(void) {
    static const struct {
        const char *name, *op;
        qs_attributes with;
        int outputs;
    } rows[] = {{"conv", "conv2d", {.kernel = {3, 3}, .dilation = {2, 1}, .padding = {1, 1}, .padding_more = {1, -1}}, 8},
                {"groups", "group_norm", {.groups = 2}, 0},
                {"gelu", "gelu", {.groups = 1}, 0},
                {"up", "conv_transpose", {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .padding_more = {-1, -1}}, 16},
                {"instances", "instance_norm", {.groups = 1}, 0},
                {"silu", "silu", {.groups = 1}, 0},
                {"across", "conv_transpose", {.kernel = {2, 3}, .stride = {1, 2}, .groups = 2}, 8},
                {"down", "resize", {.mode = 1, .height = 7, .scale_width = 0.3}, 0},
                {"around", "pad", {.padding = {1, 2}, .padding_more = {1, 0}, .mode = 1}, 0},
                {"neighbours", "local_response_norm", {.size = 3, .alpha = 0.5}, 0},
                {"means", "average_pool", {.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 0}, .count_padding = true}, 0},
                {"flatten", "flatten", {.groups = 1}, 0},
                {"classes", "linear", {.groups = 1}, 10}};
    qs_graph *graph = NULL;
    int at = 0;
    assert_ok(qs_graph_of_images("windows", 3, 9, 8, &graph));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_ok(qs_graph_add(graph, rows[i].name, rows[i].op, &rows[i].with, 1, &at, rows[i].outputs, false, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* Layers of an LSTM in both directions and of a GRU, over the positions of an image. */
static qs_graph *recurrent_graph(void) {
    static const struct {
        const char *name, *op;
        qs_attributes with;
        int outputs;
        bool bias;
    } rows[] = {
        {"sequence", "sequence", {.groups = 1}, 0, false}, {"words", "linear", {.groups = 1}, 16, true},
        {"gates", "linear", {.groups = 1}, 64, false},     {"lstm", "recurrence", {.mode = 2, .along = 2, .order = 1, .size = 2}, 0, true},
        {"more", "linear", {.groups = 1}, 24, true},       {"gru", "recurrence", {.mode = 4}, 0, true},
        {"last", "position", {.position = -1}, 0, false},  {"classes", "linear", {.groups = 1}, 10, true}};
    qs_graph *graph = NULL;
    int at = 0;
    assert_ok(qs_graph_of_images("recurrent", 8, 2, 3, &graph));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_ok(qs_graph_add(graph, rows[i].name, rows[i].op, &rows[i].with, 1, &at, rows[i].outputs, rows[i].bias, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* As attention: rounding of each factor, through four products and twice six positions. */
TEST(recurrent) {
    static const struct {
        const char *recipe;
        double least;
    } recipes[] = {{"bf16", 0.999}, {"int8/bf16", 0.98}, {"int8:tensor", 0.98}};
    finite_differences(recurrent_graph());
    for (size_t r = 0; r < COUNT_OF(recipes); r++)
        directions_agree(recurrent_graph, recipes[r].recipe, recipes[r].least);
}

/* As attention: rounding of each factor, through four products. */
TEST(windows) {
    static const struct {
        const char *recipe;
        double least;
    } recipes[] = {{"bf16", 0.999},      {"fp16", 0.999},           {"int8/bf16", 0.98}, {"int8/fp32", 0.98}, {"int8:tensor", 0.98},
                   {"int6:shift4", 0.9}, {"int8:hadamard16", 0.98}, {"mxfp8", 0.98},     {"mxint8", 0.99},    {"nvfp4/mxfp8", 0.9}};
    finite_differences(windows_graph());
    for (size_t r = 0; r < COUNT_OF(recipes); r++)
        directions_agree(windows_graph, recipes[r].recipe, recipes[r].least);
}

static int after(qs_graph *graph, const char *name, const char *op, qs_attributes with, int outputs, int input) {
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, &with, 1, &input, outputs, outputs > 0, &node));
    return node;
}

static int of_two(qs_graph *graph, const char *name, const char *op, int left, int right) {
    int node = -1;
    assert_ok(qs_graph_add(graph, name, op, NULL, 2, (int[]){left, right}, 0, false, &node));
    return node;
}

/* Operators that other programs' models are made of: a convolution whose channels squeezed positions excite, its result in the order that
 * those programs keep (channels, height, width), seen as a sequence with its own gains, offsets and slopes, and spread over again. */
static qs_graph *imported_graph(void) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("imported", 3, 6, 8, &graph));
    const int image = after(graph, "conv", "conv2d", (qs_attributes){.kernel = {3, 3}, .padding = {1, 1}}, 8, 0);
    const int squeezed =
        after(graph, "squeeze", "reduce_mean", (qs_attributes){0}, 0, after(graph, "mish", "mish", (qs_attributes){0}, 0, image));
    int at = after(graph, "vector", "reshape", (qs_attributes){.extent = {0, 0, -1}}, 0, squeezed);
    at = after(graph, "excite", "linear", (qs_attributes){0}, 8, at);
    at = of_two(graph, "gate", "gate", image, after(graph, "sigmoid", "sigmoid", (qs_attributes){0}, 0, at));
    at = after(graph, "planes", "permute", (qs_attributes){.extent = {48, -1}, .order = 21}, 0, at);
    at = after(graph, "sequence", "reshape", (qs_attributes){.extent = {-1, 0, 12}}, 0, at);
    at = after(graph, "each", "gain", (qs_attributes){.over = 1}, 0, at);
    at = after(graph, "line", "offset", (qs_attributes){.over = 3}, 0, at);
    at = after(graph, "slopes", "prelu", (qs_attributes){0}, 0, at);
    at = after(graph, "half", "affine", (qs_attributes){.constant = {0.5, -0.25}}, 0, at);
    const int dense = after(graph, "dense", "linear", (qs_attributes){0}, 12, at);
    const int mean = after(graph, "mean", "reduce_sum", (qs_attributes){.over = 1}, 0, dense);
    at = of_two(graph, "less", "subtract", dense, after(graph, "again", "expand", (qs_attributes){.extent = {0, 0, 12}}, 0, mean));
    at = of_two(graph, "more", "divide", at, after(graph, "safe", "softplus", (qs_attributes){0}, 0, dense));
    at = after(graph, "features", "reshape", (qs_attributes){.extent = {0, 0, -1}}, 0,
               after(graph, "tanh", "tanh", (qs_attributes){0}, 0, at));
    at = after(graph, "classes", "linear", (qs_attributes){0}, 10, after(graph, "scale", "gain", (qs_attributes){.over = 2}, 0, at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* The same in other formats: of quantized values seen in other extents, too. Bounds as above: five products, and divisors that may be
 * small. */
TEST(imported) {
    static const struct {
        const char *recipe;
        double least;
    } recipes[] = {{"bf16", 0.999}, {"int8/bf16", 0.97}, {"int8:tensor", 0.97}, {"int8:shift4", 0.95}};
    finite_differences(imported_graph());
    for (size_t r = 0; r < COUNT_OF(recipes); r++)
        directions_agree(imported_graph, recipes[r].recipe, recipes[r].least);
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

/* ---- A product of two activations ---- */

/* At each sample, dst[m][p] = Σ_k src[m][k] src2[p][k]: the positions of one activation with those of another, as in attention. Channels
 * are last in memory. An operator of this test alone: what lowering does with it follows from what it declares. */
static qs_status pairs_check(const qs_case *one) {
    (void)one;
    return QS_OK;
}

static float *pairs_read(const qs_case *one, const qs_tensor *operands, qs_role role) {
    const qs_tensor *from = &operands[qs_case_position(one, role)];
    const int64_t count = qs_shape_count(&from->shape);
    float *values = malloc((size_t)count * sizeof *values);
    qs_convert_to_fp32(from->format, count, from->data, values);
    return values;
}

/* to[n][i][j] = Σ_l a[n][i][l] b[n][l][j], where either factor may stand transposed. */
static qs_status pairs_multiply(const qs_case *one, const qs_tensor *operands, const qs_role factor[2], const bool transposed[2],
                                qs_role result) {
    const qs_tensor *to = &operands[qs_case_position(one, result)];
    const int64_t samples = to->shape.dim[0], columns = to->shape.dim[1], rows = qs_shape_count(&to->shape) / samples / columns;
    float *a = pairs_read(one, operands, factor[0]), *b = pairs_read(one, operands, factor[1]);
    const int64_t inner = qs_shape_count(&operands[qs_case_position(one, factor[0])].shape) / samples / rows;
    float *values = malloc((size_t)(samples * rows * columns) * sizeof *values);
    for (int64_t at = 0; at < samples * rows * columns; at++) {
        const int64_t n = at / columns / rows, i = at / columns % rows, j = at % columns;
        double sum = 0;
        for (int64_t l = 0; l < inner; l++)
            sum += (double)a[n * rows * inner + (transposed[0] ? l * rows + i : i * inner + l)] *
                   (double)b[n * inner * columns + (transposed[1] ? j * inner + l : l * columns + j)];
        values[at] = (float)sum;
    }
    qs_convert_from_fp32(to->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, samples * rows * columns, values,
                         to->data);
    free(a);
    free(b);
    free(values);
    return QS_OK;
}

static qs_status pairs_forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return pairs_multiply(one, operands, (qs_role[]){QS_SRC, QS_SRC2}, (bool[]){false, true}, QS_DST);
}
static qs_status pairs_first_gradient(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return pairs_multiply(one, operands, (qs_role[]){QS_DIFF_DST, QS_SRC2}, (bool[]){false, false}, QS_DIFF_SRC);
}
static qs_status pairs_second_gradient(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return pairs_multiply(one, operands, (qs_role[]){QS_DIFF_DST, QS_SRC}, (bool[]){true, false}, QS_DIFF_SRC2);
}

static const qs_pass pairs_passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .product = &(const qs_product){QS_GEMM_FORWARD, {QS_SRC, QS_SRC2}},
     .reference = pairs_forward,
     .check = pairs_check},
    {.name = "input_gradient",
     QS_OPERANDS({.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .product = &(const qs_product){QS_GEMM_INPUT_GRADIENT, {QS_DIFF_DST, QS_SRC2}},
     .reference = pairs_first_gradient,
     .check = pairs_check},
    {.name = "weight_gradient",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC2, .source = QS_TO_INPUT_GRADIENT, .of = 1}),
     .product = &(const qs_product){QS_GEMM_WEIGHT_GRADIENT, {QS_SRC, QS_DIFF_DST}},
     .reference = pairs_second_gradient,
     .check = pairs_check}};
static const qs_op pairs = {.name = "pairs", .kind = QS_ADJUSTABLE, .inputs = 2, .passes = 3, .pass = pairs_passes};

/* Two convolutions of one input, four channels at four positions each; the product of all pairs of positions has their shape, that of a
 * sum, whose place it takes. */
static qs_graph *pairs_graph(void) {
    qs_graph *graph = NULL;
    int input = 0, first, second, at;
    const qs_attributes one_pixel = {.kernel = {1, 1}};
    assert_ok(qs_graph_of_images("pairs", 3, 2, 2, &graph));
    assert_ok(qs_graph_add(graph, "first", "conv2d", &one_pixel, 1, &input, 4, true, &first));
    assert_ok(qs_graph_add(graph, "second", "conv2d", &one_pixel, 1, &input, 4, true, &second));
    assert_ok(qs_graph_add(graph, "pairs", "add", NULL, 2, (int[]){first, second}, 0, false, &at));
    graph->node[at].op = &pairs;
    assert_ok(qs_graph_add(graph, "flatten", "flatten", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "classes", "linear", NULL, 1, &at, 10, true, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

TEST(product_of_activations) {
    finite_differences(pairs_graph());
    model_run exact = model_start(pairs_graph(), "fp32"), rough = model_start(pairs_graph(), "bf16");
    double dot = 0;
    for (int64_t i = 0; i < exact.graph->trained_elements; i++)
        dot += (double)exact.gradients[i] * (double)rough.gradients[i];
    const int64_t elements = exact.graph->trained_elements;
    assert_true(dot >= 0.999 * norm(exact.gradients, elements) * norm(rough.gradients, elements));
    int products = 0;
    for (int s = 0; s < rough.schedule->steps; s++) {
        const qs_step *step = &rough.schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || step->case_.op != &pairs) continue;
        for (int i = 0; i < step->case_.operands; i++)
            assert_true(step->case_.operand[i].format == qs_format_of("bf16"));
        products++;
    }
    assert_int_equal(products, 3);
    model_end(&exact);
    model_end(&rough);
}

/* It declares no operands for fixed-point steps. */
TEST(product_without_steps) {
    qs_graph *graph = pairs_graph();
    const qs_job job = stub_job(BATCH);
    const qs_recipe recipe = recipe_of("int8:tensor");
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    const qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    qs_schedule *schedule = NULL;
    assert_int_equal(qs_schedule_lower(&lowering, &schedule), QS_UNSUPPORTED);
    assert_non_null(strstr(qs_message(), "operator pairs: pairs/forward takes its src without a step"));
    free(list);
    qs_graph_release(graph);
}

/* A zero learning rate leaves the masters alone; a small one lowers the loss of the same batch. */
TEST(a_step_lowers_the_loss) {
    model_run one = model_start(model_of("resnet8:width=0.5", &small), "bf16");
    one.run.run.learning_rate = 1e-3;
    runner_run(&one.run, one.graph->samples.target.classes, QS_UPDATE);
    const double after = runner_run(&one.run, one.graph->samples.target.classes, QS_FORWARD);
    if (!(after < one.loss)) fail_msg("loss %g before the step, %g after", one.loss, after);
    model_end(&one);
}

TEST_MAIN(mlp, lenet5, resnet8, random_graphs, attention_in_parts, windows, recurrent, imported, lower_precision, product_of_activations,
          product_without_steps, a_step_lowers_the_loss)
