// SPDX-License-Identifier: Apache-2.0
/* Formats that a class stores but does not compute in: tensors may be assigned to them, which is simulated in fp32. What rounding to them
 * and packing costs is fitted like conversions; the kernels are the same at any size, so one case of each stands for all. */
#include "kinds.h"

#include <string.h>

static bool computes(const qs_class *one, const qs_format *format) {
    for (int i = 0; i < one->formats; i++)
        if (one->format[i] == format) return true;
    return false;
}

bool qs__class_simulates(const qs_class *one) {
    for (int i = 0; i < one->storages; i++)
        if (one->storage[i]->kind == QS_KIND_FLOAT && !computes(one, one->storage[i])) return true;
    return false;
}

static bool is_narrow(const qs_format *format) {
    return format->kind == QS_KIND_FLOAT && format != qs_format_of("fp32");
}

/* ---- Kinds ------------------------------------------------------------------------------------------------------------------------- */

/* Draws follow samples. packed NULL: to any format, without packing. */
static qs_case rounding_case(const qs_format *packed, qs_rounding rounding) {
    const qs_format *fp32 = qs_format_of("fp32");
    const qs_shape shape = qs_shape_of(2, (int64_t)8, (int64_t)64);
    const qs_attributes attributes = {
        .rounding = rounding, .batched = rounding == QS_STOCHASTIC, .to = packed ? packed : qs_format_of("bf16")};
    qs_case one = qs_case_make("round", packed ? "pack" : "forward", &attributes);
    qs_case_bind(&one, QS_SRC, shape, fp32);
    qs_case_bind(&one, QS_DST, shape, fp32);
    if (packed) qs_case_bind(&one, QS_PACKED, shape, packed);
    return one;
}

static qs_status rounding_add(qs__profiler *profiler, const qs_format *packed, qs__kinds *kinds) {
    const qs_case nearest = rounding_case(packed, QS_NEAREST_EVEN), stochastic = rounding_case(packed, QS_STOCHASTIC);
    QS_TRY(qs__kind_wish(profiler, &nearest, kinds));
    return qs__kind_wish(profiler, &stochastic, kinds);
}

qs_status qs__simulated_kinds(qs__profiler *profiler, qs__kinds *kinds) {
    const qs_class *one = profiler->class_;
    if (!qs__class_simulates(one)) return QS_OK;
    QS_TRY(rounding_add(profiler, NULL, kinds));
    for (int i = 0; i < one->storages; i++)
        if (is_narrow(one->storage[i])) QS_TRY(rounding_add(profiler, one->storage[i], kinds));
    return QS_OK;
}

/* ---- Kernels of any size ------------------------------------------------------------------------------------------------------------- */

static qs_status any_size_add(qs__profiler *profiler, const qs_case *one) {
    qs_case like;
    qs_kernel_row row;
    char text[QS_CASE_TEXT];
    qs_case_of_any_size(one, &like);
    QS_TRY(qs__cases_lookup(&profiler->cases, &like, qs_case_text(&like, text), &row));
    if (row.scratch_bytes > 0) return qs_fail(QS_UNSUPPORTED, "%s wants scratch memory; conversions have none", text);
    profiler->cases.entry[qs__cases_find(&profiler->cases, text)].as_conversion = true;
    return QS_OK;
}

static qs_status cast_add(qs__profiler *profiler, const qs_format *from, const qs_format *to) {
    qs_case one = qs_case_make("cast", "forward", NULL);
    qs_case_bind(&one, QS_SRC, qs_shape_of(1, (int64_t)64), from);
    qs_case_bind(&one, QS_DST, qs_shape_of(1, (int64_t)64), to);
    return any_size_add(profiler, &one);
}

static qs_status format_add(qs__profiler *profiler, const qs_format *format) {
    const qs_format *fp32 = qs_format_of("fp32");
    const qs_case pack = rounding_case(format, QS_NEAREST_EVEN);
    qs_case round = rounding_case(NULL, QS_NEAREST_EVEN);
    round.attributes.to = format;
    QS_TRY(any_size_add(profiler, &round));
    QS_TRY(any_size_add(profiler, &pack));
    QS_TRY(cast_add(profiler, fp32, format));
    return cast_add(profiler, format, fp32);
}

qs_status qs__simulated_cases(qs__profiler *profiler) {
    const qs_class *one = profiler->class_;
    for (int i = 0; qs__class_simulates(one) && i < one->storages; i++)
        if (is_narrow(one->storage[i])) QS_TRY(format_add(profiler, one->storage[i]));
    return QS_OK;
}
