// SPDX-License-Identifier: Apache-2.0
/* qsync run: profile, plan, verify, train and evaluate, one after the other in one process a rank. Stages meet in files of the run's
 * folder; a stage whose file is there is not run again, so the same command goes on where it was stopped. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "balance.h"
#include "plan_output.h"
#include "qsync/tuning.h"

enum { MOST_FILE = 1 << 20 };

/* ---- Files ------------------------------------------------------------------------------------------------------------------------- */

static const char *const file_names[FILES] = {[COMMAND] = "command",
                                              [PROFILE_FILE] = "profile.json",
                                              [PLAN_FILE] = "plan.json",
                                              [VERIFIED] = "verified.json",
                                              [CORRECTED] = "corrected.json",
                                              [TRAINING] = "training",
                                              [RESULT] = "training/result.json",
                                              [WEIGHTS] = "training/weights.safetensors",
                                              [STATE] = "training/state.qsync",
                                              [STATE_ASIDE] = "state.qsync",
                                              [EVALUATION] = "evaluation.json"};

static qs_status paths_make(run_work *work) {
    for (int f = 0; f < FILES; f++)
        QS_TRY(qs_path_join(work->folder, file_names[f], &work->path[f]));
    return QS_OK;
}

/* Rank 0 looks, all learn. */
static qs_status is_there(const run_work *work, run_file file, bool *there) {
    *there = worker_is_first(work->here) && access(work->path[file], R_OK) == 0;
    return qs_comm_broadcast(work->here->comm, there, sizeof *there, 0);
}

/* ---- The command ------------------------------------------------------------------------------------------------------------------- */

/* A line for each thing that a stage's file depends on: "key value". */
static qs_status command_text(const run_work *work, char **out) {
    char job[32], cluster[32];
    qs_job_signature(&work->job.job, job);
    qs_cluster_signature(&work->here->cluster, cluster);
    return qs_format_text(
        out,
        "model %s\ndataset %s\nbatch %lld\ncluster %s\nplanner %s\nindicator %s\ntolerance %g\nconfidence %g\nlower-training "
        "%d\n%s%s%strain-limit %lld\ntest-limit %lld\njob %s\n",
        work->job.job.model, work->job.job.dataset, (long long)work->job.job.batch, cluster, work->planner,
        work->options.indicator ? work->options.indicator : "default", work->options.tolerance, work->options.confidence,
        work->options.lower_training, work->wires ? "wires " : "", work->wires ? work->wires : "", work->wires ? "\n" : "",
        (long long)work->training_limit, (long long)work->test_limit, job);
}

/* The first line that differs. */
static qs_status command_compare(const run_work *work, const char *there, const char *here) {
    while (*there && *here) {
        const int old = (int)strcspn(there, "\n"), now = (int)strcspn(here, "\n");
        if (old != now || strncmp(there, here, (size_t)now) != 0)
            return qs_fail(QS_USAGE,
                           "--out %s: the folder is of another command (\"%.*s\" there, \"%.*s\" here): another folder, or the same "
                           "command",
                           work->folder, old, there, now, here);
        there += old + (there[old] == '\n');
        here += now + (here[now] == '\n');
    }
    if (!*there && !*here) return QS_OK;
    return qs_fail(QS_USAGE, "--out %s: the folder is of a command of another version: another folder", work->folder);
}

static qs_status command_open(const run_work *work) {
    const char *path = work->path[COMMAND];
    char *text = NULL, *there = NULL;
    size_t bytes;
    qs_status status = QS_OK;
    QS_GOTO(qs_folder_make(work->folder));
    QS_GOTO(command_text(work, &text));
    if (access(path, F_OK) != 0) {
        status = qs_file_write(path, text, strlen(text));
    } else {
        QS_GOTO(qs_file_read(path, MOST_FILE, &there, &bytes));
        status = command_compare(work, there, text);
    }
done:
    free(text);
    free(there);
    return status;
}

/* ---- Profile ----------------------------------------------------------------------------------------------------------------------- */

static void profile_progress(void *context, const char *what, double fraction) {
    (void)context;
    progress_show(fraction, "run: %s", what);
}

static void profile_options(const run_work *work, qs_profile_options *out) {
    *out = work->profiling;
    profile_options_begin(&work->job, work->here, profile_progress, out);
    if (work->fresh) out->taken_days = 0;
}

/* What a profile depends on: the job as far as a step depends on it, the cluster, how it is measured, and every rank's device. */
static uint64_t profile_key(const run_work *work, const char *devices, int64_t bytes) {
    const qs_profile_options *asked = &work->profiling;
    const double how[] = {asked->repetitions, asked->minutes, asked->statistics_iterations, asked->conversion_seconds};
    qs_job job = work->job.job, standard;
    char signature[32];
    qs_job_default(&standard);
    job.epochs = standard.epochs;
    job.rate = standard.rate;
    job.seed = standard.seed;
    uint64_t key = qs_hash(qs_job_signature(&job, signature), strlen(signature), 0);
    key = qs_hash(qs_cluster_signature(&work->here->cluster, signature), strlen(signature), key);
    key = qs_hash(qs_graph_signature(work->graph, signature), strlen(signature), key);
    key = qs_hash(how, sizeof how, key);
    for (int i = 0; i < work->profiling.wires; i++)
        key = qs_hash(work->profiling.wire[i], strlen(work->profiling.wire[i]), key);
    return qs_hash(devices, (size_t)bytes, key);
}

/* Where rank 0 would find a profile that another run has made: beside the cache of kernels. NULL: there is no cache. */
static qs_status cached_path(const run_work *work, char **out) {
    qs_device_info info;
    char mine[576] = "", speed[QS_SPEEDS_TEXT], *devices = NULL, *cache = NULL;
    int64_t *sizes = NULL, bytes = 0;
    qs_status status = QS_OK;
    *out = NULL;
    qs_device_describe(work->here->device, &info);
    snprintf(mine, sizeof mine, "%s %s %s %s %s %d %s\n", info.backend, info.cpu, info.isa, info.library, info.kernels, info.threads,
             qs_speeds_text(info.speed, &info.products, speed));
    QS_GOTO(qs_comm_gather(work->here->comm, mine, (int64_t)sizeof mine, &devices, &sizes));
    if (worker_is_first(work->here)) {
        for (int r = 0; r < qs_comm_size(work->here->comm); r++)
            bytes += sizes[r];
        status = qs_tuning_path(&cache);
        if (status == QS_OK && cache) {
            char *slash = strrchr(cache, '/');
            if (slash) *slash = '\0';
            status =
                qs_format_text(out, "%s/profiles/%016llx.json", slash ? cache : ".", (unsigned long long)profile_key(work, devices, bytes));
        }
    }
    status = qs_comm_agree(work->here->comm, status);
done:
    free(devices);
    free(sizes);
    free(cache);
    return status;
}

/* That a cache lacks it, or holds no profile, is no failure. */
static bool cached_take(run_work *work, const char *path) {
    char signature[32];
    if (!path || work->fresh || access(path, R_OK) != 0) return false;
    if (qs_profile_read(path, &work->profile) == QS_OK && strcmp(work->profile.graph, qs_graph_signature(work->graph, signature)) == 0)
        return true;
    qs_log(QS_LOG_WARNING, "%s is not taken: %s", path, qs_message());
    qs_profile_release(&work->profile);
    return false;
}

static void cached_put(const run_work *work, const char *path) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (qs_folder_make(folder) != QS_OK || qs_profile_write(path, &work->profile) != QS_OK)
        qs_log(QS_LOG_WARNING, "the profile is not kept for other runs: %s", qs_message());
}

static qs_status profile_measure(run_work *work, const char *cached) {
    qs_profile_options options;
    char *partial = NULL;
    qs_status status = QS_OK;
    profile_options(work, &options);
    QS_GOTO(qs_format_text(&partial, "%s/profile.partial.%d", work->folder, qs_comm_rank(work->here->comm)));
    options.partial = partial;
    QS_GOTO(qs_profile_measure(&options, work->here->device, work->here->comm, &work->profile));
    QS_GOTO(profile_balance(&work->job, work->here, &options, &work->profile));
    if (worker_is_first(work->here)) {
        status = profile_disturbed_refuse(work->path[PROFILE_FILE], work->accept_noise, &work->profile);
        if (status == QS_OK) status = qs_profile_write(work->path[PROFILE_FILE], &work->profile);
        if (status == QS_OK && cached) cached_put(work, cached);
    }
    status = qs_comm_agree(work->here->comm, status);
    if (status == QS_OK || status == QS_UNSUPPORTED) qs_profile_partial_remove(&options); /* one that was refused would go on from noise */
done:
    free(partial);
    return status;
}

static qs_status stage_profile(run_work *work) {
    const bool first = worker_is_first(work->here);
    bool done, cached;
    char *path = NULL;
    qs_status status = QS_OK;
    QS_TRY(is_there(work, PROFILE_FILE, &done));
    work->profile_from = "there before";
    if (done) return qs_comm_agree(work->here->comm, first ? qs_profile_read(work->path[PROFILE_FILE], &work->profile) : QS_OK);
    QS_GOTO(cached_path(work, &path));
    cached = first && cached_take(work, path);
    QS_GOTO(qs_comm_broadcast(work->here->comm, &cached, sizeof cached, 0));
    work->profile_from = cached ? "from the cache" : "measured";
    if (cached)
        status = qs_comm_agree(work->here->comm, first ? qs_profile_write(work->path[PROFILE_FILE], &work->profile) : QS_OK);
    else
        status = profile_measure(work, path);
done:
    free(path);
    return status;
}

/* ---- Plan, and verification -------------------------------------------------------------------------------------------------------- */

static qs_status plan_by_profile(run_work *work) {
    if (access(work->path[PLAN_FILE], R_OK) == 0) return qs_plan_read(work->path[PLAN_FILE], &work->plan);
    QS_TRY(statistics_check(&work->profile, work->options.indicator));
    QS_TRY(qs_plan_make(work->planner, work->graph, &work->here->cluster, &work->profile, &work->job.job, &work->options, &work->plan));
    return qs_plan_write(work->path[PLAN_FILE], &work->plan);
}

/* No device, no other rank: what it takes is in files. From here on the job is on the plan's wire, on all ranks. */
static qs_status stage_plan(run_work *work) {
    QS_TRY(qs_comm_agree(work->here->comm, worker_is_first(work->here) ? plan_by_profile(work) : QS_OK));
    if (!work->wires) return QS_OK;
    if (worker_is_first(work->here)) memcpy(work->job.job.wire, work->plan.job.wire, sizeof work->job.job.wire);
    work->options.choose_wire = false;
    return qs_comm_broadcast(work->here->comm, work->job.job.wire, sizeof work->job.job.wire, 0);
}

/* Steps of one length and of the job's own batch are what can be timed in turn. */
static bool is_verifiable(const run_work *work) {
    if (work->rounds == 0 || work->job.job.lengths.count > 1) return false;
    for (int c = 0; c < work->plan.classes; c++)
        if (work->plan.class_[c].batch != work->job.job.batch || work->plan.class_[c].tensors > 0) return false;
    return true;
}

static qs_status stage_verify(run_work *work) {
    const bool first = worker_is_first(work->here);
    bool done, verifiable, corrected = false;
    qs_profile_options options;
    qs_status status = QS_OK;
    profile_options(work, &options);
    QS_TRY(is_there(work, VERIFIED, &done));
    if (done) {
        qs_plan_release(&work->plan);
        return qs_comm_agree(work->here->comm, first ? qs_plan_read(work->path[VERIFIED], &work->plan) : QS_OK);
    }
    verifiable = first && is_verifiable(work);
    QS_TRY(qs_comm_broadcast(work->here->comm, &verifiable, sizeof verifiable, 0));
    if (verifiable) QS_TRY(run_verify(work, &options, &corrected));
    if (first && corrected) status = qs_profile_write(work->path[CORRECTED], &work->profile);
    if (first && status == QS_OK) status = qs_plan_write(work->path[VERIFIED], &work->plan);
    return qs_comm_agree(work->here->comm, status);
}

/* ---- Training ---------------------------------------------------------------------------------------------------------------------- */

static void train_progress(void *context, int epoch, int epochs, int64_t step, int64_t steps, double loss, double samples_per_second,
                           const char *unit) {
    (void)context;
    progress_show(((double)epoch + (double)(step + 1) / (double)steps) / (epochs > 0 ? epochs : 1),
                  "run: training: epoch %d/%d, loss %.4f, %.0f %s/s", epoch + 1, epochs, loss, samples_per_second, unit);
}

/* The state of a training that was stopped, out of the folder that will be written over; *state NULL: there is none. */
static qs_status state_take(const run_work *work, const char **state) {
    const char *left = work->path[STATE], *aside = work->path[STATE_ASIDE];
    qs_status status = QS_OK;
    bool there;
    if (worker_is_first(work->here) && access(left, F_OK) == 0 && rename(left, aside) != 0)
        status = qs_fail(QS_FAILED, "cannot move %s to %s", left, aside);
    QS_TRY(qs_comm_agree(work->here->comm, status));
    QS_TRY(is_there(work, STATE_ASIDE, &there));
    *state = there ? aside : NULL;
    return QS_OK;
}

static qs_status stage_train(run_work *work) {
    const char *state = NULL;
    bool done;
    const bool first = worker_is_first(work->here);
    qs_train_result result = {0};
    qs_plan plan = {0};
    qs_status status = QS_OK;
    QS_TRY(is_there(work, RESULT, &done));
    if (done) return QS_OK;
    QS_TRY(state_take(work, &state));
    QS_GOTO(run_plan_share(work->here->comm, &work->plan, &plan));
    const qs_train_options options = {.job = &work->job.job,
                                      .cluster = &work->here->cluster,
                                      .plan = &plan,
                                      .data_folder = work->job.data_folder,
                                      .training_limit = work->training_limit,
                                      .test_limit = work->test_limit,
                                      .run_folder = work->path[TRAINING],
                                      .resume = state,
                                      .checkpoint_every = 1,
                                      .progress = first ? train_progress : NULL};
    QS_GOTO(qs_train(&options, work->here->device, work->here->comm, &result));
    if (first) status = train_result_write(work->path[TRAINING], &work->here->cluster, &result);
    QS_GOTO(qs_comm_agree(work->here->comm, status));
    if (first && state) unlink(state);
done:
    qs_train_result_release(&result);
    qs_plan_release(&plan);
    return status;
}

/* ---- Evaluation -------------------------------------------------------------------------------------------------------------------- */

static qs_status evaluation_write(const run_work *work, const qs_evaluation *found) {
    json_t *root = json_pack("{s:o,s:o,s:I}", "accuracy", json_number(found->accuracy), "loss", json_number(found->loss), "samples",
                             (json_int_t)found->samples);
    if (root) measures_put(root, "", found);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(root);
    if (!text) return qs_fail(QS_OUT_OF_MEMORY, "evaluation.json");
    const qs_status status = qs_file_write(work->path[EVALUATION], text, strlen(text));
    free(text);
    return status;
}

static qs_status stage_evaluate(run_work *work) {
    qs_evaluation found = {0};
    bool done;
    QS_TRY(is_there(work, EVALUATION, &done));
    if (done) return QS_OK;
    if (worker_is_first(work->here)) progress_show(0.99, "run: evaluating");
    const qs_evaluate_options options = {.weights = work->path[WEIGHTS],
                                         .job = &work->job.job,
                                         .data_folder = work->job.data_folder,
                                         .test_limit = work->test_limit,
                                         .memory_limit = work->here->cluster.class_[work->here->class_index].memory_limit};
    QS_TRY(qs_evaluate(&options, work->here->device, work->here->comm, &found));
    return qs_comm_agree(work->here->comm, worker_is_first(work->here) ? evaluation_write(work, &found) : QS_OK);
}

/* ---- Summary ----------------------------------------------------------------------------------------------------------------------- */

static void rounds_print(const qs_plan *plan) {
    for (int i = 0; i < plan->verifications; i++) {
        const qs_verification *round = &plan->verification[i];
        printf("  verified   round %d: %s measured, uniform %s in turn with it (%+.1f %%, known to %.1f %%): %s\n", i + 1,
               time_text(round->measured_us), time_text(round->uniform_us), 100 * (round->measured_us / round->uniform_us - 1),
               100 * round->confidence, round->kept ? "kept" : "too slow");
    }
    for (int c = 0; c < plan->classes; c++)
        if (plan->class_[c].predicted.factor > 0)
            printf("             %s takes %.3f times as long as profiled\n", plan->class_[c].class_name, plan->class_[c].predicted.factor);
}

static void summary_print(const run_work *work, json_t *result, json_t *evaluation) {
    const qs_plan *plan = &work->plan;
    printf("run of %s on %s, batch %lld a rank, in %s\n  profile    %s\n", work->job.job.model, work->job.job.dataset,
           (long long)work->job.job.batch, work->folder, work->profile_from);
    for (int c = 0; c < plan->classes; c++) {
        char counts[256];
        recipe_counts_text(plan, &plan->class_[c], counts, sizeof counts);
        printf("  %-10s %s: %s%s\n", c ? "" : "plan", plan->class_[c].class_name, counts, recomputed_text(&plan->class_[c]));
    }
    if (plan->wires > 0) printf("             gradients travel in %s\n", plan->job.wire);
    rounds_print(plan);
    if (plan->classes > 0) printf("  predicted  %s an iteration\n", time_text(plan->class_[0].predicted.iteration_us));
    if (result)
        printf("  measured   %s an iteration in training, %.0f %s/s, %lld steps\n",
               time_text(json_number_value(json_object_get(result, "iteration_us"))),
               json_number_value(json_object_get(result, "samples_per_second")), json_string_value(json_object_get(result, "unit")),
               (long long)json_integer_value(json_object_get(result, "steps")));
    if (evaluation)
        printf("  accuracy   %s, loss %.4f over %lld samples\n", percent_text(json_number_value(json_object_get(evaluation, "accuracy"))),
               json_number_value(json_object_get(evaluation, "loss")),
               (long long)json_integer_value(json_object_get(evaluation, "samples")));
}

static qs_status summary_json(const run_work *work, json_t *result, json_t *evaluation) {
    const qs_plan *plan = &work->plan;
    json_t *rounds = json_array();
    for (int i = 0; i < plan->verifications; i++) {
        const qs_verification *round = &plan->verification[i];
        json_array_append_new(rounds, json_pack("{s:f,s:f,s:f,s:f,s:b}", "measured_us", round->measured_us, "uniform_us", round->uniform_us,
                                                "predicted_us", round->predicted_us, "confidence", round->confidence, "kept", round->kept));
    }
    return json_print(json_pack("{s:s,s:s,s:s,s:o,s:o,s:O*,s:O*}", "folder", work->folder, "profile", work->profile_from, "wire",
                                plan->job.wire, "predicted_us",
                                json_number(plan->classes > 0 ? plan->class_[0].predicted.iteration_us : NAN), "verification", rounds,
                                "training", result, "evaluation", evaluation));
}

static qs_status summarize(const run_work *work) {
    json_t *result = json_load_file(work->path[RESULT], 0, NULL), *evaluation = json_load_file(work->path[EVALUATION], 0, NULL);
    qs_status status = QS_OK;
    progress_end();
    if (work->json)
        status = summary_json(work, result, evaluation);
    else
        summary_print(work, result, evaluation);
    json_decref(result);
    json_decref(evaluation);
    return status;
}

/* ---- The verb ---------------------------------------------------------------------------------------------------------------------- */

static qs_status begin(run_work *work) {
    QS_TRY(command_open(work));
    return job_model_open(&work->job.job, &work->graph);
}

static const struct {
    const char *name;
    qs_status (*run)(run_work *);
} stages[] = {
    {"profile", stage_profile}, {"plan", stage_plan}, {"verify", stage_verify}, {"train", stage_train}, {"evaluate", stage_evaluate}};
enum { STAGES = sizeof stages / sizeof *stages };

static qs_status staged(run_work *work, const worker *here) {
    const bool first = worker_is_first(here);
    work->here = here;
    if (!work->where.cluster) work->options.lower_training = true; /* nobody else could be lowered */
    QS_TRY(qs_comm_agree(here->comm, paths_make(work)));
    QS_TRY(qs_comm_agree(here->comm, first ? begin(work) : QS_OK));
    for (int s = 0; s < STAGES; s++) {
        QS_TRY(stages[s].run(work));
        if (strcmp(work->last, stages[s].name) == 0) break;
    }
    return qs_comm_agree(here->comm, first ? summarize(work) : QS_OK);
}

static const option_row option_rows[] = {
    {OPTION(run_work, folder, "out", "FOLDER", "of all files; the same command goes on with what is there"), .standard = "run"},
    {OPTION(run_work, last, "until", "STAGE", "stop behind profile, plan, verify or train"), .standard = "evaluate"},
    {OPTION(run_work, planner, "planner", "NAME", "as plan takes it"), .standard = "qsync"},
    {OPTION(run_work, options.indicator, "indicator", "NAME", "as plan takes it"), .usual = "as plan's"},
    {OPTION(run_work, options.tolerance, "tolerance", "X", "throughput given up at most, as a share"), .standard = "0.005"},
    {OPTION(run_work, options.confidence, "confidence", "P", "with which T_min is kept, by the errors that the profile knows"),
     .standard = "0.95"},
    {OPTION(run_work, options.lower_training, "lower-training", NULL,
            "training classes may be lowered too; without --cluster they always may")},
    {OPTION(run_work, rounds, "rounds", "N", "plans that are verified at most, before uniform is taken; 0: none is"), .standard = "3"},
    {OPTION(run_work, wires, "wires", "LIST", "that the profile measures, and of which the plan takes one: fp32,bf16,int8"),
     .usual = "--wire alone"},
    {OPTION(run_work, profiling.minutes, "minutes", "M", "of the profile, as profile takes it; 0: no limit"),
     .usual = "by the model, 2 at most; with --repetitions 0"},
    {OPTION(run_work, profiling.repetitions, "repetitions", "N", "of the profile: timed steps per measured plan, at least"),
     .standard = "8", .minimum = 2},
    {OPTION(run_work, profiling.statistics_iterations, "statistics-iterations", "N", "of the profile: iterations behind the statistics"),
     .standard = "50", .minimum = 1},
    {OPTION(run_work, profiling.conversion_seconds, "conversion-seconds", "S", "of the profile: time for all fits of conversions, about"),
     .standard = "7"},
    {OPTION(run_work, fresh, "fresh-profile", NULL,
            "measure even if an earlier run of the same job here has kept its profile; take no case of other models")},
    {OPTION(run_work, accept_noise, "accept-noise", NULL, "as profile takes it: also a profile of cores that others used")},
    {OPTION(run_work, training_limit, "train-limit", "N", "use the first N training samples only")},
    {OPTION(run_work, test_limit, "test-limit", "N", "use the first N test samples only")},
    {OPTION(run_work, json, "json", NULL, "print the summary as JSON")},
};

static qs_status work_read(run_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "run",
        .arguments = "",
        .purpose =
            "The whole way in one command: profile (kept for other runs of the same job on this machine), plan, verify (the plan timed\n"
            "in turn with the uniform one; where it is slower, the profile is corrected and planned again), train, evaluate. What a\n"
            "stage leaves in the folder is taken when the same command is given again, so a run that was stopped goes on.",
        .examples =
            "  qsync run --model resnet20 --dataset cifar10 --epochs 5 --out run/first\n"
            "  mpirun -n 2 qsync run --cluster examples/cluster.json --model resnet20 --dataset cifar10 --epochs 5 --out run/two\n"};
    int first = 0, stage = 0;
    option_table table = {0};
    qs_plan_options_default(&work->options);
    qs_profile_options_default(&work->profiling);
    work->profiling.minutes = -1;
    job_options_start(&work->job);
    worker_options_add(&work->where, "run", &work->job.job, &table);
    work->where.everybody = true;
    job_options_add(&work->job, &table, JOB_STEP | JOB_SET | JOB_LENGTHS | JOB_FOLDER | JOB_EPOCHS);
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    if (option_given(&table, "repetitions") && !option_given(&table, "minutes")) work->profiling.minutes = 0;
    while (stage < STAGES && strcmp(stages[stage].name, work->last) != 0)
        stage++;
    if (stage == STAGES) return qs_fail(QS_USAGE, "--until %s: there are profile, plan, verify, train, evaluate", work->last);
    work->options.choose_wire = work->wires != NULL;
    QS_TRY(job_options_finish(&work->job));
    return profile_wires_read(work->wires, &work->job.job, &work->profiling);
}

qs_status verb_run(int argc, char **argv) {
    run_work work = {0};
    worker here;
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    status = worker_open(&work.where, status, &here);
    if (status == QS_OK) status = worker_end(&here, staged(&work, &here));
    qs_plan_release(&work.plan);
    qs_profile_release(&work.profile);
    qs_graph_release(work.graph);
    for (int f = 0; f < FILES; f++)
        free(work.path[f]);
    return status;
}
