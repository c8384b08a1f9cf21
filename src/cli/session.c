// SPDX-License-Identifier: Apache-2.0
/* Job, cluster and device options, and one process's place in a run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "qsync/tuning.h"

void job_options_start(job_options *options) {
    *options = (job_options){0};
    qs_job_default(&options->job);
    options->job.batch = 128;
    options->job.epochs = 5;
    options->model = "resnet8";
    options->dataset = "shapes";
    optimizer_options_start(options);
    options->schedule = "cosine";
    options->loss_scaling = "off";
    options->all_reduce = "shared";
    options->wire = "fp32";
    options->seed = (int64_t)options->job.seed;
}

/* A field of the job as an option: what it is as its record says it, and its default here. */
typedef struct field_help {
    const char *field, *standard; /* NULL: the record's */
    char text[160];
} field_help;

static void help_take(const qs_field_manual *field, void *context) {
    field_help *help = context;
    int length = 0;
    if (strcmp(field->name, help->field) != 0) return;
    length = snprintf(help->text, sizeof help->text, "%s (", field->text);
    for (const char *at = help->standard ? help->standard : field->standard; *at && length + 2 < (int)sizeof help->text; at++)
        if (*at != '`' && *at != '"') help->text[length++] = *at;
    snprintf(help->text + length, sizeof help->text - (size_t)length, ")");
}

static const char *help_of(const char *field, const char *standard) {
    static field_help all[16];
    static int used;
    field_help *help = &all[used++ % 16];
    *help = (field_help){.field = field, .standard = standard};
    (void)qs_record_describe("job", help_take, help);
    return help->text;
}

static void epochs_options_add(job_options *o, option_table *table) {
    options_add(table, (option_row){"epochs", OPTION_INT, &o->job.epochs, "N", help_of("epochs", "5"), 0});
    options_add(table, (option_row){"rate", OPTION_REAL, &o->rate, "X", help_of("rate.base", NULL), 0});
    options_add(table, (option_row){"warmup-epochs", OPTION_REAL, &o->job.rate.warmup_epochs, "X", help_of("rate.warmup_epochs", NULL), 0});
    options_add(table, (option_row){"schedule", OPTION_TEXT, &o->schedule, "NAME", help_of("rate.schedule", NULL), 0});
    options_add(table, (option_row){"no-augmentation", OPTION_FLAG, &o->no_augmentation, NULL, "no random crops and flips", 0});
}

static void step_options_add(job_options *o, option_table *table, bool profiled) {
    const char *standard = profiled ? "the profile's" : NULL;
    options_add(table, (option_row){"model", OPTION_TEXT, &o->model, "NAME", help_of("model", profiled ? standard : "resnet8"), 0});
    options_add(table, (option_row){"seed", OPTION_INTEGER, &o->seed, "N", help_of("seed", NULL), 0});
    optimizer_options_add(o, table);
    options_add(table, (option_row){"loss-scaling", OPTION_TEXT, &o->loss_scaling, "WHAT", help_of("loss_scaling", NULL), 0});
    options_add(table, (option_row){"bucket-bytes", OPTION_INTEGER, &o->job.bucket_bytes, "N", help_of("buckets.bytes", NULL), 1});
    options_add(table, (option_row){"all-reduce", OPTION_TEXT, &o->all_reduce, "NAME", help_of("buckets.algorithm", standard), 0});
    options_add(table, (option_row){"wire", OPTION_TEXT, &o->wire, "NAME", help_of("buckets.wire", standard), 0});
}

static void set_options_add(job_options *o, option_table *table, bool profiled) {
    const char *standard = profiled ? "the profile's" : "128";
    options_add(table,
                (option_row){"dataset", OPTION_TEXT, &o->dataset, "NAME", "mnist, fashion-mnist, cifar10, cifar100 or shapes (shapes)", 0});
    options_add(table, (option_row){"batch", OPTION_INTEGER, &o->job.batch, "N", help_of("batch", standard), 1});
}

void job_options_add(job_options *o, option_table *table, unsigned groups) {
    if (groups & JOB_STEP) step_options_add(o, table, groups & JOB_PROFILED);
    if (groups & JOB_SET) set_options_add(o, table, groups & JOB_PROFILED);
    if (groups & JOB_FOLDER)
        options_add(table, (option_row){"data", OPTION_TEXT, &o->data_folder, "FOLDER", "where the data sets are ($QSYNC_DATA)", 0});
    if (groups & JOB_EPOCHS) epochs_options_add(o, table);
}

static qs_status schedule_set(job_options *o) {
    static const char *const names[] = {"constant", "step", "cosine"};
    static const qs_rate_schedule values[] = {QS_RATE_CONSTANT, QS_RATE_STEP, QS_RATE_COSINE};
    for (int i = 0; i < 3; i++) {
        if (strcmp(o->schedule, names[i]) != 0) continue;
        o->job.rate.schedule = values[i];
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "--schedule %s: there are constant, step, cosine", o->schedule);
}

static qs_status loss_scaling_set(job_options *o) {
    char *end = NULL;
    if (strcmp(o->loss_scaling, "off") == 0) return QS_OK;
    if (strcmp(o->loss_scaling, "dynamic") == 0) {
        o->job.dynamic_loss_scaling = true;
        o->job.loss_scale = 65536;
        return QS_OK;
    }
    o->job.loss_scale = strtod(o->loss_scaling, &end);
    if (end == o->loss_scaling || *end || !(o->job.loss_scale >= 1e-30) || o->job.loss_scale > 1e30)
        return qs_fail(QS_USAGE, "--loss-scaling %s: off, dynamic or a factor of 1e-30 to 1e30", o->loss_scaling);
    return QS_OK;
}

static qs_status name_set(const char *option, const char *value, char *out, size_t size) {
    if (strlen(value) >= size) return qs_fail(QS_USAGE, "--%s %s: longer than %zu characters", option, value, size - 1);
    snprintf(out, size, "%s", value);
    return QS_OK;
}

static qs_status all_reduce_set(job_options *o) {
    size_t known = 0;
    bool found = false;
    for (; qs_comm_algorithm_at(known); known++)
        found = found || strcmp(qs_comm_algorithm_at(known), o->all_reduce) == 0;
    if (!found) return qs_fail(QS_USAGE, "--all-reduce %s: there are %s", o->all_reduce, qs_names_join(known, qs_comm_algorithm_at));
    snprintf(o->job.algorithm, sizeof o->job.algorithm, "%s", o->all_reduce);
    return QS_OK;
}

static qs_status wire_set(job_options *o) {
    const qs_status status = qs_comm_wire_check(o->wire, o->job.algorithm);
    if (status != QS_OK) return qs_fail(QS_USAGE, "--%s", qs_message());
    snprintf(o->job.wire, sizeof o->job.wire, "%s", o->wire);
    return QS_OK;
}

/* The ranges of the job record: what is trained can be written down and read again. */
static qs_status ranges_check(const qs_job *job) {
    if (job->batch > INT32_MAX) return qs_fail(QS_USAGE, "--batch %lld: must be at most %d", (long long)job->batch, INT32_MAX);
    return QS_OK;
}

qs_status job_options_finish(job_options *o) {
    qs_graph *graph = NULL;
    QS_TRY(ranges_check(&o->job));
    QS_TRY(name_set("model", o->model, o->job.model, sizeof o->job.model));
    QS_TRY(name_set("dataset", o->dataset, o->job.dataset, sizeof o->job.dataset));
    QS_TRY(optimizer_options_finish(o));
    QS_TRY(schedule_set(o));
    QS_TRY(loss_scaling_set(o));
    QS_TRY(all_reduce_set(o));
    QS_TRY(wire_set(o));
    o->job.seed = (uint64_t)o->seed;
    o->job.augmentation = !o->no_augmentation;
    QS_TRY(qs_job_model(&o->job, &graph));
    qs_graph_release(graph);
    return QS_OK;
}

void job_from_plan(const qs_plan *plan, const option_table *table, qs_job *job) {
    const qs_job *from = &plan->job;
    if (plan->without_job) return;
    if (!option_given(table, "model") && from->model[0]) memcpy(job->model, from->model, sizeof job->model);
    if (!option_given(table, "dataset") && from->dataset[0]) memcpy(job->dataset, from->dataset, sizeof job->dataset);
    if (!option_given(table, "batch")) job->batch = from->batch;
    optimizer_from_plan(from, table, job);
    if (!option_given(table, "bucket-bytes")) job->bucket_bytes = from->bucket_bytes;
    if (!option_given(table, "loss-scaling")) {
        job->dynamic_loss_scaling = from->dynamic_loss_scaling;
        job->loss_scale = from->loss_scale;
    }
    if (!option_given(table, "epochs")) job->epochs = from->epochs;
    if (!option_given(table, "seed")) job->seed = from->seed;
    if (!option_given(table, "rate")) job->rate.base = from->rate.base;
    if (!option_given(table, "warmup-epochs")) job->rate.warmup_epochs = from->rate.warmup_epochs;
    if (!option_given(table, "schedule")) job->rate.schedule = from->rate.schedule;
    if (!option_given(table, "no-augmentation")) job->augmentation = from->augmentation;
    job->clip_norm = from->clip_norm;
    if (!option_given(table, "wire")) memcpy(job->wire, from->wire, sizeof job->wire);
    if (!option_given(table, "all-reduce")) memcpy(job->algorithm, from->algorithm, sizeof job->algorithm);
}

void session_options_add(session_options *o, const char *command, const qs_job *job, option_table *table) {
    *o = (session_options){.backend = "cpu", .threads = 1, .command = command, .job = job};
    options_add(table,
                (option_row){"cluster", OPTION_TEXT, &o->cluster, "FILE", "device classes; without it: one rank on this machine", 0});
    options_add(table, (option_row){"backend", OPTION_TEXT, &o->backend, "NAME", "device without a cluster file: cpu or ref (cpu)", 0});
    options_add(table, (option_row){"threads", OPTION_INT, &o->threads, "N", "threads without a cluster file (1)", 1});
    options_add(table, (option_row){"no-pinning", OPTION_FLAG, &o->unpinned, NULL, "do not give every thread a core of its own", 0});
}

static qs_status ranks_check(const session_options *options, const session *one) {
    const int wanted = qs_cluster_ranks(&one->cluster), have = qs_comm_size(one->comm);
    if (wanted == have) return QS_OK;
    return qs_fail(QS_USAGE, "%s wants %d ranks, this run has %d: start it with mpirun -n %d",
                   options->cluster ? options->cluster : "a run without --cluster", wanted, have, wanted);
}

static qs_status device_open(session *one) {
    const qs_class *class_ = &one->cluster.class_[one->class_index];
    const qs_device_options options = {.backend = class_->backend, .threads = class_->threads, .isa = class_->isa, .speed = class_->speed};
    return qs_device_open(&options, &one->device);
}

static qs_status host_check(const qs_class *one) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || qs_class_allows_host(one, host)) return QS_OK;
    return qs_fail(QS_USAGE, "class %s may not run on %s: its hosts in the cluster file say otherwise", one->name, host);
}

static bool is_offered(const qs_device_info *info, const qs_format *format) {
    for (int i = 0; i < 8 && info->formats[i]; i++)
        if (strcmp(info->formats[i], format->name) == 0) return true;
    return false;
}

void class_formats_limit(const qs_device *device, qs_class *one) {
    qs_device_info info;
    int kept = 0;
    qs_device_describe(device, &info);
    for (int i = 0; i < one->formats; i++)
        if (is_offered(&info, one->format[i])) one->format[kept++] = one->format[i];
    one->formats = kept;
}

/* One rank of this class is left. */
static qs_status class_keep(const char *name, qs_cluster *cluster) {
    int kept = 0;
    QS_TRY(qs_cluster_find(cluster, name, &kept));
    cluster->class_[0] = cluster->class_[kept];
    cluster->class_[0].count = 1;
    cluster->classes = 1;
    cluster->links = 0;
    return QS_OK;
}

static qs_status session_start(const session_options *options, session *one) {
    if (options->cluster)
        QS_TRY(qs_cluster_read(options->cluster, &one->cluster));
    else
        QS_TRY(qs_cluster_single(options->backend, options->threads, &one->cluster));
    if (options->class_name) QS_TRY(class_keep(options->class_name, &one->cluster));
    QS_TRY(ranks_check(options, one));
    one->class_index = qs_cluster_class_of(&one->cluster, qs_comm_rank(one->comm));
    QS_TRY(host_check(&one->cluster.class_[one->class_index]));
    QS_TRY(device_open(one));
    /* Without a cluster file the class computes in what its device offers. */
    if (!options->cluster) class_formats_limit(one->device, &one->cluster.class_[one->class_index]);
    return QS_OK;
}

static void session_close(session *one) {
    qs_device_close(one->device);
    qs_cluster_release(&one->cluster);
    qs_comm_close(one->comm);
    *one = (session){0};
}

/* The message goes out before any rank ends: a launcher kills the others as soon as one has failed. */
static void failure_tell(const session *one, qs_status status) {
    int rank = -1;
    const bool agreed = sscanf(qs_message(), "rank %d:", &rank) == 1;
    progress_end();
    if (!agreed) fprintf(stderr, "qsync: rank %d: %s\n", qs_comm_rank(one->comm), qs_message());
    if (!agreed) qs_comm_abort(one->comm, qs_status_exit_code(status));
    if (rank == qs_comm_rank(one->comm)) fprintf(stderr, "qsync: %s\n", qs_message());
    failure_told_set();
    (void)qs_comm_barrier(one->comm);
}

qs_status session_end(session *one, qs_status status) {
    if (status != QS_OK && qs_comm_size(one->comm) > 1) failure_tell(one, status);
    session_close(one);
    return status;
}

/* Ranks with different commands would wait for one another for ever. */
static qs_status session_compare(const session_options *options, const session *one) {
    char cluster[32], job[32];
    qs_cluster_signature(&one->cluster, cluster);
    qs_job_signature(options->job, job);
    QS_TRY(qs_comm_compare(one->comm, "command", qs_hash(options->command, strlen(options->command), 0)));
    QS_TRY(qs_comm_compare(one->comm, "cluster", qs_hash(cluster, strlen(cluster), 0)));
    return qs_comm_compare(one->comm, "job", qs_hash(job, strlen(job), 0));
}

/* All ranks learn what each may run on; every rank deals the cores of its machine in the same way. */
static qs_status session_pin(bool unpinned, session *one) {
    const int ranks = qs_comm_size(one->comm), rank = qs_comm_rank(one->comm), threads = one->cluster.class_[one->class_index].threads;
    qs_cores mine, *all = NULL;
    int core[QS_MOST_CORES];
    char *data = NULL;
    int64_t *sizes = NULL;
    qs_status status = QS_OK;
    qs_cores_read(unpinned ? 0 : threads, &mine);
    QS_GOTO(qs_comm_agree(one->comm, qs_allocate((size_t)ranks, sizeof *all, &all)));
    QS_GOTO(qs_comm_gather(one->comm, &mine, (int64_t)sizeof mine, &data, &sizes));
    if (rank == 0) memcpy(all, data, (size_t)ranks * sizeof *all);
    QS_GOTO(qs_comm_broadcast(one->comm, all, (int64_t)((size_t)ranks * sizeof *all), 0));
    one->pinned = qs_cores_deal(ranks, all, rank, core) && qs_threads_pin(threads, core) == QS_OK;
    if (!one->pinned && rank == 0) qs_log(QS_LOG_INFO, "ranks and threads outnumber the cores: threads are not pinned, times will vary");
done:
    free(all);
    free(data);
    free(sizes);
    return status;
}

/* The kernels of a class, from the cache that its first rank reads, as text to all ranks of it. */
static qs_status class_kernels_share(session *one, int class_index, int root) {
    qs_tuning tuning = {0};
    qs_device_info info;
    char *path = NULL, *text = NULL;
    qs_status status = QS_OK;
    qs_device_describe(one->device, &info);
    if (qs_comm_rank(one->comm) == root) {
        status = qs_tuning_path(&path);
        if (status == QS_OK) status = qs_tuning_read(path, &info, &tuning);
        if (status == QS_OK && tuning.choices > 0) qs_log(QS_LOG_DEBUG, "%d choices of kernels from %s", tuning.choices, path);
        if (status == QS_OK) status = qs_tuning_text(&tuning, &text);
        qs_tuning_release(&tuning);
    }
    status = qs_comm_agree(one->comm, status);
    if (status == QS_OK) status = qs_comm_broadcast_text(one->comm, &text, root);
    if (status == QS_OK && one->class_index == class_index) {
        status = qs_tuning_parse(text, &tuning);
        if (status == QS_OK) status = qs_device_prefer(one->device, tuning.choices, tuning.choice);
        qs_tuning_release(&tuning);
    }
    free(path);
    free(text);
    return qs_comm_agree(one->comm, status);
}

static qs_status kernels_share(session *one) {
    for (int i = 0, root = 0; i < one->cluster.classes; root += one->cluster.class_[i++].count)
        QS_TRY(class_kernels_share(one, i, root));
    return QS_OK;
}

qs_status session_open(const session_options *options, qs_status before, session *out) {
    *out = (session){0};
    QS_TRY(qs_comm_open(NULL, &out->comm));
    qs_status status = qs_comm_agree(out->comm, before == QS_OK ? session_start(options, out) : before);
    if (status == QS_OK) status = session_compare(options, out);
    if (status == QS_OK) status = session_pin(options->unpinned, out);
    if (status == QS_OK) status = kernels_share(out);
    return status == QS_OK ? QS_OK : session_end(out, status);
}

bool session_is_first(const session *one) {
    return qs_comm_rank(one->comm) == 0;
}
