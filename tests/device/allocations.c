// SPDX-License-Identifier: Apache-2.0
/* Kernels allocate nothing in the step: every allocation of the process is counted while a kernel runs, at every ceiling. The library's own
 * book-keeping of one call is allowed 1 KiB; kernels whose fact says `allocates` are exempt, and must be few. */
// labels: short
#include "device_support.h"
#include "integer_cases.h"

#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define COUNTING 0
#endif
#endif
#if !defined(COUNTING) && defined(__GLIBC__)
#define COUNTING 1
#endif

#if COUNTING

static atomic_bool armed;
static atomic_size_t counted;

static void count_bytes(size_t bytes) {
    if (atomic_load(&armed)) atomic_fetch_add(&counted, bytes);
}

/* glibc's own entry points, under the names that a program may replace. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    count_bytes(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    count_bytes(count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    count_bytes(bytes);
    return __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count_bytes(bytes);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    count_bytes(bytes);
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : 12;
}

/* Bytes allocated by one run, after a first one that may set things up. */
static size_t bytes_of_run(qs_device *device, const qs_case *one) {
    bound b;
    bound_kernel kernel;
    bound_make(&b, one, 21);
    kernel_make(&kernel, device, &b);
    assert_ok(qs_kernel_run(kernel.kernel, &b.run));
    atomic_store(&counted, 0);
    atomic_store(&armed, true);
    qs_status status = qs_kernel_run(kernel.kernel, &b.run);
    atomic_store(&armed, false);
    assert_int_equal(status, QS_OK);
    kernel_release(&kernel);
    bound_release(&b);
    return atomic_load(&counted);
}

static void test_counter_counts(void **state) {
    (void)state;
    atomic_store(&counted, 0);
    atomic_store(&armed, true);
    void *volatile block = malloc(5000);
    atomic_store(&armed, false);
    free(block);
    assert_true(atomic_load(&counted) == 5000);
}

static void test_every_case(void **state) {
    (void)state;
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_device_info info;
    qs_device_describe(device, &info);
    /* Without a kernel library the reference stands in for it, and allocates. */
    const char *expected = strcmp(info.library, "own kernels") == 0 ? "reference" : "";
    const qs_op *op;
    int cases = 0, exempt = 0;
    for (size_t i = 0; (op = qs_op_at(i)); i++) {
        for (const char *const *text = op->cases; *text; text++) {
            qs_case one;
            qs_kernel_fact fact;
            assert_ok(qs_case_parse(*text, &one));
            if (qs_device_fact(device, &one, &fact) != QS_OK) continue;
            cases++;
            exempt += fact.allocates && strcmp(fact.kernel, expected) != 0;
            size_t bytes = fact.allocates ? 0 : bytes_of_run(device, &one);
            if (bytes > 1024) fail_msg("%s allocates %zu bytes in a run of %s", fact.kernel, bytes, *text);
        }
    }
    assert_true(cases > 100);
    assert_true(exempt < cases / 20);
    qs_device_close(device);
}

/* What is taken only when it is asked for. */
static void test_gathered(void **state) {
    (void)state;
    qs_device *device = NULL;
    int cases = 0;
    assert_ok(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = test_ceiling, .speed = 1, .family = "gathered"},
                             &device));
    for (const char *const *text = integer_cases; *text; text++) {
        qs_case one;
        qs_kernel_fact fact;
        assert_ok(qs_case_parse(*text, &one));
        assert_ok(qs_device_fact(device, &one, &fact));
        if (!strstr(fact.kernel, "gathered")) continue;
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
    if (!built("cpu")) return 77;
    return run_per_ceiling(tests, sizeof tests / sizeof tests[0]);
}

#else

int main(void) {
    return 77; /* the counter needs glibc, and an allocator that no sanitizer has replaced */
}

#endif
