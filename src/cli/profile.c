// SPDX-License-Identifier: Apache-2.0
/* qsync profile: measures on all ranks at once; rank 0 writes the profile. One class alone is put into a profile that is there. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "balance.h"
#include "profile_check.h"

/* ---- Progress ------------------------------------------------------------------------------------------------------------ */

/* The rest is estimated from what was measured since the start: a resumed measurement does not begin at 0. */
static void progress(void *context, const char *what, double fraction) {
    static double begin, first;
    const double now = qs_clock();
    (void)context;
    if (begin == 0) {
        begin = now;
        first = fraction;
    }
    if (now - begin > 2 && fraction > first + 0.02 && fraction < 1)
        progress_show(fraction, "profile: %s; %.0f s gone, about %.0f s to go", what, now - begin,
                      (now - begin) * (1 - fraction) / (fraction - first));
    else
        progress_show(fraction, "profile: %s", what);
}

/* ---- Interruption -------------------------------------------------------------------------------------------------------- */

static char interruption_text[2][512]; /* without and with something kept; made before a signal can come */
static const char *kept_file;          /* NULL: this rank is silent */

/* Files are whole at any time, so the process ends at once: a launcher leaves it no more than a moment. */
static void interrupted(int number) {
    (void)number;
    const char *text = interruption_text[kept_file && access(kept_file, F_OK) == 0];
    if (kept_file && write(STDERR_FILENO, text, strlen(text)) < 0) _exit(qs_status_exit_code(QS_FAILED));
    _exit(qs_status_exit_code(QS_PREEMPTED));
}

static void interruption_prepare(const char *kept, bool speaks) {
    struct sigaction action = {.sa_handler = interrupted};
    snprintf(interruption_text[0], sizeof interruption_text[0], "\nqsync: profile interrupted: nothing was finished yet\n");
    snprintf(interruption_text[1], sizeof interruption_text[1],
             "\nqsync: profile interrupted: the same command goes on from %.380s, --fresh starts over\n", kept ? kept : "");
    kept_file = speaks && kept ? kept : NULL;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- One class into a file that is there ------------------------------------------------------------------------------------ */

/* A class that joins a profile is measured at the batches that are measured there. */
static qs_status batches_take(const char *path, const qs_profile *old, qs_profile_options *options) {
    if (options->batches > 0) return qs_fail(QS_USAGE, "--batches: %s says at which batches a class is added to it", path);
    for (int i = 0; i < old->batches; i++) {
        if (!old->batch_row[i].measured || old->batch_row[i].samples == old->batch) continue;
        if (options->batches == QS_PROFILE_BATCHES)
            return qs_fail(QS_UNSUPPORTED, "%s has more than %d measured batches", path, QS_PROFILE_BATCHES);
        options->batch[options->batches++] = old->batch_row[i].samples;
    }
    return QS_OK;
}

static qs_status file_check(const char *path, const qs_profile *old, const qs_job *job) {
    qs_graph *graph = NULL;
    char signature[32];
    QS_TRY(job_model_open(job, &graph));
    qs_graph_signature(graph, signature);
    qs_graph_release(graph);
    bool same = old->lengths == job->lengths.count;
    for (int k = 0; same && k < old->lengths; k++)
        same = old->length_row[k].length == job->lengths.at[k];
    if (!same) return qs_fail(QS_MISMATCH, "%s has other lengths than --lengths says: a class is added at the same ones", path);
    if (strcmp(signature, old->graph) == 0 && old->batch == job->batch) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "%s is of %s at batch %lld, not of %s at batch %lld: a class is added to a profile of the same model and batch", path,
                   old->model, (long long)old->batch, job->model, (long long)job->batch);
}

/* The class takes its old place or comes behind the others. */
static qs_status class_put(qs_profile *old, qs_profile *measured) {
    size_t capacity = (size_t)old->classes;
    int at = 0;
    while (at < old->classes && strcmp(old->class_[at].class_name, measured->class_[0].class_name) != 0)
        at++;
    if (at == old->classes) {
        QS_TRY(qs_grow(&old->class_, &capacity, (size_t)at + 1, sizeof *old->class_));
        old->classes++;
    }
    const qs_class_profile before = old->class_[at];
    old->class_[at] = measured->class_[0];
    measured->class_[0] = before;
    if (old->statistics.iterations == 0) {
        const qs_statistics none = old->statistics;
        old->statistics = measured->statistics;
        measured->statistics = none;
    }
    return QS_OK;
}

/* ---- Output and conditions ----------------------------------------------------------------------------------------------  */

/* Threads of a run that outnumber the cores wait for one another, so only those with a core of their own tell of others. */
static qs_status conditions_check(const qs_class_profile *one) {
    const qs_conditions *now = &one->conditions;
    char core[32] = "one of its cores";
    if (!now->known || !now->pinned) return QS_OK;
    if (now->core >= 0) snprintf(core, sizeof core, "core %d", now->core);
    if (now->waited > QS_PROFILE_MOST_FOREIGN)
        return qs_fail(QS_UNSUPPORTED,
                       "class %s: other processes had %s for %.0f %% of the time (at most %.0f %% are taken for quiet): find them (top), "
                       "stop them or leave them other cores (taskset), and profile again",
                       one->class_name, core, 100 * now->waited, 100 * QS_PROFILE_MOST_FOREIGN);
    if (now->stolen > QS_PROFILE_MOST_FOREIGN)
        return qs_fail(
            QS_UNSUPPORTED,
            "class %s: the host of this virtual machine gave %.0f %% of its cores' time to others (at most %.0f %% are taken for "
            "quiet): profile again at another time, or on a machine of its own",
            one->class_name, 100 * now->stolen, 100 * QS_PROFILE_MOST_FOREIGN);
    return QS_OK;
}

static void conditions_warn(const qs_class_profile *one) {
    const qs_conditions *now = &one->conditions;
    if (!now->known || (now->waited < 0.05 && now->stolen < 0.05 && (!one->quality.known || one->quality.drift < 0.25))) return;
    qs_log(QS_LOG_WARNING,
           "class %s was measured on a busy machine (a thread waited for a core %.0f %% of the time, the host took %.0f %%, load %.1f when "
           "it began, its pace changed by %.0f %%): profile again when it is quiet, or trust predictions less",
           one->class_name, 100 * now->waited, 100 * now->stolen, now->load_average, 100 * one->quality.drift);
}

static void class_print(const qs_class_profile *one) {
    char speed[QS_SPEEDS_TEXT];
    qs_speeds_text(one->speed, &one->products, speed);
    if (one->estimated) {
        printf("  %-10s %s, speed %s: ESTIMATED from published figures, not measured\n             %d kernels, %d conversions\n",
               one->class_name, one->device, speed, one->kernels, one->conversions);
        return;
    }
    printf("  %-10s %s %s, ", one->class_name, one->backend, one->device);
    if (one->threads > 0) printf("isa %s, %d thread%s, ", one->isa, one->threads, one->threads == 1 ? "" : "s");
    printf("%s, speed %s\n             %d kernels, %d conversion fits, process base %s, data %s a sample\n", one->library, speed,
           one->kernels, one->conversions, bytes_text((double)one->base_bytes), time_text(one->data_us_per_sample));
    if (one->conditions.known)
        printf("             threads %s, load %.2f when it began, waited for a core %s of the time, host took %s\n",
               one->conditions.pinned ? "pinned" : "not pinned", one->conditions.load_average, percent_text(one->conditions.waited),
               percent_text(one->conditions.stolen));
    if (one->quality.known)
        printf("             %d plans of %d steps and more, %s of the steps left out as disturbed; the figures give their times within %s "
               "(mean), %s (worst)\n",
               one->quality.plans, one->quality.steps, percent_text(one->quality.disturbed), percent_text(one->quality.closure_mean),
               percent_text(one->quality.closure_worst));
    if (one->beside > 0)
        printf("             beside ranks that compute all the while, steps take %.3f times what measured plans showed\n", one->beside);
    if (one->quality.taken > 0)
        printf("             %d kernels measured, %d taken from profiles of other models here, at %.3g times what they took there\n",
               one->quality.measured, one->quality.taken, one->quality.taken_pace);
    if (one->quality.kernels > 0)
        printf("             what kernels take of a step is known to %s (95 %%)", percent_text(one->quality.kernels));
    if (one->quality.kernels > 0 && one->quality.budget_s > 0)
        printf(", in %s of %s", time_text(1e6 * one->quality.seconds), time_text(1e6 * one->quality.budget_s));
    if (one->quality.kernels > 0) printf("\n");
}

static void collective_print(const qs_collective_cost *row) {
    printf("  all-reduce %s%s%s of %d ranks over %s: %s + %.3g us per KiB (r2 %.3f)\n", row->algorithm, row->wire[0] ? " in " : "",
           row->wire, row->ranks, row->link, time_text(row->alpha_us), row->us_per_byte * 1024, row->r2);
}

static void profile_print(const qs_profile *profile, const char *out) {
    printf("profile of %s, batch %lld", profile->model, (long long)profile->batch);
    if (profile->batches > 1)
        printf(" and %d others from %lld to %lld", profile->batches - 1, (long long)profile->batch_row[0].samples,
               (long long)profile->batch_row[profile->batches - 1].samples);
    for (int k = 0; k < profile->lengths; k++)
        printf("%s%lld (%lld %s)", k ? ", " : ", lengths ", (long long)profile->length_row[k].length,
               (long long)profile->length_row[k].samples, profile->samples.unit);
    printf("\n");
    for (int c = 0; c < profile->classes; c++)
        class_print(&profile->class_[c]);
    for (int i = 0; i < profile->collectives; i++)
        collective_print(&profile->collective[i]);
    profile_checks_print(profile);
    const qs_statistics *statistics = &profile->statistics;
    printf("  statistics of %d operators over %d iterations at batch %lld\n", statistics->operators, statistics->iterations,
           (long long)statistics->batch);
    if (statistics->noise.rows > 0)
        printf("  noise of %d operators in recipes after %d iterations, in %d runs at batch %lld\n", statistics->noise.rows,
               statistics->noise.iteration, statistics->noise.runs, (long long)statistics->noise.batch);
    printf("written to %s\n", out);
}

static qs_status profile_out(const qs_profile *profile, const char *out, bool json) {
    char signature[32];
    QS_TRY(qs_profile_write(out, profile));
    for (int c = 0; c < profile->classes; c++)
        conditions_warn(&profile->class_[c]);
    if (!json) {
        profile_print(profile, out);
        return QS_OK;
    }
    int kernels = 0;
    for (int c = 0; c < profile->classes; c++)
        kernels += profile->class_[c].kernels;
    return json_print(json_pack("{s:s,s:s,s:s,s:I,s:i,s:i,s:i}", "profile", out, "signature", qs_profile_signature(profile, signature),
                                "model", profile->model, "batch", (json_int_t)profile->batch, "classes", profile->classes, "kernels",
                                kernels, "checks", profile->checks));
}

typedef struct profile_work {
    qs_profile_options options;
    job_options job;
    worker_options where;
    const char *out, *class_name, *context, *batches, *recipes, *wires;
    const char *check;
    profile_checks checks;
    const char *statistics_from; /* of --estimate */
    const char *weights;         /* of --noise-only */
    char *partial;
    qs_profile old; /* of --class: what is in the file */
    bool json, hessian, estimate, noise_only, accept_noise, unbalanced;
} profile_work;

static qs_status context_read(profile_work *work) {
    static const char *const names[] = {"steps", "cold", "hot"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(work->context, names[i])) continue;
        work->options.context = (qs_context)i;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "--kernels %s: must be steps, cold or hot", work->context);
}

static qs_status recipe_add(void *context, const char *name) {
    qs_profile_options *out = context;
    if (out->recipes == QS_MAX_FORMATS) return qs_fail(QS_USAGE, "--recipes: at most %d", QS_MAX_FORMATS);
    return qs_recipe_builtin(name, &out->recipe[out->recipes++]);
}

typedef struct wires_reading {
    const qs_job *job;
    qs_profile_options *out;
} wires_reading;

/* The job's own wire, and one that was named before, may stand in the list. */
static qs_status wire_add(void *context, const char *name) {
    wires_reading *one = context;
    size_t known = 0;
    if (qs_comm_wire_check(name, one->job->algorithm) != QS_OK) return qs_fail(QS_USAGE, "--wires: %s", qs_message());
    while (strcmp(qs_comm_wire_at(known), name) != 0)
        known++;
    const char *wire = qs_comm_wire_at(known); /* it outlives the list */
    for (int i = 0; i < one->out->wires; i++)
        if (one->out->wire[i] == wire) return QS_OK;
    if (strcmp(name, one->job->wire) == 0) return QS_OK;
    if (one->out->wires == QS_PROFILE_WIRES) return qs_fail(QS_USAGE, "--wires: at most %d beside the job's", QS_PROFILE_WIRES);
    one->out->wire[one->out->wires++] = wire;
    return QS_OK;
}

qs_status profile_wires_read(const char *list, const qs_job *job, qs_profile_options *out) {
    wires_reading one = {job, out};
    return list ? names_each(list, wire_add, &one) : QS_OK;
}

/* "auto", or a list of numbers with commas; the job's own batch may stand in it. */
static qs_status batches_read(const char *text, int64_t own, qs_profile_options *out) {
    if (!text) return QS_OK;
    if (strcmp(text, "auto") == 0) {
        if (own < 2) return qs_fail(QS_USAGE, "--batches auto: half of batch %lld is none; name the batches", (long long)own);
        out->batch[out->batches++] = own / 2;
        out->batch[out->batches++] = own + own / 2;
        return QS_OK;
    }
    for (const char *at = text;; at++) {
        char *end = NULL;
        const long long samples = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != 0) || samples < 1 || samples > INT32_MAX)
            return qs_fail(QS_USAGE, "--batches %s: must be auto or positive numbers with commas, like 32,64,96", text);
        if (out->batches == QS_PROFILE_BATCHES && samples != own)
            return qs_fail(QS_USAGE, "--batches %s: at most %d beside the job's", text, QS_PROFILE_BATCHES);
        if (samples != own) out->batch[out->batches++] = samples;
        at = end;
        if (*at == 0) return QS_OK;
    }
}

static const option_row option_rows[] = {
    {OPTION(profile_work, options.minutes, "minutes", "M",
            "for all of it: what is left beside fixed parts goes where plans are least certain; 0: no limit, --repetitions say"),
     .usual = "by the model, 2 at most; with --repetitions 0"},
    {OPTION(profile_work, options.repetitions, "repetitions", "N", "timed steps per measured plan, at least"), .standard = "8",
     .minimum = 2},
    {OPTION(profile_work, context, "kernels", "WHERE", "kernels timed in steps, or by themselves: cold or hot, to see what that is worth"),
     .standard = "steps"},
    {OPTION(profile_work, options.statistics_iterations, "statistics-iterations", "N", "training iterations behind the statistics"),
     .standard = "50"},
    {OPTION(profile_work, options.noise_runs, "noise-runs", "N",
            "steps at half the batch with single operators lowered, for indicator measured; 0: none"),
     .usual = "30 % of the others"},
    {OPTION(profile_work, options.conversion_seconds, "conversion-seconds", "S", "time for all fits of conversions together, about"),
     .standard = "7"},
    {OPTION(profile_work, batches, "batches", "LIST",
            "also at these local batches, for planners dbs and joint: 32,96, or auto: a half and three halves")},
    {OPTION(profile_work, recipes, "recipes", "LIST",
            "also what these take, for plans by hand: int4:hadamard,int8:tensor; planners choose as before")},
    {OPTION(profile_work, wires, "wires", "LIST", "all-reduces on these wires too, for plans that choose one: fp32,bf16,int8"),
     .excludes = "class,estimate"},
    {OPTION(profile_work, check, "check", "PLAN,...",
            "time these plans in turn with the profile's own, take no figure from them, and tell how well they are predicted"),
     .excludes = "class,estimate"},
    {OPTION(profile_work, hessian, "hessian", NULL, "also Hessian eigenvalues, which indicator hess needs (minutes)")},
    {OPTION(profile_work, noise_only, "noise-only", NULL,
            "measure nothing but the noise of single operators, anew, into the profile that is there"),
     .excludes = "class,estimate,hessian,check,batches,recipes,wires,fresh"},
    {OPTION(profile_work, weights, "weights", "FILE", "at these weights of a training, or --statistics-iterations behind them (0)"),
     .needs = "noise-only"},
    {OPTION(profile_work, class_name, "class", "NAME", "one process: this class of the cluster alone, put into the profile that is there"),
     .needs = "cluster"},
    {OPTION(profile_work, estimate, "estimate", NULL,
            "measure nothing: figures from the published devices of the cluster file, opening none"),
     .needs = "cluster", .excludes = "class,hessian"},
    {OPTION(profile_work, statistics_from, "statistics-from", "FILE", "tensor statistics of a measured profile of the same model"),
     .needs = "estimate"},
    {OPTION(
        profile_work, accept_noise, "accept-noise", NULL,
        "also a profile of cores that others used for more than a tenth of the time; QSYNC_ACCEPT_NOISE=yes says so for every profile")},
    {OPTION(profile_work, unbalanced, "no-balanced-plans", NULL,
            "do not time plans whose ranks compute all the while: how much they slow each other then is not fitted")},
    {OPTION(profile_work, options.taken_days, "taken-days", "D",
            "cases that profiles of other models measured here in the last D days are taken, from the cache of kernels; 0: none"),
     .standard = "30"},
    {OPTION(profile_work, options.fresh, "fresh", NULL,
            "start over, even if an interrupted measurement (FILE.partial) could go on, and take nothing from other profiles")},
    {OPTION(profile_work, out, "out", "FILE", "where to write"), .standard = "profile.json"},
    {OPTION(profile_work, json, "json", NULL, "print a JSON summary")},
};

static qs_status work_read(profile_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "profile",
        .arguments = "",
        .purpose =
            "Measures, on every rank at once and inside real training steps, what the predictor needs: kernel times, conversion fits,\n"
            "all-reduce, and the tensor statistics behind the sensitivity indicator.",
        .examples =
            "  mpirun -n 2 qsync profile --cluster cluster.json --model resnet8 --dataset fashion-mnist --out profile.json\n"
            "  qsync profile --estimate --cluster examples/cluster-a.json --model resnet50 --dataset 3x224x224:1000 --out profile.json\n"};
    qs_profile_options *options = &work->options;
    int first = 0;
    option_table table = {0};
    qs_profile_options_default(options);
    options->minutes = -1;
    job_options_start(&work->job);
    worker_options_add(&work->where, "profile", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_STEP | JOB_SET | JOB_LENGTHS | JOB_FOLDER);
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    if (option_given(&table, "repetitions") && !option_given(&table, "minutes")) options->minutes = 0;
    if (work->weights && !option_given(&table, "statistics-iterations")) options->statistics_iterations = 0;
    QS_TRY(context_read(work));
    work->where.class_name = work->class_name;
    if (work->estimate && !option_given(&table, "all-reduce")) work->job.all_reduce = "ring"; /* as libraries for GPUs do it */
    QS_TRY(job_options_finish(&work->job));
    if (work->recipes) QS_TRY(names_each(work->recipes, recipe_add, options));
    QS_TRY(profile_wires_read(work->wires, &work->job.job, options));
    return batches_read(work->batches, work->job.job.batch, options);
}

/* Nothing is kept beside a device or a pipe. */
static qs_status partial_prepare(profile_work *work, const worker *here) {
    struct stat facts;
    if (stat(work->out, &facts) == 0 && !S_ISREG(facts.st_mode)) return QS_OK;
    if (qs_comm_size(here->comm) == 1) return qs_format_text(&work->partial, "%s.partial", work->out);
    return qs_format_text(&work->partial, "%s.partial.%d", work->out, qs_comm_rank(here->comm));
}

/* What is in the file keeps its statistics: they are of the model, not of a class. */
static qs_status old_read(profile_work *work) {
    if (!work->class_name || access(work->out, F_OK) != 0) return QS_OK;
    QS_TRY(qs_profile_read(work->out, &work->old));
    if (work->old.statistics.iterations > 0) work->options.statistics_iterations = 0;
    QS_TRY(file_check(work->out, &work->old, &work->job.job));
    return batches_take(work->out, &work->old, &work->options);
}

static qs_status work_prepare(profile_work *work, const worker *here) {
    if (worker_is_first(here)) QS_TRY(output_check(work->out));
    QS_TRY(partial_prepare(work, here));
    QS_TRY(profile_checks_read(work->check, &work->checks));
    return old_read(work);
}

qs_status profile_disturbed_refuse(const char *out, bool accept_noise, const qs_profile *profile) {
    const char *always = getenv("QSYNC_ACCEPT_NOISE");
    char *aside = NULL, why[512];
    qs_status status = QS_OK;
    for (int c = 0; c < profile->classes && status == QS_OK; c++)
        status = conditions_check(&profile->class_[c]);
    if (status == QS_OK || accept_noise || (always && strcmp(always, "yes") == 0)) return QS_OK;
    snprintf(why, sizeof why, "%s", qs_message());
    QS_TRY(qs_format_text(&aside, "%s.refused", out));
    const qs_status written = qs_profile_write(aside, profile);
    if (written == QS_OK) status = qs_fail(status, "%s; --accept-noise takes such a profile, %s is this one", why, aside);
    free(aside);
    return written == QS_OK ? status : written;
}

/* A class that was measured into a file that is there; else the profile as it is. */
static qs_status profile_keep(profile_work *work, qs_profile *profile) {
    QS_TRY(profile_disturbed_refuse(work->out, work->accept_noise, profile));
    if (work->old.classes == 0) return profile_out(profile, work->out, work->json);
    QS_TRY(class_put(&work->old, profile));
    return profile_out(&work->old, work->out, work->json);
}

/* The file as rank 0 has it, on all ranks. */
static qs_status profile_share(const profile_work *work, const worker *here, qs_profile *out) {
    char *text = NULL;
    qs_status status = QS_OK;
    if (worker_is_first(here)) {
        status = qs_profile_read(work->out, out);
        if (status == QS_OK) status = file_check(work->out, out, &work->job.job);
        if (status == QS_OK) status = qs_profile_text(out, &text);
    }
    status = qs_comm_agree(here->comm, status);
    if (status == QS_OK) status = qs_comm_broadcast_text(here->comm, &text, 0);
    if (status == QS_OK && !worker_is_first(here)) status = qs_profile_parse(text, work->out, out);
    free(text);
    return qs_comm_agree(here->comm, status);
}

void profile_options_begin(const job_options *job, const worker *here, void (*tell)(void *context, const char *what, double fraction),
                           qs_profile_options *out) {
    out->job = &job->job;
    out->cluster = &here->cluster;
    out->data_folder = job->data_folder;
    out->pinned = here->pinned;
    out->cache = here->cache;
    out->progress = worker_is_first(here) ? tell : NULL;
}

static qs_status noise_renewed(profile_work *work, const worker *here, qs_profile *profile) {
    profile_options_begin(&work->job, here, progress, &work->options);
    QS_TRY(profile_share(work, here, profile));
    QS_TRY(qs_profile_noise(&work->options, work->weights, here->device, here->comm, profile));
    qs_status status = QS_OK;
    if (worker_is_first(here)) {
        progress_end();
        status = profile_out(profile, work->out, work->json);
    }
    return qs_comm_agree(here->comm, status);
}

static qs_status profiled(profile_work *work, const worker *here, qs_profile *profile) {
    QS_TRY(qs_comm_agree(here->comm, work_prepare(work, here)));
    interruption_prepare(work->partial, worker_is_first(here));
    work->options.partial = work->partial;
    work->options.checks = work->checks.count;
    work->options.check = work->checks.plan;
    work->options.check_name = (const char *const *)work->checks.file;
    profile_options_begin(&work->job, here, progress, &work->options);
    QS_TRY(qs_profile_measure(&work->options, here->device, here->comm, profile));
    if (!work->unbalanced) QS_TRY(profile_balance(&work->job, here, &work->options, profile));
    if (work->hessian) QS_TRY(qs_profile_hessian(&work->options, here->device, here->comm, profile));
    qs_status status = QS_OK;
    if (worker_is_first(here)) {
        progress_end();
        status = profile_checks_predict(&work->checks, &here->cluster, &work->job.job, profile);
        if (status == QS_OK) status = profile_keep(work, profile);
    }
    status = qs_comm_agree(here->comm, status);
    /* A profile that was refused would go on from the same noise. */
    if (status == QS_OK || status == QS_UNSUPPORTED) qs_profile_partial_remove(&work->options);
    return status;
}

/* ---- Profiles without the hardware, and statistics that one profile lends another ---- */

qs_status statistics_take(const char *file, qs_profile *profile) {
    qs_profile other = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_profile_read(file, &other));
    if (strcmp(other.graph, profile->graph) != 0)
        QS_GOTO(qs_fail(QS_MISMATCH, "%s is of %s (%s), not of %s (%s): statistics come from a profile of the same model and image size",
                        file, other.model, other.graph, profile->model, profile->graph));
    if (other.statistics.iterations == 0) QS_GOTO(qs_fail(QS_MISMATCH, "%s has no statistics either", file));
    const qs_statistics own = profile->statistics;
    profile->statistics = other.statistics;
    other.statistics = own;
done:
    qs_profile_release(&other);
    return status;
}

qs_status statistics_check(const qs_profile *profile, const char *indicator) {
    if (!indicator) indicator = qs_indicator_default(profile);
    if (profile->statistics.iterations > 0 || strcmp(indicator, "random") == 0) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "the profile has no tensor statistics, which indicator %s needs: take those of a measured profile of the same model "
                   "(--statistics-from FILE), of any batch and device",
                   indicator);
}

/* How often each length occurs is counted in the data set. */
static qs_status lengths_count(const qs_job *job, const qs_graph *graph, const char *folder, qs_profile *out) {
    int64_t samples[QS_MOST_LENGTHS];
    qs_dataset set = {0};
    if (out->lengths == 0) return QS_OK;
    QS_TRY(qs_job_samples(job, graph, folder, QS_PART_TRAINING, 0, &set));
    qs_dataset_lengths(&set, &job->lengths, samples);
    qs_dataset_release(&set);
    for (int k = 0; k < out->lengths; k++)
        out->length_row[k].samples = samples[k];
    return QS_OK;
}

/* Opens no device. */
static qs_status profile_estimate(const char *cluster_file, const qs_job *job, const char *folder, int64_t least, int64_t most,
                                  qs_profile *out) {
    qs_cluster cluster = {0};
    qs_graph *graph = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_cluster_read(cluster_file, &cluster));
    QS_GOTO(job_model_open(job, &graph));
    QS_GOTO(qs_profile_estimate(graph, &cluster, job, least, most, out));
    QS_GOTO(lengths_count(job, graph, folder, out));
done:
    qs_graph_release(graph);
    qs_cluster_release(&cluster);
    return status;
}

static qs_status estimated(const profile_work *work) {
    qs_profile profile = {0};
    qs_status status = QS_OK;
    int64_t least = work->job.job.batch, most = least;
    for (int i = 0; i < work->options.batches; i++) {
        if (work->options.batch[i] < least) least = work->options.batch[i];
        if (work->options.batch[i] > most) most = work->options.batch[i];
    }
    QS_TRY(output_check(work->out));
    QS_GOTO(profile_estimate(work->where.cluster, &work->job.job, work->job.data_folder, least, most, &profile));
    if (work->statistics_from) QS_GOTO(statistics_take(work->statistics_from, &profile));
    QS_GOTO(profile_out(&profile, work->out, work->json));
done:
    qs_profile_release(&profile);
    return status;
}

qs_status verb_profile(int argc, char **argv) {
    profile_work work = {0};
    worker here;
    qs_profile profile = {0};
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    if (status == QS_OK && work.estimate) return estimated(&work);
    QS_TRY(worker_open(&work.where, status, &here));
    status = work.noise_only ? noise_renewed(&work, &here, &profile) : profiled(&work, &here, &profile);
    qs_profile_release(&profile);
    qs_profile_release(&work.old);
    profile_checks_release(&work.checks);
    status = worker_end(&here, status);
    kept_file = NULL;
    free(work.partial);
    return status;
}
