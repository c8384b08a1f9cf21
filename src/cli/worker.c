// SPDX-License-Identifier: Apache-2.0
/* Cluster and device options, and one process's place in a run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "qsync/tuning.h"

static const option_row worker_rows[] = {
    {OPTION(worker_options, cluster, "cluster", "FILE", "device classes; without it: this machine, by one rank (run: by all of them)")},
    {OPTION(worker_options, backend, "backend", "NAME", "device without a cluster file: cpu, ref, far or cuda"), .standard = "cpu"},
    {OPTION(worker_options, threads, "threads", "N", "threads without a cluster file"), .standard = "1", .minimum = 1},
    {OPTION(worker_options, unpinned, "no-pinning", NULL, "do not give every thread a core of its own")},
};

void worker_options_add(worker_options *o, const char *command, const qs_job *job, option_table *table) {
    *o = (worker_options){.command = command, .job = job};
    OPTIONS_ADD(table, worker_rows, o);
}

static qs_status ranks_check(const worker_options *options, const worker *one) {
    const int wanted = qs_cluster_ranks(&one->cluster), have = qs_comm_size(one->comm);
    if (wanted == have) return QS_OK;
    return qs_fail(QS_USAGE, "%s wants %d ranks, this run has %d: start it with mpirun -n %d",
                   options->cluster ? options->cluster : "a run without --cluster", wanted, have, wanted);
}

/* A device that has memory of its own has as much as the class says. */
qs_status class_device_open(const qs_class *one, bool rests, int turn, qs_device **out) {
    static const qs_records records[] = {QS_RECORDS_TRIED, QS_RECORDS_NEVER, QS_RECORDS_ALWAYS};
    const qs_device_options options = {.backend = one->backend,
                                       .threads = one->threads,
                                       .isa = one->isa[0] ? one->isa : NULL,
                                       .speed = rests ? one->speed : 1,
                                       .products = rests ? one->products : (qs_speeds){0},
                                       .far = {.runs = one->far_runs[0] ? one->far_runs : NULL,
                                               .bytes_per_second = one->far_bytes_per_second,
                                               .latency_us = one->far_latency_us,
                                               .memory_bytes = one->memory_capacity},
                                       .cuda = {.device = one->cuda_device[0] ? one->cuda_device : NULL,
                                                .turn = turn,
                                                .memory_bytes = one->memory_capacity,
                                                .multiprocessors = one->cuda_multiprocessors,
                                                .records = records[one->cuda_record]}};
    return qs_device_open(&options, out);
}

/* Before this rank among those of its host whose classes leave open which device they take: each takes the next one. */
static int turn_of(const worker *one) {
    const int rank = qs_comm_rank(one->comm), host = qs_comm_host_of(one->comm, rank);
    int turn = 0;
    for (int before = 0; before < rank; before++) {
        const qs_class *class_ = &one->cluster.class_[qs_cluster_class_of(&one->cluster, before)];
        turn += qs_comm_host_of(one->comm, before) == host && !class_->cuda_device[0] &&
                strcmp(class_->backend, one->cluster.class_[one->class_index].backend) == 0;
    }
    return turn;
}

static qs_status device_open(worker *one) {
    const qs_class *class_ = &one->cluster.class_[one->class_index];
    return class_device_open(class_, true, turn_of(one), &one->device);
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

static qs_status worker_start(const worker_options *options, worker *one) {
    if (options->cluster)
        QS_TRY(qs_cluster_read(options->cluster, &one->cluster));
    else
        QS_TRY(qs_cluster_single(options->backend, options->threads, &one->cluster));
    if (!options->cluster && options->everybody) one->cluster.class_[0].count = qs_comm_size(one->comm);
    if (options->class_name) QS_TRY(class_keep(options->class_name, &one->cluster));
    QS_TRY(ranks_check(options, one));
    one->class_index = qs_cluster_class_of(&one->cluster, qs_comm_rank(one->comm));
    QS_TRY(host_check(&one->cluster.class_[one->class_index]));
    QS_TRY(device_open(one));
    /* Without a cluster file the class computes in what its device offers. */
    if (!options->cluster) class_formats_limit(one->device, &one->cluster.class_[one->class_index]);
    return QS_OK;
}

static void worker_close(worker *one) {
    qs_device_close(one->device);
    qs_cluster_release(&one->cluster);
    qs_comm_close(one->comm);
    free(one->cache);
    *one = (worker){0};
}

/* The message goes out before any rank ends: a launcher kills the others as soon as one has failed. */
static void failure_tell(const worker *one, qs_status status) {
    int rank = -1;
    const bool agreed = sscanf(qs_message(), "rank %d:", &rank) == 1;
    progress_end();
    if (!agreed) fprintf(stderr, "qsync: rank %d: %s\n", qs_comm_rank(one->comm), qs_message());
    if (!agreed) qs_comm_abort(one->comm, qs_status_exit_code(status));
    if (rank == qs_comm_rank(one->comm)) fprintf(stderr, "qsync: %s\n", qs_message());
    failure_told_set();
    (void)qs_comm_barrier(one->comm);
}

qs_status worker_end(worker *one, qs_status status) {
    if (status != QS_OK && qs_comm_size(one->comm) > 1) failure_tell(one, status);
    worker_close(one);
    return status;
}

/* Ranks with different commands would wait for one another for ever. */
static qs_status worker_compare(const worker_options *options, const worker *one) {
    char cluster[32], job[32];
    qs_cluster_signature(&one->cluster, cluster);
    qs_job_signature(options->job, job);
    QS_TRY(qs_comm_compare(one->comm, "command", qs_hash(options->command, strlen(options->command), 0)));
    QS_TRY(qs_comm_compare(one->comm, "cluster", qs_hash(cluster, strlen(cluster), 0)));
    return qs_comm_compare(one->comm, "job", qs_hash(job, strlen(job), 0));
}

/* All ranks learn what each may run on; every rank deals the cores of its machine in the same way. */
static qs_status worker_pin(bool unpinned, worker *one) {
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
    one->pinned = qs_cores_deal(ranks, all, rank, core) && qs_device_pin(one->device, threads, core) == QS_OK;
    if (!one->pinned && rank == 0) qs_log(QS_LOG_INFO, "ranks and threads outnumber the cores: threads are not pinned, times will vary");
done:
    free(all);
    free(data);
    free(sizes);
    return status;
}

/* The kernels of a class, from the cache that its first rank reads, as text to all ranks of it. */
static qs_status class_kernels_share(worker *one, int class_index, int root) {
    qs_tuning tuning = {0};
    qs_device_info info;
    char *text = NULL;
    qs_status status = QS_OK;
    qs_device_describe(one->device, &info);
    if (qs_comm_rank(one->comm) == root) {
        status = qs_tuning_read(one->cache, &info, &tuning);
        if (status == QS_OK && tuning.choices > 0) qs_log(QS_LOG_DEBUG, "%d choices of kernels from %s", tuning.choices, one->cache);
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
    free(text);
    return qs_comm_agree(one->comm, status);
}

static qs_status kernels_share(worker *one) {
    for (int i = 0, root = 0; i < one->cluster.classes; root += one->cluster.class_[i++].count)
        QS_TRY(class_kernels_share(one, i, root));
    return QS_OK;
}

qs_status worker_open(const worker_options *options, qs_status before, worker *out) {
    *out = (worker){0};
    QS_TRY(qs_comm_open(NULL, &out->comm));
    qs_status status = qs_comm_agree(out->comm, before == QS_OK ? worker_start(options, out) : before);
    if (status == QS_OK) status = worker_compare(options, out);
    if (status == QS_OK) status = worker_pin(options->unpinned, out);
    if (status == QS_OK) status = qs_comm_agree(out->comm, qs_tuning_path(&out->cache));
    if (status == QS_OK) status = kernels_share(out);
    return status == QS_OK ? QS_OK : worker_end(out, status);
}

bool worker_is_first(const worker *one) {
    return qs_comm_rank(one->comm) == 0;
}
