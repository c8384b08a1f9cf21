// SPDX-License-Identifier: Apache-2.0
/* The job: what is trained, how the weights are updated and how gradients travel. Part of plan.json and of run/config.json, or a record of
 * its own. Every field may be left out. */
#include <math.h>
#include <string.h>

#include "table.h"

/* ---- The optimiser ------------------------------------------------------------------------------------------------------------------ */

static void optimizer_put(qs_job *job, const qs_op *op) {
    memset(&job->optimizer, 0, sizeof job->optimizer);
    snprintf(job->optimizer.name, sizeof job->optimizer.name, "%s", op->name);
    for (int i = 0; i < qs_op_settings(op); i++)
        job->optimizer.setting[i] = op->setting[i].standard;
    job->rate.base = op->optimizer->rate;
}

/* The table of an optimiser's object: its name, and the settings that the operator declares. */
static qs__record optimizer_table(const qs_op *op, qs__field field[1 + QS_MOST_SETTINGS]) {
    const int settings = qs_op_settings(op);
    field[0] = (qs__field){"name", QS__NAME, QS__DERIVED, QS__AT(qs_job, optimizer.name), .values = op->name};
    for (int i = 0; i < settings; i++) {
        const qs_setting *one = &op->setting[i];
        const size_t offset = offsetof(qs_job, optimizer.setting) + (size_t)i * sizeof(double);
        field[1 + i] = (qs__field){one->name,        QS__NUMBER,        QS__DERIVED,       offset,
                                   sizeof(double),   .low = one->least, .high = one->most, .standard = one->standard,
                                   .text = one->text};
    }
    return (qs__record){.fields = 1 + settings, .field = field, .layout = QS__ONE_LINE};
}

/* The settings that may stand there, and what their absence means, depend on the name, which may stand anywhere in the object. */
static qs_status optimizer_read(const qs__place *place, void *object) {
    qs_job *job = object;
    const qs_op *op = qs_op_of("sgd");
    const qs__place name = qs__member(place, "name");
    qs__field field[1 + QS_MOST_SETTINGS];
    if (json_string_length(name.value) > 0 && qs_optimizer_find(json_string_value(name.value), &op) != QS_OK)
        return qs__refuse_value(&name, "%s", qs_message());
    optimizer_put(job, op);
    if (!place->value) return QS_OK;
    const qs__record table = optimizer_table(op, field);
    return qs__object_read(place, &table, job);
}

static void optimizer_write(qs__writer *writer, const char *name, const void *object) {
    const qs_job *job = object;
    const qs_op *op = NULL;
    qs__field field[1 + QS_MOST_SETTINGS];
    qs__writer_fail(writer, qs_optimizer_find(job->optimizer.name, &op));
    if (!op) return;
    const qs__record table = optimizer_table(op, field);
    qs__object_write(writer, name, &table, job);
}

static bool optimizer_describe(size_t index, qs__field *field, qs__record *out) {
    const char *name = qs_optimizer_name_at(index);
    if (!name) return false;
    *out = optimizer_table(qs_op_of(name), field);
    out->title = name;
    return true;
}

static const qs__hook optimizer_hook = {optimizer_read, optimizer_write, NULL, optimizer_describe};
_Static_assert(1 + QS_MOST_SETTINGS <= QS__MOST_FIELDS, "an optimiser's table is a hook's");

/* "sgd 0.1, adam 0.001" */
static void rates_describe(char *text, size_t capacity) {
    const char *name;
    *text = '\0';
    for (size_t i = 0; (name = qs_optimizer_name_at(i)) != NULL; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, capacity - used, "%s%s %g", i ? ", " : "", name, qs_op_of(name)->optimizer->rate);
    }
}

/* ---- Loss scaling ------------------------------------------------------------------------------------------------------------------- */

static const double dynamic_start = 65536;
static const qs__field scale_fields[] = {
    {"dynamic", QS__NUMBER, QS__REQUIRED, QS__AT(qs_job, loss_scale), .low = 1e-30, .high = 1e30},
};
static const qs__record scale_record = {QS__FIELDS(scale_fields), .layout = QS__ONE_LINE};

/* "off", "dynamic", {"dynamic": start} or a number, which is fixed. */
static qs_status loss_scaling_read(const qs__place *place, void *object) {
    qs_job *job = object;
    const char *text = json_is_string(place->value) ? json_string_value(place->value) : place->value ? "" : "off";
    job->dynamic_loss_scaling = strcmp(text, "dynamic") == 0 || json_is_object(place->value);
    job->loss_scale = job->dynamic_loss_scaling ? dynamic_start : 1;
    if (json_is_object(place->value)) return qs__object_read(place, &scale_record, job);
    if (json_is_number(place->value)) return qs__number_take(place, scale_fields, &job->loss_scale);
    if (job->dynamic_loss_scaling || strcmp(text, "off") == 0) return QS_OK;
    return qs__refuse_value(place, "must be \"off\", \"dynamic\", {\"dynamic\": start} or a number");
}

static void loss_scaling_write(qs__writer *writer, const char *name, const void *object) {
    const qs_job *job = object;
    if (!job->dynamic_loss_scaling && job->loss_scale != 1)
        qs__put_number(writer, name, job->loss_scale);
    else if (job->dynamic_loss_scaling && job->loss_scale != dynamic_start)
        qs__object_write(writer, name, &scale_record, job);
    else
        qs__put_text(writer, name, job->dynamic_loss_scaling ? "dynamic" : "off");
}

static const qs__hook loss_scaling_hook = {loss_scaling_read, loss_scaling_write, NULL, NULL};

/* ---- The job ------------------------------------------------------------------------------------------------------------------------ */

/* Texts are plain: --help shows them too. */
static const char *const schedules[] = {
    [QS_RATE_CONSTANT] = "constant", [QS_RATE_STEP] = "step", [QS_RATE_COSINE] = "cosine", [QS_RATE_LINEAR] = "linear", NULL};

static const char *const decays[] = {"all", "matrices", NULL};

static bool learns_alike(const void *object) {
    return ((const qs_job *)object)->rate.layer_decay == 1;
}

static bool decays_alike(const void *object) {
    return !((const qs_job *)object)->decay_matrices;
}

static const qs__field rate_fields[] = {
    {"base", QS__NUMBER, QS__DERIVED, QS__AT(qs_job, rate.base), .describe_absent = rates_describe,
     .text = "learning rate after the warm-up"},
    {"warmup_epochs", QS__NUMBER, QS__OPTIONAL, QS__AT(qs_job, rate.warmup_epochs), .standard = 0.5, .unit = "epochs",
     .text = "linear warm-up, from a tenth of the rate"},
    {"warmup_steps", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_job, rate.warmup_steps), .absent = "0: as warmup_epochs says", .unit = "steps",
     .text = "the same, counted in steps"},
    {"schedule", QS__CHOICE, QS__OPTIONAL, QS__AT(qs_job, rate.schedule), .standard = QS_RATE_COSINE, .names = schedules,
     .noun = "schedule", .text = "constant; step: × 0.1 at 1/2 and at 3/4 of the epochs; cosine and linear: to 0"},
    {"layer_decay", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_job, rate.layer_decay), .low = 1e-6, .high = 1, .standard = 1,
     .left_out = learns_alike, .text = "rate of a layer, as part of the rate of the one behind it",
     .more = " ([optimizers.md](optimizers.md#rates-by-layer))"},
};
static const qs__record rate_record = {QS__FIELDS(rate_fields), .layout = QS__ONE_LINE};

static const qs__field bucket_fields[] = {
    {"bytes", QS__INTEGER, QS__OPTIONAL, QS__AT(qs_job, bucket_bytes), .low = 1, .standard = 1 << 20, .unit = "bytes",
     .text = "gradient bytes per all-reduce"},
    {"wire", QS__NAME, QS__OPTIONAL, QS__AT(qs_job, wire), .standard_text = "fp32", .text = "in which gradients travel: fp32, bf16 or int8",
     .more = " ([allreduce.md](allreduce.md))"},
    {"algorithm", QS__NAME, QS__OPTIONAL, QS__AT(qs_job, algorithm), .standard_text = "shared",
     .text = "all-reduce: shared, library, ring, recursive-doubling or devices"},
};
static const qs__record bucket_record = {QS__FIELDS(bucket_fields), .layout = QS__ONE_LINE};

static const qs__field normalization_fields[] = {
    {"mean", QS__NUMBER, QS__LEFT_OUT, QS__IN(qs_job, normalization.mean, normalization.means), .most = QS_MOST_CHANNELS, .low = -INFINITY,
     .values = "one number, or one a channel", .absent = "0", .text = "subtracted from images (or floats) after the division by the scale"},
    {"deviation", QS__NUMBER, QS__LEFT_OUT, QS__IN(qs_job, normalization.deviation, normalization.deviations), .most = QS_MOST_CHANNELS,
     .low = 1e-30, .values = "one number, or one a channel, > 0", .absent = "1", .text = "what they are divided by then"},
    {"scale", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_job, normalization.scale), .values = "> 0", .absent = "255, of floats 1",
     .text = "what they are divided by first; 1: models that take raw bytes"},
};
static const qs__record normalization_record = {QS__FIELDS(normalization_fields), .layout = QS__ONE_LINE};

static const qs__field job_fields[] = {
    {"model", QS__TEXT, QS__OPTIONAL, QS__AT(qs_job, model),
     .values = "name, with options as in `resnet8:width=0.5,norm=l1bn`, or path; then changes as in `+head=10`",
     .absent = "`\"\"`: not said", .text = "built-in model, or path of a graph.json, from the working folder",
     .more = " ([models.md](models.md))"},
    {"dataset", QS__TEXT, QS__OPTIONAL, QS__AT(qs_job, dataset),
     .values = "name, `\"sst2:length=64\"`, `\"folder:PATH,size=N\"` or `\"3x224x224:1000\"`", .absent = "`\"\"`: not said",
     .text = "data set", .more = "; a shape (channels, height, width, classes) suffices for plans and predictions"},
    {"normalization", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .of = &normalization_record, .absent = "the data set's own",
     .text = "what samples are read through in place of the data set's own normalisation"},
    {"batch", QS__INTEGER, QS__OPTIONAL, QS__AT(qs_job, batch), .low = 1, .high = INT32_MAX, .standard = 64, .unit = "samples",
     .text = "local batch of every rank"},
    {"lengths", QS__INTEGER, QS__LEFT_OUT, QS__IN(qs_job, lengths.at, lengths.count), .least = 1, .most = QS_MOST_LENGTHS, .low = 1,
     .high = INT32_MAX, .values = "1 to 8 lengths, ascending", .absent = "none: all to one length",
     .text = "to which sequences are padded, each to the smallest that holds it; a step has one length",
     .more = " ([data.md](data.md#lengths))"},
    {"optimizer", QS__OBJECT, QS__OPTIONAL, QS__OWN, .hook = &optimizer_hook, .absent = "sgd", .text = "how weights are updated",
     .more =
         ": the `name` of an optimiser, and beside it settings of that one, which follow with its name in brackets. Settings of another "
         "one are refused ([optimizers.md](optimizers.md))"},
    {"rate", QS__OBJECT, QS__OPTIONAL, QS__OWN, .of = &rate_record},
    {"loss_scaling", QS__OBJECT, QS__OPTIONAL, QS__OWN, .hook = &loss_scaling_hook,
     .values = "`\"off\"`, `\"dynamic\"`, `{\"dynamic\": start}`, number", .absent = "`\"off\"`", .text = "off, dynamic, or a fixed factor",
     .more = ". Dynamic starts from 65536 or from `start`"},
    {"clip_norm", QS__NUMBER, QS__OPTIONAL, QS__AT(qs_job, clip_norm), .null_is_standard = true, .values = "null, or ≥ 0",
     .absent = "null: off", .text = "largest L2 norm of the whole gradient",
     .more = ", the loss scale divided out ([optimizers.md](optimizers.md#clipping))"},
    {"label_smoothing", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_job, label_smoothing), .high = 1,
     .text = "share of a training target that all classes have alike; evaluation has none",
     .more = " ([optimizers.md](optimizers.md#label-smoothing))"},
    {"decay", QS__CHOICE, QS__LEFT_OUT, QS__AT(qs_job, decay_matrices), .names = decays, .noun = "decay", .left_out = decays_alike,
     .text = "which parameters weight_decay is of: all, or matrices: not biases, nor scales and shifts of norms"},
    {"freeze", QS__TEXT, QS__LEFT_OUT, QS__AT(qs_job, freeze), .values = "`\"PATTERN,PATTERN...\"`", .absent = "`\"\"`: nothing",
     .text = "parameters that are not trained, by shell patterns of their names, as in embeddings.*,layer.0.*",
     .more = " ([optimizers.md](optimizers.md#freezing))"},
    {"buckets", QS__OBJECT, QS__OPTIONAL, QS__OWN, .of = &bucket_record},
    {"epochs", QS__COUNT, QS__OPTIONAL, QS__AT(qs_job, epochs), .standard = 1, .text = "passes over the training part"},
    {"seed", QS__SEED, QS__OPTIONAL, QS__AT(qs_job, seed), .standard = 1, .values = "0 .. 2^63 − 1", .text = "seed of everything random"},
    {"augmentation", QS__FLAG, QS__OPTIONAL, QS__AT(qs_job, augmentation), .standard = 1, .text = "random crops and flips"},
};

static qs_status lengths_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs__place lengths = qs__member(place, "lengths");
    const qs_status status = qs_lengths_check(&((const qs_job *)object)->lengths);
    return status == QS_OK ? QS_OK : qs__refuse_value(&lengths, "%s", qs_message());
}

const qs__record qs__job_record = {QS__FIELDS(job_fields), .kind = "job", .size = sizeof(qs_job), .check = lengths_check};

qs_status qs_job_parse(const char *json, const char *source, qs_job *out) {
    return qs__record_parse(&qs__job_record, json, strlen(json), source, out);
}

qs_status qs_job_text(const qs_job *job, char **json) {
    return qs__record_text(&qs__job_record, job, json);
}

const char *qs_job_signature(const qs_job *job, char *buffer) {
    return qs__record_signature(&qs__job_record, job, buffer);
}

void qs_job_default(qs_job *out) {
    *out = (qs_job){0};
    (void)qs__record_standard(&qs__job_record, 0, out); /* nothing that a job holds can fail */
}

qs_status qs_job_optimizer_set(qs_job *job, const char *name) {
    const qs_op *op = NULL;
    QS_TRY(qs_optimizer_find(name, &op));
    optimizer_put(job, op);
    return QS_OK;
}

double *qs_job_setting(qs_job *job, const char *name) {
    const qs_op *op = NULL;
    const int place = qs_optimizer_find(job->optimizer.name, &op) == QS_OK ? qs_op_setting(op, name) : -1;
    return place < 0 ? NULL : &job->optimizer.setting[place];
}

qs_status qs_job_check(const qs_job *job) {
    const qs_op *op = NULL;
    QS_TRY(qs_optimizer_find(job->optimizer.name, &op));
    for (int i = 0; i < qs_op_settings(op); i++) {
        const qs_setting *one = &op->setting[i];
        const double value = job->optimizer.setting[i];
        if (!(value >= one->least && value <= one->most))
            return qs_fail(QS_USAGE, "%s %g: must lie in %g .. %.9g", one->name, value, one->least, one->most);
    }
    QS_TRY(qs_lengths_check(&job->lengths));
    if (!(job->clip_norm >= 0 && isfinite(job->clip_norm)))
        return qs_fail(QS_USAGE, "clip_norm %g: must be a finite number, at least 0 (0: off)", job->clip_norm);
    if (!(job->label_smoothing >= 0 && job->label_smoothing <= 1))
        return qs_fail(QS_USAGE, "label-smoothing %g: must lie in 0 .. 1 (0: none)", job->label_smoothing);
    if (!(job->rate.layer_decay > 0 && job->rate.layer_decay <= 1))
        return qs_fail(QS_USAGE, "layer-decay %g: must lie above 0 and be at most 1 (all layers learn alike)", job->rate.layer_decay);
    return QS_OK;
}
