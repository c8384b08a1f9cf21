// SPDX-License-Identifier: Apache-2.0
/* Everything before the first step: model, plan checks, data, the one arena and the programs over it. Each rank works alone, then all
 * agree, so that whatever one of them lacks stops all with its message. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

static qs_status cluster_check(const qs_train_options *options, int ranks) {
    int wanted = qs_cluster_ranks(options->cluster);
    if (wanted == ranks) return QS_OK;
    return qs_fail(QS_USAGE, "the cluster has %d ranks but %d were started; start %d, or change the counts of its classes", wanted, ranks,
                   wanted);
}

const qs_class *qs__class_of(const qs__trainer *trainer, int rank) {
    return &trainer->options->cluster->class_[qs_cluster_class_of(trainer->options->cluster, rank)];
}

const qs_class_plan *qs__class_plan_of(const qs__trainer *trainer, int rank) {
    return trainer->plan ? qs_plan_class(trainer->plan, qs__class_of(trainer, rank)->name) : NULL;
}

static qs_status transport_set(qs_comm *comm, const qs_job *job) {
    QS_TRY(qs_comm_wire_check(job->wire, job->algorithm));
    return qs_comm_algorithm_set(comm, job->algorithm);
}

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

qs_status qs__plan_choose(qs__trainer *trainer) {
    const qs_cluster *cluster = trainer->options->cluster;
    QS_TRY(trainer->plan ? qs__plan_check(trainer->plan, trainer->job, cluster, trainer->graph) : accumulators_check(cluster));
    trainer->class_plan = qs__class_plan_of(trainer, trainer->rank);
    QS_TRY(qs_plan_bind(trainer->plan, trainer->class_->name, trainer->graph, &trainer->recipe));
    return qs_tensors_bind(trainer->class_plan, trainer->graph, &trainer->tensors);
}

static qs_status model_bind(qs__trainer *trainer) {
    QS_TRY(transport_set(trainer->comm, trainer->job));
    QS_TRY(qs_job_model(trainer->job, &trainer->graph));
    QS_TRY(qs__norm_gap_check(trainer));
    trainer->class_ = qs__class_of(trainer, trainer->rank);
    trainer->plan = trainer->options->plan;
    QS_TRY(qs__rounding_create(trainer));
    QS_TRY(qs__thresholds_set(trainer));
    QS_TRY(qs__promotions_resume(trainer));
    QS_TRY(qs__plan_choose(trainer));
    qs__rounding_follow(trainer);
    return QS_OK;
}

/* ---- Data ------------------------------------------------------------------------------------------------------------------ */

static qs_status part_load(qs__trainer *trainer, qs_part part, int64_t limit, qs_dataset *out) {
    const qs_shape *input = &trainer->graph->node[0].shape;
    QS_TRY(qs_dataset_load(trainer->job->dataset, trainer->options->data_folder, part, limit, out));
    return qs_dataset_fit(out, (int)input->dim[1], (int)input->dim[2], (int)input->dim[3], trainer->graph->classes);
}

qs_status qs__plan_deal(qs__trainer *trainer) {
    const qs_cluster *cluster = trainer->options->cluster;
    int64_t *of_class = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *of_class, &of_class));
    QS_GOTO(qs_allocate((size_t)trainer->ranks, sizeof *trainer->batch, &trainer->batch));
    QS_GOTO(qs_plan_batches(trainer->plan, cluster, trainer->job->batch, of_class));
    for (int rank = 0; rank < trainer->ranks; rank++) {
        trainer->batch[rank] = of_class[qs_cluster_class_of(cluster, rank)];
        trainer->global_batch += trainer->batch[rank];
    }
done:
    free(of_class);
    return status;
}

static int64_t steps_of_run(const qs__trainer *trainer) {
    int64_t all = trainer->steps_per_epoch * trainer->job->epochs, limit = trainer->options->max_steps;
    return limit > 0 && limit < all ? limit : all;
}

static qs_status sets_load(qs__trainer *trainer) {
    const qs_train_options *options = trainer->options;
    const uint64_t seed = trainer->job->seed;
    QS_TRY(part_load(trainer, QS_PART_TRAINING, options->training_limit, &trainer->training));
    QS_TRY(qs__plan_deal(trainer));
    QS_TRY(qs_sharding_create(trainer->training.count, trainer->ranks, trainer->batch, seed, true, &trainer->sharding));
    trainer->augmentation =
        (qs_augmentation){.enabled = trainer->job->augmentation, .pad = trainer->training.height < 32 ? 2 : 4, .seed = seed};
    trainer->steps_per_epoch = qs_sharding_steps(&trainer->sharding);
    trainer->steps = steps_of_run(trainer);
    if (options->test_limit < 0) return QS_OK;
    QS_TRY(part_load(trainer, QS_PART_TEST, options->test_limit, &trainer->test));
    return qs_sharding_create(trainer->test.count, trainer->ranks, trainer->batch, seed, false, &trainer->test_sharding);
}

static qs_status data_load(qs__trainer *trainer) {
    const int64_t before = qs_resident_bytes();
    const qs_status status = sets_load(trainer);
    qs_heap_trim();
    const int64_t grown = qs_resident_bytes() - before;
    trainer->data_bytes = grown > 0 ? grown : 0;
    return status;
}

/* ---- Programs over one arena ------------------------------------------------------------------------------------------------ */

static qs__formats formats_of(const qs__trainer *trainer) {
    return (qs__formats){trainer->recipe, qs_class_half(trainer->class_), &trainer->tensors};
}

static qs_status training_lower(qs__trainer *trainer, int64_t batch, qs__program *out) {
    const qs__formats formats = formats_of(trainer);
    const qs__kernels kernels = {trainer->device, trainer->class_plan};
    return qs__program_lower(trainer->graph, trainer->job, &formats, QS_MODE_TRAIN, batch, &kernels, out);
}

static qs_status main_lower(qs__trainer *trainer) {
    const qs__formats formats = formats_of(trainer);
    QS_TRY(training_lower(trainer, trainer->batch[trainer->rank], &trainer->main));
    if (trainer->class_plan)
        QS_TRY(qs__plan_check_schedule(trainer->class_plan, trainer->graph, trainer->job, &formats, trainer->main.schedule));
    return qs_schedule_fits(trainer->main.schedule, trainer->class_->memory_limit, trainer->class_->name);
}

/* The last step of every epoch deals the same, smaller number of samples: the epoch at hand tells, its order of samples stays. */
static qs_status partial_lower(qs__trainer *trainer) {
    const int64_t *indices, epoch = trainer->sharding.epoch < 0 ? 0 : trainer->sharding.epoch;
    int64_t count, first, global;
    QS_TRY(qs_sharding_step(&trainer->sharding, epoch, trainer->steps_per_epoch - 1, trainer->rank, &indices, &count, &first, &global));
    if (count == 0 || count == trainer->batch[trainer->rank]) return QS_OK;
    QS_TRY(training_lower(trainer, count, &trainer->partial));
    const size_t wanted = trainer->partial.schedule->arena_bytes, reserved = trainer->main.schedule->arena_bytes;
    if (wanted > reserved) {
        return qs_fail(QS_INFEASIBLE,
                       "class %s: the last step of an epoch has %lld samples and needs %zu bytes, the full batch reserves %zu; limit the "
                       "training samples to whole batches",
                       trainer->class_->name, (long long)count, wanted, reserved);
    }
    return qs__persistent_compare(trainer->main.schedule, trainer->partial.schedule);
}

/* Evaluation is fp32 whatever the plan; it works in smaller pieces where fp32 activations would not fit in the plan's memory. */
static qs_status evaluation_lower(qs__trainer *trainer) {
    const size_t reserved = trainer->main.schedule->arena_bytes;
    const qs__formats plain = {.half = qs_format_of("fp32")};
    const qs__kernels kernels = {trainer->device, trainer->class_plan};
    for (int64_t batch = trainer->batch[trainer->rank]; batch > 0; batch /= 2) {
        QS_TRY(qs__program_lower(trainer->graph, trainer->job, &plain, QS_MODE_EVALUATION, batch, &kernels, &trainer->evaluation));
        QS_TRY(qs__persistent_compare(trainer->main.schedule, trainer->evaluation.schedule));
        if (trainer->evaluation.schedule->arena_bytes <= reserved) return QS_OK;
        qs__program_release(&trainer->evaluation);
    }
    return qs_fail(QS_INFEASIBLE, "class %s: not even one sample can be evaluated in fp32 within the %zu bytes of training",
                   trainer->class_->name, reserved);
}

qs_status qs__plan_lower(qs__trainer *trainer) {
    QS_TRY(main_lower(trainer));
    QS_TRY(partial_lower(trainer));
    return trainer->options->test_limit >= 0 ? evaluation_lower(trainer) : QS_OK;
}

/* Full-size steps among the first `steps`: the last step of an epoch may be a smaller one. */
static int64_t full_steps(const qs__trainer *trainer, int64_t steps) {
    const int64_t an_epoch = trainer->training.count / trainer->global_batch, rest = steps % trainer->steps_per_epoch;
    return steps / trainer->steps_per_epoch * an_epoch + (rest < an_epoch ? rest : an_epoch);
}

static qs_status watch_start(qs__trainer *trainer) {
    const int64_t full = full_steps(trainer, trainer->steps) - full_steps(trainer, trainer->step);
    qs__watch_release(&trainer->watch);
    return qs__watch_create(&trainer->main, full, trainer->options->trace, &trainer->watch);
}

qs_status qs__plan_bind(qs__trainer *trainer) {
    void *memory = trainer->arena.memory;
    QS_TRY(qs__program_bind(&trainer->main, trainer->device, trainer->comm, memory));
    if (trainer->partial.schedule) QS_TRY(qs__program_bind(&trainer->partial, trainer->device, trainer->comm, memory));
    if (qs__evaluates(trainer)) QS_TRY(qs__program_bind(&trainer->evaluation, trainer->device, trainer->comm, memory));
    return watch_start(trainer);
}

void qs__plan_release(qs__trainer *trainer) {
    qs__watch_release(&trainer->watch);
    qs__program_release(&trainer->evaluation);
    qs__program_release(&trainer->partial);
    qs__program_release(&trainer->main);
    free(trainer->recipe);
    qs_tensor_table_release(&trainer->tensors);
    free(trainer->batch);
    if (trainer->taken) qs_plan_release(trainer->taken);
    free(trainer->taken);
}

static qs_status weights_start(qs__trainer *trainer) {
    const qs__program *program = &trainer->main;
    const char *file = trainer->options->start_weights;
    QS_TRY(qs_executor_initialize(program->executor, trainer->graph, trainer->job->seed));
    return file ? qs__weights_load(program, trainer->graph, file) : QS_OK;
}

static qs_status memory_fill(qs__trainer *trainer) {
    QS_TRY(qs__plan_lower(trainer));
    QS_TRY(qs_arena_reserve(trainer->main.schedule->arena_bytes, &trainer->arena));
    QS_TRY(qs__plan_bind(trainer));
    return weights_start(trainer);
}

/* The clock beside the steps counts those that are left. */
static qs_status going_on(qs__trainer *trainer) {
    QS_TRY(qs__state_load(trainer));
    return watch_start(trainer);
}

/* ---- All together ------------------------------------------------------------------------------------------------------------- */

static qs_status create_alone(qs__trainer *trainer) {
    QS_TRY(cluster_check(trainer->options, trainer->ranks));
    QS_TRY(model_bind(trainer));
    QS_TRY(data_load(trainer));
    QS_TRY(memory_fill(trainer));
    trainer->scale = qs_loss_scale_start(trainer->job);
    trainer->scale.growth_steps = trainer->options->scale_growth > 0 ? trainer->options->scale_growth : trainer->steps_per_epoch;
    trainer->failure.step = -1;
    if (trainer->options->resume) QS_TRY(going_on(trainer));
    return qs_allocate((size_t)trainer->steps, sizeof *trainer->seconds, &trainer->seconds);
}

qs_status qs__trainer_create(const qs_train_options *options, qs_device *device, qs_comm *comm, qs__trainer *out) {
    *out = (qs__trainer){
        .options = options, .job = options->job, .device = device, .comm = comm, .rank = qs_comm_rank(comm), .ranks = qs_comm_size(comm)};
    QS_TRY(qs_comm_agree(comm, create_alone(out)));
    QS_TRY(qs__inputs_agree(out));
    QS_TRY(qs_comm_agree(comm, qs__metrics_open(out)));
    qs_heap_trim();
    return QS_OK;
}

void qs__trainer_release(qs__trainer *trainer) {
    qs__plan_release(trainer);
    qs_arena_release(&trainer->arena);
    qs_sharding_release(&trainer->test_sharding);
    qs_sharding_release(&trainer->sharding);
    qs_dataset_release(&trainer->test);
    qs_dataset_release(&trainer->training);
    qs_graph_release(trainer->graph);
    free(trainer->seconds);
    free(trainer->plan_switch);
    qs__rounding_release(&trainer->rounding);
    if (trainer->metrics) fclose(trainer->metrics);
    *trainer = (qs__trainer){0};
}
