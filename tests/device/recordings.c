// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Recordings: who makes none says so; a stretch of kernels gives the same bits as a recording as one by one, whatever runs bring, in a
 * queue with other work before and behind it, with rests, and where nothing can be changed in what was recorded; complaints arrive. */
#include "device_support.h"

enum { KERNELS = 5, ROUNDS = 4 };

/* Draws by seed and step, rounds at random, multiplies, adds up, moves weights by the rate. */
static const char *const texts[KERNELS] = {
    "dropout/forward src=fp32[8,30] dst=fp32[8,30] probability=0.25",
    "quantize/forward src=fp32[8,30] absmax=fp32[1] dst=int8[8,30] dst_step=fp32[1] rounding=stochastic batched",
    "linear/forward src=fp32[8,30] weights=fp32[6,30] bias=fp32[6] dst=fp32[8,6]",
    "absmax/forward src=fp32[8,30] absmax=fp32[1]",
    "sgd/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] momentum=0.9 weight_decay=0.0005",
};

typedef struct stretch {
    qs_device *device;
    bound data[KERNELS];
    bound_kernel bound[KERNELS];
    qs_kernel *kernel[KERNELS];
} stretch;

static qs_device *device_of(const char *backend, qs_records records, double speed) {
    qs_device_options options = device_options(backend, NULL, 1, speed);
    qs_device *device = NULL;
    options.cuda.records = records;
    assert_ok(qs_device_open(&options, &device));
    return device;
}

static void stretch_open(stretch *out, double speed) {
    out->device = device_of("ref", QS_RECORDS_TRIED, speed);
    for (int i = 0; i < KERNELS; i++) {
        qs_case one;
        assert_ok(qs_case_parse(texts[i], &one));
        bound_make(&out->data[i], &one, 11 + (uint64_t)i);
        kernel_make(&out->bound[i], out->device, &out->data[i]);
        out->kernel[i] = out->bound[i].kernel;
    }
}

static void stretch_close(stretch *here) {
    for (int i = 0; i < KERNELS; i++) {
        kernel_release(&here->bound[i]);
        bound_release(&here->data[i]);
    }
    qs_device_close(here->device);
}

static qs_run run_of(uint64_t step) {
    return (qs_run){.seed = 7,
                    .step = step,
                    .samples = 8,
                    .global_samples = 8,
                    .loss_scale = (double)(1 << step),
                    .learning_rate = 0.1 / (double)(1 + step),
                    .updates = (int64_t)step};
}

/* Values go on from round to round; a hash of all that lies in the operands behind each. */
static void rounds_run(stretch *here, qs_recording *recording, uint64_t *hash) {
    for (int i = 0; i < KERNELS; i++)
        kernel_write(&here->bound[i]);
    for (uint64_t step = 0; step < ROUNDS; step++) {
        qs_run run[KERNELS];
        for (int i = 0; i < KERNELS; i++) {
            run[i] = run_of(step);
            run[i].operator_id = (uint64_t)i;
            if (!recording) assert_ok(qs_kernel_run(here->kernel[i], &run[i]));
        }
        if (recording) assert_ok(qs_recording_run(recording, run));
        memset(run, 0xff, sizeof run); /* it was taken */
        hash[step] = 0;
        for (int i = 0; i < KERNELS; i++) {
            bound *start = &here->data[i], got;
            bound_copy(&got, &start->one, start);
            here->bound[i].data = &got;
            kernel_read(&here->bound[i]);
            for (int k = 0; k < got.one.operands; k++)
                if (got.one.operand[k].format) hash[step] = qs_hash(got.operands[k].data, tensor_bytes(&got.operands[k]), hash[step]);
            here->bound[i].data = start;
            bound_release(&got);
        }
    }
}

static void same_bits(double speed) {
    stretch here;
    uint64_t alone[ROUNDS], recorded[ROUNDS];
    qs_run run[KERNELS];
    qs_recording *recording = NULL;
    stretch_open(&here, speed);
    rounds_run(&here, NULL, alone);
    for (int i = 1; i < ROUNDS; i++)
        assert_true(alone[i] != alone[0]);
    for (int i = 0; i < KERNELS; i++)
        run[i] = run_of(9);
    if (qs_device_records(here.device) == QS_RECORDS_NEVER) {
        assert_refused(qs_recording_make(KERNELS, here.kernel, run, &recording), QS_UNSUPPORTED, "records no runs of kernels");
    } else {
        assert_ok(qs_recording_make(KERNELS, here.kernel, run, &recording));
        for (int turn = 0; turn < 2; turn++) {
            rounds_run(&here, recording, recorded);
            assert_memory_equal(alone, recorded, sizeof alone);
        }
        qs_recording_release(recording);
        rounds_run(&here, NULL, recorded); /* the kernels are as they were */
        assert_memory_equal(alone, recorded, sizeof alone);
    }
    qs_recording_release(NULL);
    stretch_close(&here);
}

TEST(bits_are_the_same) {
    same_bits(1);
}

TEST(rests_are_recorded) {
    same_bits(0.5);
}

/* Where the driver changes nothing in a graph kernels run one by one; where it makes none that is said. */
TEST(what_cannot_be_recorded) {
    stretch here;
    qs_recording *recording = NULL;
    qs_run run[KERNELS];
    qs_device_info info;
    stretch_open(&here, 1);
    qs_device_describe(here.device, &info);
    stretch_close(&here);
    if (strstr(info.cpu, "double") == NULL) skip(); /* a driver itself does as it is told */
    setenv("QSYNC_DOUBLE_GRAPHS", "fixed", 1);
    same_bits(1);
    setenv("QSYNC_DOUBLE_GRAPHS", "none", 1);
    stretch_open(&here, 1);
    for (int i = 0; i < KERNELS; i++)
        run[i] = run_of(1);
    assert_refused(qs_recording_make(KERNELS, here.kernel, run, &recording), QS_UNSUPPORTED, "5 kernels are not recorded: beginning");
    stretch_close(&here);
    unsetenv("QSYNC_DOUBLE_GRAPHS");
    qs_device *device = device_of("ref", QS_RECORDS_NEVER, 1);
    assert_int_equal(qs_device_records(device), QS_RECORDS_NEVER);
    qs_device_close(device);
}

TEST(complaints_arrive) {
    qs_device *device = device_of("ref", QS_RECORDS_TRIED, 1);
    qs_recording *recording = NULL;
    qs_case one;
    bound data;
    bound_kernel kernel;
    const qs_run run = run_of(0);
    if (qs_device_records(device) == QS_RECORDS_NEVER) {
        qs_device_close(device);
        skip();
    }
    assert_ok(qs_case_parse("embedding/forward ids=fp32[3,5] weights=fp32[20,12] dst=fp32[3,12,5] vocabulary=20", &one));
    bound_make(&data, &one, 3);
    kernel_make(&kernel, device, &data);
    assert_ok(kernel_run(&kernel, &run));
    assert_ok(qs_recording_make(1, &kernel.kernel, &run, &recording));
    ((int32_t *)bound_tensor(&data, QS_IDS)->data)[7] = 1000;
    kernel_write(&kernel);
    assert_ok(qs_recording_run(recording, &run));
    assert_refused(qs_queue_wait(kernel.queue), QS_USAGE, "1000");
    ((int32_t *)bound_tensor(&data, QS_IDS)->data)[7] = 1;
    kernel_write(&kernel);
    assert_ok(qs_recording_run(recording, &run));
    assert_ok(qs_queue_wait(kernel.queue));
    qs_recording_release(recording);
    kernel_release(&kernel);
    bound_release(&data);
    qs_device_close(device);
}

TEST_MAIN(bits_are_the_same, rests_are_recorded, what_cannot_be_recorded, complaints_arrive)
