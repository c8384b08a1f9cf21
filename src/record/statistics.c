// SPDX-License-Identifier: Apache-2.0
/* The raw statistics of a profile: per operator and operand, one value an iteration. */
#include <string.h>

#include "table.h"

/* ---- Elements by binary exponent ------------------------------------------------------------------------------------------- */

/* As it stands in files: from the first exponent that occurs to the last one. */
typedef struct histogram {
    int lowest, count;
    double elements[QS_EXPONENTS];
} histogram;

static const qs__field histogram_fields[] = {
    {"lowest", QS__COUNT, QS__REQUIRED, QS__AT(histogram, lowest), .low = QS_LOWEST_EXPONENT, .high = QS_LOWEST_EXPONENT + QS_EXPONENTS - 1,
     .text = "first exponent e of the list"},
    {"elements", QS__NUMBER, QS__REQUIRED, QS__IN(histogram, elements, count), .least = 1, .most = QS_EXPONENTS, .unit = "numbers",
     .text = "elements with 2^e ≤ \\|t\\| < 2^(e+1), from e = `lowest` on (at −127 those below as well); means over ranks and iterations"},
};
static const qs__record histogram_record = {QS__FIELDS(histogram_fields), .layout = QS__ONE_LINE};

static qs_status histogram_read(const qs__place *place, void *object) {
    histogram read = {0};
    QS_TRY(qs__object_read(place, &histogram_record, &read));
    const int first = read.lowest - QS_LOWEST_EXPONENT;
    const qs__place elements = qs__member(place, "elements");
    if (read.count > QS_EXPONENTS - first)
        return qs__refuse_value(&elements, "has %d elements, must have 1 to %d", read.count, QS_EXPONENTS - first);
    memcpy(((qs_tensor_statistics *)object)->range_histogram + first, read.elements, (size_t)read.count * sizeof(double));
    return QS_OK;
}

/* Exponents that occur: from `first` on; returns their number. */
static int occurring(const double *counts, int *first) {
    int last = QS_EXPONENTS - 1;
    while (last >= 0 && counts[last] == 0)
        last--;
    for (*first = 0; *first < last && counts[*first] == 0; ++*first)
        ;
    return last < 0 ? 0 : last - *first + 1;
}

static void histogram_write(qs__writer *writer, const char *name, const void *object) {
    const double *counts = ((const qs_tensor_statistics *)object)->range_histogram;
    histogram written = {0};
    int first;
    written.count = occurring(counts, &first);
    written.lowest = QS_LOWEST_EXPONENT + first;
    memcpy(written.elements, counts + first, (size_t)written.count * sizeof(double));
    qs__object_write(writer, name, &histogram_record, &written);
}

static bool is_unmeasured(const void *object) {
    int first;
    return occurring(((const qs_tensor_statistics *)object)->range_histogram, &first) == 0;
}

static const qs__hook histogram_hook = {histogram_read, histogram_write, is_unmeasured, NULL};

/* ---- Tensors, operators ---------------------------------------------------------------------------------------------------- */

static const qs__field tensor_fields[] = {
    {"count", QS__INTEGER, QS__REQUIRED, QS__AT(qs_tensor_statistics, count), .text = "elements of the tensor"},
    {"norm2", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, norm2), .text = "Σ t²"},
    {"absmax", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, absmax), .text = "max \\|t\\|"},
    {"minimum", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, minimum), .low = -INFINITY, .text = "min t"},
    {"maximum", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, maximum), .low = -INFINITY, .text = "max t"},
    {"channel_absmax2", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, channel_absmax2),
     .text = "Σ over channels of (max \\|t\\| of the channel)² × its elements"},
    {"variance_int8", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, variance_int8),
     .text =
         "exact Σ q² f (1 − f) of stochastic rounding to int8: q the distance of the two neighbours of t, f how far t is from the lower "
         "one, as a share of q"},
    {"variance_bf16", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, variance_bf16), .text = "the same of bf16"},
    {"variance_fp16", QS__NUMBER, QS__REQUIRED, QS__VALUES(qs_tensor_statistics, variance_fp16), .text = "the same of fp16"},
    {"channel_range2", QS__NUMBER, QS__LEFT_OUT, QS__VALUES(qs_tensor_statistics, channel_range2), .standard = NAN,
     .absent = "not measured", .text = "Σ over channels of (maximum − minimum of the channel)² × its elements"},
    {"variance_int8_channel", QS__NUMBER, QS__LEFT_OUT, QS__VALUES(qs_tensor_statistics, variance_int8_channel), .standard = NAN,
     .absent = "not measured", .text = "as `variance_int8`, with a step per channel; of weights only"},
    {"range_histogram", QS__NUMBER, QS__LEFT_OUT, QS__VALUES(qs_tensor_statistics, range_histogram), .most = QS_EXPONENTS,
     .of = &histogram_record, .hook = &histogram_hook, .values = "object", .absent = "not measured",
     .text = "elements by binary exponent, zeros left out"},
};
static const qs__record tensor_record = {QS__FIELDS(tensor_fields),
                                         .title = "A tensor: `src`, `weights`, `diff_dst` of `statistics.operators.*`"};

static const qs__field operator_fields[] = {
    {"src", QS__OBJECT, QS__REQUIRED, QS__AT(qs_operator_statistics, src), .of = &tensor_record, .text = "its input"},
    {"weights", QS__OBJECT, QS__REQUIRED, QS__AT(qs_operator_statistics, weights), .of = &tensor_record,
     .text = "its weights; of a product of two activations the second one"},
    {"diff_dst", QS__OBJECT, QS__REQUIRED, QS__AT(qs_operator_statistics, diff_dst), .of = &tensor_record,
     .text = "the gradient of the loss by its output"},
    {"hessian_top", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_operator_statistics, hessian_top), .low = -INFINITY, .standard = NAN,
     .values = "eigenvalue", .absent = "not measured", .text = "of the Hessian block of the weights, the largest by magnitude"},
};
static const qs__record operator_record = {QS__FIELDS(operator_fields), .title = "An operator: `statistics.operators.*`", .key = QS_NAME};

/* ---- Measured noise ---------------------------------------------------------------------------------------------------------- */

static const qs__field noise_row_fields[] = {
    {"operator", QS__NAME, QS__REQUIRED, QS__AT(qs_noise_row, name), .text = "the one that was lowered"},
    {"recipe", QS__NAME, QS__REQUIRED, QS__AT(qs_noise_row, recipe), .text = "to which; all others stood in fp32"},
    {"runs", QS__COUNT, QS__REQUIRED, QS__AT(qs_noise_row, runs), .low = 1, .text = "each with samples and draws of its own"},
    {"error2", QS__NUMBER, QS__REQUIRED, QS__AT(qs_noise_row, error2),
     .text = "‖g − g_fp32‖² over the gradient of the whole model, for the same samples"},
    {"standard_error", QS__NUMBER, QS__REQUIRED, QS__AT(qs_noise_row, standard_error), .text = "of `error2`"},
    {"overflow", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_noise_row, overflow), .absent = "false",
     .text = "loss or gradient left the range of a format: the recipe cannot be used there, and the two figures are 0"},
};
static const qs__record noise_row_record = {QS__FIELDS(noise_row_fields), .title = "A row of measured noise: `statistics.noise.rows[]`",
                                            .layout = QS__ONE_LINE};

static const qs__field noise_group_fields[] = {
    {"recipe", QS__NAME, QS__REQUIRED, QS__AT(qs_noise_group, recipe), .text = "of all of them; all others stood in fp32"},
    {"operators", QS__COUNT, QS__REQUIRED, QS__AT(qs_noise_group, operators), .low = 1, .text = "that were lowered together"},
    {"error2", QS__NUMBER, QS__REQUIRED, QS__AT(qs_noise_group, error2), .text = "‖g − g_fp32‖² of one run"},
    {"sum", QS__NUMBER, QS__REQUIRED, QS__AT(qs_noise_group, sum), .text = "what these operators alone come to, with the same samples"},
};
static const qs__record noise_group_record = {QS__FIELDS(noise_group_fields), .title = "Operators together: `statistics.noise.groups[]`",
                                              .layout = QS__ONE_LINE};

static const qs__field noise_fields[] = {
    {"batch", QS__INTEGER, QS__REQUIRED, QS__AT(qs_noise, batch), .low = 1, .high = INT32_MAX, .unit = "samples", .text = "of a run"},
    {"iteration", QS__COUNT, QS__REQUIRED, QS__AT(qs_noise, iteration), .text = "of the training whose weights were taken"},
    {"runs", QS__COUNT, QS__REQUIRED, QS__AT(qs_noise, runs), .text = "steps that were run, those in fp32 included"},
    {"gradient_norm2", QS__NUMBER, QS__REQUIRED, QS__AT(qs_noise, gradient_norm2), .text = "‖g_fp32‖², mean over samples"},
    {"rows", QS__OBJECT, QS__REQUIRED, QS__ARRAY(qs_noise, row, rows), .of = &noise_row_record, .values = "rows",
     .text = "operators and recipes that were measured"},
    {"groups", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_noise, group, groups), .least = 1, .of = &noise_group_record, .values = "rows",
     .absent = "not measured", .text = "whether noise adds up: several operators lowered together"},
};
static const qs__record noise_record = {QS__FIELDS(noise_fields), .title = "Measured noise: `statistics.noise`"};

static bool noise_is_left_out(const void *statistics) {
    return ((const qs_statistics *)statistics)->noise.rows == 0;
}

static const qs__field statistics_fields[] = {
    {"batch", QS__INTEGER, QS__REQUIRED, QS__AT(qs_statistics, batch), .high = INT32_MAX, .unit = "samples",
     .text = "local batch of the iterations"},
    {"iterations", QS__COUNT, QS__REQUIRED, QS__AT(qs_statistics, iterations), .text = "iterations that were measured"},
    {"ranks", QS__COUNT, QS__REQUIRED, QS__AT(qs_statistics, ranks), .text = "ranks that took part"},
    {"operators", QS__OBJECT, QS__REQUIRED, QS__TABLE(qs_statistics, operator_, operators), .related = offsetof(qs_statistics, iterations),
     .of = &operator_record, .values = "object: operator → statistics", .text = "of every adjustable operator"},
    {"noise", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_statistics, noise), .of = &noise_record, .left_out = noise_is_left_out,
     .absent = "not measured", .text = "what single operators in single recipes did to the gradient, for indicator `measured`"},
};
const qs__record qs__statistics_record = {QS__FIELDS(statistics_fields)};

qs_status qs_operator_statistics_create(int iterations, qs_operator_statistics *out) {
    qs_operator_statistics created = {0};
    if (iterations < 0) return qs_fail(QS_USAGE, "iterations %d must be at least 0", iterations);
    const qs_status status = qs__record_standard(&operator_record, iterations, &created);
    if (status == QS_OK)
        *out = created;
    else
        qs__record_release(&operator_record, &created);
    return status;
}
