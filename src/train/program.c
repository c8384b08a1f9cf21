// SPDX-License-Identifier: Apache-2.0
/* Programs: from a job to its samples, and with a plan to a schedule with the kernels of a live device; and whether the
 * plan is one for this model, cluster, job and device. Every check names the first difference and the way out. Empty signatures and
 * hashes (hand-written plans) are not checked. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

qs_status qs_job_samples(const qs_job *job, const qs_graph *graph, const char *data_folder, qs_part part, int64_t limit, qs_dataset *out) {
    qs_dataset set;
    QS_TRY(qs_dataset_load(job->dataset, data_folder, part, limit, &set));
    qs_status status = qs_samples_fit(set.description.name, &set.description.samples, &graph->samples);
    if (status == QS_OK)
        status = qs_data_normalize(&set.description, job->normalization.means, job->normalization.mean, job->normalization.deviations,
                                   job->normalization.deviation, job->normalization.scale);
    if (status != QS_OK) qs_dataset_release(&set);
    if (status == QS_OK) *out = set;
    return status;
}

qs_status qs_samples_lend(const qs_dataset *set, const qs_graph *graph, int64_t limit, qs_dataset *out) {
    QS_TRY(qs_samples_fit(set->description.name, &set->description.samples, &graph->samples));
    *out = *set;
    if (limit > 0 && limit < out->count) out->count = limit;
    return QS_OK;
}

/* ---- Lowering -------------------------------------------------------------------------------------------------------------- */

/* What a class's plan says of a case; NULL: nothing, or there is no plan. */
static const qs_plan_kernel *plan_kernel(const qs_class_plan *plan, const char *case_text) {
    for (int i = 0; plan && i < plan->kernels; i++)
        if (strcmp(plan->kernel[i].case_text, case_text) == 0) return &plan->kernel[i];
    return NULL;
}

static qs_kernel_row row_of(const qs_kernel_fact *fact) {
    qs_kernel_row row = {.scratch_bytes = fact->scratch_bytes, .allocates = fact->allocates, .tuned = fact->tuned};
    memcpy(row.kernel, fact->kernel, sizeof row.kernel);
    return row;
}

qs_status qs_lookup_device(void *device, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    (void)case_text;
    qs_kernel_fact fact;
    QS_TRY(qs_device_fact(device, one, &fact));
    *out = row_of(&fact);
    return QS_OK;
}

/* The kernel that the plan names. A plan that names kernels at all decides alone: for other cases (a smaller last step, evaluation) the
 * device's first candidate is taken, whatever it prefers. */
static qs_status lookup_planned(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs__kernels *kernels = context;
    const qs_plan_kernel *planned = plan_kernel(kernels->plan, case_text);
    qs_kernel_fact fact[QS_MOST_CANDIDATES];
    int count = 1;
    if (!kernels->plan || kernels->plan->kernels == 0) return qs_lookup_device(kernels->device, one, case_text, out);
    const qs_status status =
        planned ? qs_device_fact_of(kernels->device, one, planned->kernel, fact) : qs_device_candidates(kernels->device, one, fact, &count);
    if (status == QS_MISMATCH)
        return qs_fail_within(status, "class %s: this device does not run what was planned; plan again for what is at hand",
                              kernels->plan->class_name);
    QS_TRY(status);
    *out = row_of(fact);
    return QS_OK;
}

qs_status qs__program_lower(const qs_graph *graph, const qs_job *job, const qs__formats *formats, qs_mode mode, int64_t batch,
                            const qs__kernels *kernels, qs__program *out) {
    qs__kernels pass = *kernels;
    out->graph = graph;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = job,
                                  .recipe = formats->recipe,
                                  .half = formats->half,
                                  .tensors = formats->tensors,
                                  .joins = formats->joins,
                                  .lookup = lookup_planned,
                                  .context = &pass};
    return qs_schedule_lower(&lowering, &out->schedule);
}

/* ---- Memory of programs ---------------------------------------------------------------------------------------------------- */

void qs__program_release(qs__program *program) {
    qs_executor_release(program->executor);
    qs_schedule_release(program->schedule);
    *program = (qs__program){0};
}

qs_status qs__weights_load(const qs__program *program, const qs_graph *graph, const char *path, const qs_weights_choice *choice,
                           uint64_t *hash) {
    const qs_schedule *schedule = program->schedule;
    float *trained = NULL, *statistics = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(program->executor, schedule->masters, &trained));
    QS_GOTO(qs__executor_copy(program->executor, schedule->running, &statistics));
    QS_GOTO(qs_weights_start(path, graph, choice, trained, statistics, hash));
    QS_GOTO(qs_executor_write(program->executor, schedule->masters, 0, schedule->buffer[schedule->masters].bytes, trained));
    QS_GOTO(qs_executor_write(program->executor, schedule->running, 0, schedule->buffer[schedule->running].bytes, statistics));
done:
    free(trained);
    free(statistics);
    return status;
}

qs_status qs__weights_send(const qs__program *program, qs_comm *comm) {
    const int buffer[] = {program->schedule->masters, program->schedule->running};
    for (int i = 0; i < 2; i++) {
        float *values = NULL;
        if (buffer[i] < 0) continue;
        const size_t bytes = program->schedule->buffer[buffer[i]].bytes;
        qs_status status = qs_comm_agree(comm, qs__executor_copy(program->executor, buffer[i], &values));
        if (status == QS_OK) status = qs_comm_broadcast(comm, values, (int64_t)bytes, 0);
        if (status == QS_OK) status = qs_executor_write(program->executor, buffer[i], 0, bytes, values);
        free(values);
        QS_TRY(status);
    }
    return QS_OK;
}

static bool same_place(const qs_schedule *a, int left, const qs_schedule *b, int right) {
    return left >= 0 && right >= 0 && a->buffer[left].offset == b->buffer[right].offset && a->buffer[left].bytes == b->buffer[right].bytes;
}

qs_status qs__persistent_compare(const qs_schedule *a, const qs_schedule *b) {
    bool same = same_place(a, a->masters, b, b->masters) && same_place(a, a->running, b, b->running) && a->states == b->states;
    for (int i = 0; same && i < a->states; i++)
        same = same_place(a, a->state[i], b, b->state[i]);
    if (a->residuals >= 0 || b->residuals >= 0) same = same && same_place(a, a->residuals, b, b->residuals);
    if (b->gradients >= 0) same = same && same_place(a, a->gradients, b, b->gradients) && a->persistent_bytes == b->persistent_bytes;
    if (same) return QS_OK;
    return qs_fail(QS_FAILED, "schedules of batch %lld and %lld place the persistent memory differently: they cannot share an arena",
                   (long long)a->batch, (long long)b->batch);
}

qs_status qs__sums_add(qs__sums *sums, const qs__program *program, const qs_dataset *dataset, const int64_t *indices, int64_t count) {
    float loss[2];
    QS_TRY(qs_executor_read(program->executor, program->schedule->loss, 0, sizeof loss, loss));
    sums->loss += loss[0];
    sums->correct += dataset->description.samples.target.kind == QS_TARGET_REAL ? (double)NAN : (double)loss[1];
    sums->samples += (double)qs_dataset_counted(dataset, indices, count);
    return QS_OK;
}

double qs__mean(double sum, const qs__sums *sums) {
    return sums->samples > 0 ? sum / sums->samples : 0;
}

/* ---- May this plan run here? ------------------------------------------------------------------------------------------------ */

static const char way_out[] = "plan again for what is at hand";

static qs_status signature_check(const char *what, const char *planned, const char *actual) {
    if (planned[0] == '\0' || strcmp(planned, actual) == 0) return QS_OK;
    return qs_fail(QS_MISMATCH, "the plan was made for another %s (signature %s, this one has %s); %s", what, planned, actual, way_out);
}

static qs_status text_check(const char *what, const char *planned, const char *actual) {
    if (strcmp(planned, actual) == 0) return QS_OK;
    return qs_fail(QS_MISMATCH, "the plan was made for %s %s, the job has %s; %s", what, planned, actual, way_out);
}

static qs_status number_check(const char *what, double planned, double actual) {
    if (planned == actual) return QS_OK;
    return qs_fail(QS_MISMATCH, "the plan was made for %s %.9g, the job has %.9g; %s", what, planned, actual, way_out);
}

/* Of one optimiser. */
static qs_status settings_check(const qs_job *planned, const qs_job *job) {
    const qs_op *op = NULL;
    QS_TRY(qs_optimizer_find(job->optimizer.name, &op));
    for (int i = 0; i < qs_op_settings(op); i++)
        QS_TRY(number_check(op->setting[i].name, planned->optimizer.setting[i], job->optimizer.setting[i]));
    return QS_OK;
}

/* Only what the schedule and its costs depend on: epochs, rate, seed and augmentation may differ from the planned ones. */
static qs_status job_check(const qs_job *planned, const qs_job *job, bool same_model) {
    if (planned->model[0] && !same_model) QS_TRY(text_check("model", planned->model, job->model));
    QS_TRY(number_check("batch", (double)planned->batch, (double)job->batch));
    QS_TRY(text_check("optimizer", planned->optimizer.name, job->optimizer.name));
    QS_TRY(settings_check(planned, job));
    QS_TRY(number_check("dynamic loss scaling", planned->dynamic_loss_scaling, job->dynamic_loss_scaling));
    QS_TRY(number_check("clip norm", planned->clip_norm, job->clip_norm));
    QS_TRY(number_check("layer decay", planned->rate.layer_decay, job->rate.layer_decay));
    QS_TRY(text_check("decay of", planned->decay_matrices ? "matrices" : "all", job->decay_matrices ? "matrices" : "all"));
    QS_TRY(text_check("freeze", planned->freeze[0] ? planned->freeze : "nothing", job->freeze[0] ? job->freeze : "nothing"));
    QS_TRY(number_check("bucket bytes", (double)planned->bucket_bytes, (double)job->bucket_bytes));
    char lengths[2][QS_LENGTHS_TEXT];
    QS_TRY(text_check("lengths", planned->lengths.count ? qs_lengths_text(&planned->lengths, lengths[0]) : "none",
                      job->lengths.count ? qs_lengths_text(&job->lengths, lengths[1]) : "none"));
    QS_TRY(text_check("wire format", planned->wire, job->wire));
    return text_check("all-reduce algorithm", planned->algorithm, job->algorithm);
}

/* Narrower integers lie in the same bytes and take the same products. */
static bool computes(const qs_class *one, const qs_format *format) {
    const bool integer = format->kind == QS_KIND_INTEGER;
    for (int i = 0; i < one->formats; i++) {
        if (one->format[i] == format) return true;
        if (integer && one->format[i]->kind == QS_KIND_INTEGER && one->format[i]->bits >= format->bits) return true;
    }
    return false;
}

static qs_status recipe_check(const qs_class *one, const char *operator_name, const qs_recipe *recipe) {
    const qs_format *used[] = {recipe->forward.src.format,
                               recipe->forward.weights.format,
                               recipe->input_gradient.weights.format,
                               recipe->input_gradient.diff_dst.format,
                               recipe->weight_gradient.src.format,
                               recipe->weight_gradient.diff_dst.format};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        if (used[i] && !computes(one, used[i])) {
            return qs_fail(QS_MISMATCH, "operator %s has recipe %s, but class %s does not compute in %s", operator_name, recipe->name,
                           one->name, used[i]->name);
        }
    }
    return QS_OK;
}

static qs_status class_check(const qs_plan *plan, const qs_class *one) {
    const qs_class_plan *class_plan = qs_plan_class(plan, one->name);
    if (!class_plan) return qs_fail(QS_MISMATCH, "the plan has no device class %s; %s", one->name, way_out);
    for (int i = 0; i < class_plan->operators; i++) {
        const qs_operator_choice *choice = &class_plan->operator_[i];
        const qs_recipe *recipe = qs_plan_recipe(plan, choice->recipe);
        if (recipe) QS_TRY(recipe_check(one, choice->name, recipe));
    }
    return QS_OK;
}

qs_status qs__plan_check(const qs_plan *plan, const qs_job *job, const qs_cluster *cluster, const qs_graph *graph) {
    char signature[32], lengths[QS_LENGTHS_TEXT];
    /* The same graph by whatever name, or the same name, wherever it came from. */
    const bool same_model = strcmp(plan->graph, qs_graph_signature(graph, signature)) == 0 || strcmp(plan->job.model, graph->name) == 0;
    if (!plan->without_job) QS_TRY(job_check(&plan->job, job, same_model));
    QS_TRY(signature_check("model", plan->graph, signature));
    QS_TRY(signature_check("cluster", plan->cluster, qs_cluster_signature(cluster, signature)));
    for (int i = 0; i < cluster->classes; i++) {
        const qs_class_plan *one = qs_plan_class(plan, cluster->class_[i].name);
        QS_TRY(class_check(plan, &cluster->class_[i]));
        bool same = one->lengths == 0 || one->lengths == job->lengths.count;
        for (int k = 0; same && k < one->lengths; k++)
            same = one->length[k].length == job->lengths.at[k];
        if (!same)
            return qs_fail(QS_MISMATCH, "class %s: what the plan says of lengths is not of the job's %s; %s", one->class_name,
                           job->lengths.count ? qs_lengths_text(&job->lengths, lengths) : "single one", way_out);
    }
    return QS_OK;
}

/* Kernel facts as the plan wrote them down. */
static qs_status lookup_plan(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    (void)one;
    const qs_plan_kernel *kernel = plan_kernel(context, case_text);
    if (!kernel) return qs_fail(QS_MISMATCH, "the plan has no kernel for %s; %s", case_text, way_out);
    *out = (qs_kernel_row){.scratch_bytes = (size_t)kernel->scratch_bytes, .allocates = kernel->allocates};
    memcpy(out->kernel, kernel->kernel, sizeof out->kernel);
    return QS_OK;
}

const qs_length_plan *qs__length_plan(const qs_class_plan *plan, int length) {
    return length < plan->lengths ? &plan->length[length] : NULL;
}

qs_status qs__plan_check_schedule(const qs_class_plan *plan, int length, const qs_job *job, const qs__formats *formats,
                                  const qs__program *program) {
    const qs_length_plan *at = qs__length_plan(plan, length);
    const char *wanted = at ? at->schedule : job->lengths.count > 1 && length + 1 < job->lengths.count ? "" : plan->schedule;
    char hash[32], where[QS_NAME + 32];
    if (wanted[0] == '\0' || strcmp(wanted, qs_schedule_hash(program->schedule, hash)) == 0) return QS_OK;
    snprintf(where, sizeof where, "class %s", plan->class_name);
    if (at) snprintf(where, sizeof where, "class %s, length %lld", plan->class_name, (long long)at->length);
    union {
        const qs_class_plan *plan;
        void *context;
    } pass = {.plan = plan}; /* the lookup only reads it */
    const qs_lowering lowering = {.graph = program->graph,
                                  .batch = program->schedule->batch,
                                  .mode = program->schedule->mode,
                                  .job = job,
                                  .recipe = formats->recipe,
                                  .half = formats->half,
                                  .tensors = formats->tensors,
                                  .joins = formats->joins,
                                  .lookup = lookup_plan,
                                  .context = pass.context};
    qs_schedule *planned = NULL;
    QS_TRY(qs_fail_within(qs_schedule_lower(&lowering, &planned), "%s", where));
    qs_status status = qs_schedule_compare(planned, program->schedule);
    qs_schedule_release(planned);
    if (status != QS_OK) return qs_fail_within(status, "%s: this device does not run what was planned; %s", where, way_out);
    return qs_fail(QS_MISMATCH, "%s: the plan's schedule is %s, lowering gives %s: the plan is of another version or was changed; %s",
                   where, wanted, hash, way_out);
}
