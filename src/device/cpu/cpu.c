// SPDX-License-Identifier: Apache-2.0
/* The device `cpu`: instruction-set ceiling, capabilities, and kernels from the chains that choice.c builds. */
#include "backend.h"
#include "cpu/cpu.h"
#include "kernels_digest.h"

#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const struct {
    const char *name;
    bool bf16, vnni, tiles;
} ceilings[] = {
    {"all", true, true, true},
    {"avx512_core_amx", true, true, true},
    {"avx512_core_bf16", true, true, false},
    {"avx512_core_vnni", false, true, false},
    {"avx512_core", false, false, false},
    {"avx2_vnni", false, true, false},
    {"avx2", false, false, false},
    {"portable", false, false, false},
};
enum { CEILINGS = sizeof ceilings / sizeof ceilings[0] };

static const char *ceiling_name(size_t index) {
    return ceilings[index].name;
}

static bool has_neon_dot(void) {
#if defined(__aarch64__) && defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return false;
#endif
}

/* A process must ask the system before it may use tile registers; what it was given stays. */
static bool has_tiles(void) {
#if defined(__x86_64__) && defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25; /* AMX-BF16, AMX-TILE, AMX-INT8 */
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
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
    if (!chosen_ceiling) QS_TRY(qs__library_isa_set(name));
    QS_TRY(qs_number_isa_set(name));
    chosen_ceiling = ceilings[i].name;
    /* What the machine really has bounds what the ceiling allows. */
    cpu->bf16 = ceilings[i].bf16 && qs__library_has("avx512_core_bf16");
    cpu->vnni = ceilings[i].vnni && (qs__library_has("avx512_core_vnni") || qs__library_has("avx2_vnni") || has_neon_dot());
    cpu->tiles = ceilings[i].tiles && cpu->bf16 && has_tiles();
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

/* Exact products of codes; the ones with dot products where these are there and allowed. */
static const qs__products *integer_products(const qs__cpu *cpu) {
    (void)cpu;
#if defined(__x86_64__)
    if (cpu->tiles) return &qs__products_avx512_amx;
    if (cpu->vnni && qs__library_has("avx512_core_vnni")) return &qs__products_avx512_vnni;
    if (cpu->vnni) return &qs__products_avx2_vnni;
    if (strcmp(qs_number_isa(), "portable")) return &qs__products_avx2;
#elif defined(__aarch64__)
    if (cpu->vnni) return &qs__products_neon_dot;
#endif
    return &qs__products_portable;
}

/* Tiles of convolutions. */
static void set_convolutions(qs__cpu *cpu) {
    (void)cpu;
#if defined(__x86_64__)
    if (strcmp(cpu->kernels->name, "avx512")) return;
    cpu->direct = &qs__direct_avx512;
    cpu->weight_gradient = &qs__weight_gradient_avx512;
    cpu->winograd = &qs__winograd_avx512;
#endif
}

static void cpu_close(void *state) {
    qs__cpu *cpu = state;
    qs__library_close(cpu->library);
    free(cpu);
}

static qs_status start(const qs_device_options *options, qs__cpu *cpu) {
    QS_TRY(set_ceiling(options->isa ? options->isa : "all", cpu));
    if (options->family) QS_TRY(qs__family_ask(cpu, options->family));
    cpu->kernels = own_kernels();
    cpu->products = integer_products(cpu);
    set_convolutions(cpu);
    return qs__library_open(options->threads, &cpu->library);
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
    int formats = 0;
    snprintf(out->isa, sizeof out->isa, "%s", cpu->isa);
    qs__library_version(out->library, sizeof out->library);
    snprintf(out->kernels, sizeof out->kernels, "%s %.24s", QS_KERNELS_DIGEST, __VERSION__);
    out->formats[formats++] = "fp32";
    if (cpu->bf16) out->formats[formats++] = "bf16";
    if (cpu->vnni) out->formats[formats++] = "int8";
}

static qs_status cpu_fact(void *state, const qs_case *one, const char *name, qs_kernel_fact *out) {
    qs__chain *chain = NULL;
    QS_TRY(qs_allocate(1, sizeof *chain, &chain));
    qs_status status = qs__choose(state, one, name, chain);
    if (status == QS_OK) qs__chain_fact(chain, out);
    qs__chain_release(chain);
    free(chain);
    return status;
}

static qs_status cpu_candidates(void *state, const qs_case *one, qs_kernel_fact *out, int *count) {
    qs__chain *chain = NULL;
    QS_TRY(qs_allocate(1, sizeof *chain, &chain));
    const qs_status status = qs__candidates(state, one, chain, out, count);
    qs__chain_release(chain);
    free(chain);
    return status;
}

static void cpu_release(void *kernel) {
    qs__chain_release(kernel);
    free(kernel);
}

static qs_status cpu_prepare(void *state, const qs_case *one, const char *name, const qs_location *operand, qs_location scratch,
                             void **kernel) {
    qs__chain *chain = NULL;
    void *data[QS_MAX_OPERANDS] = {0};
    qs__locations_host(one, operand, data);
    QS_TRY(qs_allocate(1, sizeof *chain, &chain));
    qs_status status = qs__choose(state, one, name, chain);
    if (status == QS_OK) status = qs__chain_prepare(chain, data, qs__location_host(scratch));
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

static void cpu_trim(void *state) {
    (void)state;
    qs__library_forget();
}

const qs__backend qs__device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .fact = cpu_fact,
    .candidates = cpu_candidates,
    .prepare = cpu_prepare,
    .run = cpu_run,
    .release = cpu_release,
    .trim = cpu_trim,
    .peak = qs__peak,
};
