// SPDX-License-Identifier: Apache-2.0
/* Another plan in a running job, between two steps. Rank 0's text goes to all; every rank lowers it with the kernels of its device, checks
 * it, makes room and binds the kernels, while what is there stays whole; when all could, all switch, otherwise none.
 *
 * Weights, optimiser state, running statistics and gradients lie at the front of the arena, in the same place under every plan of a model:
 * they stay where they are, untouched. The rest holds nothing between steps, so the new plan's part lies over the old one's. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

/* Text of rank 0 on the heap of all; stays NULL when rank 0 has none. */
static qs_status text_share(const qs__trainer *trainer, char **text) {
    int64_t bytes = *text ? (int64_t)strlen(*text) + 1 : 0;
    QS_TRY(qs_comm_broadcast(trainer->comm, &bytes, sizeof bytes, 0));
    if (bytes == 0) return QS_OK;
    QS_TRY(qs_comm_agree(trainer->comm, *text ? QS_OK : qs_allocate((size_t)bytes, 1, text)));
    return qs_comm_broadcast(trainer->comm, *text, bytes, 0);
}

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

static qs_status switch_record(qs__trainer *trainer, int64_t epoch, const qs__replan_figures *mine) {
    const size_t ranks = (size_t)trainer->ranks;
    qs__replan_figures *all = NULL;
    char *data = NULL;
    int64_t *sizes = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_gather(trainer->comm, mine, (int64_t)sizeof *mine, &data, &sizes));
    if (trainer->rank == 0) {
        status = qs_allocate(ranks, sizeof *all, &all);
        if (status == QS_OK) memcpy(all, data, ranks * sizeof *all);
        if (status == QS_OK) status = qs__metrics_replan(trainer, epoch, all);
    }
    status = qs_comm_agree(trainer->comm, status);
done:
    free(all);
    free(data);
    free(sizes);
    return status;
}

static qs_status switch_to(qs__trainer *trainer, const qs__trainer *next, size_t arena_before, int64_t epoch, double begin) {
    qs__replan_figures mine = {.arena_before = (int64_t)arena_before};
    qs_schedule_hash(trainer->main.schedule, mine.schedule_before);
    qs_schedule_hash(next->main.schedule, mine.schedule);
    move_in(trainer, next);
    mine.arena = (int64_t)trainer->arena.bytes;
    QS_TRY(duration_note(trainer, begin));
    switch_log(trainer, &mine);
    return switch_record(trainer, epoch, &mine);
}

/* ---- All together --------------------------------------------------------------------------------------------------------------- */

/* A refusal on any rank leaves everything as it was; only a lost peer ends the run. */
static qs_status refuse(qs__trainer *trainer, qs__trainer *next, size_t arena_before, qs_status status) {
    if (trainer->rank == 0 && status != QS_PEER_LOST) {
        qs_log(QS_LOG_WARNING, "new plan %s refused before step %lld: %s; training goes on with the present one",
               trainer->options->watch_plan, (long long)trainer->step + 1, qs_message());
    }
    qs__plan_release(next);
    (void)qs_arena_resize(&trainer->arena, arena_before); /* never larger than it is */
    qs_device_trim(trainer->device);
    qs_heap_trim();
    return status == QS_PEER_LOST ? status : QS_OK;
}

qs_status qs__replan(qs__trainer *trainer, int64_t epoch) {
    const double begin = qs_clock();
    const size_t arena_before = trainer->arena.bytes;
    qs__trainer next = {0};
    char *text = trainer->rank == 0 ? qs__plan_file_read(trainer) : NULL;
    trainer->plan_offered = false;
    qs_status status = text_share(trainer, &text);
    if (status == QS_OK && !text) return QS_OK;
    if (status == QS_OK) status = qs_comm_agree(trainer->comm, next_prepare(trainer, text, &next));
    free(text);
    return status == QS_OK ? switch_to(trainer, &next, arena_before, epoch, begin) : refuse(trainer, &next, arena_before, status);
}
