// SPDX-License-Identifier: Apache-2.0
/* The present plan of a run, and how another one takes its place between two steps: rank 0 reads it from the watched file, every rank
 * lowers it with the kernels of its device, checks it, makes room and binds the kernels, while what is there stays whole; when all could,
 * all switch, otherwise none.
 *
 * Weights, optimiser state, running statistics, residuals of a narrow wire and gradients lie at the front of the arena, in the same place
 * under every plan of a model: they stay where they are, untouched. The rest holds nothing between steps, so the new plan's part lies over
 * the old one's. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const qs_class *qs__class_of(const qs_cluster *cluster, int rank) {
    return &cluster->class_[qs_cluster_class_of(cluster, rank)];
}

const qs_class_plan *qs__class_plan_of(const qs__setting *setting, const qs__present *present, int rank) {
    return present->plan ? qs_plan_class(present->plan, qs__class_of(setting->options->cluster, rank)->name) : NULL;
}

/* ---- What a plan says ------------------------------------------------------------------------------------------------------------ */

/* Without a plan operators run in fp32, and that adds in fp32. */
static qs_status accumulators_check(const qs_cluster *cluster) {
    char text[QS_NARROW_TEXT];
    for (int i = 0; i < cluster->classes; i++) {
        const qs_class *one = &cluster->class_[i];
        if (one->accumulator.adder)
            return qs_fail(QS_MISMATCH, "class %s adds in %s, training without a plan in fp32; give a plan for it, or leave out the field",
                           one->name, qs_narrow_text(&one->accumulator, text));
    }
    return QS_OK;
}

qs_status qs__plan_choose(const qs__setting *setting, qs__present *present) {
    const qs_cluster *cluster = setting->options->cluster;
    QS_TRY(present->plan ? qs__plan_check(present->plan, setting->job, cluster, setting->graph) : accumulators_check(cluster));
    present->class_plan = qs__class_plan_of(setting, present, setting->rank);
    QS_TRY(qs_plan_bind(present->plan, setting->class_->name, setting->graph, &present->recipe));
    return qs_tensors_bind(present->class_plan, setting->graph, &present->tensors);
}

qs_status qs__plan_deal(const qs__setting *setting, qs__present *present, int64_t *global_batch) {
    const qs_cluster *cluster = setting->options->cluster;
    int64_t *of_class = NULL;
    qs_status status = QS_OK;
    *global_batch = 0;
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *of_class, &of_class));
    QS_GOTO(qs_allocate((size_t)setting->ranks, sizeof *present->batch, &present->batch));
    QS_GOTO(qs_plan_batches(present->plan, cluster, setting->job->batch, of_class));
    for (int rank = 0; rank < setting->ranks; rank++) {
        present->batch[rank] = of_class[qs_cluster_class_of(cluster, rank)];
        *global_batch += present->batch[rank];
    }
done:
    free(of_class);
    return status;
}

qs_status qs__plan_own(qs__present *present) {
    if (present->own) return QS_OK;
    QS_TRY(qs_allocate(1, sizeof *present->own, &present->own));
    QS_TRY(qs_plan_copy(present->plan, present->own));
    present->plan = present->own;
    return QS_OK;
}

int64_t qs__lowered_batch(const qs__setting *setting, const qs__present *present) {
    const int64_t batch = present->batch[setting->rank];
    return batch > 0 ? batch : setting->job->batch;
}

/* ---- Programs over one arena ------------------------------------------------------------------------------------------------------ */

const qs__program *qs__main(const qs__present *present) {
    return &present->at[present->lengths - 1].main;
}

static qs_status training_lower(const qs__setting *setting, const qs__present *present, int length, int64_t batch, qs__program *out) {
    const qs__formats formats = {present->recipe, qs_class_half(setting->class_), &present->tensors, qs_device_joins(setting->device)};
    const qs__kernels kernels = {setting->device, present->class_plan};
    QS_TRY(qs__program_lower(setting->lengths.graph[length], setting->job, &formats, QS_MODE_TRAIN, batch, &kernels, out));
    if (batch != qs__lowered_batch(setting, present) || !present->class_plan) return QS_OK;
    return qs__plan_check_schedule(present->class_plan, length, setting->job, &formats, out);
}

/* This rank's samples of the smaller step that every epoch has of a length, whatever the epoch; 0: there is none, or not for this rank. */
static qs_status partial_count(const qs__setting *setting, const qs_sharding *sharding, const qs__present *present, int length,
                               int64_t *count) {
    qs_sharding dealt = *sharding;
    const int64_t *indices, epoch = sharding->epoch < 0 ? 0 : sharding->epoch; /* the order of samples at hand stays */
    int64_t first, global;
    dealt.batch = present->batch;
    *count = 0;
    for (int64_t step = setting->steps_per_epoch - 1; step >= 0; step--) {
        int of;
        QS_TRY(qs_sharding_size(&dealt, epoch, step, &of, &global));
        if (of == length && global < setting->global_batch)
            return qs_sharding_step(&dealt, epoch, step, setting->rank, &indices, count, &first, &global);
        if (sharding->lengths.count == 0) return QS_OK; /* it would be the last */
    }
    return QS_OK;
}

static qs_status partial_lower(const qs__setting *setting, const qs_sharding *sharding, qs__present *present, int length) {
    qs__program *partial = &present->at[length].partial;
    int64_t count;
    QS_TRY(partial_count(setting, sharding, present, length, &count));
    if (count == 0 || count == present->batch[setting->rank]) return QS_OK;
    QS_TRY(training_lower(setting, present, length, count, partial));
    const size_t wanted = partial->schedule->arena_bytes;
    if (wanted > present->arena_bytes) {
        return qs_fail(QS_INFEASIBLE,
                       "class %s: a smaller step has %lld samples and needs %zu bytes, the full batch reserves %zu; limit the "
                       "training samples to whole batches",
                       setting->class_->name, (long long)count, wanted, present->arena_bytes);
    }
    return qs__persistent_compare(qs__main(present)->schedule, partial->schedule);
}

qs_status qs__evaluation_lower(const qs__setting *setting, const qs__present *present, int length, const qs__formats *formats,
                               const qs__kernels *kernels, qs__program *out) {
    for (int64_t batch = qs__lowered_batch(setting, present); batch > 0; batch /= 2) {
        QS_TRY(qs__program_lower(setting->lengths.graph[length], setting->job, formats, QS_MODE_EVALUATION, batch, kernels, out));
        QS_TRY(qs__persistent_compare(qs__main(present)->schedule, out->schedule));
        if (out->schedule->arena_bytes <= present->arena_bytes) return QS_OK;
        qs__program_release(out);
    }
    return QS_OK;
}

/* Evaluation is fp32 whatever the plan. */
static qs_status plain_lower(const qs__setting *setting, qs__present *present, int length) {
    const qs__formats plain = {.half = qs_format_of("fp32")};
    const qs__kernels kernels = {setting->device, present->class_plan};
    qs__program *out = &present->at[length].evaluation;
    QS_TRY(qs__evaluation_lower(setting, present, length, &plain, &kernels, out));
    if (out->schedule) return QS_OK;
    return qs_fail(QS_INFEASIBLE,
                   "class %s: not even one sample can be evaluated in fp32 within the %zu bytes of training; a larger batch, "
                   "or a plan in wider formats, reserves more",
                   setting->class_->name, present->arena_bytes);
}

static qs_status present_lower(const qs__setting *setting, const qs_sharding *sharding, qs__present *present) {
    present->lengths = setting->lengths.count;
    for (int k = 0; k < present->lengths; k++) {
        const qs__program *main = &present->at[k].main;
        QS_TRY(training_lower(setting, present, k, qs__lowered_batch(setting, present), &present->at[k].main));
        QS_TRY(qs_schedule_fits(main->schedule, setting->class_->memory_limit, setting->class_->name));
        if (k > 0) QS_TRY(qs__persistent_compare(present->at[0].main.schedule, main->schedule));
        if (main->schedule->arena_bytes > present->arena_bytes) present->arena_bytes = main->schedule->arena_bytes;
    }
    for (int k = 0; k < present->lengths; k++) {
        QS_TRY(partial_lower(setting, sharding, present, k));
        if (setting->options->test_limit >= 0) QS_TRY(plain_lower(setting, present, k));
    }
    return QS_OK;
}

static qs_status present_bind(const qs__setting *setting, qs_memory *memory, qs__present *present) {
    for (int k = 0; k < present->lengths; k++) {
        qs__program *programs[] = {&present->at[k].main, &present->at[k].partial, &present->at[k].evaluation};
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            if (programs[i]->schedule)
                QS_TRY(qs_executor_create(programs[i]->schedule, setting->device, setting->comm, memory, &programs[i]->executor));
    }
    return QS_OK;
}

static void present_release(qs__present *present) {
    for (int k = 0; k < present->lengths; k++) {
        qs__program_release(&present->at[k].evaluation);
        qs__program_release(&present->at[k].partial);
        qs__program_release(&present->at[k].main);
    }
    free(present->recipe);
    qs_tensor_table_release(&present->tensors);
    free(present->batch);
    if (present->own) qs_plan_release(present->own);
    free(present->own);
    *present = (qs__present){0};
}

/* A clock for each length beside the full-size steps from `step` on; only a step of the longest one becomes a trace. */
static qs_status watches_create(const qs__setting *setting, qs_sharding *sharding, const qs__present *present, int64_t step,
                                qs__watch *out) {
    int64_t full[QS_MOST_LENGTHS] = {0};
    for (; step < setting->steps; step++) {
        int length;
        int64_t samples;
        QS_TRY(qs_sharding_size(sharding, step / setting->steps_per_epoch, step % setting->steps_per_epoch, &length, &samples));
        full[length] += samples == setting->global_batch;
    }
    for (int k = 0; k < present->lengths; k++)
        QS_TRY(qs__watch_create(&present->at[k].main, full[k], setting->options->trace && k + 1 == present->lengths, &out[k]));
    return QS_OK;
}

static void watches_release(qs__watch *watch) {
    for (int k = 0; k < QS_MOST_LENGTHS; k++)
        qs__watch_release(&watch[k]);
}

qs_status qs__plans_start(const qs__setting *setting, qs__plans *plans) {
    QS_TRY(present_lower(setting, &plans->sharding, &plans->present));
    QS_TRY(qs_memory_reserve(setting->device, plans->present.arena_bytes, &plans->memory));
    return present_bind(setting, plans->memory, &plans->present);
}

qs_status qs__plans_watch(const qs__setting *setting, qs__plans *plans, int64_t step) {
    return watches_create(setting, &plans->sharding, &plans->present, step, plans->watch);
}

void qs__plans_release(qs__plans *plans) {
    watches_release(plans->watch);
    present_release(&plans->present);
    qs_memory_release(plans->memory);
    qs_sharding_release(&plans->test_sharding);
    qs_sharding_release(&plans->sharding);
    free(plans->taken);
    *plans = (qs__plans){0};
}

/* ---- Another plan ------------------------------------------------------------------------------------------------------------------- */

/* What the run would be under next->plan, on the arena of the present one, which grows where it must. */
static qs_status next_prepare(const qs__setting *setting, qs__plans *plans, int64_t step, qs__present *next, qs__watch *watch) {
    int64_t global_batch;
    QS_TRY(qs_grow(&plans->taken, &plans->room, plans->count + 1, sizeof *plans->taken));
    QS_TRY(qs__plan_choose(setting, next));
    QS_TRY(qs__plan_deal(setting, next, &global_batch));
    QS_TRY(present_lower(setting, &plans->sharding, next));
    QS_TRY(qs__persistent_compare(qs__main(&plans->present)->schedule, qs__main(next)->schedule));
    if (next->arena_bytes > qs_memory_bytes(plans->memory)) QS_TRY(qs_memory_resize(plans->memory, next->arena_bytes));
    QS_TRY(present_bind(setting, plans->memory, next));
    return watches_create(setting, &plans->sharding, next, step, watch);
}

/* What the present schedule does not need goes back to the system. */
static void memory_return(const qs__setting *setting, qs__plans *plans, size_t arena_bytes) {
    (void)qs_memory_resize(plans->memory, arena_bytes); /* never larger than it is */
    qs_device_trim(setting->device);
    qs_heap_trim();
}

qs_status qs__plan_take(const qs__setting *setting, qs__plans *plans, int64_t step, qs_plan *plan, qs__replan_figures *figures) {
    const double begin = qs_clock();
    const size_t arena_before = qs_memory_bytes(plans->memory);
    qs__present next = {.plan = plan, .own = plan, .first_step = step};
    qs__watch watch[QS_MOST_LENGTHS] = {{0}};
    const qs_status status = qs_comm_agree(setting->comm, next_prepare(setting, plans, step, &next, watch));
    if (status != QS_OK) {
        watches_release(watch);
        present_release(&next);
        memory_return(setting, plans, arena_before);
        return status;
    }
    *figures = (qs__replan_figures){.arena_before = (int64_t)arena_before};
    qs_schedule_hash(qs__main(&plans->present)->schedule, figures->schedule_before);
    qs_schedule_hash(qs__main(&next)->schedule, figures->schedule);
    watches_release(plans->watch);
    present_release(&plans->present);
    plans->present = next;
    memcpy(plans->watch, watch, sizeof plans->watch);
    plans->sharding.batch = plans->test_sharding.batch = next.batch;
    memory_return(setting, plans, next.arena_bytes);
    figures->arena = (int64_t)qs_memory_bytes(plans->memory);
    qs__switch *one = &plans->taken[plans->count++];
    *one = (qs__switch){.step = step, .us = 1e6 * (qs_clock() - begin)};
    return qs_comm_max(setting->comm, &one->us, 1);
}

qs_status qs__replan_gather(const qs__setting *setting, const qs__replan_figures *mine, qs__replan_figures **all) {
    char *data = NULL;
    int64_t *sizes = NULL;
    *all = NULL;
    QS_TRY(qs_comm_gather(setting->comm, mine, (int64_t)sizeof *mine, &data, &sizes));
    free(sizes);
    *all = (qs__replan_figures *)(void *)data; /* from the heap: aligned for anything */
    return QS_OK;
}

/* ---- Offered by rank 0 -------------------------------------------------------------------------------------------------------------- */

/* Rank 0's text as a plan of this rank. */
static qs_status plan_parse(const char *text, qs_plan **out) {
    QS_TRY(qs_allocate(1, sizeof **out, out));
    return qs_plan_parse(text, "new plan", *out);
}

qs_status qs__plan_offered_take(const qs__setting *setting, qs__plans *plans, int64_t step, char *text, bool *taken,
                                qs__replan_figures *figures) {
    qs_plan *plan = NULL;
    *taken = false;
    qs_status status = qs_comm_broadcast_text(setting->comm, &text, 0);
    if (status == QS_OK && !text) return QS_OK;
    if (status == QS_OK) status = qs_comm_agree(setting->comm, plan_parse(text, &plan));
    free(text);
    if (status == QS_OK) {
        status = qs__plan_take(setting, plans, step, plan, figures);
    } else {
        if (plan) qs_plan_release(plan);
        free(plan);
    }
    *taken = status == QS_OK;
    return status == QS_PEER_LOST ? status : QS_OK; /* only that ends the run */
}

/* ---- The watched file --------------------------------------------------------------------------------------------------------------- */

bool qs__plan_file_changed(const qs__setting *setting, qs__plans *plans, int64_t step) {
    const qs_train_options *options = setting->options;
    const int64_t done = step + 1; /* the step at hand included */
    struct stat facts;
    if (!options->watch_plan || setting->rank != 0 || done < options->watch_after || done == setting->steps) return false;
    uint64_t there = 0;
    if (stat(options->watch_plan, &facts) == 0) {
        /* A file that replaced another has another inode; one written over, another time or size. */
        const int64_t all[] = {(int64_t)facts.st_dev, (int64_t)facts.st_ino, (int64_t)facts.st_size, (int64_t)facts.st_mtim.tv_sec,
                               (int64_t)facts.st_mtim.tv_nsec};
        there = qs_hash(all, sizeof all, 0) | 1; /* never 0 */
    }
    const bool changed = there != 0 && there != plans->file;
    plans->file = there;
    return changed;
}

/* Files count by what stands in them: *text stays NULL for the present plan, written again. The cluster's signature becomes the run's: who
 * takes memory back plans with a cluster file of other limits. What a schedule depends on is checked piece by piece: classes, formats,
 * kernels, hash. */
static qs_status plan_file_read(const qs__setting *setting, const qs_plan *present, char **text) {
    const char *path = setting->options->watch_plan;
    const qs_cluster *cluster = setting->options->cluster;
    struct stat facts;
    qs_plan plan = {0};
    char *offered = NULL, *now = NULL;
    qs_status status = QS_OK;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) /* a pipe would block the run */
        return qs_fail(QS_BAD_FILE, "%s: is not a regular file", path);
    QS_TRY(qs_plan_read(path, &plan));
    if (plan.cluster[0]) qs_cluster_signature(cluster, plan.cluster);
    QS_GOTO(qs_fail_within(qs__plan_check(&plan, setting->job, cluster, setting->graph), "%s", path));
    QS_GOTO(qs_plan_text(&plan, &offered));
    if (present) QS_GOTO(qs_plan_text(present, &now));
    if (!now || strcmp(now, offered) != 0) {
        *text = offered;
        offered = NULL;
    }
done:
    free(offered);
    free(now);
    qs_plan_release(&plan);
    return status;
}

qs_status qs__replan(const qs__setting *setting, qs__plans *plans, int64_t step, bool *taken, qs__replan_figures *figures) {
    const char *path = setting->options->watch_plan;
    char *text = NULL;
    plans->offered = false;
    if (setting->rank == 0 && plan_file_read(setting, plans->present.plan, &text) != QS_OK)
        qs_log(QS_LOG_WARNING, "new plan refused: %s; training goes on with the present one", qs_message());
    const bool told = text != NULL; /* of rank 0 */
    QS_TRY(qs__plan_offered_take(setting, plans, step, text, taken, figures));
    if (!told) return QS_OK;
    if (*taken)
        qs_log(QS_LOG_INFO, "plan %s runs from step %lld on: arena of rank 0 %lld bytes, before %lld; the switch took %.1f ms", path,
               (long long)step + 1, (long long)figures->arena, (long long)figures->arena_before, 1e-3 * plans->taken[plans->count - 1].us);
    else
        qs_log(QS_LOG_WARNING, "new plan %s refused before step %lld: %s; training goes on with the present one", path, (long long)step + 1,
               qs_message());
    return QS_OK;
}
