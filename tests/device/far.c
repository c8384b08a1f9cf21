// SPDX-License-Identifier: Apache-2.0
// labels: short
/* What is special about the device far: memory that this process does not see and that can be exhausted, copies that take the time of a
 * stated link and go on beside kernels, failures that come back at the next wait, a child that is killed, and bad options. */
#include "device_support.h"

#include <signal.h>

static const char linear[] = "linear/forward src=fp32[64,256] weights=fp32[64,256] dst=fp32[64,64]";

static qs_status far_open(qs_far_options with, qs_device **out) {
    const qs_device_options options = {.backend = "far", .threads = 1, .speed = 1, .far = with};
    return qs_device_open(&options, out);
}

static qs_device *far_opened(qs_far_options with) {
    qs_device *device = NULL;
    assert_ok(far_open(with, &device));
    return device;
}

TEST(bad_options_are_refused) {
    qs_device *device = NULL;
    assert_refused(far_open((qs_far_options){.runs = "far"}, &device), QS_USAGE, "cannot run itself");
    assert_refused(far_open((qs_far_options){.runs = "gpu"}, &device), QS_USAGE, "'gpu' is not in this build");
    assert_refused(far_open((qs_far_options){.bytes_per_second = -1}, &device), QS_USAGE, "bytes_per_second -1");
    assert_refused(far_open((qs_far_options){.bytes_per_second = NAN}, &device), QS_USAGE, "bytes_per_second");
    assert_refused(far_open((qs_far_options){.latency_us = 2e6}, &device), QS_USAGE, "latency_us 2e+06");
    assert_refused(far_open((qs_far_options){.memory_bytes = -5}, &device), QS_USAGE, "memory_bytes -5");
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", getenv("QSYNC_FAR") ? getenv("QSYNC_FAR") : "");
    assert_int_equal(setenv("QSYNC_FAR", "/nowhere/qsync-far", 1), 0);
    assert_refused(far_open((qs_far_options){0}, &device), QS_USAGE, "/nowhere/qsync-far is none");
    assert_int_equal(setenv("QSYNC_FAR", "/bin/true", 1), 0);
    assert_refused(far_open((qs_far_options){0}, &device), QS_FAILED, "is gone");
    assert_int_equal(kept[0] ? setenv("QSYNC_FAR", kept, 1) : unsetenv("QSYNC_FAR"), 0);
    assert_null(device);
}

TEST(it_tells_what_it_runs) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref"}), *inner = NULL;
    qs_device_info far, ref;
    const qs_device_options options = {.backend = "ref", .threads = 1, .speed = 1};
    assert_ok(qs_device_open(&options, &inner));
    qs_device_describe(device, &far);
    qs_device_describe(inner, &ref);
    assert_string_equal(far.backend, "far");
    assert_string_equal(far.library, ref.library);
    for (int i = 0; i < 8 && ref.formats[i]; i++)
        assert_string_equal(far.formats[i], ref.formats[i]);
    qs_device_close(inner);
    qs_device_close(device);
}

/* A refusal names what was asked and what is there, and takes nothing. */
TEST(memory_is_exhausted) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref", .memory_bytes = 10 << 20});
    qs_memory *first = NULL, *second = NULL;
    assert_ok(qs_memory_reserve(device, 6 << 20, &first));
    assert_null(qs_memory_host(first));
    assert_refused(qs_memory_reserve(device, 5 << 20, &second), QS_OUT_OF_MEMORY, "cannot reserve 5242880 bytes: 4194304 of its 10485760");
    assert_message("memory_bytes");
    assert_null(second);
    assert_refused(qs_memory_resize(first, 11 << 20), QS_OUT_OF_MEMORY, "11534336");
    assert_refused(qs_memory_reserve(device, SIZE_MAX, &second), QS_OUT_OF_MEMORY, "of its 10485760");
    assert_ok(qs_memory_resize(first, 5 << 20));
    assert_ok(qs_memory_reserve(device, 5 << 20, &second));
    qs_memory_release(first);
    assert_ok(qs_memory_resize(second, 10 << 20));
    qs_memory_release(second);
    qs_device_close(device);
}

/* A copy takes its latency and its bytes; never less, by either clock. */
TEST(copies_take_their_time) {
    const qs_far_options link = {.runs = "ref", .bytes_per_second = 1e8, .latency_us = 2000};
    enum { BYTES = 1 << 20 };
    const double least = 2e-3 + BYTES / 1e8;
    qs_device *device = far_opened(link);
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_COPIES);
    qs_event *begin = NULL, *end = NULL;
    qs_memory *memory = NULL;
    char *data = calloc(1, BYTES);
    assert_non_null(data);
    assert_ok(qs_memory_reserve(device, BYTES, &memory));
    assert_ok(qs_event_create(device, &begin));
    assert_ok(qs_event_create(device, &end));
    for (int out = 0; out < 2; out++) {
        const double start = qs_clock();
        assert_ok(qs_event_record(begin, queue));
        assert_ok(out ? qs_memory_read(queue, qs_location_of(memory, 0), data, BYTES)
                      : qs_memory_write(queue, qs_location_of(memory, 0), data, BYTES));
        assert_ok(qs_event_record(end, queue));
        assert_ok(qs_event_wait(end));
        assert_true(qs_clock() - start >= least);
        assert_true(qs_event_elapsed(begin, end) >= least);
    }
    free(data);
    qs_event_release(begin);
    qs_event_release(end);
    qs_memory_release(memory);
    qs_device_close(device);
}

/* The queue of kernels does not wait for that of copies: while a long copy is under way a fill is done and read back. A queue that follows
 * the copy's event does wait. */
TEST(copies_go_on_beside_kernels) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref", .latency_us = 9e5});
    qs_queue *kernels = qs_device_queue(device, QS_QUEUE_KERNELS), *copies = qs_device_queue(device, QS_QUEUE_COPIES);
    qs_event *copied = NULL, *filled = NULL, *behind = NULL;
    qs_memory *memory = NULL;
    bool done = false;
    const int value = 5;
    assert_ok(qs_memory_reserve(device, 4096, &memory));
    assert_ok(qs_event_create(device, &copied));
    assert_ok(qs_event_create(device, &filled));
    assert_ok(qs_event_create(device, &behind));
    assert_ok(qs_memory_write(copies, qs_location_of(memory, 0), &value, sizeof value));
    assert_ok(qs_event_record(copied, copies));
    assert_ok(qs_memory_fill(kernels, qs_location_of(memory, 64), 1, 64));
    assert_ok(qs_event_record(filled, kernels));
    assert_ok(qs_queue_follow(kernels, copied));
    assert_ok(qs_event_record(behind, kernels));
    assert_ok(qs_event_wait(filled));
    assert_ok(qs_event_wait(behind));
    assert_ok(qs_event_done(copied, &done));
    assert_true(done);
    assert_true(qs_event_elapsed(filled, copied) > 0 && qs_event_elapsed(copied, behind) >= 0);
    qs_event_release(copied);
    qs_event_release(filled);
    qs_event_release(behind);
    qs_memory_release(memory);
    qs_device_close(device);
}

/* Same bits as the backend that it runs. */
TEST(bits_are_those_of_the_backend) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref"});
    bound b;
    bound_parse(&b, linear, 3);
    check_dst(device, &b);
    bound_release(&b);
    qs_device_close(device);
}

/* A kernel with a label out of range, and where its operands lie. */
static qs_kernel *failing_kernel(qs_device *device, qs_memory *memory) {
    const int32_t labels[4] = {1, 77, 3, 4};
    qs_location operand[QS_MAX_OPERANDS] = {0};
    qs_kernel *kernel = NULL;
    qs_case one;
    assert_ok(qs_case_parse("softmax_cross_entropy/forward src=fp32[4,10] labels=fp32[4] loss=fp32[2]", &one));
    for (int i = 0; i < one.operands; i++)
        if (one.operand[i].format) operand[i] = qs_location_of(memory, (size_t)i * 512);
    assert_ok(
        qs_memory_write(qs_device_queue(device, QS_QUEUE_KERNELS), operand[qs_case_position(&one, QS_LABELS)], labels, sizeof labels));
    assert_ok(qs_device_prepare(device, &one, NULL, operand, (qs_location){0}, &kernel));
    return kernel;
}

/* Labels out of range make a kernel fail. The call that queues it succeeds; the wait says it, with the case; what is behind is left out;
 * then the queue goes on. */
TEST(failures_come_back_at_a_wait) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref"});
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    qs_event *event = NULL;
    qs_memory *memory = NULL;
    uint8_t byte = 9;
    assert_ok(qs_memory_reserve(device, 4096, &memory));
    qs_kernel *kernel = failing_kernel(device, memory);
    const qs_run run = {.samples = 4, .global_samples = 4, .loss_scale = 1};
    assert_ok(qs_event_create(device, &event));
    assert_ok(qs_kernel_run(kernel, &run));
    assert_ok(qs_memory_fill(queue, qs_location_of(memory, 4000), 3, 1));
    assert_ok(qs_event_record(event, queue));
    assert_refused(qs_event_wait(event), QS_USAGE, "softmax_cross_entropy/forward");
    assert_message("label 77");
    assert_ok(qs_queue_wait(queue));
    assert_ok(qs_memory_read(queue, qs_location_of(memory, 4000), &byte, 1));
    assert_ok(qs_queue_wait(queue));
    assert_int_equal(byte, 0);
    qs_event_release(event);
    qs_kernel_release(kernel);
    qs_memory_release(memory);
    qs_device_close(device);
}

/* Copies that are queued, one of them not begun, are done before their memory goes or shrinks: all data come, and what follows is
 * understood. */
TEST(memory_goes_behind_its_copies) {
    enum { BYTES = 4 << 20 };
    qs_device *device = far_opened((qs_far_options){.runs = "ref", .latency_us = 5e4});
    qs_queue *kernels = qs_device_queue(device, QS_QUEUE_KERNELS), *copies = qs_device_queue(device, QS_QUEUE_COPIES);
    char *data[2] = {calloc(1, BYTES), calloc(1, BYTES)};
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        qs_memory *memory = NULL;
        assert_ok(qs_memory_reserve(device, BYTES, &memory));
        assert_ok(qs_memory_fill(kernels, qs_location_of(memory, 0), 7 + shrinks, BYTES));
        assert_ok(qs_queue_wait(kernels));
        for (int i = 0; i < 2; i++)
            assert_ok(qs_memory_read(copies, qs_location_of(memory, 0), data[i], BYTES));
        if (shrinks) assert_ok(qs_memory_resize(memory, 0));
        qs_memory_release(memory);
        assert_ok(qs_queue_wait(copies));
        for (int i = 0; i < 2; i++)
            assert_true(data[i][0] == 7 + shrinks && data[i][BYTES - 1] == 7 + shrinks);
    }
    free(data[0]);
    free(data[1]);
    qs_device_close(device);
}

/* What a queue follows did not come about: what is behind it there is not done either, and its wait says why. Draining forgets that, lets
 * no copy arrive later, and leaves the message of an earlier failure. */
TEST(a_failure_goes_on_to_who_follows) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref"});
    qs_queue *kernels = qs_device_queue(device, QS_QUEUE_KERNELS), *copies = qs_device_queue(device, QS_QUEUE_COPIES);
    const qs_run run = {.samples = 4, .global_samples = 4, .loss_scale = 1};
    qs_memory *memory = NULL, *none = NULL;
    qs_event *event = NULL;
    uint8_t byte = 9;
    assert_ok(qs_memory_reserve(device, 4096, &memory));
    qs_kernel *kernel = failing_kernel(device, memory);
    assert_ok(qs_event_create(device, &event));
    for (int drained = 0; drained < 2; drained++) {
        assert_ok(qs_kernel_run(kernel, &run));
        assert_ok(qs_event_record(event, kernels));
        assert_ok(qs_queue_follow(copies, event));
        assert_ok(qs_memory_read(copies, qs_location_of(memory, 4000), &byte, 1));
        if (drained) {
            assert_refused(qs_memory_reserve(device, SIZE_MAX, &none), QS_OUT_OF_MEMORY, "cannot");
            qs_queue_drain(copies);
            qs_queue_drain(kernels);
            assert_message("cannot");
        } else {
            assert_refused(qs_queue_wait(copies), QS_USAGE, "label 77");
            assert_refused(qs_queue_wait(kernels), QS_USAGE, "label 77");
        }
        assert_int_equal(byte, 9);
    }
    assert_ok(qs_memory_read(copies, qs_location_of(memory, 4000), &byte, 1));
    assert_ok(qs_queue_wait(copies));
    assert_int_equal(byte, 0);
    qs_event_release(event);
    qs_kernel_release(kernel);
    qs_memory_release(memory);
    qs_device_close(device);
}

/* The children of this process, by /proc; 0: none. */
static pid_t child_find(void) {
    char path[64];
    long child = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%ld", &child) != 1) child = 0;
    fclose(file);
    return (pid_t)child;
}

TEST(a_killed_child_is_an_error) {
    qs_device *device = far_opened((qs_far_options){.runs = "ref", .latency_us = 2e5});
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    qs_memory *memory = NULL, *more = NULL;
    qs_case one;
    char data[64];
    assert_ok(qs_memory_reserve(device, 4096, &memory));
    const pid_t child = child_find();
    if (child == 0) skip();
    assert_ok(qs_memory_read(queue, qs_location_of(memory, 0), data, sizeof data));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_refused(qs_queue_wait(queue), QS_FAILED, "was ended by signal 9");
    assert_refused(qs_memory_reserve(device, 64, &more), QS_FAILED, "is gone");
    assert_refused(qs_case_parse("nothing/forward", &one), QS_USAGE, "nothing"); /* another failure, which cleaning up does not hide */
    qs_memory_release(memory);
    qs_queue_drain(queue);
    qs_device_close(device);
    assert_message("nothing");
}

TEST_MAIN(bad_options_are_refused, it_tells_what_it_runs, memory_is_exhausted, copies_take_their_time, copies_go_on_beside_kernels,
          bits_are_those_of_the_backend, failures_come_back_at_a_wait, memory_goes_behind_its_copies, a_failure_goes_on_to_who_follows,
          a_killed_child_is_an_error)
