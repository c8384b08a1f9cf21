// SPDX-License-Identifier: Apache-2.0
/* Chains: building, binding to memory, running. Everything that can fail or allocate happens before run. */
#include "cpu/cpu.h"

#include <assert.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static int add_slot(qs__chain *chain, const qs__layout *layout) {
    assert(chain->slots < QS__SLOTS);
    qs__slot *slot = &chain->slot[chain->slots];
    *slot = (qs__slot){.operand = -1};
    if (layout) slot->layout = *layout;
    slot->described = layout != NULL;
    return chain->slots++;
}

int qs__chain_operand(qs__chain *chain, qs_role role, const qs__layout *layout) {
    int slot = add_slot(chain, layout);
    chain->slot[slot].operand = qs_case_position(&chain->one, role);
    assert(chain->slot[slot].operand >= 0);
    return slot;
}

size_t qs__chain_reserve(qs__chain *chain, size_t bytes) {
    size_t offset = chain->scratch_bytes;
    chain->scratch_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

int qs__chain_scratch(qs__chain *chain, const qs__layout *layout) {
    int slot = add_slot(chain, layout);
    chain->slot[slot].offset = qs__chain_reserve(chain, qs__layout_bytes(layout));
    return slot;
}

static qs__step *add_step(qs__chain *chain) {
    assert(chain->steps < QS__STEPS);
    qs__step *step = &chain->step[chain->steps++];
    *step = (qs__step){0};
    for (int a = 0; a < QS__ARGUMENT_COUNT; a++)
        step->slot[a] = -1;
    return step;
}

void qs__chain_bind(qs__chain *chain, qs__argument argument, int slot) {
    chain->step[chain->steps - 1].slot[argument] = slot;
}

static void take_step(qs__chain *chain, qs__work *work) {
    add_step(chain)->work = work;
    const qs__layout scratch = qs__work_layout(work, QS__ARGUMENT_SCRATCH);
    if (qs__layout_bytes(&scratch)) qs__chain_bind(chain, QS__ARGUMENT_SCRATCH, qs__chain_scratch(chain, &scratch));
}

qs_status qs__chain_plan(qs__chain *chain, const qs__work_request *request) {
    QS_TRY(qs__work_plan(chain->cpu->library, request, &chain->planned));
    const char *name = qs__work_name(chain->planned);
    if (strstr(name, "ref")) return qs_fail(QS_UNSUPPORTED, "oneDNN has only its plain reference code (%s) for it", name);
    /* Measured: paths over its internal GEMM allocate up to 4.9 MB a call. */
    if (strstr(name, "gemm")) chain->allocates = true;
    if (!chain->name[0]) snprintf(chain->name, sizeof chain->name, "%s", name);
    return QS_OK;
}

qs__layout qs__chain_layout(const qs__chain *chain, qs__argument argument) {
    return qs__work_layout(chain->planned, argument);
}

void qs__chain_place(qs__chain *chain) {
    take_step(chain, chain->planned);
    chain->planned = NULL;
}

int qs__chain_result(qs__chain *chain, qs_role role, const qs__layout *own, const qs__layout *given) {
    int slot = qs__chain_operand(chain, role, own);
    if (qs__layout_equal(own, given)) return slot;
    int scratch = qs__chain_scratch(chain, given);
    chain->result[chain->results].from = scratch;
    chain->result[chain->results++].to = slot;
    return scratch;
}

qs_status qs__chain_finish(qs__chain *chain) {
    for (int i = 0; i < chain->results; i++) {
        QS_TRY(qs__chain_reorder(chain, chain->result[i].from, chain->result[i].to));
    }
    return QS_OK;
}

qs_status qs__chain_reorder(qs__chain *chain, int from, int to) {
    qs__work *work = NULL;
    QS_TRY(qs__work_plan_reorder(chain->cpu->library, &chain->slot[from].layout, &chain->slot[to].layout, &work));
    take_step(chain, work);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, from);
    qs__chain_bind(chain, QS__ARGUMENT_DST, to);
    return QS_OK;
}

qs_status qs__chain_as(qs__chain *chain, int from, const qs__layout *wanted, int *out) {
    if (qs__layout_equal(&chain->slot[from].layout, wanted)) {
        *out = from;
        return QS_OK;
    }
    *out = qs__chain_scratch(chain, wanted);
    return qs__chain_reorder(chain, from, *out);
}

void qs__chain_call(qs__chain *chain, qs__call call) {
    add_step(chain)->call = call;
}

static qs__work_memory memory_of(const qs__chain *chain, int index) {
    if (index < 0) return (qs__work_memory){0};
    const qs__slot *slot = &chain->slot[index];
    assert(slot->described);
    return (qs__work_memory){&slot->layout, slot->operand >= 0 ? chain->data[slot->operand] : chain->scratch + slot->offset};
}

void *qs__piece(qs__pieces *pieces, int64_t bytes) {
    char *piece = pieces->at ? pieces->at + pieces->used : NULL;
    pieces->used += ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece;
}

qs_status qs__chain_prepare(qs__chain *chain, void *const *data, void *scratch) {
    memcpy(chain->data, data, (size_t)chain->one.operands * sizeof *data);
    chain->scratch = scratch;
    for (int i = 0; i < chain->steps; i++) {
        const qs__step *step = &chain->step[i];
        qs__work_memory memory[QS__ARGUMENT_COUNT];
        if (!step->work) continue;
        for (int a = 0; a < QS__ARGUMENT_COUNT; a++)
            memory[a] = memory_of(chain, step->slot[a]);
        QS_TRY(qs__work_prepare(step->work, memory));
    }
    return QS_OK;
}

qs_status qs__chain_run(const qs__chain *chain, const qs_run *run) {
    for (int i = 0; i < chain->steps; i++) {
        const qs__step *step = &chain->step[i];
        QS_TRY(step->call ? step->call(chain, run) : qs__work_run(chain->cpu->library, step->work));
    }
    return QS_OK;
}

void qs__chain_release(qs__chain *chain) {
    for (int i = 0; i < chain->steps; i++)
        qs__work_release(chain->step[i].work);
    qs__work_release(chain->planned);
    chain->planned = NULL;
    chain->steps = chain->slots = 0;
}
