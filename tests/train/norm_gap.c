// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The gap of normalised values in the metrics is that of a forward pass worked out from its tensors; training does not change by a bit. */
#include "kit/job_model.h"
#include "plan_support.h"

enum { BATCH = 16, STEPS = 9, MOST_BUFFERS = 4096 };

static const char *const norms[] = {"l1bnq", "l2bnq", "l2bnq-std"};

static void model_set(bench *here, const char *norm) {
    snprintf(here->job.model, sizeof here->job.model, "resnet8:width=0.25,norm=%s", norm);
    here->options.training_limit = 4 * BATCH + BATCH / 2; /* the last step of an epoch is half a batch */
    here->options.test_limit = -1;
    here->options.run_folder = here->folder;
}

/* ---- The first forward pass, by its tensors ----------------------------------------------------------------------------- */

/* Watches a forward pass from outside: the input of every quantization, until a normalisation reads its codes. */
typedef struct witness {
    const qs_executor *executor;
    double *unrounded[MOST_BUFFERS];
    double gaps, worst, statistics_gaps;
    int operators, worst_node;
} witness;

static void values_keep(witness *here, const qs_step *step) {
    const qs_operand *src = &step->case_.operand[qs_case_position(&step->case_, QS_SRC)];
    const int64_t count = qs_shape_count(&src->shape);
    float *values = malloc((size_t)count * sizeof *values);
    double **kept = &here->unrounded[step->place[qs_case_position(&step->case_, QS_DST)].buffer];
    *kept = malloc((size_t)count * sizeof **kept);
    assert_true(values && *kept);
    void *data = operand_read(here->executor, step, QS_SRC);
    qs_convert_to_fp32(src->format, count, data, values);
    free(data);
    for (int64_t i = 0; i < count; i++)
        (*kept)[i] = (double)values[i];
    free(values);
}

/* mean, then 1 / (what a distance from it is divided by), of one channel. */
static void channel_statistics(const qs_norm *norm, const double *x, int64_t rows, int64_t channels, double *mean, double *inverse) {
    double spread = 0;
    *mean = 0;
    for (int64_t i = 0; i < rows; i++)
        *mean += x[i * channels] / (double)rows;
    for (int64_t i = 0; i < rows; i++)
        spread += (norm->absolute ? fabs(x[i * channels] - *mean) : pow(x[i * channels] - *mean, 2)) / (double)rows;
    if (norm->spread == QS_VARIANCE)
        *inverse = 1 / sqrt(spread + 1e-5);
    else
        *inverse = 1 / ((norm->absolute ? spread : sqrt(spread)) + 1e-5);
}

static void gap_note(witness *here, const qs_step *step) {
    const qs_norm *norm = step->case_.op->norm;
    const qs_shape *shape = &step->case_.operand[0].shape;
    const int64_t channels = shape->dim[1], rows = qs_shape_count(shape) / channels;
    int8_t *codes = operand_read(here->executor, step, QS_SRC);
    float *mean = operand_read(here->executor, step, QS_MEAN), *spread = operand_read(here->executor, step, norm->spread);
    float *src_step = operand_read(here->executor, step, QS_SRC_STEP);
    const double unit = (double)*src_step;
    const double *x = here->unrounded[step->place[qs_case_position(&step->case_, QS_SRC)].buffer];
    double *decoded = malloc((size_t)(rows * channels) * sizeof *decoded), sums[3] = {0};
    assert_non_null(decoded);
    for (int64_t i = 0; i < rows * channels; i++)
        decoded[i] = unit * codes[i];
    for (int64_t c = 0; c < channels; c++) {
        double m, inverse, code_mean, code_inverse;
        const double rounded_mean = rint((double)mean[c] / unit * 256) / 256 * unit; /* whole 256ths, which fp32 hides */
        const double below = norm->spread == QS_VARIANCE ? sqrt((double)spread[c] + 1e-5) : (double)spread[c] + 1e-5;
        channel_statistics(norm, x + c, rows, channels, &m, &inverse);
        channel_statistics(norm, decoded + c, rows, channels, &code_mean, &code_inverse);
        for (int64_t i = c; i < rows * channels; i += channels) {
            const double rounded = (decoded[i] - rounded_mean) / below, exact = (x[i] - m) * inverse;
            sums[0] += pow(rounded - exact, 2);
            sums[1] += pow(rounded - (decoded[i] - code_mean) * code_inverse, 2);
            sums[2] += pow(exact, 2);
        }
    }
    free(decoded);
    free(codes);
    free(mean);
    free(spread);
    free(src_step);
    here->gaps += sums[0] / sums[2];
    here->statistics_gaps += sums[1] / sums[2];
    if (here->operators++ == 0 || sums[0] / sums[2] > here->worst) {
        here->worst = sums[0] / sums[2];
        here->worst_node = step->node;
    }
}

static void step_seen(void *context, const qs_schedule *schedule, int index, double seconds) {
    const qs_step *step = &schedule->step[index];
    (void)seconds;
    if (step->kind != QS_STEP_KERNEL || step->phase != QS_FORWARD) return;
    if (strcmp(step->case_.op->name, "quantize") == 0) values_keep(context, step);
    if (step->case_.op->norm) gap_note(context, step);
}

/* One training step as the trainer's first one: its weights, its samples. */
static void first_step_run(bench *here, const qs_graph *graph, const qs_schedule *schedule, witness *seen) {
    const int64_t *indices;
    int64_t batch = BATCH, count, first, global;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    qs_dataset set;
    qs_sharding sharding;
    assert_ok(qs_memory_reserve(here->device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, here->device, here->comm, memory, &executor));
    assert_ok(qs_executor_initialize(executor, graph, here->job.seed));
    assert_ok(qs_dataset_load(here->job.dataset, NULL, QS_PART_TRAINING, here->options.training_limit, &set));
    assert_ok(qs_sharding_create(set.count, 1, &batch, here->job.seed, true, &sharding));
    assert_ok(qs_sharding_step(&sharding, 0, 0, 0, &indices, &count, &first, &global));
    assert_ok(qs_executor_load(executor, graph, &set, NULL, indices, count));
    seen->executor = executor;
    qs_executor_observe(executor, step_seen, seen);
    assert_ok(qs_executor_run(executor, &(qs_run){.seed = here->job.seed, .samples = count, .global_samples = global, .loss_scale = 1}));
    for (int b = 0; b < schedule->buffers; b++)
        free(seen->unrounded[b]);
    qs_sharding_release(&sharding);
    qs_dataset_release(&set);
    qs_executor_release(executor);
    qs_memory_release(memory);
}

static void first_step_watch(bench *here, witness *seen, char *worst) {
    qs_graph *graph = NULL;
    qs_schedule *schedule = NULL;
    memset(seen, 0, sizeof *seen);
    assert_ok(job_model(&here->job, &graph));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = BATCH,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_class_half(&here->cluster.class_[0]),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    assert_true(schedule->buffers <= MOST_BUFFERS);
    first_step_run(here, graph, schedule, seen);
    snprintf(worst, 64, "%s", graph->node[seen->worst_node].name);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
}

/* ---- What is written ------------------------------------------------------------------------------------------------------------- */

static char *metrics_of(bench *here, int64_t every, uint64_t *weights) {
    char *metrics = NULL;
    qs_train_result result;
    here->options.norm_gap_every = every;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    *weights = result.weights_hash;
    qs_train_result_release(&result);
    file_text(here->folder, "metrics.jsonl", &metrics);
    return metrics;
}

static double field(const char *line, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

/* Metrics have nine digits; both sides sum in double. */
static void expect_close(const char *what, double got, double expected) {
    if (!(expected > 0 && fabs(got - expected) <= 1e-8 * expected)) fail_msg("%s: %.10g, worked out %.10g", what, got, expected);
}

static void gaps_are_those_of_the_tensors(void **state) {
    static witness seen;
    (void)state;
    for (int n = 0; n < 3; n++) {
        bench here;
        char worst[64], key[96];
        uint64_t weights;
        bench_open(&here, backend_exists("cpu") ? "cpu" : "ref", "self", "resnet8", BATCH);
        model_set(&here, norms[n]);
        here.options.max_steps = 1;
        char *metrics = metrics_of(&here, 1, &weights);
        const char *line = strstr(metrics, "\"type\":\"norm-gap\"");
        assert_non_null(line);
        first_step_watch(&here, &seen, worst);
        expect_close(norms[n], field(line, "gap"), seen.gaps / seen.operators);
        expect_close(norms[n], field(line, "statistics_gap"), seen.statistics_gaps / seen.operators);
        expect_close(norms[n], field(line, "worst_gap"), seen.worst);
        snprintf(key, sizeof key, "\"worst\":\"%s\"", worst);
        if (!strstr(line, key)) fail_msg("the line does not say %s: %s", key, line);
        free(metrics);
        bench_close(&here);
    }
}

/* Removes the lines of gaps, in place; returns how many. */
static int lines_remove(char *metrics) {
    int removed = 0;
    for (char *line = metrics, *next; *line; line = next) {
        next = strchr(line, '\n') + 1;
        if (strncmp(line, "{\"type\":\"norm-gap\"", 18) != 0) continue;
        memmove(line, next, strlen(next) + 1);
        next = line;
        removed++;
    }
    return removed;
}

/* In integers, rounded stochastically; two epochs, each with a smaller last step; steps 3, 6 and 9 are looked at. */
TEST(training_stays_as_it_is) {
    for (int n = 0; n < 3; n++) {
        bench here;
        qs_plan plan;
        uint64_t with, without;
        bench_open(&here, backend_exists("cpu") ? "cpu" : "ref", "self", "resnet8", BATCH);
        model_set(&here, norms[n]);
        here.job.epochs = 2;
        here.options.max_steps = STEPS;
        here.options.test_limit = 16;
        plan_fill(&here, "int4:shift4", &plan);
        here.options.plan = &plan;
        char *plain = metrics_of(&here, 0, &without), *looked_at = metrics_of(&here, 3, &with);
        assert_int_equal(lines_remove(plain), 0);
        assert_int_equal(lines_remove(looked_at), STEPS / 3);
        assert_string_equal(looked_at, plain);
        assert_true(with == without);
        free(plain);
        free(looked_at);
        qs_plan_release(&plan);
        bench_close(&here);
    }
}

static void models_without_are_refused(void **state) {
    bench here;
    qs_train_result result;
    (void)state;
    bench_open(&here, "ref", "self", "resnet8:width=0.25,norm=l1bn", BATCH);
    here.options.norm_gap_every = 1;
    assert_refused(qs_train(&here.options, here.device, here.comm, &result), QS_USAGE, "no normalisation in 8 bits");
    bench_close(&here);
}

TEST_MAIN(gaps_are_those_of_the_tensors, training_stays_as_it_is, models_without_are_refused)
