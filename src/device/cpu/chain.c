// SPDX-License-Identifier: Apache-2.0
/* Chains: building, binding to memory, running. Everything that can fail or allocate happens before run. */
#include "cpu.h"

#include <assert.h>
#include <string.h>

enum { ALIGNMENT = 64 };

qs_status qs__dnnl_fail(dnnl_status_t status, const char *what) {
    if (status == dnnl_out_of_memory) return qs_fail(QS_OUT_OF_MEMORY, "oneDNN is out of memory: %s", what);
    return qs_fail(QS_UNSUPPORTED, "oneDNN %s: %s", status == dnnl_unimplemented ? "has no kernel" : "refuses the request", what);
}

static int add_slot(qs__chain *chain, const dnnl_memory_desc_t *desc) {
    assert(chain->slots < QS__SLOTS);
    qs__slot *slot = &chain->slot[chain->slots];
    *slot = (qs__slot){.operand = -1};
    if (desc) slot->desc = *desc;
    slot->described = desc != NULL;
    return chain->slots++;
}

int qs__chain_operand(qs__chain *chain, qs_role role, const dnnl_memory_desc_t *desc) {
    int slot = add_slot(chain, desc);
    chain->slot[slot].operand = qs_case_position(&chain->one, role);
    assert(chain->slot[slot].operand >= 0);
    return slot;
}

size_t qs__chain_reserve(qs__chain *chain, size_t bytes) {
    size_t offset = chain->scratch_bytes;
    chain->scratch_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

int qs__chain_scratch(qs__chain *chain, const dnnl_memory_desc_t *desc) {
    int slot = add_slot(chain, desc);
    chain->slot[slot].offset = qs__chain_reserve(chain, dnnl_memory_desc_get_size(desc));
    return slot;
}

static qs__step *add_step(qs__chain *chain) {
    assert(chain->steps < QS__STEPS);
    qs__step *step = &chain->step[chain->steps++];
    *step = (qs__step){0};
    return step;
}

void qs__chain_bind(qs__chain *chain, int argument, int slot) {
    qs__step *step = &chain->step[chain->steps - 1];
    assert(step->arguments < QS__ARGUMENTS);
    step->argument[step->arguments].arg = argument;
    step->slot[step->arguments++] = slot;
}

static const char *implementation(const_dnnl_primitive_desc_t desc) {
    const char *text = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&text) == dnnl_success && text ? text : "unknown";
}

static void take_step(qs__chain *chain, dnnl_primitive_desc_t desc) {
    add_step(chain)->desc = desc;
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    if (pad && dnnl_memory_desc_get_size(pad)) qs__chain_bind(chain, DNNL_ARG_SCRATCHPAD, qs__chain_scratch(chain, pad));
}

qs_status qs__chain_plan(qs__chain *chain, const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attributes,
                         const_dnnl_primitive_desc_t hint) {
    dnnl_primitive_attr_t plain = NULL;
    if (!attributes) QS_TRY(qs__cpu_attributes(&plain));
    dnnl_status_t made = dnnl_primitive_desc_create(&chain->planned, operation, attributes ? attributes : plain, chain->cpu->engine, hint);
    if (plain) dnnl_primitive_attr_destroy(plain);
    QS__DNNL(made, "operands of these shapes and formats");
    const char *name = implementation(chain->planned);
    if (strstr(name, "ref")) return qs_fail(QS_UNSUPPORTED, "oneDNN has only its plain reference code (%s) for it", name);
    /* Measured: paths over its internal GEMM allocate up to 4.9 MB a call. */
    if (strstr(name, "gemm")) chain->allocates = true;
    if (!chain->name[0]) snprintf(chain->name, sizeof chain->name, "%s", name);
    return QS_OK;
}

const dnnl_memory_desc_t *qs__chain_layout(const qs__chain *chain, int argument) {
    return dnnl_primitive_desc_query_md(chain->planned, dnnl_query_exec_arg_md, argument);
}

void qs__chain_place(qs__chain *chain) {
    take_step(chain, chain->planned);
    chain->planned = NULL;
}

int qs__chain_result(qs__chain *chain, qs_role role, const dnnl_memory_desc_t *own, const dnnl_memory_desc_t *given) {
    int slot = qs__chain_operand(chain, role, own);
    if (dnnl_memory_desc_equal(own, given)) return slot;
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
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    QS_TRY(qs__cpu_attributes(&attributes));
    dnnl_status_t made = dnnl_reorder_primitive_desc_create(&desc, &chain->slot[from].desc, chain->cpu->engine, &chain->slot[to].desc,
                                                            chain->cpu->engine, attributes);
    dnnl_primitive_attr_destroy(attributes);
    QS__DNNL(made, "reorder between layouts");
    take_step(chain, desc);
    qs__chain_bind(chain, DNNL_ARG_FROM, from);
    qs__chain_bind(chain, DNNL_ARG_TO, to);
    return QS_OK;
}

qs_status qs__chain_as(qs__chain *chain, int from, const dnnl_memory_desc_t *wanted, int *out) {
    if (dnnl_memory_desc_equal(&chain->slot[from].desc, wanted)) {
        *out = from;
        return QS_OK;
    }
    *out = qs__chain_scratch(chain, wanted);
    return qs__chain_reorder(chain, from, *out);
}

void qs__chain_call(qs__chain *chain, qs__call call) {
    add_step(chain)->call = call;
}

static qs_status make_memory(qs__chain *chain) {
    for (int i = 0; i < chain->slots; i++) {
        qs__slot *slot = &chain->slot[i];
        if (!slot->described) continue;
        void *at = slot->operand >= 0 ? chain->data[slot->operand] : chain->scratch + slot->offset;
        QS__DNNL(dnnl_memory_create(&slot->memory, &slot->desc, chain->cpu->engine, at), "memory object");
    }
    return QS_OK;
}

qs_status qs__chain_prepare(qs__chain *chain, void *const *data, void *scratch) {
    memcpy(chain->data, data, (size_t)chain->one.operands * sizeof *data);
    chain->scratch = scratch;
    QS_TRY(make_memory(chain));
    for (int i = 0; i < chain->steps; i++) {
        qs__step *step = &chain->step[i];
        if (!step->desc) continue;
        QS__DNNL(dnnl_primitive_create(&step->primitive, step->desc), "primitive");
        for (int k = 0; k < step->arguments; k++) {
            step->argument[k].memory = chain->slot[step->slot[k]].memory;
        }
    }
    return QS_OK;
}

qs_status qs__chain_run(const qs__chain *chain, const qs_run *run) {
    for (int i = 0; i < chain->steps; i++) {
        const qs__step *step = &chain->step[i];
        if (step->call) {
            QS_TRY(step->call(chain, run));
        } else {
            dnnl_status_t status = dnnl_primitive_execute(step->primitive, chain->cpu->stream, step->arguments, step->argument);
            if (status != dnnl_success) return qs_fail(QS_FAILED, "oneDNN failed (status %d) in %s", (int)status, chain->name);
        }
    }
    return QS_OK;
}

void qs__chain_release(qs__chain *chain) {
    for (int i = 0; i < chain->steps; i++) {
        if (chain->step[i].primitive) dnnl_primitive_destroy(chain->step[i].primitive);
        if (chain->step[i].desc) dnnl_primitive_desc_destroy(chain->step[i].desc);
    }
    for (int i = 0; i < chain->slots; i++) {
        if (chain->slot[i].memory) dnnl_memory_destroy(chain->slot[i].memory);
    }
    if (chain->planned) dnnl_primitive_desc_destroy(chain->planned);
    chain->planned = NULL;
    chain->steps = chain->slots = 0;
}
