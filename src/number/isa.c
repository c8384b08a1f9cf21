// SPDX-License-Identifier: Apache-2.0
/* Which kernels run: the widest of this CPU under a ceiling. The ceilings carry the kernel library's names, so that one word of a device
 * class caps both; several of them mean the same here, since these kernels use neither tiles nor VNNI nor bf16 instructions. */
#include "number_room.h"

#include <stdatomic.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef enum isa_level { PORTABLE, AVX2, AVX512 } isa_level;

typedef struct ceiling {
    const char *name;
    isa_level level;
} ceiling;

static const ceiling ceilings[] = {
    {"all", AVX512},
    {"avx512_core_amx", AVX512},
    {"avx512_core_bf16", AVX512},
    {"avx512_core_vnni", AVX512},
    {"avx512_core", AVX512},
    {"avx2_vnni", AVX2},
    {"avx2", AVX2},
    {"portable", PORTABLE},
};
enum { CEILINGS = sizeof ceilings / sizeof ceilings[0] };

static _Atomic(const qs__kernels *) kernels_in_use;

#if defined(__x86_64__)

static bool cpu_has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static isa_level cpu_level(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !cpu_has_f16c()) return PORTABLE;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
    return wide ? AVX512 : AVX2;
}

static const qs__kernels *kernels_of(isa_level level) {
    return level == AVX512 ? &qs__kernels_avx512 : level == AVX2 ? &qs__kernels_avx2 : &qs__kernels_portable;
}

#else

static isa_level cpu_level(void) {
    return PORTABLE;
}

static const qs__kernels *kernels_of(isa_level level) {
    (void)level;
    return &qs__kernels_portable;
}

#endif

static void use_kernels(isa_level highest) {
    isa_level cpu = cpu_level();
    atomic_store_explicit(&kernels_in_use, kernels_of(cpu < highest ? cpu : highest), memory_order_relaxed);
}

const qs__kernels *qs__kernels_get(void) {
    const qs__kernels *kernels = atomic_load_explicit(&kernels_in_use, memory_order_relaxed);
    if (kernels) return kernels;
    use_kernels(AVX512);
    return atomic_load_explicit(&kernels_in_use, memory_order_relaxed);
}

const char *qs_number_isa_name_at(size_t index) {
    return index < CEILINGS ? ceilings[index].name : NULL;
}

qs_status qs_number_isa_set(const char *name) {
    for (size_t i = 0; i < CEILINGS; i++) {
        if (strcmp(name, ceilings[i].name) != 0) continue;
        use_kernels(ceilings[i].level);
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "instruction set '%s' does not exist; there are %s", name, qs_names_join(CEILINGS, qs_number_isa_name_at));
}

const char *qs_number_isa(void) {
    return qs__kernels_get()->name;
}
