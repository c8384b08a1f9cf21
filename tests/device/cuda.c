// SPDX-License-Identifier: Apache-2.0
/* The device cuda on every operator's case list: every candidate against the reference, within derived tolerances, guards intact, operands
 * that may only be read as they were, equal bits in a second run, in other memory and as a recording; what is no ordinary number; data that
 * kernels complain of; and what it refuses, which must be known here.
 *
 * All that fails is told, not only the first: cases run in child processes, and behind one that ends, or whose GPU is lost, another
 * goes on. Names of operators as arguments pick their cases: test_device_cuda conv2d linear. Without a double of a GPU
 * (QSYNC_TEST_DEVICE=cuda) and without a GPU only the reason why there is none is looked at.
 *
 * For tools that look into kernels, QSYNC_TEST_CUDA_OWN=SECONDS runs what only kernels of ours run, in the process itself, small cases
 * first, as far as the seconds reach; QSYNC_TEST_CUDA_SHARE=I/N is every Nth of these cases from the Ith (0) on. */
// labels: short
// timeout: 3600
#include "device_support.h"
#include "larger_cases.h"
#include "special_values.h"
#include "kit/integer_cases.h"

#include <ctype.h>
#include <signal.h>

/* ---- What is refused, and why ---- */

static const struct {
    const char *op;     /* NULL: any */
    const char *reason; /* a part of the message */
    const char *why;
} known[] = {
    {NULL, "need compute capability", "chips have no arithmetic of formats that are younger than they"},
    {"block_round", "no kernel for this operator", "blocks that share scales are of the CPU's devices (docs/blocks.md)"},
};

/* NULL: it should not have been refused. */
static const char *why_refused(const char *name, const char *message) {
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if ((!known[i].op || !strcmp(known[i].op, name)) && strstr(message, known[i].reason)) return known[i].why;
    return NULL;
}

/* ---- Entries ---- */

typedef enum entry_kind { VALUES, SPECIAL, COMPLAINT } entry_kind;
typedef enum entry_state { NOT_RUN, REFUSED, PASSED, FAILED } entry_state;
enum { MOST_ENTRIES = 4096, SECONDS = 300, GRACE = 8, AGAIN = 3 };

typedef struct entry {
    const char *text;
    char op[32];
    entry_kind kind;
    int64_t elements; /* where they are ordered by them */
} entry;

static entry entries[MOST_ENTRIES];
static int entry_count;
static double own_until; /* by qs_clock(): no case of kernels of ours begins later; 0: all are run, and all kernels */

/* What children tell: memory that all see. */
typedef struct outcome {
    entry_state state;
    int candidates;
    char reason[200];
} outcome;
static struct shared {
    int next;     /* the entry that runs, or would */
    bool running; /* it does: what failed or passed stays so, whatever comes before the next one */
    bool lost;    /* the GPU takes nothing more from the process */
    outcome of[MOST_ENTRIES];
} * shared;

static const char *const complaint_cases[] = {
    "softmax_cross_entropy/forward src=fp32[37,11] labels=fp32[37] loss=fp32[2]",
    "softmax_cross_entropy/backward src=bf16[37,11] labels=fp32[37] diff_src=bf16[37,11]",
    "embedding/forward ids=fp32[3,5] weights=fp32[20,12] dst=fp32[3,12,5] vocabulary=20",
    "embedding/backward ids=fp32[3,5] diff_dst=fp32[3,12,5] diff_weights=fp32[20,12] vocabulary=20",
    "gather/forward src=fp32[3,12,5] ids=fp32[3,4] dst=fp32[3,12,4]",
    "gather/backward ids=fp32[3,4] diff_dst=bf16[3,12,4] diff_src=bf16[3,12,5]",
    "positions/forward src=fp32[1,12,5] place=fp32[1,1] weights=fp32[9,12] dst=fp32[1,12,5] vocabulary=9",
    "positions/backward diff_dst=fp32[1,12,5] place=fp32[1,1] diff_src=fp32[1,12,5] diff_weights=fp32[9,12] vocabulary=9",
    ("cached_attention/forward src=fp32[1,12,5] src2=fp32[1,12,5] src3=fp32[1,12,5] place=fp32[1,1] key_cache=fp32[9,12] "
     "value_cache=fp32[9,12] dst=fp32[1,12,5] heads=2 context=9"),
};

/* Operators of which libraries compute a part, with kernels of ours before and behind it. */
static const char *const of_libraries[] = {"conv2d", "conv_transpose", "linear", "matmul", "attention", "recurrence"};

static void entry_add(const char *text, entry_kind kind, int names, char **name) {
    entry *one = &entries[entry_count];
    snprintf(one->op, sizeof one->op, "%.*s", (int)strcspn(text, "/"), text);
    if (own_until > 0 && is_one_of(one->op, of_libraries, COUNT_OF(of_libraries))) return;
    bool wanted = names == 0;
    for (int i = 0; i < names; i++)
        wanted |= !strcmp(name[i], one->op);
    if (!wanted) return;
    if (++entry_count == MOST_ENTRIES) abort();
    one->text = text;
    one->kind = kind;
}

static void entries_collect(int names, char **name) {
    const qs_op *op;
    for (size_t i = 0; (op = qs_op_at(i)); i++)
        for (const char *const *text = op->cases; *text; text++)
            entry_add(*text, VALUES, names, name);
    for (const char *const *text = larger_cases; *text; text++)
        entry_add(*text, VALUES, names, name);
    for (const char *const *text = integer_cases; *text; text++)
        entry_add(*text, VALUES, names, name);
    for (size_t i = 0; i < COUNT_OF(special_value_cases); i++)
        entry_add(special_value_cases[i], SPECIAL, names, name);
    for (size_t i = 0; i < COUNT_OF(complaint_cases); i++)
        entry_add(complaint_cases[i], COMPLAINT, names, name);
}

static int64_t elements_of(const entry *one) {
    qs_case parsed;
    int64_t sum = 0;
    assert_ok(qs_case_parse(one->text, &parsed));
    for (int i = 0; i < parsed.operands; i++)
        sum += parsed.operand[i].format ? qs_shape_count(&parsed.operand[i].shape) : 0;
    return sum;
}

static int smaller_first(const void *a, const void *b) {
    const entry *one = a, *other = b;
    return one->elements != other->elements ? (one->elements > other->elements) - (one->elements < other->elements)
                                            : strcmp(one->text, other->text);
}

/* false: the text is none. */
static bool share_take(const char *text) {
    int share = 0, shares = 0, kept = 0;
    if (sscanf(text, "%d/%d", &share, &shares) != 2 || share < 0 || share >= shares) return false;
    for (int i = 0; i < entry_count; i++)
        entries[i].elements = elements_of(&entries[i]);
    qsort(entries, (size_t)entry_count, sizeof *entries, smaller_first);
    for (int i = share; i < entry_count; i += shares)
        entries[kept++] = entries[i];
    entry_count = kept;
    return true;
}

/* ---- One entry, in a child ---- */

static qs_device *device;

static void run_or_lost(bound_kernel *kernel, bound *on, const char *what) {
    const qs_status status = kernel_run(kernel, &on->run);
    shared->lost = status == QS_FAILED;
    if (status != QS_OK) fail_msg("%s: %s", what, qs_message());
}

static void check_equal(const bound *got, const bound *expected, bool written, const char *what, const char *how) {
    for (int i = 0; i < got->one.operands; i++) {
        if (!got->one.operand[i].format || (!written && qs_pass_writes(got->one.pass, i))) continue;
        if (memcmp(got->operands[i].data, expected->operands[i].data, tensor_bytes(&got->operands[i])))
            fail_msg("%s: %s %s", what, qs_role_name(got->one.operand[i].role), how);
    }
}

/* What is recorded of a run gives the bits of another one as the kernel itself does: nothing but values of the run differs. */
static void check_recorded(bound_kernel *kernel, bound_kernel *recorded, bound *fresh, const char *what) {
    qs_recording *recording = NULL;
    qs_run other = fresh->run;
    other.seed++;
    other.step += 3;
    other.updates++;
    other.loss_scale *= 2;
    other.learning_rate /= 2;
    bound_share(kernel->data, fresh);
    bound_share(recorded->data, fresh);
    kernel_write(recorded);
    const qs_status status = qs_recording_make(1, &recorded->kernel, &fresh->run, &recording);
    if (status == QS_UNSUPPORTED && (!strcmp(fresh->one.op->name, "resize") || !strcmp(fresh->one.op->name, "pad"))) {
        assert_message("copies between host and device are not recorded"); /* its tables */
        return;
    }
    if (status != QS_OK) fail_msg("%s: %s", what, qs_message());
    kernel_write(kernel);
    assert_ok(qs_kernel_run(kernel->kernel, &other));
    assert_ok(qs_recording_run(recording, &other));
    kernel_read(kernel);
    kernel_read(recorded);
    check_equal(recorded->data, kernel->data, true, what, "of a recording differs");
    qs_recording_release(recording);
}

/* Once on one kernel, twice on another whose operands and scratch lie elsewhere, and as a recording. */
static void check_candidate(const qs_case *one, const qs_kernel_fact *fact, bound *fresh, bound *expected, const char *what) {
    bound got, again;
    bound_kernel first, second;
    bound_copy(&got, one, fresh);
    bound_copy(&again, one, fresh);
    kernel_make_named(&first, device, fact->kernel, &got);
    assert_string_equal(first.fact.kernel, fact->kernel);
    assert_true(first.fact.scratch_bytes == fact->scratch_bytes && first.fact.allocates == fact->allocates);
    run_or_lost(&first, &got, what);
    compare_written(&got, expected, fact->kernel, what);
    check_equal(&got, fresh, false, what, "may only be read, and was changed");
    kernel_make_named(&second, device, fact->kernel, &again);
    for (int turn = 0; turn < 2; turn++) {
        bound_share(&again, fresh);
        run_or_lost(&second, &again, what);
        check_equal(&again, &got, true, what, "differs between runs");
    }
    check_recorded(&first, &second, fresh, what);
    kernel_release(&first);
    kernel_release(&second);
    bound_release(&got);
    bound_release(&again);
}

static void check_values(const qs_case *one, const char *text, const qs_kernel_fact *all, int count) {
    bound fresh, expected;
    bound_make(&fresh, one, 11);
    smooth(&fresh);
    bound_copy(&expected, one, &fresh);
    bound_run(&expected);
    for (int i = 0; i < count; i++) {
        char what[QS_CASE_TEXT + 160];
        snprintf(what, sizeof what, "%s by %s", text, all[i].kernel);
        for (int k = 0; k < i; k++)
            if (!strcmp(all[i].kernel, all[k].kernel)) fail_msg("%s: two candidates have this name", what);
        check_candidate(one, &all[i], &fresh, &expected, what);
    }
    bound_release(&expected);
    bound_release(&fresh);
}

/* A label, an id or a place that is out of range comes back as the reference tells it; the next run is as good as any. */
static void check_complaint(const qs_case *one, const char *text, const qs_kernel_fact *fact) {
    bound fresh, good, expected, got;
    bound_kernel kernel;
    char message[512];
    bound_make(&fresh, one, 11);
    bound_copy(&good, one, &fresh);
    bound_copy(&expected, one, &fresh);
    bound_copy(&got, one, &fresh);
    bound_run(&good);
    const qs_role role = qs_case_position(one, QS_LABELS) >= 0 ? QS_LABELS : qs_case_position(one, QS_IDS) >= 0 ? QS_IDS : QS_PLACE;
    const int index = role == QS_PLACE ? 0 : 7;
    ((int32_t *)bound_tensor(&expected, role)->data)[index] = 1000;
    ((int32_t *)bound_tensor(&got, role)->data)[index] = 1000;
    assert_int_equal(qs_case_reference(&expected.one, expected.operands, &expected.run), QS_USAGE);
    const char *reason = strstr(qs_message(), "1000");
    assert_non_null(reason);
    snprintf(message, sizeof message, "%s", reason);
    kernel_make_named(&kernel, device, fact->kernel, &got);
    assert_refused(kernel_run(&kernel, &got.run), QS_USAGE, message);
    bound_share(&got, &fresh);
    run_or_lost(&kernel, &got, text);
    compare_written(&got, &good, fact->kernel, text);
    kernel_release(&kernel);
    bound_release(&fresh);
    bound_release(&good);
    bound_release(&expected);
    bound_release(&got);
}

static void run_entry(void **state) {
    const int number = (int)((entry *)*state - entries);
    const entry *one = &entries[number];
    outcome *of = &shared->of[number];
    qs_kernel_fact all[QS_MOST_CANDIDATES];
    qs_case parsed;
    int count = 0;
    fflush(NULL);
    if (own_until > 0 && (shared->lost || qs_clock() > own_until)) skip();
    if (shared->lost) _exit(AGAIN);
    if (own_until == 0) alarm(SECONDS);
    shared->next = number;
    shared->running = true;
    of->state = FAILED;
    assert_ok(qs_case_parse(one->text, &parsed));
    const qs_status status = qs_device_candidates(device, &parsed, all, &count);
    if (status == QS_UNSUPPORTED) {
        of->state = REFUSED;
        char text[QS_CASE_TEXT];
        const size_t head = strlen(qs_case_text(&parsed, text));
        snprintf(of->reason, sizeof of->reason, "%s", qs_message() + (strncmp(qs_message(), text, head) ? 0 : head + 2));
        return;
    }
    assert_int_equal(status, QS_OK);
    assert_true(count >= 1 && count <= QS_MOST_CANDIDATES);
    of->candidates = count;
    if (one->kind == VALUES) check_values(&parsed, one->text, all, count);
    for (int i = 0; one->kind != VALUES && i < count; i++) {
        if (one->kind == SPECIAL) check_special_values(device, one->text, all[i].kernel);
        if (one->kind == COMPLAINT) check_complaint(&parsed, one->text, &all[i]);
    }
    of->state = PASSED;
}

static int entry_end(void **state) {
    (void)state;
    shared->running = false;
    return 0;
}

/* ---- Children ---- */

static int device_start(void **state) {
    (void)state;
    device = open_device("cuda", NULL, 1, 1);
    return 0;
}

static void entries_run(int first) {
    static struct CMUnitTest tests[MOST_ENTRIES];
    const size_t count = (size_t)(entry_count - first);
    for (int i = first; i < entry_count; i++)
        tests[i - first] =
            (struct CMUnitTest){.name = entries[i].text, .test_func = run_entry, .teardown_func = entry_end, .initial_state = &entries[i]};
    const int failed = _cmocka_run_group_tests("cases", tests, count, device_start, NULL);
    shared->next = entry_count;
    if (failed == 0) qs_device_close(device); /* what failed left its kernels */
    fflush(NULL);
}

/* All that a child says, without what went well. */
static void lines_show(FILE *from) {
    char line[4096];
    while (fgets(line, sizeof line, from)) {
        const bool dull = strstr(line, "[ RUN ") || strstr(line, "[       OK ") || strstr(line, "[==========]") ||
                          strstr(line, "[  PASSED  ]") || (strstr(line, "[  FAILED  ]") && strstr(line, "test(s)")) || line[0] == '\n';
        if (!dull) fputs(line, stdout);
    }
}

/* Runs the entries from `first` on in a child, as far as it comes. */
static void child_start(int first) {
    int ends[2], status = 0;
    shared->next = first;
    shared->lost = false;
    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        entries_run(first);
        _exit(0);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    assert_non_null(from);
    lines_show(from);
    fclose(from);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == AGAIN)) {
        if (WEXITSTATUS(status) == AGAIN) shared->next++;
        return;
    }
    printf("the process ended (%s %d) in %s\n", WIFSIGNALED(status) ? "signal" : "exit code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), entries[shared->next].text);
    shared->of[shared->next++].state = FAILED;
}

/* ---- Verdicts ---- */

static void reasons_show(const char *name) {
    for (int i = 0; i < entry_count; i++) {
        bool first = shared->of[i].state == REFUSED && !strcmp(entries[i].op, name);
        int times = 0;
        for (int k = 0; k < entry_count && first; k++) {
            if (shared->of[k].state != REFUSED || strcmp(entries[k].op, name) || strcmp(shared->of[k].reason, shared->of[i].reason))
                continue;
            first = k >= i;
            times++;
        }
        const char *why = why_refused(name, shared->of[i].reason);
        if (first) printf("    refused %d (%s): %s\n", times, why ? why : "which should not be", shared->of[i].reason);
    }
}

/* A line for each operator; how many entries did not pass. */
static int verdict(void) {
    int bad = 0;
    for (int i = 0; i < entry_count; i++) {
        int of_state[FAILED + 1] = {0}, candidates = 0, unknown = 0;
        bool first = true;
        for (int k = 0; k < entry_count && first; k++) {
            if (strcmp(entries[k].op, entries[i].op)) continue;
            first = k >= i;
            of_state[shared->of[k].state]++;
            candidates += shared->of[k].candidates;
            unknown += shared->of[k].state == REFUSED && !why_refused(entries[k].op, shared->of[k].reason);
        }
        if (!first) continue;
        printf("%-24s %3d passed (by %d candidates), %d failed, %d refused, %d not run\n", entries[i].op, of_state[PASSED], candidates,
               of_state[FAILED], of_state[REFUSED], of_state[NOT_RUN]);
        reasons_show(entries[i].op);
        bad += of_state[FAILED] + unknown + (own_until > 0 ? 0 : of_state[NOT_RUN]);
    }
    return bad;
}

/* Under a tool a case can take longer than anybody waits. */
static void time_is_up(int signal) {
    (void)signal;
    if (shared->running) {
        shared->of[shared->next].state = NOT_RUN;
        printf("time is up in %s\n", entries[shared->next].text);
    }
    const int bad = verdict();
    printf("%d entries, %d did not pass\n", entry_count, bad);
    fflush(NULL);
    _exit(bad > 0);
}

/* Opened, or refused with a reason. */
static bool can_be_opened(void) {
    int status = 1;
    fflush(NULL);
    const pid_t child = fork(); /* a GPU that a process opened is none for its children */
    assert_true(child >= 0);
    if (child == 0) {
        const qs_device_options options = device_options("cuda", NULL, 1, 1);
        const qs_status opened = qs_device_open(&options, &device);
        if (opened == QS_OK) {
            qs_device_close(device);
            _exit(0);
        }
        printf("%s\n", qs_message());
        fflush(NULL);
        _exit(opened == QS_UNSUPPORTED && strstr(qs_message(), "libcuda.so.1") ? AGAIN : 1);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == AGAIN));
    return WEXITSTATUS(status) == 0;
}

int main(int arguments, char **argument) {
    const char *own = getenv("QSYNC_TEST_CUDA_OWN"), *share = getenv("QSYNC_TEST_CUDA_SHARE");
    if (!backend_exists("cuda")) return 77;
    setvbuf(stdout, NULL, _IOLBF, 0); /* what failed is seen at once */
    if (own) own_until = qs_clock() + atof(own);
    if (!own && !can_be_opened()) return getenv("QSYNC_TEST_DEVICE") ? 1 : 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    entries_collect(arguments - 1, argument + 1);
    if (own && !share_take(share ? share : "0/1")) {
        fprintf(stderr, "QSYNC_TEST_CUDA_SHARE=%s: must be I/N, I from 0 to N - 1\n", share);
        return 2;
    }
    if (own) {
        signal(SIGALRM, time_is_up);
        alarm((unsigned)atoi(own) + GRACE);
        entries_run(0);
        alarm(0);
    }
    for (int next = 0; next < entry_count && !own; next = shared->next)
        child_start(next);
    const int bad = verdict();
    printf("%d entries, %d did not pass\n", entry_count, bad);
    return bad > 0;
}
