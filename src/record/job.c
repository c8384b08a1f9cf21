// SPDX-License-Identifier: Apache-2.0
/* The job: what is trained, how the weights are updated and how gradients travel. Part of plan.json and of run/config.json, or a record of
 * its own. Every field may be left out: the defaults stand in qs_job_default. */
#include "record_internal.h"

#include <stdlib.h>
#include <string.h>

static const double dynamic_start = 65536;
static const char job_fields[] = "model dataset batch optimizer rate loss_scaling clip_norm buckets epochs seed augmentation";
static const char *const schedule_names[] = {[QS_RATE_CONSTANT] = "constant", [QS_RATE_STEP] = "step", [QS_RATE_COSINE] = "cosine"};
enum { SCHEDULES = sizeof schedule_names / sizeof *schedule_names };

static void optimizer_put(qs_job *job, const qs_op *op) {
    memset(&job->optimizer, 0, sizeof job->optimizer);
    snprintf(job->optimizer.name, sizeof job->optimizer.name, "%s", op->name);
    for (int i = 0; i < qs_optimizer_settings(op->optimizer); i++)
        job->optimizer.setting[i] = op->optimizer->setting[i].standard;
    job->rate.base = op->optimizer->rate;
}

void qs_job_default(qs_job *out) {
    *out = (qs_job){
        .batch = 64,
        .rate = {.warmup_epochs = 0.5, .schedule = QS_RATE_COSINE},
        .loss_scale = 1,
        .bucket_bytes = 1 << 20,
        .wire = "fp32",
        .algorithm = "shared",
        .epochs = 1,
        .seed = 1,
        .augmentation = true,
    };
    optimizer_put(out, qs_op_of("sgd"));
}

/* ---- Optimisers ------------------------------------------------------------------------------------------------------------ */

qs_status qs_job_optimizer_set(qs_job *job, const char *name) {
    const qs_op *op = NULL;
    QS_TRY(qs_optimizer_find(name, &op));
    optimizer_put(job, op);
    return QS_OK;
}

double *qs_job_setting(qs_job *job, const char *name) {
    const qs_op *op = NULL;
    const int place = qs_optimizer_find(job->optimizer.name, &op) == QS_OK ? qs_optimizer_setting(op->optimizer, name) : -1;
    return place < 0 ? NULL : &job->optimizer.setting[place];
}

qs_status qs_job_check(const qs_job *job) {
    const qs_op *op = NULL;
    QS_TRY(qs_optimizer_find(job->optimizer.name, &op));
    for (int i = 0; i < qs_optimizer_settings(op->optimizer); i++) {
        const qs_setting *one = &op->optimizer->setting[i];
        const double value = job->optimizer.setting[i];
        if (!(value >= one->least && value <= one->most))
            return qs_fail(QS_USAGE, "%s %g: must lie in %g .. %.9g", one->name, value, one->least, one->most);
    }
    return QS_OK;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------------- */

static qs_status read_optimizer(const qs__place *object, qs_job *out) {
    qs__place optimizer = qs__field(object, "optimizer");
    if (!optimizer.value) return QS_OK;
    char name[sizeof out->optimizer.name], fields[128] = "name";
    memcpy(name, out->optimizer.name, sizeof name);
    QS_TRY(qs__get_name(&optimizer, "name", name, sizeof name));
    const qs__place said = qs__field(&optimizer, "name");
    if (qs_job_optimizer_set(out, name) != QS_OK) return qs__refuse_field(&said, "%s", qs_message());
    const qs_optimizer *rule = qs_op_of(name)->optimizer;
    for (int i = 0; i < qs_optimizer_settings(rule); i++)
        snprintf(fields + strlen(fields), sizeof fields - strlen(fields), " %s", rule->setting[i].name);
    QS_TRY(qs__expect_fields(&optimizer, "", fields));
    for (int i = 0; i < qs_optimizer_settings(rule); i++) {
        const qs_setting *one = &rule->setting[i];
        QS_TRY(qs__get_number(&optimizer, one->name, one->least, one->most, &out->optimizer.setting[i]));
    }
    return QS_OK;
}

static qs_status read_schedule(const qs__place *rate, qs_rate_schedule *out) {
    qs__place field = qs__field(rate, "schedule");
    if (!field.value) return QS_OK;
    char name[32];
    QS_TRY(qs__take_text(&field, name, sizeof name));
    for (int i = 0; i < SCHEDULES; i++) {
        if (strcmp(name, schedule_names[i]) == 0) {
            *out = (qs_rate_schedule)i;
            return QS_OK;
        }
    }
    return qs__refuse_field(&field, "\"%s\" is no schedule: constant, step, cosine", name);
}

static qs_status read_rate(const qs__place *object, qs_job *out) {
    qs__place rate = qs__field(object, "rate");
    if (!rate.value) return QS_OK;
    QS_TRY(qs__expect_fields(&rate, "", "base warmup_epochs schedule"));
    QS_TRY(qs__get_number(&rate, "base", 0, INFINITY, &out->rate.base));
    QS_TRY(qs__get_number(&rate, "warmup_epochs", 0, INFINITY, &out->rate.warmup_epochs));
    return read_schedule(&rate, &out->rate.schedule);
}

/* "off", "dynamic", {"dynamic": start} or a fixed number. */
static qs_status read_loss_scaling(const qs__place *object, qs_job *out) {
    qs__place field = qs__field(object, "loss_scaling");
    if (!field.value) return QS_OK;
    if (json_is_number(field.value)) return qs__get_number(object, "loss_scaling", 1e-30, 1e30, &out->loss_scale);
    if (json_is_object(field.value)) {
        QS_TRY(qs__expect_fields(&field, "dynamic", ""));
        QS_TRY(qs__get_number(&field, "dynamic", 1e-30, 1e30, &out->loss_scale));
        out->dynamic_loss_scaling = true;
        return QS_OK;
    }
    const char *text = json_is_string(field.value) ? json_string_value(field.value) : "";
    out->dynamic_loss_scaling = strcmp(text, "dynamic") == 0;
    if (out->dynamic_loss_scaling) {
        out->loss_scale = dynamic_start;
    } else if (strcmp(text, "off") != 0) {
        return qs__refuse_field(&field, "must be \"off\", \"dynamic\", {\"dynamic\": start} or a number");
    }
    return QS_OK;
}

static qs_status read_clip_norm(const qs__place *object, qs_job *out) {
    qs__place field = qs__field(object, "clip_norm");
    if (json_is_null(field.value)) return QS_OK;
    return qs__get_number(object, "clip_norm", 0, INFINITY, &out->clip_norm);
}

static qs_status read_buckets(const qs__place *object, qs_job *out) {
    qs__place buckets = qs__field(object, "buckets");
    if (!buckets.value) return QS_OK;
    QS_TRY(qs__expect_fields(&buckets, "", "bytes wire algorithm"));
    QS_TRY(qs__get_integer(&buckets, "bytes", 1, INT64_MAX, &out->bucket_bytes));
    QS_TRY(qs__get_name(&buckets, "wire", out->wire, sizeof out->wire));
    return qs__get_name(&buckets, "algorithm", out->algorithm, sizeof out->algorithm);
}

static qs_status read_seed(const qs__place *object, qs_job *out) {
    int64_t seed = (int64_t)out->seed;
    QS_TRY(qs__get_integer(object, "seed", 0, INT64_MAX, &seed));
    out->seed = (uint64_t)seed;
    return QS_OK;
}

qs_status qs__job_read(const qs__place *object, bool with_schema, qs_job *out) {
    qs_job job;
    qs_job_default(&job);
    QS_TRY(qs__expect_fields(object, with_schema ? "schema" : "", job_fields));
    QS_TRY(qs__get_text(object, "model", job.model, sizeof job.model));
    QS_TRY(qs__get_text(object, "dataset", job.dataset, sizeof job.dataset));
    QS_TRY(qs__get_integer(object, "batch", 1, INT32_MAX, &job.batch));
    QS_TRY(read_optimizer(object, &job));
    QS_TRY(read_rate(object, &job));
    QS_TRY(read_loss_scaling(object, &job));
    QS_TRY(read_clip_norm(object, &job));
    QS_TRY(read_buckets(object, &job));
    QS_TRY(qs__get_count(object, "epochs", 0, INT32_MAX, &job.epochs));
    QS_TRY(read_seed(object, &job));
    QS_TRY(qs__get_flag(object, "augmentation", &job.augmentation));
    *out = job;
    return QS_OK;
}

qs_status qs_job_parse(const char *json, const char *source, qs_job *out) {
    qs__place root;
    QS_TRY(qs__record_parse(json, strlen(json), source, "job", &root));
    qs_status status = qs__job_read(&root, true, out);
    json_decref(root.value);
    return status;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

static void write_loss_scaling(qs__writer *writer, const qs_job *job) {
    static const char key[] = "loss_scaling";
    if (!job->dynamic_loss_scaling && job->loss_scale == 1) {
        qs__put_text(writer, key, "off");
    } else if (!job->dynamic_loss_scaling) {
        qs__put_number(writer, key, job->loss_scale);
    } else if (job->loss_scale == dynamic_start) {
        qs__put_text(writer, key, "dynamic");
    } else {
        qs__open_object(writer, key, QS__ONE_LINE);
        qs__put_number(writer, "dynamic", job->loss_scale);
        qs__close(writer);
    }
}

static void write_update(qs__writer *writer, const qs_job *job) {
    const qs_op *op = NULL;
    if (qs_optimizer_find(job->optimizer.name, &op) != QS_OK) qs__writer_fail(writer, QS_USAGE);
    qs__open_object(writer, "optimizer", QS__ONE_LINE);
    qs__put_text(writer, "name", job->optimizer.name);
    for (int i = 0; op && i < qs_optimizer_settings(op->optimizer); i++)
        qs__put_number(writer, op->optimizer->setting[i].name, job->optimizer.setting[i]);
    qs__close(writer);
    qs__open_object(writer, "rate", QS__ONE_LINE);
    qs__put_number(writer, "base", job->rate.base);
    qs__put_number(writer, "warmup_epochs", job->rate.warmup_epochs);
    qs__put_text(writer, "schedule", schedule_names[job->rate.schedule]);
    qs__close(writer);
    write_loss_scaling(writer, job);
    if (job->clip_norm > 0) {
        qs__put_number(writer, "clip_norm", job->clip_norm);
    } else {
        qs__put_null(writer, "clip_norm");
    }
}

void qs__job_write(qs__writer *writer, const qs_job *job) {
    qs__put_text(writer, "model", job->model);
    qs__put_text(writer, "dataset", job->dataset);
    qs__put_integer(writer, "batch", job->batch);
    write_update(writer, job);
    qs__open_object(writer, "buckets", QS__ONE_LINE);
    qs__put_integer(writer, "bytes", job->bucket_bytes);
    qs__put_text(writer, "wire", job->wire);
    qs__put_text(writer, "algorithm", job->algorithm);
    qs__close(writer);
    qs__put_integer(writer, "epochs", job->epochs);
    if (job->seed > INT64_MAX) {
        qs__writer_fail(writer, qs_fail(QS_USAGE, "seed: %llu is outside 0 .. 2^63 - 1", (unsigned long long)job->seed));
    }
    qs__put_integer(writer, "seed", (int64_t)job->seed);
    qs__put_flag(writer, "augmentation", job->augmentation);
}

qs_status qs_job_text(const qs_job *job, char **json) {
    qs__writer writer = {0};
    qs__record_begin(&writer, "job");
    qs__job_write(&writer, job);
    return qs__record_finish(&writer, "job", json);
}

const char *qs_job_signature(const qs_job *job, char *buffer) {
    char *json = NULL;
    qs_status status = qs_job_text(job, &json);
    return qs__sign(status == QS_OK ? json : NULL, buffer);
}
