// SPDX-License-Identifier: Apache-2.0
/* The raw statistics of a profile: per operator and operand, one value an iteration. */
#include "profile_internal.h"

#include <math.h>
#include <stdlib.h>

/* Fields of a tensor, one array each, in the order of the file, and what no value may be below. */
#define FIELDS(X)         \
    X(norm2, 0)           \
    X(absmax, 0)          \
    X(minimum, -INFINITY) \
    X(maximum, -INFINITY) \
    X(channel_absmax2, 0) \
    X(variance_int8, 0)   \
    X(variance_bf16, 0)   \
    X(variance_fp16, 0)
/* Those that a file may lack: NaN then. */
#define OPTIONAL_FIELDS(X) \
    X(channel_range2, 0)   \
    X(variance_int8_channel, 0)
#define FIELD_NAME(name, low) " " #name
static const char tensor_fields[] = "count" FIELDS(FIELD_NAME), optional_fields[] = "range_histogram" OPTIONAL_FIELDS(FIELD_NAME);

static void release_tensor(qs_tensor_statistics *tensor) {
#define FIELD_FREE(name, low) free(tensor->name);
    FIELDS(FIELD_FREE)
    OPTIONAL_FIELDS(FIELD_FREE)
    free(tensor->range_histogram);
}

static void release_operator(qs_operator_statistics *operator_) {
    release_tensor(&operator_->src);
    release_tensor(&operator_->weights);
    release_tensor(&operator_->diff_dst);
}

static qs_status create_tensor(int iterations, qs_tensor_statistics *out) {
#define FIELD_CREATE(name, low) QS_TRY(qs_allocate((size_t)iterations, sizeof(double), &out->name));
    FIELDS(FIELD_CREATE)
    OPTIONAL_FIELDS(FIELD_CREATE)
    for (int i = 0; i < iterations; i++)
        out->channel_range2[i] = out->variance_int8_channel[i] = NAN;
    return qs_allocate(QS_EXPONENTS, sizeof(double), &out->range_histogram);
}

qs_status qs_operator_statistics_create(int iterations, qs_operator_statistics *out) {
    qs_operator_statistics created = {.hessian_top = NAN};
    qs_tensor_statistics *const tensors[] = {&created.src, &created.weights, &created.diff_dst};
    if (iterations < 0) return qs_fail(QS_USAGE, "iterations %d must be at least 0", iterations);
    for (int i = 0; i < 3; i++) {
        qs_status status = create_tensor(iterations, tensors[i]);
        if (status != QS_OK) {
            release_operator(&created);
            return status;
        }
    }
    *out = created;
    return QS_OK;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------------- */

static qs_status read_histogram(const qs__place *tensor, double *out) {
    qs__place histogram = qs__field(tensor, "range_histogram");
    int lowest = 0;
    if (!histogram.value) return QS_OK;
    QS_TRY(qs__expect_fields(&histogram, "lowest elements", ""));
    QS_TRY(qs__get_count(&histogram, "lowest", QS_LOWEST_EXPONENT, QS_LOWEST_EXPONENT + QS_EXPONENTS - 1, &lowest));
    qs__place elements = qs__field(&histogram, "elements");
    lowest -= QS_LOWEST_EXPONENT;
    QS_TRY(qs__expect_array(&elements, 1, (size_t)(QS_EXPONENTS - lowest)));
    return qs__get_numbers(&histogram, "elements", (int)json_array_size(elements.value), 0, out + lowest);
}

static qs_status read_tensor(const qs__place *operator_, const char *key, int iterations, qs_tensor_statistics *out) {
    qs__place tensor = qs__field(operator_, key);
    QS_TRY(qs__expect_fields(&tensor, tensor_fields, optional_fields));
    QS_TRY(qs__get_integer(&tensor, "count", 0, INT64_MAX, &out->count));
#define FIELD_READ(name, low) QS_TRY(qs__get_numbers(&tensor, #name, iterations, low, out->name));
    FIELDS(FIELD_READ)
    OPTIONAL_FIELDS(FIELD_READ)
    return read_histogram(&tensor, out->range_histogram);
}

/* Before anything is allocated: an absurd "iterations" is refused by the file itself, which has no such arrays. */
static qs_status check_length(const qs__place *member, int iterations) {
    qs__place src = qs__field(member, "src");
    QS_TRY(qs__expect_fields(&src, tensor_fields, optional_fields));
    qs__place norm2 = qs__field(&src, "norm2");
    return qs__expect_array(&norm2, (size_t)iterations, (size_t)iterations);
}

static qs_status read_operator(const qs__place *member, int index, void *context) {
    qs_statistics *statistics = context;
    qs_operator_statistics *out = &statistics->operator_[index];
    QS_TRY(qs__expect_fields(member, "src weights diff_dst", "hessian_top"));
    QS_TRY(check_length(member, statistics->iterations));
    QS_TRY(qs_operator_statistics_create(statistics->iterations, out));
    statistics->operators = index + 1;
    QS_TRY(qs__take_key(member, out->name, sizeof out->name));
    QS_TRY(qs__get_number(member, "hessian_top", -INFINITY, INFINITY, &out->hessian_top));
    QS_TRY(read_tensor(member, "src", statistics->iterations, &out->src));
    QS_TRY(read_tensor(member, "weights", statistics->iterations, &out->weights));
    return read_tensor(member, "diff_dst", statistics->iterations, &out->diff_dst);
}

qs_status qs__statistics_read(const qs__place *root, qs_statistics *out) {
    qs__place statistics = qs__field(root, "statistics");
    QS_TRY(qs__expect_fields(&statistics, "batch iterations ranks operators", ""));
    QS_TRY(qs__get_integer(&statistics, "batch", 0, INT32_MAX, &out->batch));
    QS_TRY(qs__get_count(&statistics, "iterations", 0, INT32_MAX, &out->iterations));
    QS_TRY(qs__get_count(&statistics, "ranks", 0, INT32_MAX, &out->ranks));
    qs__place operators = qs__field(&statistics, "operators");
    QS_TRY(qs__expect_object(&operators));
    QS_TRY(qs__members_create(&operators, sizeof(qs_operator_statistics), &out->operator_));
    return qs__each_member(&operators, read_operator, out);
}

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

/* From the first exponent that occurs to the last one. */
static void write_histogram(qs__writer *writer, const double *histogram) {
    int first = 0, last = QS_EXPONENTS - 1;
    while (last >= 0 && histogram[last] == 0)
        last--;
    if (last < 0) return;
    while (histogram[first] == 0)
        first++;
    qs__open_object(writer, "range_histogram", QS__ONE_LINE);
    qs__put_integer(writer, "lowest", QS_LOWEST_EXPONENT + first);
    qs__put_numbers(writer, "elements", last - first + 1, histogram + first);
    qs__close(writer);
}

static void write_tensor(qs__writer *writer, const char *key, int iterations, const qs_tensor_statistics *tensor) {
    qs__open_object(writer, key, QS__LINES);
    qs__put_integer(writer, "count", tensor->count);
#define FIELD_WRITE(name, low) qs__put_numbers(writer, #name, iterations, tensor->name);
#define OPTIONAL_WRITE(name, low) \
    if (iterations > 0 && !isnan(tensor->name[0])) FIELD_WRITE(name, low)
    FIELDS(FIELD_WRITE)
    OPTIONAL_FIELDS(OPTIONAL_WRITE)
    write_histogram(writer, tensor->range_histogram);
    qs__close(writer);
}

void qs__statistics_write(qs__writer *writer, const qs_statistics *statistics) {
    qs__open_object(writer, "statistics", QS__LINES);
    qs__put_integer(writer, "batch", statistics->batch);
    qs__put_integer(writer, "iterations", statistics->iterations);
    qs__put_integer(writer, "ranks", statistics->ranks);
    qs__open_object(writer, "operators", QS__LINES);
    for (int i = 0; i < statistics->operators; i++) {
        const qs_operator_statistics *one = &statistics->operator_[i];
        qs__open_object(writer, one->name, QS__LINES);
        write_tensor(writer, "src", statistics->iterations, &one->src);
        write_tensor(writer, "weights", statistics->iterations, &one->weights);
        write_tensor(writer, "diff_dst", statistics->iterations, &one->diff_dst);
        if (isfinite(one->hessian_top)) qs__put_number(writer, "hessian_top", one->hessian_top);
        qs__close(writer);
    }
    qs__close(writer);
    qs__close(writer);
}

void qs__statistics_release(qs_statistics *statistics) {
    for (int i = 0; i < statistics->operators; i++)
        release_operator(&statistics->operator_[i]);
    free(statistics->operator_);
    *statistics = (qs_statistics){0};
}
