// SPDX-License-Identifier: Apache-2.0
/* A decoder: two programs over one memory, for one position and for a block of them. Weights and caches lie in the persistent part that
 * both have; the rest of the memory is what either needs while it runs. */
#include "qsync/generate.h"

#include <stdlib.h>
#include <string.h>

#include "qsync/train.h"

enum { BLOCK = 16 }; /* positions: enough to read weights once for many, few enough to round a prompt up to */

/* A schedule for so many positions at once, bound to the memory. */
typedef struct program {
    int64_t positions;
    qs_graph *graph;
    qs_schedule *schedule;
    qs_executor *executor;
    const qs_step *loss; /* its first operand are the logits */
} program;

enum { ONE, MANY, PROGRAMS };

struct qs_decoder {
    qs_comm *self;
    qs_memory *memory;
    program program[PROGRAMS]; /* MANY: without a schedule where the context is no longer than a block */
    int64_t vocabulary, context, place;
};

/* ---- Programs ------------------------------------------------------------------------------------------------------------- */

static qs_status program_lower(const qs_graph *model, int64_t positions, int64_t context, qs_device *device, program *out) {
    qs_job job;
    qs_job_default(&job);
    out->positions = positions;
    QS_TRY(qs_graph_decoder(model, positions, context, &out->graph));
    const qs_lowering lowering = {.graph = out->graph,
                                  .batch = 1,
                                  .mode = QS_MODE_EVALUATION,
                                  .job = &job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    QS_TRY(qs_schedule_lower(&lowering, &out->schedule));
    for (int s = 0; s < out->schedule->steps; s++)
        if (out->schedule->step[s].kind == QS_STEP_KERNEL && out->schedule->step[s].node == out->graph->nodes - 1)
            out->loss = &out->schedule->step[s];
    return QS_OK;
}

static void program_release(program *one) {
    qs_executor_release(one->executor);
    qs_schedule_release(one->schedule);
    qs_graph_release(one->graph);
}

/* Positions from `place` on; logits of the last one unless NULL. Nobody learns from them: no label counts. */
static qs_status program_run(const program *one, int64_t place, const int32_t *id, float *logits) {
    const qs_schedule *schedule = one->schedule;
    const qs_run run = {.samples = 1, .global_samples = 1, .loss_scale = 1};
    const int32_t first = (int32_t)place;
    int32_t label[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        label[i] = one->graph->samples.target.ignored;
    QS_TRY(qs_executor_write(one->executor, schedule->input[0], 0, (size_t)one->positions * sizeof *id, id));
    QS_TRY(qs_executor_write(one->executor, schedule->input[1], 0, sizeof first, &first));
    QS_TRY(qs_executor_write(one->executor, schedule->target, 0, (size_t)one->positions * sizeof *label, label));
    QS_TRY(qs_executor_run(one->executor, &run));
    if (!logits) return QS_OK;
    const qs_logits is = qs_case_logits(&one->loss->case_);
    const qs_place at = one->loss->place[qs_case_position(&one->loss->case_, QS_SRC)];
    return qs_executor_read(one->executor, at.buffer, at.offset + (size_t)((one->positions - 1) * is.next_row) * sizeof(float),
                            (size_t)is.classes * sizeof(float), logits);
}

/* ---- Life ------------------------------------------------------------------------------------------------------------------ */

/* The model's weights in its own order are those of its programs (qs_graph_decoder). */
static qs_status weights_put(const qs_graph *model, const char *weights, const qs_weights_choice *choice, const program *one) {
    float *trained = NULL, *statistics = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)(model->trained_elements + model->frozen_elements), sizeof *trained, &trained));
    QS_GOTO(qs_allocate((size_t)model->statistics_elements, sizeof *statistics, &statistics));
    QS_GOTO(qs_weights_start(weights, model, choice, trained, statistics, NULL));
    status = qs_executor_write(one->executor, one->schedule->masters, 0, one->schedule->buffer[one->schedule->masters].bytes, trained);
done:
    free(trained);
    free(statistics);
    return status;
}

static qs_status decoder_fill(qs_decoder *decoder, const qs_graph *model, const char *weights, const qs_weights_choice *choice,
                              qs_device *device) {
    size_t bytes = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        program *one = &decoder->program[i];
        const int64_t positions = i == ONE ? 1 : BLOCK;
        if (positions > 1 && decoder->context <= positions) continue;
        QS_TRY(program_lower(model, positions, decoder->context, device, one));
        if (one->schedule->arena_bytes > bytes) bytes = one->schedule->arena_bytes;
    }
    decoder->vocabulary = decoder->program[ONE].graph->samples.target.classes;
    QS_TRY(qs_comm_open("self", &decoder->self));
    QS_TRY(qs_memory_reserve(device, bytes, &decoder->memory));
    for (int i = 0; i < PROGRAMS; i++) {
        program *one = &decoder->program[i];
        if (one->schedule) QS_TRY(qs_executor_create(one->schedule, device, decoder->self, decoder->memory, &one->executor));
    }
    return weights_put(model, weights, choice, &decoder->program[ONE]);
}

qs_status qs_decoder_open(const qs_graph *model, const char *weights, const qs_weights_choice *choice, int64_t context, qs_device *device,
                          qs_decoder **out) {
    qs_decoder *decoder = NULL;
    QS_TRY(qs_allocate(1, sizeof *decoder, &decoder));
    decoder->context = context;
    const qs_status status = decoder_fill(decoder, model, weights, choice, device);
    if (status == QS_OK)
        *out = decoder;
    else
        qs_decoder_close(decoder);
    return status;
}

void qs_decoder_close(qs_decoder *decoder) {
    if (!decoder) return;
    for (int i = 0; i < PROGRAMS; i++)
        program_release(&decoder->program[i]);
    qs_memory_release(decoder->memory);
    qs_comm_close(decoder->self);
    free(decoder);
}

int64_t qs_decoder_vocabulary(const qs_decoder *decoder) {
    return decoder->vocabulary;
}

int64_t qs_decoder_context(const qs_decoder *decoder) {
    return decoder->context;
}

int64_t qs_decoder_place(const qs_decoder *decoder) {
    return decoder->place;
}

size_t qs_decoder_bytes(const qs_decoder *decoder) {
    return qs_memory_bytes(decoder->memory);
}

/* ---- Going on ----------------------------------------------------------------------------------------------------------------- */

qs_status qs_decoder_take(qs_decoder *decoder, int64_t count, const int32_t *id, float *logits) {
    if (count < 1 || count > decoder->context - decoder->place)
        return qs_fail(QS_USAGE, "%lld ids behind %lld: at least 1, and the context has %lld positions", (long long)count,
                       (long long)decoder->place, (long long)decoder->context);
    for (int64_t i = 0; i < count; i++)
        if (id[i] < 0 || id[i] >= decoder->vocabulary)
            return qs_fail(QS_USAGE, "id %d at position %lld: the model has ids 0 to %lld", id[i], (long long)(decoder->place + i),
                           (long long)decoder->vocabulary - 1);
    for (int64_t i = 0; i < count;) {
        const program *many = &decoder->program[MANY], *one = &decoder->program[ONE];
        if (many->executor && count - i >= many->positions) one = many;
        QS_TRY(program_run(one, decoder->place, id + i, i + one->positions == count ? logits : NULL));
        decoder->place += one->positions;
        i += one->positions;
    }
    return QS_OK;
}

qs_status qs_decoder_rewind(qs_decoder *decoder, int64_t place) {
    if (place < 0 || place > decoder->place)
        return qs_fail(QS_USAGE, "back to %lld positions: it holds %lld", (long long)place, (long long)decoder->place);
    decoder->place = place;
    return QS_OK;
}
