// SPDX-License-Identifier: Apache-2.0
// labels: short
/* One whole training step against PyTorch: loss and every gradient of resnet8 (with batch norms and with layer norms), vgg11, lenet5,
 * mobilenet_v2, squeezenet, shufflenet_v2, vit, bert (a class, a choice), gpt2 and llama on every backend. Results are stored
 * (tests/golden/, made by make_step.py there); weights, images or tokens and labels come from the hash that both sides compute. */
#include "gradient_support.h"
#include "step_support.h"

#define BATCH 4
#define SIGNS 8
#define LENGTH 12
#define VOCABULARY 50

static void parameter_fill(uint32_t seed, const qs_parameter *parameter, float *values) {
    const int64_t count = qs_shape_count(&parameter->shape);
    float scale = 0.5f, centre = 0;
    if (parameter->role == QS_WEIGHTS) {
        const double fan_in = (double)(count / parameter->shape.dim[0]);
        scale = (float)ldexp(1, (int)floor(0.5 * log2(24.0 / fan_in) + 0.5));
    }
    if (parameter->role == QS_SCALE) centre = 1;
    for (int64_t i = 0; i < count; i++)
        values[i] = centre + scale * hash_uniform(seed, parameter->name, i);
}

/* ---- One step -------------------------------------------------------------------------------------------------------------- */

static void inputs_fill(one_step *here, uint32_t seed, int size) {
    const qs_schedule *schedule = here->schedule;
    float *masters = buffer_read(here->executor, schedule, schedule->masters);
    float *images = buffer_read(here->executor, schedule, schedule->input[0]);
    int32_t labels[BATCH];
    for (int i = 0; i < here->graph->parameters; i++) {
        const qs_parameter *parameter = &here->graph->parameter[i];
        if (parameter->gradient != QS_ROLE_COUNT) parameter_fill(seed, parameter, masters + parameter->offset);
    }
    for (int64_t i = 0; i < BATCH * size * size * 3; i++)
        images[i] = 4 * hash_uniform(seed, "images", i);
    for (int64_t i = 0; i < BATCH; i++)
        labels[i] = (int32_t)(hash_bits(seed, "labels", "", i) % 10);
    assert_ok(qs_executor_write(here->executor, schedule->masters, 0, schedule->buffer[schedule->masters].bytes, masters));
    assert_ok(qs_executor_write(here->executor, schedule->input[0], 0, schedule->buffer[schedule->input[0]].bytes, images));
    assert_ok(qs_executor_write(here->executor, schedule->target, 0, sizeof labels, labels));
    free(masters);
    free(images);
}

/* Samples of bert end at unlike places; of the next tokens every fifth does not count. Returns how many labels count. */
static int64_t tokens_fill(one_step *here, uint32_t seed) {
    const qs_schedule *schedule = here->schedule;
    const qs_samples *samples = &here->graph->samples;
    float *masters = buffer_read(here->executor, schedule, schedule->masters);
    const int rows = samples->input[0].rank == 2 ? (int)samples->input[0].extent[0] * BATCH : BATCH; /* sequences */
    int32_t values[2 * BATCH * LENGTH];
    int64_t counted = 0;
    assert_true(rows <= 2 * BATCH);
    for (int i = 0; i < here->graph->parameters; i++)
        parameter_fill(seed, &here->graph->parameter[i], masters + here->graph->parameter[i].offset);
    assert_ok(qs_executor_write(here->executor, schedule->masters, 0, schedule->buffer[schedule->masters].bytes, masters));
    for (int k = 0; k < samples->inputs; k++) {
        const bool keep = qs_graph_integers(here->graph, k) == QS_KEEP;
        for (int i = 0; i < rows * LENGTH; i++)
            values[i] = keep ? i % LENGTH < LENGTH - 2 * (i / LENGTH % BATCH)
                             : (int32_t)(hash_bits(seed, samples->input[k].name, "", i) % (k ? 2 : VOCABULARY));
        assert_ok(qs_executor_write(here->executor, schedule->input[k], 0, (size_t)(rows * LENGTH) * sizeof *values, values));
    }
    const bool positions = samples->target.kind == QS_TARGET_CLASS_PER_POSITION;
    const int labels = positions ? BATCH * LENGTH : BATCH;
    for (int i = 0; i < labels; i++) {
        values[i] =
            positions && i % 5 == 4 ? samples->target.ignored : (int32_t)(hash_bits(seed, "labels", "", i) % (positions ? VOCABULARY : 2));
        counted += values[i] >= 0;
    }
    assert_ok(qs_executor_write(here->executor, schedule->target, 0, (size_t)labels * sizeof *values, values));
    free(masters);
    return counted;
}

/* Returns how many labels the loss is the mean of. */
static int64_t step_run(one_step *out, bench *here, const char *model, int size, uint32_t seed) {
    int64_t counted = BATCH;
    step_open(out, here, here->comm, model, size, BATCH);
    if (size)
        inputs_fill(out, seed, size);
    else
        counted = tokens_fill(out, seed);
    assert_ok(qs_executor_run(out->executor, &(qs_run){.samples = BATCH, .global_samples = counted, .loss_scale = 1}));
    return counted;
}

/* ---- Comparison ------------------------------------------------------------------------------------------------------------- */

static const qs_parameter *parameter_named(const qs_graph *graph, const char *name) {
    for (int i = 0; i < graph->parameters; i++) {
        if (strcmp(graph->parameter[i].name, name) == 0) return &graph->parameter[i];
    }
    fail_msg("the model has no parameter %s", name);
    return NULL;
}

static void read_exactly(FILE *file, void *data, size_t bytes) {
    assert_int_equal(fread(data, 1, bytes, file), bytes);
}

/* Every element takes part in each signed sum; errors of random sign add up as the root of their number, 4 sigma allowed. */
static void sums_compare(uint32_t seed, const char *name, const float *actual, int64_t count, const double *expected, double bound) {
    double sum[SIGNS] = {0};
    for (int64_t i = 0; i < count; i++) {
        const uint32_t sign = hash_bits(seed, name, ".signs", i);
        for (int s = 0; s < SIGNS; s++)
            sum[s] += sign >> s & 1 ? -(double)actual[i] : (double)actual[i];
    }
    for (int s = 0; s < SIGNS; s++) {
        if (!(fabs(sum[s] - expected[s]) <= 4 * sqrt((double)count) * bound)) {
            fail_msg("%s: signed sum %d is %.9g, PyTorch's %.9g", name, s, sum[s], expected[s]);
        }
    }
}

static void tensor_compare(FILE *file, uint32_t seed, const qs_graph *graph, const float *gradients) {
    char name[96];
    int64_t count, stride;
    double sums[SIGNS];
    read_exactly(file, name, sizeof name);
    read_exactly(file, &count, sizeof count);
    read_exactly(file, &stride, sizeof stride);
    read_exactly(file, sums, sizeof sums);
    const qs_parameter *parameter = parameter_named(graph, name);
    assert_int_equal(qs_shape_count(&parameter->shape), count);
    const float *actual = gradients + parameter->offset;
    const double bound = tolerance_of(graph) * magnitude_of(graph, parameter, gradients);
    for (int64_t i = 0; i < count; i += stride) {
        float expected;
        read_exactly(file, &expected, sizeof expected);
        if (!(fabs((double)actual[i] - (double)expected) <= bound)) {
            fail_msg("%s[%lld]: %.9g, PyTorch's %.9g, may differ by %.3g", name, (long long)i, actual[i], expected, bound);
        }
    }
    sums_compare(seed, name, actual, count, sums, bound);
}

static int trained_parameters(const qs_graph *graph) {
    int count = 0;
    for (int i = 0; i < graph->parameters; i++)
        count += graph->parameter[i].gradient != QS_ROLE_COUNT;
    return count;
}

static void file_compare(bench *here, const char *model, int size, FILE *file) {
    char magic[8];
    uint32_t head[2];
    double loss;
    one_step step;
    read_exactly(file, magic, sizeof magic);
    assert_memory_equal(magic, "qsstep1\n", sizeof magic);
    read_exactly(file, head, sizeof head);
    read_exactly(file, &loss, sizeof loss);
    const int64_t counted = step_run(&step, here, model, size, head[0]);
    const double actual = (double)loss_read(step.executor, step.schedule);
    float *gradients = buffer_read(step.executor, step.schedule, step.schedule->gradients);
    if (!(fabs(actual / (double)counted - loss) <= tolerance_of(step.graph) * loss))
        fail_msg("loss %.9g, PyTorch's %.9g", actual / (double)counted, loss);
    assert_int_equal(head[1], trained_parameters(step.graph));
    for (uint32_t i = 0; i < head[1]; i++)
        tensor_compare(file, head[0], step.graph, gradients);
    free(gradients);
    assert_int_equal(fgetc(file), EOF);
    step_close(&step);
}

static void model_compare(const char *backend, const char *model, int size, const char *stored) {
    if (!backend_exists(backend)) return;
    char path[512];
    bench here;
    snprintf(path, sizeof path, "%s/tests/golden/step-%s.bin", getenv("QS_SOURCE"), stored);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is missing", path);
    bench_open(&here, backend, "self", model, BATCH);
    file_compare(&here, model, size, file);
    fclose(file);
    bench_close(&here);
}

#define EVERY(stored, model, size)                  \
    TEST(stored) {                                  \
        model_compare("ref", model, size, #stored); \
        model_compare("cpu", model, size, #stored); \
    }
EVERY(resnet8, "resnet8:width=0.5", 32)
EVERY(resnet8_ln, "resnet8:width=0.5,norm=ln", 16)
EVERY(vgg11, "vgg11:width=0.125", 32)
EVERY(lenet5, "lenet5", 32)
EVERY(mobilenet_v2, "mobilenet_v2:width=0.25", 16)
EVERY(squeezenet, "squeezenet:width=0.25", 16)
EVERY(shufflenet_v2, "shufflenet_v2:width=0.25", 16)
EVERY(vit, "vit:layers=2,hidden=32,heads=4,inner=64", 32)
/* The others take tokens: size 0. */
#define SMALL "layers=2,hidden=32,heads=4,vocab=50,length=12,"
EVERY(bert, "bert:" SMALL "inner=64,positions=20,dropout=0", 0)
EVERY(bert_choice, "bert:" SMALL "inner=64,positions=20,choices=2,dropout=0", 0)
EVERY(gpt2, "gpt2:" SMALL "inner=64,positions=20,dropout=0", 0)
EVERY(llama, "llama:" SMALL "kv=2,inner=48", 0)

TEST_MAIN(resnet8, resnet8_ln, vgg11, lenet5, mobilenet_v2, squeezenet, shufflenet_v2, vit, bert, bert_choice, gpt2, llama)
