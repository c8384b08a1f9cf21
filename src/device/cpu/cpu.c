// SPDX-License-Identifier: Apache-2.0
/* The device `cpu`: instruction-set ceiling, capabilities, and the choice among the kernel families of kernels.def. */
#include "backend.h"
#include "cpu.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    dnnl_cpu_isa_t isa;
    bool bf16, vnni;
} ceilings[] = {
    {"all", dnnl_cpu_isa_all, true, true},
    {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16, true, true},
    {"avx512_core_vnni", dnnl_cpu_isa_avx512_core_vnni, false, true},
    {"avx512_core", dnnl_cpu_isa_avx512_core, false, false},
    {"avx2_vnni", dnnl_cpu_isa_avx2_vnni, false, true},
    {"avx2", dnnl_cpu_isa_avx2, false, false},
    {"portable", dnnl_cpu_isa_sse41, false, false},
};
enum { CEILINGS = sizeof ceilings / sizeof ceilings[0] };

typedef struct family {
    const char *name, *op;
    qs__build build;
} family;

static const family families[] = {
#define QS_KERNEL(name, op) {#name, op, qs__build_##name},
#include "kernels.def"
#undef QS_KERNEL
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static const char *ceiling_name(size_t index) {
    return ceilings[index].name;
}

static const char *chosen_ceiling; /* of this process; oneDNN's cannot change once it made a kernel */

static qs_status set_ceiling(const char *name, qs__cpu *cpu) {
    size_t i = 0;
    while (i < CEILINGS && strcmp(ceilings[i].name, name))
        i++;
    if (i == CEILINGS) {
        return qs_fail(QS_USAGE, "isa '%s' is unknown; known are: %s", name, qs_names_join(CEILINGS, ceiling_name));
    }
    if (chosen_ceiling && chosen_ceiling != ceilings[i].name) {
        return qs_fail(QS_USAGE, "isa '%s' asked for after '%s' in the same process: one process is one device class", name,
                       chosen_ceiling);
    }
    if (!chosen_ceiling && dnnl_set_max_cpu_isa(ceilings[i].isa) != dnnl_success) {
        return qs_fail(QS_UNSUPPORTED, "oneDNN does not take the isa ceiling '%s' (it was used before the device was opened)", name);
    }
    QS_TRY(qs_number_isa_set(name));
    chosen_ceiling = ceilings[i].name;
    /* What the machine really has bounds what the ceiling allows: the effective set contains all bits of a level that is there. */
    unsigned effective = (unsigned)dnnl_get_effective_cpu_isa();
    unsigned bf16 = dnnl_cpu_isa_avx512_core_bf16, vnni = dnnl_cpu_isa_avx512_core_vnni, small = dnnl_cpu_isa_avx2_vnni;
    cpu->bf16 = ceilings[i].bf16 && (effective & bf16) == bf16;
    cpu->vnni = ceilings[i].vnni && ((effective & vnni) == vnni || (effective & small) == small);
    snprintf(cpu->isa, sizeof cpu->isa, "%s", name);
    return QS_OK;
}

/* The ceiling of number holds for our own kernels as well. */
static const qs__cpu_kernels *own_kernels(void) {
#if defined(__x86_64__)
    if (!strcmp(qs_number_isa(), "avx512")) return &qs__cpu_kernels_avx512;
    if (!strcmp(qs_number_isa(), "avx2")) return &qs__cpu_kernels_avx2;
#endif
    return &qs__cpu_kernels_portable;
}

/* Exact products of codes; the ones with VNNI instructions where these are there and allowed. */
static const qs__products *integer_products(const qs__cpu *cpu) {
    (void)cpu;
#if defined(__x86_64__)
    unsigned effective = (unsigned)dnnl_get_effective_cpu_isa(), wide = dnnl_cpu_isa_avx512_core_vnni;
    if (cpu->vnni && (effective & wide) == wide) return &qs__products_avx512_vnni;
    if (cpu->vnni) return &qs__products_avx2_vnni;
    if (strcmp(qs_number_isa(), "portable")) return &qs__products_avx2;
#endif
    return &qs__products_portable;
}

static void cpu_close(void *state) {
    qs__cpu *cpu = state;
    if (cpu->stream) dnnl_stream_destroy(cpu->stream);
    if (cpu->engine) dnnl_engine_destroy(cpu->engine);
    free(cpu);
}

static qs_status start(const qs_device_options *options, qs__cpu *cpu) {
    QS_TRY(set_ceiling(options->isa ? options->isa : "all", cpu));
    omp_set_num_threads(options->threads);
    cpu->own = own_kernels();
    cpu->products = integer_products(cpu);
    QS__DNNL(dnnl_engine_create(&cpu->engine, dnnl_cpu, 0), "engine");
    QS__DNNL(dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags), "stream");
    return QS_OK;
}

static qs_status cpu_open(const qs_device_options *options, void **state) {
    qs__cpu *cpu = NULL;
    QS_TRY(qs_allocate(1, sizeof *cpu, &cpu));
    qs_status status = start(options, cpu);
    if (status != QS_OK) {
        cpu_close(cpu);
        return status;
    }
    *state = cpu;
    return QS_OK;
}

static void cpu_describe(const void *state, qs_device_info *out) {
    const qs__cpu *cpu = state;
    const dnnl_version_t *version = dnnl_version();
    int formats = 0;
    snprintf(out->isa, sizeof out->isa, "%s", cpu->isa);
    snprintf(out->library, sizeof out->library, "onednn %d.%d.%d", version->major, version->minor, version->patch);
    out->formats[formats++] = "fp32";
    if (cpu->bf16) out->formats[formats++] = "bf16";
    if (cpu->vnni) out->formats[formats++] = "int8";
}

static void start_chain(qs__chain *chain, const qs__cpu *cpu, const qs_case *one) {
    qs__chain_release(chain);
    memset(chain, 0, sizeof *chain);
    chain->cpu = cpu;
    chain->one = *one;
}

/* The first family with a kernel that allocates nothing while it runs, else the first with a kernel at all. The reason of the first
 * refusal is the one that stays: later families are lesser ways to the same end. */
static qs_status choose(const qs__cpu *cpu, const qs_case *one, qs__chain *chain) {
    const family *allocating = NULL;
    char reason[512] = "";
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(families[i].op, one->op->name) && strcmp(families[i].op, "*")) continue;
        start_chain(chain, cpu, one);
        qs_status status = families[i].build(chain);
        if (status == QS_OK && !chain->allocates) return QS_OK;
        if (status != QS_OK && status != QS_UNSUPPORTED) return status;
        if (status == QS_OK && !allocating) allocating = &families[i];
        if (status == QS_UNSUPPORTED && !reason[0]) snprintf(reason, sizeof reason, "%s", qs_message());
    }
    if (!allocating) return qs_fail(QS_UNSUPPORTED, "%s", reason[0] ? reason : "the cpu device has no kernel for this operator");
    start_chain(chain, cpu, one);
    return allocating->build(chain);
}

static qs_status cpu_fact(void *state, const qs_case *one, qs_kernel_fact *out) {
    qs__chain *chain = NULL;
    QS_TRY(qs_allocate(1, sizeof *chain, &chain));
    qs_status status = choose(state, one, chain);
    if (status == QS_OK) {
        snprintf(out->kernel, sizeof out->kernel, "%s", chain->name);
        out->scratch_bytes = chain->scratch_bytes;
        out->allocates = chain->allocates;
    }
    qs__chain_release(chain);
    free(chain);
    return status;
}

static void cpu_release(void *kernel) {
    qs__chain_release(kernel);
    free(kernel);
}

static qs_status cpu_prepare(void *state, const qs_case *one, void *const *data, void *scratch, void **kernel) {
    qs__chain *chain = NULL;
    QS_TRY(qs_allocate(1, sizeof *chain, &chain));
    qs_status status = choose(state, one, chain);
    if (status == QS_OK) status = qs__chain_prepare(chain, data, scratch);
    if (status != QS_OK) {
        cpu_release(chain);
        return status;
    }
    *kernel = chain;
    return QS_OK;
}

static qs_status cpu_run(void *kernel, const qs_run *run) {
    return qs__chain_run(kernel, run);
}

/* Without room the cache forgets all that no kernel holds. */
static void cpu_trim(void *state) {
    int capacity = 0;
    (void)state;
    if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success) return;
    (void)dnnl_set_primitive_cache_capacity(0);
    (void)dnnl_set_primitive_cache_capacity(capacity);
}

const qs__backend qs__device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .fact = cpu_fact,
    .prepare = cpu_prepare,
    .run = cpu_run,
    .release = cpu_release,
    .trim = cpu_trim,
};
