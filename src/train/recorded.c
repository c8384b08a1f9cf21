// SPDX-License-Identifier: Apache-2.0
/* The kernels of a schedule as recordings of the device (qs_recording), stretch by stretch: those that stand between two steps of
 * communication in a phase. The first runs start kernels one by one; then stretches are recorded as they come, and both ways are run in
 * turn and timed by the device's clock, from the first kernel of a run to the last. What is faster stays. Bits are the same, so the choice
 * is each rank's own. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

/* Runs before MADE start kernels one by one: what they make ready is not recorded. MADE records and COMPARED runs the recordings for the
 * first time with other values; behind it both ways come in turn. */
enum { MADE = 2, COMPARED, TRIED = 3 /* timed runs of each way */, LEAST = 4 /* kernels of a stretch that are worth recording */ };
enum { ONE_BY_ONE, RECORDED, WAYS };
enum { LAST = COMPARED + WAYS * TRIED }; /* that is timed; where recordings are always taken all of these are */

struct qs__recorded {
    const qs_schedule *schedule;
    qs_kernel *const *kernel; /* (steps) */
    bool measured;            /* what is faster stays, else recordings do */
    qs_recorded found;
    int runs; /* whole ones, up to the end of trying */
    int way;  /* of the run at hand */
    double us[WAYS][TRIED];
    qs_event *begin, *end; /* of a run that is timed */
    /* Of the stretch that begins at a step: */
    qs_recording **recording; /* (steps) NULL: none */
    int *behind;              /* (steps) the step behind it */
    qs_kernel **stretch;      /* (steps) room for its kernels, */
    qs_run *run;              /* (steps) and what each is told */
};

qs_run qs__step_run(const qs_schedule *schedule, int index, const qs_run *run) {
    const qs_step *step = &schedule->step[index];
    qs_run here = *run;
    here.operator_id = step->node >= 0 ? (uint64_t)step->node : (uint64_t)schedule->nodes;
    here.stream = step->stream;
    here.learning_rate *= step->rate;
    return here;
}

/* ---- Life ------------------------------------------------------------------------------------------------------------------------ */

static void recordings_release(qs__recorded *recorded) {
    for (int s = 0; recorded->recording && s < recorded->schedule->steps; s++) {
        qs_recording_release(recorded->recording[s]);
        recorded->recording[s] = NULL;
    }
}

void qs__recorded_release(qs__recorded *recorded) {
    if (!recorded) return;
    recordings_release(recorded);
    qs_event_release(recorded->begin);
    qs_event_release(recorded->end);
    free(recorded->recording);
    free(recorded->behind);
    free(recorded->stretch);
    free(recorded->run);
    free(recorded);
}

static qs_status recorded_fill(qs__recorded *recorded, qs_device *device) {
    const size_t steps = (size_t)recorded->schedule->steps;
    QS_TRY(qs_event_create(device, &recorded->begin));
    QS_TRY(qs_event_create(device, &recorded->end));
    QS_TRY(qs_allocate(steps, sizeof(qs_recording *), &recorded->recording));
    QS_TRY(qs_allocate(steps, sizeof *recorded->behind, &recorded->behind));
    QS_TRY(qs_allocate(steps, sizeof(qs_kernel *), &recorded->stretch));
    return qs_allocate(steps, sizeof *recorded->run, &recorded->run);
}

qs_status qs__recorded_create(const qs_schedule *schedule, qs_device *device, qs_kernel *const *kernel, qs__recorded **out) {
    const qs_records records = qs_device_records(device);
    qs__recorded *recorded = NULL;
    *out = NULL;
    if (records == QS_RECORDS_NEVER) return QS_OK;
    QS_TRY(qs_allocate(1, sizeof *recorded, &recorded));
    recorded->schedule = schedule;
    recorded->kernel = kernel;
    recorded->measured = records != QS_RECORDS_ALWAYS;
    recorded->found.state = QS_RECORDED_TRYING;
    const qs_status status = recorded_fill(recorded, device);
    if (status == QS_OK)
        *out = recorded;
    else
        qs__recorded_release(recorded);
    return status;
}

qs_recorded qs__recorded_found(const qs__recorded *recorded) {
    return recorded ? recorded->found : (qs_recorded){.state = QS_RECORDED_NO};
}

/* ---- Runs ------------------------------------------------------------------------------------------------------------------------ */

/* The ways of trying: by turns, once there is something to compare. */
static int way_of(const qs__recorded *recorded) {
    if (recorded->found.state != QS_RECORDED_TRYING) return recorded->found.state == QS_RECORDED_YES ? RECORDED : ONE_BY_ONE;
    if (recorded->runs < MADE) return ONE_BY_ONE;
    return recorded->runs <= COMPARED || (recorded->runs - COMPARED) % 2 == 0 ? RECORDED : ONE_BY_ONE;
}

static bool is_timed(const qs__recorded *recorded) {
    return recorded->found.state != QS_RECORDED_NO && recorded->runs > COMPARED && recorded->runs <= LAST;
}

qs_status qs__recorded_begin(qs__recorded *recorded, qs_queue *kernels) {
    recorded->way = way_of(recorded);
    return is_timed(recorded) ? qs_event_record(recorded->begin, kernels) : QS_OK;
}

bool qs__recorded_runs(const qs__recorded *recorded) {
    return recorded->way == RECORDED;
}

static void give_up(qs__recorded *recorded) {
    recorded->found.state = QS_RECORDED_NO;
    recorded->found.kernels = recorded->found.recordings = 0;
    recorded->way = ONE_BY_ONE;
    recordings_release(recorded);
}

static double median_of_three(const double us[TRIED]) {
    return fmax(fmin(us[0], us[1]), fmin(fmax(us[0], us[1]), us[2]));
}

/* Trying is over where nothing is to be found out, or all is. */
static void choose(qs__recorded *recorded) {
    qs_recorded *found = &recorded->found;
    if (recorded->runs <= MADE) return;
    if (found->recordings == 0) give_up(recorded); /* no stretch is long enough */
    if (found->state == QS_RECORDED_TRYING && !recorded->measured) found->state = QS_RECORDED_YES;
    if (found->state == QS_RECORDED_NO || recorded->runs <= LAST) return;
    found->one_by_one_us = median_of_three(recorded->us[ONE_BY_ONE]);
    found->recorded_us = median_of_three(recorded->us[RECORDED]);
    found->state = QS_RECORDED_YES;
    if (recorded->measured && found->recorded_us > found->one_by_one_us) give_up(recorded);
}

qs_status qs__recorded_end(qs__recorded *recorded, qs_queue *kernels) {
    if (recorded->found.state == QS_RECORDED_NO || recorded->runs > LAST) return QS_OK;
    if (is_timed(recorded)) {
        const int number = (recorded->runs - COMPARED - 1) / WAYS;
        QS_TRY(qs_event_record(recorded->end, kernels));
        QS_TRY(qs_event_wait(recorded->end));
        recorded->us[recorded->way][number] = 1e6 * qs_event_elapsed(recorded->begin, recorded->end);
    }
    recorded->runs++;
    choose(recorded);
    return QS_OK;
}

/* ---- Stretches ------------------------------------------------------------------------------------------------------------------- */

/* Kernels of the steps [begin, end), and what they are told. */
static int stretch_fill(qs__recorded *recorded, int begin, int end, const qs_run *run) {
    int kernels = 0;
    for (int s = begin; s < end; s++) {
        if (!recorded->kernel[s]) continue;
        recorded->stretch[kernels] = recorded->kernel[s];
        recorded->run[kernels++] = qs__step_run(recorded->schedule, s, run);
    }
    return kernels;
}

qs_status qs__recorded_run(qs__recorded *recorded, int begin, int end, const qs_run *run, bool *done) {
    qs_recording **recording = &recorded->recording[begin];
    const int kernels = stretch_fill(recorded, begin, end, run);
    *done = false;
    if (!*recording && recorded->found.state == QS_RECORDED_TRYING && recorded->runs == MADE && kernels >= LEAST) {
        const qs_status status = qs_recording_make(kernels, recorded->stretch, recorded->run, recording);
        if (status == QS_UNSUPPORTED) {
            qs_log(QS_LOG_INFO, "kernels are started one by one: %s", qs_message());
            give_up(recorded);
            return QS_OK;
        }
        QS_TRY(status);
        recorded->behind[begin] = end;
        recorded->found.recordings++;
        recorded->found.kernels += kernels;
    }
    if (!*recording || recorded->behind[begin] != end) return QS_OK;
    *done = true;
    return qs_recording_run(*recording, recorded->run);
}
