// SPDX-License-Identifier: Apache-2.0
/* Which kernel runs a case. Every family of kernels.def that can is a candidate. The order is the list's, but what stands behind a better
 * family or allocates while it runs comes after the others; the first one is what the device takes by itself. */
#include "cpu/cpu.h"

#include <string.h>

typedef struct family {
    const char *name, *op;
    qs__build build;
} family;

static const family families[] = {
#define QS_KERNEL(name, op) {#name, op, qs__build_##name},
#include "cpu/kernels.def"
#undef QS_KERNEL
};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* The lower the better; within a rank the list's order holds. */
enum { ASKED, GOOD, BEHIND, ALLOCATES, REFERENCE, RANKS };

qs_status qs__family_ask(qs__cpu *cpu, const char *name) {
    size_t i = 0;
    while (i < FAMILIES && strcmp(families[i].name, name))
        i++;
    if (i == FAMILIES) return qs_fail(QS_USAGE, "kernel family '%s' is unknown: name one of device/cpu/kernels.def, or none", name);
    snprintf(cpu->family, sizeof cpu->family, "%s", name);
    return QS_OK;
}

static bool serves(const family *some, const qs_case *one) {
    if (one->op->optimizer && !strcmp(some->op, "optimizers")) return true;
    return !strcmp(some->op, one->op->name) || !strcmp(some->op, "*");
}

static qs_status family_build(const family *some, const qs__cpu *cpu, const qs_case *one, qs__chain *chain) {
    qs__chain_release(chain);
    memset(chain, 0, sizeof *chain);
    chain->cpu = cpu;
    chain->one = *one;
    return some->build(chain);
}

static int rank_of(const family *some, const qs__chain *chain) {
    if (!strcmp(some->name, chain->cpu->family)) return ASKED;
    if (!strcmp(some->op, "*")) return REFERENCE;
    return chain->allocates ? ALLOCATES : chain->behind ? BEHIND : GOOD;
}

/* ---- Choosing ---- */

/* Where no family has a kernel, the reason is that this machine does not multiply the formats, or else the first family's: the later ones
 * are slower substitutes for it. */
static qs_status choose_best(const qs__cpu *cpu, const qs_case *one, qs__chain *chain) {
    const family *best = NULL;
    int least = RANKS;
    const int enough = cpu->family[0] ? ASKED : GOOD;
    char reason[512] = "";
    for (size_t i = 0; i < FAMILIES; i++) {
        if (!serves(&families[i], one)) continue;
        const qs_status status = family_build(&families[i], cpu, one, chain);
        if (status != QS_OK && status != QS_UNSUPPORTED) return status;
        if (status == QS_UNSUPPORTED && !reason[0]) snprintf(reason, sizeof reason, "%s", qs_message());
        if (status == QS_UNSUPPORTED || rank_of(&families[i], chain) >= least) continue;
        best = &families[i];
        least = rank_of(best, chain);
        if (least <= enough) return QS_OK;
    }
    if (!best) {
        QS_TRY(qs__cpu_multiplies_factors(cpu, one));
        return qs_fail(QS_UNSUPPORTED, "%s", reason[0] ? reason : "the cpu device has no kernel for this operator");
    }
    return family_build(best, cpu, one, chain);
}

static qs_status choose_named(const qs__cpu *cpu, const qs_case *one, const char *name, qs__chain *chain) {
    char others[256] = "";
    for (size_t i = 0; i < FAMILIES; i++) {
        if (!serves(&families[i], one)) continue;
        const qs_status status = family_build(&families[i], cpu, one, chain);
        if (status == QS_UNSUPPORTED) continue;
        QS_TRY(status);
        if (!strcmp(chain->name, name)) return QS_OK;
        const size_t used = strlen(others);
        snprintf(others + used, sizeof others - used, "%s%s", used ? ", " : "", chain->name);
    }
    if (!others[0]) return choose_best(cpu, one, chain); /* tells why there is none */
    return qs_fail(QS_MISMATCH, "this device has no kernel %s for it, but: %s", name, others);
}

qs_status qs__choose(const qs__cpu *cpu, const qs_case *one, const char *name, qs__chain *chain) {
    return name ? choose_named(cpu, one, name, chain) : choose_best(cpu, one, chain);
}

/* ---- All candidates ---- */

void qs__chain_fact(const qs__chain *chain, qs_kernel_fact *out) {
    *out = (qs_kernel_fact){.scratch_bytes = chain->scratch_bytes, .allocates = chain->allocates};
    snprintf(out->kernel, sizeof out->kernel, "%s", chain->name);
}

/* Behind those of its rank. */
static void candidate_insert(const qs__chain *chain, int rank, int *ranks, qs_kernel_fact *out, int *count) {
    int at = *count;
    for (; at > 0 && ranks[at - 1] > rank; at--) {
        ranks[at] = ranks[at - 1];
        out[at] = out[at - 1];
    }
    ranks[at] = rank;
    qs__chain_fact(chain, &out[at]);
    ++*count;
}

/* What allocates is nothing to measure beside what does not, nor is the reference beside anything. */
static int candidates_kept(const int *ranks, int count) {
    int kept = 1;
    while (kept < count && (ranks[kept] < ALLOCATES || (ranks[kept] == ALLOCATES && ranks[0] == ALLOCATES)))
        kept++;
    return kept;
}

qs_status qs__candidates(const qs__cpu *cpu, const qs_case *one, qs__chain *chain, qs_kernel_fact *out, int *count) {
    int ranks[QS_MOST_CANDIDATES], found = 0;
    for (size_t i = 0; i < FAMILIES && found < QS_MOST_CANDIDATES; i++) {
        if (!serves(&families[i], one)) continue;
        const qs_status status = family_build(&families[i], cpu, one, chain);
        if (status == QS_UNSUPPORTED) continue;
        QS_TRY(status);
        candidate_insert(chain, rank_of(&families[i], chain), ranks, out, &found);
    }
    if (found == 0) return choose_best(cpu, one, chain);
    *count = candidates_kept(ranks, found);
    return QS_OK;
}
