// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: train checkpoint
/* Gradients of imported models are PyTorch's: one training step in fp32 from the weights of a file that PyTorch exported, its loss and, by
 * their names and in the layouts of the file, the gradients of all its parameters, on ref and cpu. BERT, DistilBERT, GPT-2 and Llama of two
 * layers and 16 or 24 channels, ViT of two layers and 16 channels for images of 32 pixels; resnet18 of a sixteenth of its channels and
 * mobilenet_v3_small of an eighth for images of 64 pixels, both exported for training, with batch norms that use statistics of the batch.
 * Results are stored (tests/golden/onnx/NAME.gradients, made by tests/golden/make_gradients.py); inputs and labels come from the hash that
 * both sides compute. */
#include "train/gradient_support.h"
#include "train/train_support.h"

#include "qsync/checkpoint.h"

enum { BATCH = 4, KEPT = 512 };

typedef struct imported_step {
    qs_graph *graph;
    qs_schedule *schedule;
    qs_memory *memory;
    qs_executor *executor;
    float *gradients; /* in the places of the trained parameters, and zeros behind them for those that are frozen */
    float *statistics;
} imported_step;

/* Numbers of the hash go by the file's order, where images have their channels first. */
static void inputs_fill(const imported_step *step, uint32_t seed) {
    for (int k = 0; k < step->graph->samples.inputs; k++) {
        const qs_input *input = &step->graph->samples.input[k];
        const qs_shape *shape = &step->graph->node[k].shape;
        const int64_t count = qs_shape_count(shape), channels = shape->dim[1];
        const bool image = qs_input_is_image(input), keep = !image && qs_graph_integers(step->graph, k) == QS_KEEP;
        union {
            float real;
            int32_t whole;
        } *values = calloc(BATCH * (size_t)count, sizeof *values);
        assert_non_null(values);
        assert_true(step->schedule->input[k] >= 0);
        for (int64_t i = 0; i < BATCH * count; i++) {
            const int64_t sample = i / count, at = i % count;
            if (image)
                values[i].real = 4 * hash_uniform(seed, input->name, sample * count + at % channels * (count / channels) + at / channels);
            else if (keep)
                values[i].whole = at < count - 2 * sample;
            else {
                const uint32_t bits = hash_bits(seed, input->name, "", i);
                values[i].whole = (int32_t)(input->bound == 2 ? bits % 2 : 5 + bits % 11);
            }
        }
        assert_ok(qs_executor_write(step->executor, step->schedule->input[k], 0, BATCH * (size_t)count * sizeof *values, values));
        free(values);
    }
}

/* Every fifth class of a position does not count. Returns how many losses the loss is the mean of. */
static int64_t labels_fill(const imported_step *step, uint32_t seed) {
    const qs_target *target = &step->graph->samples.target;
    const int64_t count = BATCH * qs_target_values(target), classes = target->kind == QS_TARGET_SPAN ? target->extent : target->classes;
    const bool positions = target->kind == QS_TARGET_CLASS_PER_POSITION;
    int64_t counted = 0;
    int32_t *labels = calloc((size_t)count, sizeof *labels);
    assert_non_null(labels);
    for (int64_t i = 0; i < count; i++) {
        labels[i] = positions && i % 5 == 4 ? (int32_t)target->ignored : (int32_t)(hash_bits(seed, "labels", "", i) % (uint32_t)classes);
        counted += !positions || i % 5 != 4;
    }
    assert_ok(qs_executor_write(step->executor, step->schedule->target, 0, (size_t)count * sizeof *labels, labels));
    free(labels);
    return target->kind == QS_TARGET_SPAN ? BATCH : counted;
}

/* Returns the mean loss. */
static double step_run(imported_step *out, const bench *here, const char *model, uint32_t seed) {
    assert_ok(qs_model_open(model, NULL, &out->graph));
    const qs_lowering lowering = {.graph = out->graph,
                                  .batch = BATCH,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &out->schedule));
    assert_ok(qs_memory_reserve(here->device, out->schedule->arena_bytes, &out->memory));
    assert_ok(qs_executor_create(out->schedule, here->device, here->comm, out->memory, &out->executor));
    const size_t elements = (size_t)(out->graph->trained_elements + out->graph->frozen_elements);
    const size_t masters = out->schedule->buffer[out->schedule->masters].bytes;
    float *trained = calloc(elements + 1, sizeof *trained);
    out->statistics = calloc((size_t)out->graph->statistics_elements + 1, sizeof *out->statistics);
    assert_true(trained && out->statistics);
    assert_ok(qs_weights_start(model, out->graph, NULL, trained, out->statistics, NULL));
    assert_true(masters <= elements * sizeof *trained);
    assert_ok(qs_executor_write(out->executor, out->schedule->masters, 0, masters, trained));
    free(trained);
    inputs_fill(out, seed);
    const int64_t counted = labels_fill(out, seed);
    assert_ok(qs_executor_run(out->executor, &(qs_run){.samples = BATCH, .global_samples = counted, .loss_scale = 1}));
    out->gradients = calloc(elements + 1, sizeof *out->gradients);
    assert_non_null(out->gradients);
    float *gradients = buffer_read(out->executor, out->schedule, out->schedule->gradients);
    memcpy(out->gradients, gradients, (size_t)out->graph->trained_elements * sizeof *gradients);
    free(gradients);
    return (double)loss_read(out->executor, out->schedule) / (double)counted;
}

/* The bound of an element of a tensor of the file: of its parameter, or of the parts that lie in it. */
static double bound_of(const imported_step *step, const char *name) {
    double magnitude = 0;
    for (int i = 0; i < step->graph->parameters; i++) {
        const qs_parameter *parameter = &step->graph->parameter[i];
        if (parameter->gradient == QS_ROLE_COUNT || strcmp(qs_weights_place_of(step->graph, i).name, name) != 0) continue;
        assert_false(parameter->frozen); /* all of them train */
        magnitude = fmax(magnitude, magnitude_of(step->graph, parameter, step->gradients));
    }
    return tolerance_of(step->graph) * magnitude;
}

/* Every stride-th element, and the norm of all: its error is at most the norm of theirs. Returns how many are wrong. */
static int tensor_compare(const imported_step *step, const qs_named_tensor *stored, const qs_tensor *tensor) {
    const float *norm = stored->tensor.data, *expected = norm + 1, *actual = tensor->data;
    const int64_t count = qs_shape_count(&tensor->shape), stride = ((count + KEPT - 1) / KEPT) | 1;
    const double bound = bound_of(step, stored->name);
    double squares = 0;
    int wrong = 0;
    assert_int_equal(qs_shape_count(&stored->tensor.shape), 1 + (count + stride - 1) / stride);
    for (int64_t i = 0; i < count; i++) {
        squares += (double)actual[i] * (double)actual[i];
        if (i % stride != 0 || fabs((double)actual[i] - (double)expected[i / stride]) <= bound) continue;
        if (wrong++ == 0)
            print_error("%s[%lld]: %.9g, PyTorch's %.9g, may differ by %.3g\n", stored->name, (long long)i, (double)actual[i],
                        (double)expected[i / stride], bound);
    }
    if (!(fabs(sqrt(squares) - (double)*norm) <= bound * sqrt((double)count))) {
        wrong++;
        print_error("%s: the norm is %.9g, PyTorch's %.9g\n", stored->name, sqrt(squares), (double)*norm);
    }
    return wrong;
}

static void file_compare(const bench *here, const char *model, const qs_tensor_set *stored) {
    imported_step step = {0};
    qs_tensor_set tensors;
    int wrong = 0, compared = 0, trained = 0;
    const qs_tensor *seed = qs_tensor_set_find(stored, "seed"), *expected = qs_tensor_set_find(stored, "loss");
    assert_true(seed && expected);
    const double loss = step_run(&step, here, model, (uint32_t) * (const float *)seed->data), told = (double)*(const float *)expected->data;
    if (!(fabs(loss - told) <= tolerance_of(step.graph) * told)) fail_msg("loss %.9g, PyTorch's %.9g", loss, told);
    assert_ok(qs_weights_tensors(step.graph, step.gradients, step.statistics, &tensors));
    for (size_t i = 0; i < stored->count; i++) {
        const qs_tensor *one = qs_tensor_set_find(&tensors, stored->tensors[i].name);
        if (&stored->tensors[i].tensor == seed || &stored->tensors[i].tensor == expected) continue;
        if (!one) fail_msg("%s is no parameter of the imported model", stored->tensors[i].name);
        wrong += tensor_compare(&step, &stored->tensors[i], one);
        compared++;
    }
    for (int i = 0; i < step.graph->parameters; i++) { /* the other way around: none that PyTorch does not have */
        const qs_weights_place place = qs_weights_place_of(step.graph, i);
        if (step.graph->parameter[i].gradient == QS_ROLE_COUNT || place.part > 0) continue;
        if (!qs_tensor_set_find(stored, place.name)) fail_msg("PyTorch has no gradient of %s", place.name);
        trained++;
    }
    assert_int_equal(compared, trained);
    assert_int_equal(wrong, 0);
    qs_tensor_set_release(&tensors);
    free(step.gradients);
    free(step.statistics);
    qs_executor_release(step.executor);
    qs_memory_release(step.memory);
    qs_schedule_release(step.schedule);
    qs_graph_release(step.graph);
}

static void model_compare(const char *backend, const char *name, const char *options) {
    if (!backend_exists(backend)) return;
    char path[1024], model[1100];
    bench here;
    qs_tensor_set stored;
    snprintf(path, sizeof path, "%s/tests/golden/onnx/%s.gradients", getenv("QS_SOURCE"), name);
    snprintf(model, sizeof model, "%s/tests/golden/onnx/%s.onnx%s", getenv("QS_SOURCE"), name, options);
    assert_ok(qs_tensor_set_read(path, &stored));
    bench_open(&here, backend, "self", name, BATCH);
    file_compare(&here, model, &stored);
    bench_close(&here);
    qs_tensor_set_release(&stored);
}

#define EVERY(test, name, options)           \
    TEST(test) {                             \
        model_compare("ref", name, options); \
        model_compare("cpu", name, options); \
    }
EVERY(bert_span, "bert-span", ":length=8")
EVERY(bert_tokens, "bert-tokens", ":length=8")
EVERY(distilbert, "distilbert-class", ":length=8")
EVERY(gpt2, "gpt2-tokens", ":length=8")
EVERY(vit, "vit", "")
EVERY(resnet18, "resnet18", "")
EVERY(mobilenet_v3, "mobilenet_v3", "")
EVERY(llama, "llama-old", ":length=8")
EVERY(lstm, "lstm", ":length=8")
EVERY(gru, "gru", ":length=8")
EVERY(rnn, "rnn", ":length=8")

/* A table of positions with few rows: by itself the import would take more of them, and be refused. Graph and first weights are those for
 * the length of the samples. */
TEST(weights_for_the_length_of_the_samples) {
    char path[1024], said[1100];
    qs_graph *of_eight = NULL, *graph = NULL;
    snprintf(path, sizeof path, "%s/tests/golden/onnx/roberta-class.onnx", getenv("QS_SOURCE"));
    snprintf(said, sizeof said, "%s:length=8", path);
    assert_int_equal(qs_model_open(path, NULL, &graph), QS_UNSUPPORTED);
    assert_ok(qs_model_open(said, NULL, &of_eight));
    assert_ok(qs_model_open(path, &of_eight->samples, &graph));
    const size_t elements = (size_t)(graph->trained_elements + graph->frozen_elements);
    float *values[2];
    for (int i = 0; i < 2; i++) {
        values[i] = calloc(elements, sizeof *values[i]);
        assert_non_null(values[i]);
        assert_ok(qs_weights_start(i ? path : said, i ? graph : of_eight, NULL, values[i], NULL, NULL));
    }
    assert_memory_equal(values[0], values[1], elements * sizeof *values[0]);
    free(values[0]);
    free(values[1]);
    qs_graph_release(graph);
    qs_graph_release(of_eight);
}

TEST_MAIN(weights_for_the_length_of_the_samples, bert_span, bert_tokens, distilbert, gpt2, vit, resnet18, mobilenet_v3, llama, lstm, gru,
          rnn)
