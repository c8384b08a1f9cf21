// SPDX-License-Identifier: Apache-2.0
/* Another plan in a running job, between two steps. Rank 0's text goes to all; every rank lowers it with the kernels of its device, checks
 * it, makes room and binds the kernels, while what is there stays whole; when all could, all switch, otherwise none.
 *
 * Weights, optimiser state, running statistics, residuals of a narrow wire and gradients lie at the front of the arena, in the same place
 * under every plan of a model: they stay where they are, untouched. The rest holds nothing between steps, so the new plan's part lies over
 * the old one's. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Preparing ----------------------------------------------------------------------------------------------------------------- */

/* All that no plan changes. */
static qs__trainer common_of(const qs__trainer *trainer) {
    qs__trainer common = *trainer;
    common.plan = NULL;
    common.taken = NULL;
    common.class_plan = NULL;
    common.recipe = NULL;
    common.batch = NULL;
    common.global_batch = 0;
    common.main = common.partial = common.evaluation = (qs__program){0};
    common.watch = (qs__watch){0};
    return common;
}

/* The trainer as it would be under the plan in `text`, on the arena of the present one, which grows where it must. */
static qs_status next_prepare(qs__trainer *trainer, const char *text, qs__trainer *next) {
    QS_TRY(qs_grow(&trainer->plan_switch, &trainer->plan_switch_room, trainer->plan_switches + 1, sizeof *trainer->plan_switch));
    *next = common_of(trainer);
    QS_TRY(qs_allocate(1, sizeof *next->taken, &next->taken));
    QS_TRY(qs_plan_parse(text, "new plan", next->taken));
    next->plan = next->taken;
    QS_TRY(qs__plan_choose(next));
    QS_TRY(qs__plan_deal(next));
    next->sharding.batch = next->test_sharding.batch = next->batch;
    QS_TRY(qs__plan_lower(next));
    QS_TRY(qs__persistent_compare(trainer->main.schedule, next->main.schedule));
    const size_t wanted = next->main.schedule->arena_bytes;
    if (wanted > trainer->arena.bytes) QS_TRY(qs_arena_resize(&trainer->arena, wanted));
    return qs__plan_bind(next);
}

/* ---- Switching ----------------------------------------------------------------------------------------------------------------- */

/* Old kernels go, `next` moves in, and what its schedule does not need goes back to the system. */
static void move_in(qs__trainer *trainer, const qs__trainer *next) {
    const qs_arena arena = trainer->arena;
    qs__plan_release(trainer);
    *trainer = *next;
    trainer->arena = arena;
    trainer->plan_step = trainer->step;
    qs__rounding_follow(trainer);
    (void)qs_arena_resize(&trainer->arena, trainer->main.schedule->arena_bytes); /* never larger than it is */
    qs_device_trim(trainer->device);
    qs_heap_trim();
}

static qs_status duration_note(qs__trainer *trainer, double begin) {
    qs__switch *one = &trainer->plan_switch[trainer->plan_switches++];
    *one = (qs__switch){.step = trainer->step, .us = 1e6 * (qs_clock() - begin)};
    return qs_comm_max(trainer->comm, &one->us, 1);
}

static void switch_log(const qs__trainer *trainer, const qs__replan_figures *mine) {
    const qs__switch *last = &trainer->plan_switch[trainer->plan_switches - 1];
    if (trainer->rank != 0) return;
    qs_log(QS_LOG_INFO, "plan %s runs from step %lld on: arena of rank 0 %lld bytes, before %lld; the switch took %.1f ms",
           trainer->options->watch_plan, (long long)trainer->step + 1, (long long)mine->arena, (long long)mine->arena_before,
           1e-3 * last->us);
}

qs_status qs__replan_gather(qs__trainer *trainer, const qs__replan_figures *mine, qs__replan_figures **all) {
    char *data = NULL;
    int64_t *sizes = NULL;
    *all = NULL;
    QS_TRY(qs_comm_gather(trainer->comm, mine, (int64_t)sizeof *mine, &data, &sizes));
    free(sizes);
    *all = (qs__replan_figures *)(void *)data; /* from the heap: aligned for anything */
    return QS_OK;
}

static qs_status switch_record(qs__trainer *trainer, int64_t epoch, const qs__replan_figures *mine) {
    qs__replan_figures *all = NULL;
    QS_TRY(qs__replan_gather(trainer, mine, &all));
    const qs_status status = trainer->rank == 0 ? qs__metrics_replan(trainer, epoch, all) : QS_OK;
    free(all);
    return qs_comm_agree(trainer->comm, status);
}

/* A refusal on any rank leaves everything as it was. */
static qs_status next_drop(qs__trainer *trainer, qs__trainer *next, size_t arena_before, qs_status status) {
    qs__plan_release(next);
    (void)qs_arena_resize(&trainer->arena, arena_before); /* never larger than it is */
    qs_device_trim(trainer->device);
    qs_heap_trim();
    return status;
}

qs_status qs__plan_take(qs__trainer *trainer, const char *text, qs__replan_figures *figures) {
    const double begin = qs_clock();
    const size_t arena_before = trainer->arena.bytes;
    qs__trainer next = {0};
    const qs_status status = qs_comm_agree(trainer->comm, next_prepare(trainer, text, &next));
    if (status != QS_OK) return next_drop(trainer, &next, arena_before, status);
    *figures = (qs__replan_figures){.arena_before = (int64_t)arena_before};
    qs_schedule_hash(trainer->main.schedule, figures->schedule_before);
    qs_schedule_hash(next.main.schedule, figures->schedule);
    move_in(trainer, &next);
    figures->arena = (int64_t)trainer->arena.bytes;
    return duration_note(trainer, begin);
}

/* ---- All together --------------------------------------------------------------------------------------------------------------- */

/* Only a lost peer ends the run. */
static qs_status refuse(const qs__trainer *trainer, qs_status status) {
    if (status == QS_PEER_LOST) return status;
    if (trainer->rank == 0)
        qs_log(QS_LOG_WARNING, "new plan %s refused before step %lld: %s; training goes on with the present one",
               trainer->options->watch_plan, (long long)trainer->step + 1, qs_message());
    return QS_OK;
}

qs_status qs__replan(qs__trainer *trainer, int64_t epoch) {
    qs__replan_figures mine;
    char *text = trainer->rank == 0 ? qs__plan_file_read(trainer) : NULL;
    trainer->plan_offered = false;
    qs_status status = qs_comm_broadcast_text(trainer->comm, &text, 0);
    if (status == QS_OK && !text) return QS_OK;
    if (status == QS_OK) status = qs__plan_take(trainer, text, &mine);
    free(text);
    if (status != QS_OK) return refuse(trainer, status);
    qs__promotions_forget(trainer);
    switch_log(trainer, &mine);
    return switch_record(trainer, epoch, &mine);
}
