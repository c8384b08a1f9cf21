// SPDX-License-Identifier: Apache-2.0
/* Job, cluster and device options, and one process's place in a run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "qsync/tuning.h"

/* ---- Options of a job: what the record of a job says of them ---- */

static const option_row asked_rows[] = {
    {OPTION(job_options, model, "model", "NAME", NULL), .field = "model", .standard = "resnet8"},
    {OPTION(job_options, all_reduce, "all-reduce", "NAME", NULL), .field = "buckets.algorithm", .standard = "shared"},
    {OPTION(job_options, wire, "wire", "NAME", NULL), .field = "buckets.wire", .standard = "fp32"},
};
static const option_row profiled_rows[] = {
    {OPTION(job_options, model, "model", "NAME", NULL), .field = "model", .usual = "the profile's"},
    {OPTION(job_options, all_reduce, "all-reduce", "NAME", NULL), .field = "buckets.algorithm", .usual = "the profile's"},
    {OPTION(job_options, wire, "wire", "NAME", NULL), .field = "buckets.wire", .usual = "the profile's"},
};
static const option_row step_rows[] = {
    {OPTION(job_options, seed, "seed", "N", NULL), .field = "seed"},
    {OPTION(job_options, loss_scaling, "loss-scaling", "WHAT", NULL), .field = "loss_scaling", .standard = "off"},
    {OPTION(job_options, job.bucket_bytes, "bucket-bytes", "N", NULL), .field = "buckets.bytes", .minimum = 1},
};
static const option_row dataset_rows[] = {
    {OPTION(job_options, dataset, "dataset", "NAME", "mnist, fashion-mnist, cifar10, cifar100 or shapes"), .standard = "shapes"},
};
static const option_row batch_rows[] = {
    {OPTION(job_options, job.batch, "batch", "N", NULL), .field = "batch", .standard = "128", .minimum = 1},
};
static const option_row profiled_batch_rows[] = {
    {OPTION(job_options, job.batch, "batch", "N", NULL), .field = "batch", .usual = "the profile's", .minimum = 1},
};
static const option_row folder_rows[] = {
    {OPTION(job_options, data_folder, "data", "FOLDER", "where the data sets are"), .usual = "$QSYNC_DATA"},
};
static const option_row epochs_rows[] = {
    {OPTION(job_options, job.epochs, "epochs", "N", NULL), .field = "epochs", .standard = "5"},
    {OPTION(job_options, rate, "rate", "X", NULL), .field = "rate.base"},
    {OPTION(job_options, job.rate.warmup_epochs, "warmup-epochs", "X", NULL), .field = "rate.warmup_epochs"},
    {OPTION(job_options, schedule, "schedule", "NAME", NULL), .field = "rate.schedule", .standard = "cosine"},
    {OPTION(job_options, no_augmentation, "no-augmentation", NULL, "no random crops and flips")},
};

void job_options_start(job_options *options) {
    *options = (job_options){0};
    qs_job_default(&options->job);
    options->seed = (int64_t)options->job.seed;
    optimizer_options_start(options);
    OPTIONS_START(asked_rows, options);
    OPTIONS_START(step_rows, options);
    OPTIONS_START(dataset_rows, options);
    OPTIONS_START(batch_rows, options);
    OPTIONS_START(epochs_rows, options);
}

void job_options_add(job_options *o, option_table *table, unsigned groups) {
    const bool profiled = groups & JOB_PROFILED;
    if (groups & JOB_STEP && profiled) OPTIONS_ADD(table, profiled_rows, o);
    if (groups & JOB_STEP && !profiled) OPTIONS_ADD(table, asked_rows, o);
    if (groups & JOB_STEP) OPTIONS_ADD(table, step_rows, o);
    if (groups & JOB_STEP) optimizer_options_add(o, table);
    if (groups & JOB_SET) OPTIONS_ADD(table, dataset_rows, o);
    if (groups & JOB_SET && profiled) OPTIONS_ADD(table, profiled_batch_rows, o);
    if (groups & JOB_SET && !profiled) OPTIONS_ADD(table, batch_rows, o);
    if (groups & JOB_FOLDER) OPTIONS_ADD(table, folder_rows, o);
    if (groups & JOB_EPOCHS) OPTIONS_ADD(table, epochs_rows, o);
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

/* ---- Sessions ---- */

static const option_row session_rows[] = {
    {OPTION(session_options, cluster, "cluster", "FILE", "device classes; without it: one rank on this machine")},
    {OPTION(session_options, backend, "backend", "NAME", "device without a cluster file: cpu or ref"), .standard = "cpu"},
    {OPTION(session_options, threads, "threads", "N", "threads without a cluster file"), .standard = "1", .minimum = 1},
    {OPTION(session_options, unpinned, "no-pinning", NULL, "do not give every thread a core of its own")},
};

void session_options_add(session_options *o, const char *command, const qs_job *job, option_table *table) {
    *o = (session_options){.command = command, .job = job};
    OPTIONS_ADD(table, session_rows, o);
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
