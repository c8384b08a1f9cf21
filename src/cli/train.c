// SPDX-License-Identifier: Apache-2.0
/* qsync train: trains over all ranks under a plan; prints prediction beside measurement. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt.h"
#include "audit.h"
#include "plan_output.h"

static void progress(void *context, int epoch, int epochs, int64_t step, int64_t steps, double loss, double samples_per_second,
                     const char *unit) {
    (void)context;
    const double fraction = ((double)epoch + (double)(step + 1) / (double)steps) / (epochs > 0 ? epochs : 1);
    progress_show(fraction, "epoch %d/%d, step %lld/%lld, loss %.4f, %.0f %s/s", epoch + 1, epochs, (long long)step + 1, (long long)steps,
                  loss, samples_per_second, unit);
}

static void epoch_done(void *context, int epoch, double training_loss, const qs_evaluation *test) {
    (void)context;
    progress_end();
    fprintf(stderr, "qsync: epoch %d: training loss %.4f, test loss %.4f, test accuracy %.2f %%%s\n", epoch + 1, training_loss, test->loss,
            100 * test->accuracy, measures_text(test));
}

static void figures_print(const qs_train_result *result) {
    const double predicted = result->audit.predicted_us;
    printf("test accuracy %.2f %%, test loss %.4f%s, training loss %.4f after %lld steps in %.1f s\n", 100 * result->test_accuracy,
           result->test_loss, measures_text(&result->test), result->training_loss, (long long)result->steps, result->seconds);
    if (!isnan(result->planned.accuracy))
        printf("in the plan's arithmetic: test accuracy %.2f %%, test loss %.4f%s\n", 100 * result->planned.accuracy, result->planned.loss,
               measures_text(&result->planned));
    printf("iteration %s measured", time_text(result->median_step_us));
    if (result->recorded_ranks > 0)
        printf(" (%s where kernels are started one by one, on %d rank%s from recordings)", time_text(result->audit.measured_us),
               result->recorded_ranks, result->recorded_ranks == 1 ? "" : "s");
    if (predicted > 0) printf(", %s predicted (%+.1f %%)", time_text(predicted), qs_audit_error(predicted, result->audit.measured_us));
    printf(", %.0f %s/s\n", result->samples_per_second, result->unit);
    if (result->replans > 0)
        printf("%lld new plan%s taken on the way, the last from step %lld on\n", (long long)result->replans, result->replans > 1 ? "s" : "",
               (long long)result->audit.first_step + 1);
    if (result->adapting_seconds > 0) printf("keeping pace took %.2f s\n", result->adapting_seconds);
    if (result->promotions + result->promotions_refused > 0)
        printf("%lld tensor%s promoted to the higher format (%s more memory, %.2g %% of all tensors in 16 bits), %lld refused for want of "
               "memory\n",
               (long long)result->promotions, result->promotions == 1 ? "" : "s", bytes_text((double)result->promotion_bytes),
               100 * result->promotion_share, (long long)result->promotions_refused);
}

static void result_print(const qs_cluster *cluster, const qs_train_result *result) {
    if (result->steps > 0)
        figures_print(result);
    else
        printf("no step was run\n");
    for (int r = 0; r < result->ranks; r++) {
        printf("rank %d (%s): memory %s reserved", r, cluster->class_[qs_cluster_class_of(cluster, r)].name,
               bytes_text((double)result->reserved_bytes[r]));
        if (result->predicted_bytes[r] >= 0) printf(", %s predicted", bytes_text((double)result->predicted_bytes[r]));
        printf("\n");
    }
}

/* The audit as a value, and its warning on stderr. */
static qs_status audit_take(const qs_audit *audit, json_t **out) {
    char *text = NULL;
    if (audit->warning[0]) qs_log(QS_LOG_WARNING, "%s", audit->warning);
    QS_TRY(qs_audit_text(audit, &text));
    const qs_status status = audit_parse(text, "audit", out);
    free(text);
    return status;
}

/* What `qsync report` reads; NULL when memory ran out. */
static json_t *result_json(const qs_cluster *cluster, const qs_train_result *result) {
    json_t *ranks = json_array();
    char hash[32];
    for (int r = 0; r < result->ranks; r++) {
        json_t *row = json_pack("{s:s,s:I}", "class", cluster->class_[qs_cluster_class_of(cluster, r)].name, "reserved_bytes",
                                (json_int_t)result->reserved_bytes[r]);
        if (result->predicted_bytes[r] >= 0)
            json_object_set_new(row, "predicted_bytes", json_integer((json_int_t)result->predicted_bytes[r]));
        json_array_append_new(ranks, row);
    }
    snprintf(hash, sizeof hash, "xxh64:%016llx", (unsigned long long)result->weights_hash);
    json_t *root = json_pack("{s:o,s:o,s:o,s:I,s:f,s:f,s:f,s:s,s:s,s:o}", "test_accuracy", json_number(result->test_accuracy), "test_loss",
                             json_number(result->test_loss), "training_loss", json_number(result->training_loss), "steps",
                             (json_int_t)result->steps, "seconds", result->seconds, "iteration_us", result->median_step_us,
                             "samples_per_second", result->samples_per_second, "unit", result->unit, "weights_hash", hash, "ranks", ranks);
    if (root) measures_put(root, "test_", &result->test);
    if (root && !isnan(result->planned.accuracy)) {
        json_object_set_new(root, "planned_test_accuracy", json_number(result->planned.accuracy));
        json_object_set_new(root, "planned_test_loss", json_number(result->planned.loss));
        measures_put(root, "planned_test_", &result->planned);
    }
    if (root && result->audit.predicted_us > 0) json_object_set_new(root, "predicted_iteration_us", json_real(result->audit.predicted_us));
    if (root && result->recorded_ranks > 0) json_object_set_new(root, "recorded_ranks", json_integer(result->recorded_ranks));
    if (root && result->adapting_seconds > 0) json_object_set_new(root, "adapting_seconds", json_real(result->adapting_seconds));
    if (root && result->replans > 0) json_object_set_new(root, "replans", json_integer((json_int_t)result->replans));
    if (root && result->promotions + result->promotions_refused > 0) {
        json_object_set_new(root, "promotions", json_integer((json_int_t)result->promotions));
        json_object_set_new(root, "promotions_refused", json_integer((json_int_t)result->promotions_refused));
        json_object_set_new(root, "promotion_bytes", json_integer((json_int_t)result->promotion_bytes));
        json_object_set_new(root, "promotion_share", json_real(result->promotion_share));
    }
    return root;
}

static qs_status result_write(const char *folder, const json_t *root) {
    char *path = NULL, *text = NULL, *json = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    qs_status status = json ? qs_path_join(folder, "result.json", &path) : qs_fail(QS_OUT_OF_MEMORY, "result.json");
    if (status == QS_OK) status = qs_format_text(&text, "%s\n", json);
    if (status == QS_OK) status = qs_file_write(path, text, strlen(text));
    free(path);
    free(text);
    free(json);
    return status;
}

qs_status train_result_write(const char *folder, const qs_cluster *cluster, const qs_train_result *result) {
    json_t *root = result_json(cluster, result);
    const qs_status status = result_write(folder, root);
    json_decref(root);
    return status;
}

static qs_status result_show(const qs_cluster *cluster, const qs_train_result *result, json_t *root, bool json) {
    json_t *audit = NULL;
    QS_TRY(audit_take(&result->audit, &audit));
    if (json) {
        json_object_set_new(root, "audit", audit);
        return json_print(json_incref(root));
    }
    result_print(cluster, result);
    if (result->steps > 0) audit_print(audit);
    json_decref(audit);
    return QS_OK;
}

static qs_status result_out(const qs_cluster *cluster, const qs_train_result *result, const char *folder, bool json) {
    json_t *root = result_json(cluster, result);
    qs_status status = folder ? result_write(folder, root) : QS_OK;
    if (status == QS_OK) status = result_show(cluster, result, root, json);
    json_decref(root);
    return status;
}

typedef struct train_work {
    job_options job;
    worker_options where;
    qs_train_options options;
    const char *plan_path; /* NULL: fp32 everywhere */
    qs_plan plan;
    const char *profile_path, *trace_path; /* NULL: the plan stays; no pace is replayed */
    int64_t adapt_every;
    adapt_session session;
    qs_adaptation adaptation;
    qs_pace_trace trace;
    char source[QS_MODEL]; /* with --resume: the model of its folder, else of the plan */
    bool json;
} train_work;

static const option_row option_rows[] = {
    {OPTION(train_work, options.training_limit, "train-limit", "N", "use the first N training samples only")},
    {OPTION(train_work, options.test_limit, "test-limit", "N", "use the first N test samples only")},
    {OPTION(train_work, options.max_steps, "max-steps", "N", "stop after N steps, those done before --resume among them")},
    {OPTION(train_work, plan_path, "plan", "FILE", "plan from qsync plan, or written by hand; its job gives the defaults")},
    {OPTION(train_work, options.watch_plan, "watch-plan", "FILE",
            "switch to the plan in FILE, between two steps, whenever another one appears there")},
    {OPTION(train_work, options.watch_after, "watch-after", "N", "look at that file only when N steps are done"), .standard = "0",
     .needs = "watch-plan"},
    {OPTION(train_work, profile_path, "adapt", "FILE",
            "keep pace (docs/adapting.md): plan again from this profile, the plan's own, when the ranks become slower or faster; planner "
            "joint "
            "may leave an inference class idle for a while"),
     .needs = "plan", .excludes = "watch-plan"},
    {OPTION(train_work, adapt_every, "adapt-every", "N", "look at the pace every N steps"), .standard = "50", .minimum = 1,
     .needs = "adapt"},
    {OPTION(train_work, trace_path, "pace-trace", "FILE",
            "slow classes down as FILE says, lines of STEP CLASS COMPUTE [MEMORY], and take its paces for measured")},
    {OPTION(train_work, options.promote_at, "promote-at", "X",
            "promote tensors when more than this share of their elements overflows; below 0: never"),
     .usual = "the plan's", .minimum = -HUGE_VAL, .needs = "plan"},
    {OPTION(train_work, options.promote_underflow, "promote-underflow", "X",
            "promote them also when more than this share underflows; 0: never"),
     .standard = "0", .needs = "plan"},
    {OPTION(train_work, options.start_weights, "weights", "FILE", "start from saved weights (docs/weights.md)")},
    {OPTION(train_work, options.start_choice.fresh, "weights-new", "PATTERNS",
            "parameters that start anew all the same: 'classifier.*,...'"),
     .needs = "weights"},
    {OPTION(train_work, options.start_choice.unused, "weights-unused", "PATTERNS",
            "tensors of the file that the model has not: 'pooler.*,...'"),
     .needs = "weights"},
    {OPTION(train_work, options.resume, "resume", "FILE", "go on from the state.qsync of another run, which brings its own weights"),
     .excludes = "weights"},
    {OPTION(train_work, options.checkpoint_every, "checkpoint-every", "N",
            "write state.qsync into the run folder after every N epochs and at the end"),
     .minimum = 1, .needs = "out"},
    {OPTION(train_work, options.run_folder, "out", "FOLDER", "run folder to write")},
    {OPTION(train_work, options.gradients_every, "gradient-variance", "N",
            "write the variance of each operator's weight gradient to the metrics every N steps"),
     .minimum = 1, .needs = "out"},
    {OPTION(train_work, options.norm_gap_every, "norm-gap", "N",
            "write how far 8 bits move the values of normalisations to the metrics every N steps"),
     .minimum = 1, .needs = "out"},
    {OPTION(train_work, options.trace, "trace", NULL,
            "write trace.json into the run folder: a typical step of all ranks as a Chrome trace"),
     .needs = "out"},
    {OPTION(train_work, options.audit_bound, "audit-bound", "PERCENT", "warn when the iteration is further from its prediction"),
     .usual = "10"},
    {OPTION(train_work, json, "json", NULL, "print the result as JSON")},
    {OPTION(train_work, options.scale_growth, "scale-growth", "N", "dynamic loss scaling doubles after N steps without overflow"),
     .usual = "those of an epoch", .minimum = 1},
    {OPTION(train_work, options.skip_limit, "skip-limit", "N", "end with exit code 4 when loss scaling skipped N steps in a row"),
     .usual = "48", .minimum = 1},
    {OPTION(train_work, options.diverged_at, "diverged-at", "X",
            "end with exit code 4 when the loss of 10 steps exceeds X times that of the first step; 0: never"),
     .standard = "0"},
};

static qs_status work_read(train_work *work, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "train",
        .arguments = "",
        .purpose = "Trains over all ranks with exactly the plan (fp32 everywhere without one). The run folder receives configuration,\n"
                   "metrics (one JSON object a line), the plan and the final weights.",
        .examples = "  qsync train --model lenet5 --dataset mnist --epochs 2 --out run\n"
                    "  mpirun -n 2 qsync train --cluster cluster.json --plan plan.json --dataset fashion-mnist\n"};
    int first = 0;
    option_table table = {0};
    job_options_start(&work->job);
    worker_options_add(&work->where, "train", &work->job.job, &table);
    job_options_add(&work->job, &table, JOB_STEP | JOB_SET | JOB_LENGTHS | JOB_FOLDER | JOB_EPOCHS);
    OPTIONS_ADD(&table, option_rows, work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    const qs_train_options *o = &work->options;
    if (work->plan_path) {
        QS_TRY(qs_plan_read(work->plan_path, &work->plan));
        job_names_from_plan(&work->plan, &table, &work->job);
    }
    if (work->profile_path) QS_TRY(adapt_read(work->profile_path, &work->plan, &work->session));
    const bool beside = o->resume && !option_given(&table, "model");
    if (beside) {
        QS_TRY(options_refuse(&table, 3, (const char *const[]){"head", "loss", "dropout"}, "the run that --resume goes on with"));
        snprintf(work->source, sizeof work->source, "%s", work->job.model);
        QS_TRY(job_model_beside(o->resume, work->source));
        work->job.model = work->source;
    }
    QS_TRY(job_options_finish(&work->job));
    if (o->promote_at > 1 || o->promote_underflow > 1)
        return qs_fail(QS_USAGE, "--promote-at %g, --promote-underflow %g: shares of elements, from 0 to 1", o->promote_at,
                       o->promote_underflow);
    if (o->diverged_at > 0 && o->diverged_at <= 1)
        return qs_fail(QS_USAGE, "--diverged-at %g: how many times the first step's loss is too much, more than 1; 0: never",
                       o->diverged_at);
    if (work->plan_path) job_from_plan(&work->plan, &table, &work->job.job);
    if (beside) memcpy(work->job.job.model, work->source, sizeof work->source);
    return QS_OK;
}

/* What a run goes by beside its plan: the pace. */
static qs_status pace_open(train_work *work, const worker *here) {
    if (work->trace_path) {
        QS_TRY(qs_pace_trace_read(work->trace_path, &here->cluster, &work->trace));
        work->options.pace_trace = &work->trace;
    }
    if (!work->profile_path) return QS_OK;
    work->options.adaptation = &work->adaptation;
    return adapt_begin(&work->session, here, &work->job.job, work->adapt_every, &work->adaptation);
}

static qs_status trained(train_work *work, const worker *here) {
    qs_train_options *options = &work->options;
    qs_train_result result = {0};
    QS_TRY(qs_comm_agree(here->comm, pace_open(work, here)));
    options->job = &work->job.job;
    options->cluster = &here->cluster;
    options->plan = work->plan_path ? &work->plan : NULL;
    options->data_folder = work->job.data_folder;
    if (worker_is_first(here)) {
        options->progress = progress;
        options->epoch_done = epoch_done;
    }
    qs_status status = qs_train(options, here->device, here->comm, &result);
    if (status == QS_OK && worker_is_first(here)) {
        progress_end();
        status = result_out(&here->cluster, &result, options->run_folder, work->json);
    }
    qs_train_result_release(&result);
    return status;
}

qs_status verb_train(int argc, char **argv) {
    train_work work = {0};
    worker here;
    bool done = false;
    qs_status status = work_read(&work, argc, argv, &done);
    if (done) return QS_OK;
    status = worker_open(&work.where, status, &here);
    if (status == QS_OK) status = worker_end(&here, trained(&work, &here));
    adapt_release(&work.session);
    qs_pace_trace_release(&work.trace);
    qs_plan_release(&work.plan);
    return status;
}
