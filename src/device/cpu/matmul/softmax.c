// SPDX-License-Identifier: Apache-2.0
/* Our own softmax: rows need nothing of each other. */
#include <string.h>

#include "cpu/staging.h"

typedef struct job {
    const qs__chain *chain;
    qs__rows size;
    int64_t of_sample, positions, room, slots;
    int64_t window;      /* as wide as the row where there is none */
    bool causal, masked; /* masked: keep is of each position */
    qs__in src, diff;
    qs__out dst;
    const int32_t *keep;
    float *powers; /* [slots][room] */
} job;

enum { LANES_MOST = 16 };

static void slot_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t row = j->size.rows * slot / j->slots; row < j->size.rows * (slot + 1) / j->slots; row++) {
            const int64_t at = row * j->size.channels;
            qs__softmax_row one = {.channels = j->size.channels, .room = j->room, .seen = j->size.channels};
            const int64_t place = row % j->positions;
            if (place + j->window < one.seen) one.seen = place + j->window;
            if (place >= j->window) one.unseen = place - j->window + 1;
            if (j->causal) one.seen = place + 1;
            const int64_t kept_row = j->masked ? row / j->of_sample * j->positions + place : row / j->of_sample;
            if (j->keep) one.kept = j->keep + kept_row * j->size.channels;
            one.scale = (float)j->chain->one.attributes.scale;
            one.src = qs__in_at(j->src, at);
            one.dst = qs__out_at(j->dst, at);
            if (j->diff.at) one.diff = qs__in_at(j->diff, at);
            (j->diff.at ? j->chain->cpu->kernels->softmax_gradient : j->chain->cpu->kernels->softmax)(&one, j->powers + slot * j->room);
        }
}

static int64_t slots_of(const qs__rows *size) {
    return qs_threads() < size->rows ? qs_threads() : size->rows;
}

/* Powers are written in whole vectors. */
static int64_t room_of(const qs__rows *size) {
    return (size->channels + LANES_MOST - 1) / LANES_MOST * LANES_MOST;
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    const qs_shape *shape = &qs__case_operand(&chain->one, QS_SRC)->shape;
    const bool backward = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    job j = {.chain = chain, .size = qs__rows_of(&chain->one, QS_SRC), .causal = chain->one.attributes.causal != 0};
    j.of_sample = j.size.rows / shape->dim[0], j.positions = shape->dim[shape->axes - 1];
    j.window = chain->one.attributes.window > 0 ? (int64_t)chain->one.attributes.window : INT64_MAX / 2;
    j.room = room_of(&j.size), j.slots = slots_of(&j.size);
    j.src = qs__staged_in(chain, QS_SRC);
    j.dst = qs__staged_out(chain, backward ? QS_DIFF_SRC : QS_DST);
    if (backward) j.diff = qs__staged_in(chain, QS_DIFF_DST);
    if (qs__case_has(&chain->one, QS_KEEP)) {
        j.keep = qs__cpu_data(chain, QS_KEEP);
        j.masked = qs__case_operand(&chain->one, QS_KEEP)->shape.dim[1] != j.size.channels;
    }
    j.powers = (float *)(chain->scratch + chain->offset[0]);
    qs_parallel(j.slots, 1, slot_rows, &j);
    return QS_OK;
}

qs_status qs__build_softmax(qs__chain *chain) {
    const qs__rows size = qs__rows_of(&chain->one, QS_SRC);
    chain->offset[0] = qs__chain_reserve(chain, (size_t)(slots_of(&size) * room_of(&size)) * sizeof(float));
    return qs__staged_build(chain, "softmax", run);
}
