// SPDX-License-Identifier: Apache-2.0
/* Kernels allocate nothing in the step: every allocation of the process is counted while a kernel runs, at every ceiling. The library's own
 * book-keeping of one call is allowed 1 KiB; kernels whose fact says `allocates` are exempt, and must be few. */
// labels: short
#include "kit/allocations.h"
#include "device_support.h"
#include "kit/integer_cases.h"

#if COUNTING

/* Bytes allocated by one run, after a first one that may set things up. */
static size_t bytes_of_run(qs_device *device, const qs_case *one) {
    bound b;
    bound_kernel kernel;
    bound_make(&b, one, 21);
    kernel_make(&kernel, device, &b);
    assert_ok(kernel_run(&kernel, &b.run));
    count_begin();
    const qs_status status = qs_kernel_run(kernel.kernel, &b.run);
    const size_t bytes = count_end();
    assert_ok(status);
    kernel_release(&kernel);
    bound_release(&b);
    return bytes;
}

/* Of the program, and of a library it calls. */
TEST(test_counter_counts) {
    static char text[3001];
    memset(text, 'a', sizeof text - 1);
    count_begin();
    void *volatile block = malloc(5000);
    char *volatile copy = strdup(text);
    const size_t bytes = count_end();
    free(block);
    free(copy);
    assert_true(bytes == 5000 + sizeof text);
}

/* What of those that allocate there is nothing else for: without a kernel library the reference stands in for it; on SSE alone it
 * multiplies by `gemm`. */
static bool is_excused(const qs_device *device, const qs_kernel_fact *fact) {
    qs_device_info info;
    qs_device_describe(device, &info);
    if (!strcmp(info.library, "own kernels")) return !strcmp(fact->kernel, "reference");
    return !strcmp(test_ceiling, "portable") && strstr(fact->kernel, "gemm");
}

TEST(test_every_case) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    const qs_op *op;
    int cases = 0, exempt = 0;
    for (size_t i = 0; (op = qs_op_at(i)); i++) {
        for (const char *const *text = op->cases; *text; text++) {
            qs_case one;
            qs_kernel_fact fact;
            assert_ok(qs_case_parse(*text, &one));
            if (qs_device_fact(device, &one, &fact) != QS_OK) continue;
            cases++;
            exempt += fact.allocates && !is_excused(device, &fact);
            size_t bytes = fact.allocates ? 0 : bytes_of_run(device, &one);
            if (bytes > 1024) fail_msg("%s allocates %zu bytes in a run of %s", fact.kernel, bytes, *text);
        }
    }
    assert_true(cases > 100);
    assert_true(exempt < cases / 20);
    qs_device_close(device);
}

/* What is taken only when it is asked for. */
TEST(test_gathered) {
    qs_device *device = NULL;
    int cases = 0;
    assert_ok(qs_device_open(
        &(qs_device_options){.backend = "cpu", .threads = 1, .isa = test_ceiling, .speed = 1, .family = "grouped_gemm"}, &device));
    for (const char *const *text = integer_cases; *text; text++) {
        qs_case one;
        qs_kernel_fact fact;
        assert_ok(qs_case_parse(*text, &one));
        assert_ok(qs_device_fact(device, &one, &fact));
        if (!strstr(fact.kernel, "grouped_gemm")) continue;
        cases++;
        const size_t bytes = bytes_of_run(device, &one);
        if (bytes) fail_msg("%s allocates %zu bytes in a run of %s", fact.kernel, bytes, *text);
    }
    assert_true(cases > 10);
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counter_counts), cmocka_unit_test(test_every_case),
                                       cmocka_unit_test(test_gathered)};
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests));
}

#else

int main(void) {
    return 77; /* the counter needs glibc, and an allocator that no sanitizer has replaced */
}

#endif
