// SPDX-License-Identifier: Apache-2.0
/* One measurement from start to end: every rank its class, stage by stage; then rank 0 puts the classes together. And how quiet the machine
 * was: what Linux counts about this process and about its cores, at the beginning and at the end. */
#include "noise/statistics.h"
#include "resume.h"
#include "shared.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

void qs_profile_options_default(qs_profile_options *out) {
    *out = (qs_profile_options){.repetitions = 8, .conversion_seconds = 7, .statistics_iterations = 50, .noise_runs = -1, .taken_days = 30};
}

/* ---- Conditions ---- */

/* Counters of process and machine when measuring began. */
typedef struct conditions_start {
    double clock, load, stolen, ticks; /* seconds; processes; ticks of its cores */
    long preemptions;
    qs_waits waits;
} conditions_start;

/* Ticks of the cores that this process may run on, since the machine started, and those that the machine's host took. */
static void ticks_read(double *all, double *stolen) {
    char line[512];
    qs_cores mine;
    FILE *file = fopen("/proc/stat", "r");
    *all = *stolen = 0;
    if (!file) return;
    qs_cores_read(0, &mine);
    while (fgets(line, sizeof line, file)) {
        double tick[8] = {0}; /* user nice system idle iowait irq softirq steal */
        int core = 0;
        if (sscanf(line, "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &core, &tick[0], &tick[1], &tick[2], &tick[3], &tick[4], &tick[5],
                   &tick[6], &tick[7]) < 2 ||
            core < 0 || core >= QS_MOST_CORES || !(mine.allowed[core / 64] >> (core % 64) & 1))
            continue;
        for (int i = 0; i < 8; i++)
            *all += tick[i];
        *stolen += tick[7];
    }
    fclose(file);
}

static long preemptions_count(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

static void conditions_begin(conditions_start *out) {
    double load = 0;
    *out = (conditions_start){.clock = qs_clock(), .preemptions = preemptions_count()};
    (void)qs_waited(&out->waits);
    ticks_read(&out->ticks, &out->stolen);
    if (getloadavg(&load, 1) == 1) out->load = load;
}

static double part_of(double some, double all) {
    return all > 0 ? fmin(fmax(some / all, 0), 1) : 0;
}

/* What came of it since, on this rank. What the system does not tell stays 0. */
static void conditions_end(conditions_start *start, bool pinned, const char *communicator, qs_conditions *out) {
    const double seconds = qs_clock() - start->clock;
    double ticks, stolen;
    ticks_read(&ticks, &stolen);
    *out = (qs_conditions){.known = true,
                           .pinned = pinned,
                           .load_average = start->load,
                           .preemptions = fmax((double)(preemptions_count() - start->preemptions), 0) / fmax(seconds, 1e-3),
                           .waited = part_of(qs_waited(&start->waits), seconds),
                           .stolen = part_of(stolen - start->stolen, ticks - start->ticks)};
    out->core = start->waits.core;
    snprintf(out->communicator, sizeof out->communicator, "%s", communicator);
#ifdef __GLIBC__
    snprintf(out->libc, sizeof out->libc, "glibc %s", gnu_get_libc_version());
#endif
}

/* A class's conditions are those of its rank that was disturbed most. Collective. */
static qs_status conditions_agree(const qs__setting *setting, qs_conditions *mine) {
    enum { WAITED, CORE, STOLEN, FIGURES };
    const qs_cluster *cluster = setting->options->cluster;
    double *figure = NULL;
    qs_status status = qs_allocate((size_t)setting->ranks * FIGURES, sizeof *figure, &figure);
    QS_GOTO(qs_comm_agree(setting->comm, status));
    double *own = figure + setting->rank * FIGURES;
    own[WAITED] = mine->waited;
    own[CORE] = mine->core + 1;
    own[STOLEN] = mine->stolen;
    QS_GOTO(qs_comm_max(setting->comm, figure, (int64_t)setting->ranks * FIGURES));
    for (int rank = 0; rank < setting->ranks; rank++) {
        const double *other = figure + rank * FIGURES;
        if (qs_cluster_class_of(cluster, rank) != qs_cluster_class_of(cluster, setting->rank)) continue;
        if (other[WAITED] > mine->waited) {
            mine->waited = other[WAITED];
            mine->core = (int)other[CORE] - 1;
        }
        mine->stolen = fmax(mine->stolen, other[STOLEN]);
    }
done:
    free(figure);
    return status;
}

/* Times of cores that others had are of no use to other models; what recordings take is known of whole plans only. */
static bool is_for_others(const qs_class_profile *one) {
    return one->conditions.waited <= QS_PROFILE_MOST_FOREIGN && one->conditions.stolen <= QS_PROFILE_MOST_FOREIGN && one->recorded == 0;
}

/* ---- The class of this rank ---- */

static void device_describe(const qs__setting *setting, qs_class_profile *out) {
    qs_device_info info;
    const time_t now = time(NULL);
    struct tm utc;
    qs_device_describe(setting->device, &info);
    snprintf(out->class_name, sizeof out->class_name, "%s", setting->class_->name);
    snprintf(out->backend, sizeof out->backend, "%s", info.backend);
    snprintf(out->device, sizeof out->device, "%s", info.cpu);
    snprintf(out->isa, sizeof out->isa, "%s", info.isa);
    snprintf(out->library, sizeof out->library, "%s", info.library);
    snprintf(out->build, sizeof out->build, "%.48s", __VERSION__);
    out->threads = info.threads;
    out->multiprocessors = info.multiprocessors;
    out->speed = info.speed;
    out->products = info.products;
    out->joins = qs_device_joins(setting->device);
    if (gmtime_r(&now, &utc)) strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* ---- All classes ---- */

static void model_describe(const qs__setting *setting, qs_profile *out) {
    qs_graph_signature(setting->graph, out->graph);
    snprintf(out->model, sizeof out->model, "%s",
             qs_model_is_file(setting->job->model) ? setting->job->model : setting->graph->name); /* what opens it */
    out->batch = setting->job->batch;
    out->samples = setting->graph->samples;
}

/* The first rank of a class speaks for it. */
static bool speaks(const qs__setting *setting, int rank) {
    const qs_cluster *cluster = setting->options->cluster;
    return rank == 0 || qs_cluster_class_of(cluster, rank) != qs_cluster_class_of(cluster, rank - 1);
}

static qs_status class_take(const char *text, int64_t bytes, qs_class_profile *out) {
    qs_profile profile;
    char *json = NULL;
    QS_TRY(qs_allocate((size_t)bytes + 1, 1, &json));
    memcpy(json, text, (size_t)bytes);
    const qs_status status = qs_profile_parse(json, "measured class", &profile);
    free(json);
    QS_TRY(status);
    *out = profile.class_[0];
    memset(&profile.class_[0], 0, sizeof profile.class_[0]);
    qs_profile_release(&profile);
    return QS_OK;
}

static qs_status classes_take(const qs__setting *setting, const char *data, const int64_t *sizes, qs_profile *out) {
    QS_TRY(qs_allocate((size_t)setting->options->cluster->classes, sizeof *out->class_, &out->class_));
    for (int rank = 0; rank < setting->ranks; data += sizes[rank++]) {
        if (!speaks(setting, rank)) continue;
        QS_TRY(class_take(data, sizes[rank], &out->class_[out->classes]));
        out->classes++;
    }
    return QS_OK;
}

/* `mine` holds this rank's class alone; *out receives all of them on rank 0. */
static qs_status classes_merge(const qs__setting *setting, const qs_profile *mine, qs_profile *out) {
    char *text = NULL, *data = NULL;
    int64_t *sizes = NULL;
    qs_status status = speaks(setting, setting->rank) ? qs_profile_text(mine, &text) : QS_OK;
    QS_GOTO(qs_comm_agree(setting->comm, status));
    QS_GOTO(qs_comm_gather(setting->comm, text, text ? (int64_t)strlen(text) : 0, &data, &sizes));
    if (setting->rank == 0) status = classes_take(setting, data, sizes, out);
    status = qs_comm_agree(setting->comm, status);
done:
    free(text);
    free(data);
    free(sizes);
    return status;
}

static const double *check_figures(const qs_profile_options *options, const qs__samples *checked, int check) {
    return checked->value + (size_t)(QS__CHECK_FIGURES + options->cluster->classes) * (size_t)check;
}

static void checks_read(const qs_profile_options *options, const qs__samples *checked, qs_profile_check *row) {
    for (int c = 0; c < options->checks; c++, row++) {
        const double *figure = check_figures(options, checked, c);
        snprintf(row->plan, sizeof row->plan, "%s", options->check_name[c]);
        row->steps = (int)figure[0];
        row->median_us = figure[1];
        row->undisturbed = (int)figure[2];
        row->measured_us = figure[3];
        row->confidence = figure[4];
    }
}

static qs_status checks_fill(const qs_profile_options *options, const qs__samples *checked, qs_profile *out) {
    if (options->checks == 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)options->checks, sizeof *out->check, &out->check));
    out->checks = options->checks;
    checks_read(options, checked, out->check);
    return QS_OK;
}

/* ---- All of it ---- */

static void conversions_keep(void *found) {
    qs__resume_save(found, QS__STAGE_PLANS);
}

/* Each stage that no earlier run has finished. */
static qs_status stages_run(const qs__setting *setting, const qs__mixes *mixes, qs__found *found) {
    qs__stage done;
    QS_TRY(qs__resume_load(found, &done));
    if (done < QS__STAGE_PLANS) {
        QS_TRY(qs__steps_measure(setting, mixes, found->cases, found->figures));
        QS_TRY(qs_comm_agree(setting->comm, qs__shared_join(setting, found->cases, &found->figures->quality)));
        QS_TRY(qs__alone_measure(setting, found->cases));
        qs__resume_save(found, QS__STAGE_PLANS);
    }
    setting->shared->pace = found->figures->quality.taken_pace > 0 ? found->figures->quality.taken_pace : 1;
    if (done < QS__STAGE_CONVERSIONS) {
        QS_TRY(qs__conversions_measure(setting, found->cases, mixes->mix[0].arena_bytes, &found->kinds_done, conversions_keep, found,
                                       found->mine->class_));
        qs__resume_save(found, QS__STAGE_CONVERSIONS);
    }
    if (done < QS__STAGE_COLLECTIVES) {
        QS_TRY(qs__collectives_measure(setting, found->all));
        qs__resume_save(found, QS__STAGE_COLLECTIVES);
    }
    if (done < QS__STAGE_STATISTICS) {
        QS_TRY(qs__statistics_measure(setting, qs__noise_runs(setting->options, found->figures->quality.plans), &found->all->statistics));
        qs__resume_save(found, QS__STAGE_STATISTICS);
    }
    return QS_OK;
}

/* What a rank lowers before it measures anything. */
static qs_status cases_prepare(qs__setting *setting, qs__memory *memory, qs__cases *cases, qs__mixes *mixes) {
    QS_TRY(qs__setting_open(setting));
    qs__progress(setting, 0, "cases");
    QS_TRY(qs__memory_measure(setting, memory));
    QS_TRY(qs__mixes_list(setting, cases, mixes));
    return qs__shared_open(setting, cases);
}

/* `mine` gets this rank's class alone, `all` on rank 0 the whole profile. */
static qs_status measure(qs__setting *setting, qs_profile *mine, qs_profile *all) {
    conditions_start start;
    qs__memory memory = {0};
    qs__cases cases = {.device = setting->device};
    qs__mixes mixes = {0};
    qs__step_figures figures = {0};
    qs__batches others = {0};
    qs__shorter shorter = {0};
    qs__found found = {.setting = setting, .cases = &cases, .figures = &figures, .mine = mine, .all = all};
    qs_comm *comm = setting->comm;
    qs_status status = QS_OK;
    conditions_begin(&start);
    if (!setting->options->graph) QS_GOTO(qs_model_share(setting->options->job, setting->options->training, comm, &setting->opened));
    QS_GOTO(qs_comm_agree(comm, cases_prepare(setting, &memory, &cases, &mixes)));
    model_describe(setting, mine);
    model_describe(setting, all);
    QS_GOTO(qs_comm_agree(comm, qs_allocate(1, sizeof *mine->class_, &mine->class_)));
    mine->classes = 1;
    device_describe(setting, mine->class_);
    QS_GOTO(stages_run(setting, &mixes, &found));
    QS_GOTO(qs__batches_measure(setting, &mixes, &others));
    QS_GOTO(qs__lengths_measure(setting, &mixes, &shorter));
    QS_GOTO(qs_comm_agree(comm, qs__class_fill(setting, &memory, &mixes, &cases, &figures, mine->class_)));
    QS_GOTO(qs_comm_agree(comm, qs__batches_fill(setting, &memory, &mixes, &cases, &others, mine->class_, all)));
    QS_GOTO(qs_comm_agree(comm, qs__lengths_fill(setting, &memory, &shorter, mine->class_, all)));
    mine->class_->quality.seconds = qs_clock() - setting->begin;
    conditions_end(&start, setting->options->pinned, qs_comm_library(comm), &mine->class_->conditions);
    QS_GOTO(conditions_agree(setting, &mine->class_->conditions));
    if (speaks(setting, setting->rank) && is_for_others(mine->class_)) qs__shared_keep(setting, &cases);
    QS_GOTO(classes_merge(setting, mine, all));
    if (setting->rank == 0) status = checks_fill(setting->options, &figures.checked, all);
    QS_GOTO(qs_comm_agree(comm, status));
    setting->part_share = 1;
    qs__progress(setting, 1, "done");
done:
    qs__lengths_release(&shorter);
    qs__batches_release(&others);
    qs__step_figures_release(&figures);
    qs__mixes_release(&mixes);
    qs__cases_release(&cases);
    qs__memory_release(&memory);
    return status;
}

qs_status qs_profile_measure(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *out) {
    qs__setting setting = {.options = options, .device = device, .comm = comm, .begin = qs_clock()};
    qs_profile mine = {0}, all = {0};
    qs__shared shared = {0};
    setting.shared = &shared;
    const qs_status status = measure(&setting, &mine, &all);
    qs__shared_close(&shared);
    qs__setting_release(&setting);
    qs_profile_release(&mine);
    if (status == QS_OK && setting.rank == 0) {
        *out = all;
        all = (qs_profile){0};
    } else if (status == QS_OK) {
        *out = (qs_profile){0};
    }
    qs_profile_release(&all);
    return status;
}

/* ---- Plans alone ---- */

qs_status qs_profile_time_plans(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile_check *row,
                                double *kernels_us) {
    const int classes = options->cluster->classes;
    qs__setting setting = {.options = options, .device = device, .comm = comm};
    qs__cases cases = {.device = device};
    qs__step_figures figures = {0};
    qs_status status = QS_OK;
    if (options->checks < 1) return qs_fail(QS_USAGE, "no plan to time");
    if (!options->graph) QS_GOTO(qs_model_share(options->job, options->training, comm, &setting.opened));
    QS_GOTO(qs_comm_agree(comm, qs__setting_open(&setting)));
    QS_GOTO(qs__steps_measure(&setting, NULL, &cases, &figures));
    memset(row, 0, (size_t)options->checks * sizeof *row);
    checks_read(options, &figures.checked, row);
    for (int i = 0; i < options->checks; i++)
        memcpy(&kernels_us[i * classes], check_figures(options, &figures.checked, i) + QS__CHECK_FIGURES,
               (size_t)classes * sizeof *kernels_us);
done:
    qs__step_figures_release(&figures);
    qs__cases_release(&cases);
    qs__setting_release(&setting);
    return status;
}
