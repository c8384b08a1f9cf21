// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Rows quantized by their own maxima: the codes, steps and maxima of columns that three readings give, bit for bit, on every instruction
 * set and with more threads than one. */
#include "number_test.h"

enum { MOST = 9 << 16 };
static float src[MOST];
static int8_t codes[MOST], expected_codes[MOST];
static float step[MOST], column[MOST], expected_column[MOST];

/* Rows and columns of magnitudes that differ. */
static void fill(int64_t rows, int64_t per_row, int64_t columns) {
    for (int64_t i = 0; i < rows * per_row; i++)
        src[i] = qs_random_normal(7, (uint64_t)i) * ldexpf(1, -(int)(i / per_row % 5)) * (1 + (float)(i % columns) / (float)columns);
}

static void check(int64_t rows, int64_t per_row, int64_t columns, qs_rounding rounding, const char *format) {
    const qs_row_codes how = {.format = qs_format_of(format),
                              .rounding = rounding,
                              .random = {3, 4},
                              .stride = (uint64_t)(per_row + (per_row & 1)),
                              .rows = rows,
                              .per_row = per_row,
                              .columns = columns};
    memset(codes, 99, (size_t)(rows * per_row));
    for (int64_t c = 0; c < columns; c++)
        column[c] = 1e9f;
    qs_quantize_rows(&how, src, step, columns ? column : NULL, codes);
    for (int64_t row = 0; row < rows; row++) {
        const float wanted = qs_step_of_absmax(how.format, qs_absmax_array(per_row, src + row * per_row));
        assert_memory_equal(&step[row], &wanted, sizeof wanted);
        qs_quantize_array(how.format, rounding, (qs_random_stream){3, 4 + (uint64_t)row * how.stride}, wanted, per_row, src + row * per_row,
                          expected_codes + row * per_row);
    }
    assert_memory_equal(codes, expected_codes, rows * per_row);
    if (columns == 0) return;
    qs_channel_ranges(how.format, (qs_channel_layout){rows * per_row / columns, columns, 1}, src, expected_column, NULL);
    assert_memory_equal(column, expected_column, (size_t)columns * sizeof *column);
}

static const int64_t sizes[][3] = {{1, 1, 1},        {1, 37, 37},          {7, 33, 11},      {16, 27, 3},
                                   {64, 1152, 128},  {12, 9 * 2048, 2048}, {12, 2100, 2100}, {3, 65536, 512},
                                   {200, 2049, 683}, {5, 70001, 0},        {64, 4608, 512}};

TEST(rows_are_arrays) {
    for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
        assert_ok(qs_number_isa_set(isa_names[isa]));
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            assert_ok(qs_threads_set(i % 2 ? 3 : 1));
            fill(sizes[i][0], sizes[i][1], sizes[i][2] ? sizes[i][2] : 1);
            check(sizes[i][0], sizes[i][1], sizes[i][2], QS_STOCHASTIC, "int8");
            check(sizes[i][0], sizes[i][1], sizes[i][2], QS_NEAREST_EVEN, "int4");
        }
    }
    assert_ok(qs_threads_set(1));
}

/* A value that is not finite shows in its row and in its column, nowhere else. */
TEST(bad_values_show) {
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < COUNT_OF(bad); b++) {
        fill(20, 64, 16);
        src[5 * 64 + 3] = bad[b];
        check(20, 64, 16, QS_NEAREST_EVEN, "int8");
        for (int c = 0; c < 16; c++)
            assert_int_equal(!isfinite(column[c]), c == 3);
    }
}

TEST_MAIN(rows_are_arrays, bad_values_show)
