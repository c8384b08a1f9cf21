// SPDX-License-Identifier: Apache-2.0
/* All calls of oneDNN that its versions have in common. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/library/version.h"

struct qs__library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

struct qs__work {
    dnnl_primitive_desc_t planned;
    dnnl_primitive_t primitive;
    qs__work_kind kind;
    bool reorders;
    int arguments;
    dnnl_exec_arg_t argument[QS__ARGUMENT_COUNT];
};

static qs_status refuse(dnnl_status_t status, const char *what) {
    if (status == dnnl_out_of_memory) return qs_fail(QS_OUT_OF_MEMORY, "oneDNN is out of memory: %s", what);
    return qs_fail(QS_UNSUPPORTED, "oneDNN %s: %s", status == dnnl_unimplemented ? "has no kernel" : "refuses the request", what);
}

#define DNNL_TRY(expression, what)                                                 \
    do {                                                                           \
        const dnnl_status_t dnnl_try_status = (expression);                        \
        if (dnnl_try_status != dnnl_success) return refuse(dnnl_try_status, what); \
    } while (0)

/* ---- The library ---- */

static const struct {
    const char *name;
    dnnl_cpu_isa_t isa;
} isas[] = {
    {"avx512_core_amx", dnnl_cpu_isa_avx512_core_amx},
    {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16},
    {"avx512_core_vnni", dnnl_cpu_isa_avx512_core_vnni},
    {"avx512_core", dnnl_cpu_isa_avx512_core},
    {"avx2_vnni", dnnl_cpu_isa_avx2_vnni},
    {"avx2", dnnl_cpu_isa_avx2},
    {"portable", dnnl_cpu_isa_sse41},
};

static dnnl_cpu_isa_t isa_of(const char *name) {
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        if (!strcmp(isas[i].name, name)) return isas[i].isa;
    return qs__library_isa_all;
}

qs_status qs__library_isa_set(const char *name) {
    if (dnnl_set_max_cpu_isa(isa_of(name)) == dnnl_success) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "oneDNN does not take the isa ceiling '%s' (it was used before the device was opened)", name);
}

/* The effective set contains all bits of a level that is there. */
bool qs__library_has(const char *name) {
    const unsigned wanted = (unsigned)isa_of(name);
    return ((unsigned)dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

const char *qs__library_version(char *buffer, size_t size) {
    const dnnl_version_t *version = dnnl_version();
    snprintf(buffer, size, "onednn %d.%d.%d", version->major, version->minor, version->patch);
    return buffer;
}

/* Without room the cache forgets all that no kernel holds. */
void qs__library_forget(void) {
    int capacity = 0;
    if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success) return;
    (void)dnnl_set_primitive_cache_capacity(0);
    (void)dnnl_set_primitive_cache_capacity(capacity);
}

static qs_status library_start(qs__library *library) {
    DNNL_TRY(dnnl_engine_create(&library->engine, dnnl_cpu, 0), "engine");
    DNNL_TRY(dnnl_stream_create(&library->stream, library->engine, dnnl_stream_default_flags), "stream");
    return QS_OK;
}

/* Its kernels run on OpenMP's threads, also where the pool of base does without them. */
qs_status qs__library_open(int threads, qs__library **out) {
    qs__library *library = NULL;
    omp_set_num_threads(threads);
    QS_TRY(qs_allocate(1, sizeof *library, &library));
    const qs_status status = library_start(library);
    if (status != QS_OK) {
        qs__library_close(library);
        return status;
    }
    *out = library;
    return QS_OK;
}

void qs__library_close(qs__library *library) {
    if (!library) return;
    if (library->stream) dnnl_stream_destroy(library->stream);
    if (library->engine) dnnl_engine_destroy(library->engine);
    free(library);
}

/* ---- Layouts ---- */

bool qs__layout_equal(const qs__layout *a, const qs__layout *b) {
    const qs__description left = qs__description_make(a), right = qs__description_make(b);
    const bool equal = left && right && dnnl_memory_desc_equal(left, right);
    qs__description_release(a, left);
    qs__description_release(b, right);
    return equal;
}

size_t qs__layout_bytes(const qs__layout *layout) {
    const qs__description description = qs__description_make(layout);
    const size_t bytes = description ? dnnl_memory_desc_get_size(description) : 0;
    qs__description_release(layout, description);
    return bytes;
}

/* ---- Planning ---- */

static qs_status post_operations_set(const qs__work_request *request, dnnl_primitive_attr_t attributes) {
    dnnl_post_ops_t operations = NULL;
    const qs__description factors = qs__description_make(request->factors),
                          terms = request->terms ? qs__description_make(request->terms) : NULL;
    dnnl_status_t status = factors && (terms || !request->terms) ? dnnl_post_ops_create(&operations) : dnnl_out_of_memory;
    if (status == dnnl_success) status = dnnl_post_ops_append_binary(operations, dnnl_binary_mul, factors);
    if (status == dnnl_success && terms) status = dnnl_post_ops_append_binary(operations, dnnl_binary_add, terms);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, operations);
    if (operations) dnnl_post_ops_destroy(operations);
    qs__description_release(request->factors, factors);
    qs__description_release(request->terms, terms);
    return status == dnnl_success ? QS_OK : refuse(status, "post-operations");
}

/* Scratchpads are in the caller's hands. */
static qs_status attributes_make(const qs__work_request *request, dnnl_primitive_attr_t *out) {
    dnnl_primitive_attr_t attributes = NULL;
    DNNL_TRY(dnnl_primitive_attr_create(&attributes), "attributes");
    const dnnl_status_t made = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    qs_status status = made == dnnl_success ? QS_OK : refuse(made, "scratchpad mode");
    if (status == QS_OK && request && request->factors) status = post_operations_set(request, attributes);
    if (status != QS_OK) {
        dnnl_primitive_attr_destroy(attributes);
        return status;
    }
    *out = attributes;
    return QS_OK;
}

static qs_status convolution_describe(const qs__library *library, const qs__work_request *request, const_dnnl_primitive_attr_t attributes,
                                      qs__described *by, qs__work *work) {
    /* A forward pass of one type, that of the gradient of the result: without it oneDNN plans no gradient. */
    qs__layout hint[3] = {*request->src, *request->weights, *request->dst};
    hint[0].type = hint[1].type = hint[2].type;
    by->hint_src = qs__description_make(&hint[0]);
    by->hint_weights = qs__description_make(&hint[1]);
    by->hint_dst = qs__description_make(&hint[2]);
    const dnnl_status_t status = by->hint_src && by->hint_weights && by->hint_dst
                                     ? qs__library_convolution(library->engine, request, by, attributes, &work->planned)
                                     : dnnl_invalid_arguments;
    qs__description_release(&hint[0], by->hint_src);
    qs__description_release(&hint[1], by->hint_weights);
    qs__description_release(&hint[2], by->hint_dst);
    return status == dnnl_success ? QS_OK : refuse(status, "convolution of these shapes and formats");
}

static qs_status operands_describe(const qs__library *library, const qs__work_request *request, const_dnnl_primitive_attr_t attributes,
                                   qs__work *work) {
    qs__described by = {.src = qs__description_make(request->src),
                        .weights = qs__description_make(request->weights),
                        .bias = request->bias ? qs__description_make(request->bias) : NULL,
                        .dst = qs__description_make(request->dst)};
    qs_status status = by.src && by.weights && by.dst && (by.bias || !request->bias) ? QS_OK : refuse(dnnl_invalid_arguments, "layouts");
    if (status == QS_OK) {
        if (request->kind != QS__MATMUL) {
            status = convolution_describe(library, request, attributes, &by, work);
        } else {
            const dnnl_status_t planned = qs__library_matmul(library->engine, &by, attributes, &work->planned);
            status = planned == dnnl_success ? QS_OK : refuse(planned, "matmul of these shapes and formats");
        }
    }
    qs__description_release(request->src, by.src);
    qs__description_release(request->weights, by.weights);
    qs__description_release(request->bias, by.bias);
    qs__description_release(request->dst, by.dst);
    return status;
}

qs_status qs__work_plan(const qs__library *library, const qs__work_request *request, qs__work **out) {
    qs__work *work = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    qs_status status;
    QS_GOTO(qs_allocate(1, sizeof *work, &work));
    work->kind = request->kind;
    QS_GOTO(attributes_make(request, &attributes));
    QS_GOTO(operands_describe(library, request, attributes, work));
    *out = work;
    work = NULL;
done:
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    qs__work_release(work);
    return status;
}

static qs_status reorder_describe(const qs__library *library, const qs__layout *from, const qs__layout *to,
                                  const_dnnl_primitive_attr_t attributes, qs__work *work) {
    const qs__description src = qs__description_make(from), dst = qs__description_make(to);
    const dnnl_status_t status =
        src && dst ? dnnl_reorder_primitive_desc_create(&work->planned, src, library->engine, dst, library->engine, attributes)
                   : dnnl_invalid_arguments;
    qs__description_release(from, src);
    qs__description_release(to, dst);
    return status == dnnl_success ? QS_OK : refuse(status, "reorder between layouts");
}

qs_status qs__work_plan_reorder(const qs__library *library, const qs__layout *from, const qs__layout *to, qs__work **out) {
    qs__work *work = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    qs_status status;
    QS_GOTO(qs_allocate(1, sizeof *work, &work));
    work->reorders = true;
    QS_GOTO(attributes_make(NULL, &attributes));
    QS_GOTO(reorder_describe(library, from, to, attributes, work));
    *out = work;
    work = NULL;
done:
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    qs__work_release(work);
    return status;
}

const char *qs__work_name(const qs__work *work) {
    const char *text = NULL;
    return dnnl_primitive_desc_query(work->planned, dnnl_query_impl_info_str, 0, (void *)&text) == dnnl_success && text ? text : "unknown";
}

/* ---- Arguments ---- */

static int argument_of(const qs__work *work, qs__argument argument) {
    const bool into_src = !work->reorders && work->kind == QS__CONVOLUTION_INPUT_GRADIENT;
    const bool into_weights = !work->reorders && work->kind == QS__CONVOLUTION_WEIGHT_GRADIENT;
    switch (argument) {
    case QS__ARGUMENT_SRC:
        return work->reorders ? DNNL_ARG_FROM : into_src ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    case QS__ARGUMENT_WEIGHTS:
        return into_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    case QS__ARGUMENT_BIAS:
        return into_weights ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
    case QS__ARGUMENT_DST:
        return work->reorders ? DNNL_ARG_TO : into_src || into_weights ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
    case QS__ARGUMENT_FACTORS:
        return DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
    case QS__ARGUMENT_TERMS:
        return DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1;
    default:
        return DNNL_ARG_SCRATCHPAD;
    }
}

qs__layout qs__work_layout(const qs__work *work, qs__argument argument) {
    return (qs__layout){.chosen = dnnl_primitive_desc_query_md(work->planned, dnnl_query_exec_arg_md, argument_of(work, argument))};
}

/* ---- Running ---- */

static qs_status memory_bind(qs__work *work, dnnl_engine_t engine, qs__argument argument, const qs__work_memory *memory) {
    dnnl_exec_arg_t *bound = &work->argument[work->arguments];
    const qs__description description = qs__description_make(memory->layout);
    if (!description) return refuse(dnnl_out_of_memory, "memory object");
    const dnnl_status_t status = dnnl_memory_create(&bound->memory, description, engine, memory->at);
    qs__description_release(memory->layout, description);
    DNNL_TRY(status, "memory object");
    bound->arg = argument_of(work, argument);
    work->arguments++;
    return QS_OK;
}

qs_status qs__work_prepare(qs__work *work, const qs__work_memory memory[QS__ARGUMENT_COUNT]) {
    dnnl_engine_t engine = NULL;
    DNNL_TRY(dnnl_primitive_desc_query(work->planned, dnnl_query_engine, 0, &engine), "engine of a primitive");
    for (int a = 0; a < QS__ARGUMENT_COUNT; a++)
        if (memory[a].layout) QS_TRY(memory_bind(work, engine, (qs__argument)a, &memory[a]));
    DNNL_TRY(dnnl_primitive_create(&work->primitive, work->planned), "primitive");
    return QS_OK;
}

qs_status qs__work_run(const qs__library *library, const qs__work *work) {
    const dnnl_status_t status = dnnl_primitive_execute(work->primitive, library->stream, work->arguments, work->argument);
    if (status == dnnl_success) return QS_OK;
    return qs_fail(QS_FAILED, "oneDNN failed (status %d) in %s", (int)status, qs__work_name(work));
}

void qs__work_release(qs__work *work) {
    if (!work) return;
    if (work->primitive) dnnl_primitive_destroy(work->primitive);
    for (int i = 0; i < work->arguments; i++)
        dnnl_memory_destroy(work->argument[i].memory);
    if (work->planned) dnnl_primitive_desc_destroy(work->planned);
    free(work);
}
