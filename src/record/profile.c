// SPDX-License-Identifier: Apache-2.0
/* profile.json: what was measured: kernel costs of every class, fits of conversions and of all-reduces. The raw statistics of tensors stand
 * in statistics.c, looking rows up in profile_rows.c. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* No figure of a profile is longer than this, eleven days: sums of them stay finite. */
#define MOST_US 1e12

/* ---- Kernels ----------------------------------------------------------------------------------------------------------------------- */

static const qs__field time_fields[] = {
    {"median", QS__NUMBER, QS__REQUIRED, QS__AT(qs_kernel_cost, us), .high = MOST_US, .unit = "µs",
     .text = "mean over the places in plans where it was met, each a median over time"},
    {"low", QS__NUMBER, QS__REQUIRED, QS__AT(qs_kernel_cost, us_low), .high = MOST_US, .unit = "µs", .text = "lower quartile of these"},
    {"high", QS__NUMBER, QS__REQUIRED, QS__AT(qs_kernel_cost, us_high), .high = MOST_US, .unit = "µs", .text = "upper quartile"},
    {"samples", QS__COUNT, QS__REQUIRED, QS__AT(qs_kernel_cost, samples),
     .text = "such places; 0: none, a time from a conversion's fit or from other batches"},
    {"confidence", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, confidence), .high = 1, .unit = "share", .absent = "not known",
     .text = "half width of the 95 % interval of `median`, from the medians over time at these places"},
    {"cold_bytes", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, cold_bytes), .with = "us_per_cold_byte", .unit = "bytes",
     .absent = "not known", .text = "mean over these places of what was not in a cache of `cache_bytes`"},
    {"us_per_cold_byte", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, us_per_cold_byte), .high = MOST_US, .unit = "µs/byte",
     .absent = "0", .text = "what a byte of it costs"},
    {"alone", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, us_alone), .high = MOST_US, .unit = "µs", .absent = "the same",
     .text = "as `median`, while the other ranks of its host wait"},
    {"recorded", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, us_recorded), .high = MOST_US, .unit = "µs",
     .absent = "by `recorded` of the class", .text = "as `median`, where steps are started as recordings of the device: its part of them"},
};
static const qs__record time_record = {QS__FIELDS(time_fields), .layout = QS__ONE_LINE};

static const qs__field kernel_fields[] = {
    {"case", QS__STRING, QS__REQUIRED, QS__AT(qs_kernel_cost, case_text), .values = "case",
     .text = "operator, pass, operands with formats and shapes, attributes; each case stands once"},
    {"kernel", QS__NAME, QS__REQUIRED, QS__AT(qs_kernel_cost, kernel), .text = "the kernel that the device runs for it"},
    {"us", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &time_record},
    {"scratch_bytes", QS__INTEGER, QS__REQUIRED, QS__AT(qs_kernel_cost, scratch_bytes), .unit = "bytes",
     .text = "scratch, packed weights and reorders"},
    {"allocates", QS__FLAG, QS__REQUIRED, QS__AT(qs_kernel_cost, allocates),
     .text = "whether the kernel takes memory of its own while it runs"},
    {"tuned", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_kernel_cost, tuned),
     .text = "the class's cache of kernels named it ([tuning.md](tuning.md)), not the order of the lists"},
    {"held_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, held_bytes), .unit = "bytes", .absent = "not measured",
     .text = "memory of the process for each kernel that is bound to the case"},
    {"shared_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, shared_bytes), .unit = "bytes", .absent = "not measured",
     .text = "memory of the process once for the case: generated code, caches of libraries"},
    {"code_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_kernel_cost, code_bytes), .unit = "bytes", .absent = "not measured",
     .text = "memory of the process once for all cases with this `kernel`: resident pages of its code"},
};
static const qs__record kernel_record = {QS__FIELDS(kernel_fields), .title = "A kernel: `classes.*.kernels[]`", .layout = QS__ONE_LINE};

static int compare_kernels(const void *left, const void *right) {
    return strcmp(((const qs_kernel_cost *)left)->case_text, ((const qs_kernel_cost *)right)->case_text);
}

/* ---- Conversions ------------------------------------------------------------------------------------------------------------------- */

static const char *const granularities[] = {"tensor",        "channel",        "column", "shift",      "hadamard",
                                            "hadamard-rows", "channel+column", "blocks", "block-rows", NULL};

static const qs__field fit_fields[] = {
    {"to_elements", QS__INTEGER, QS__REQUIRED, QS__AT(qs_fit_piece, to_elements), .low = 1, .unit = "elements",
     .text = "the piece holds up to here, the last one also beyond; not falling"},
    {"us_per_element", QS__NUMBER, QS__REQUIRED, QS__AT(qs_fit_piece, us_per_element), .high = MOST_US, .unit = "µs",
     .text = "time = `us` + `us_per_element` × elements"},
    {"us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_fit_piece, us), .high = MOST_US, .unit = "µs", .text = "see `us_per_element`"},
    {"r2", QS__NUMBER, QS__REQUIRED, QS__AT(qs_fit_piece, r2), .low = -INFINITY, .high = 1, .text = "R² of the fit"},
    {"worst_residual", QS__NUMBER, QS__REQUIRED, QS__AT(qs_fit_piece, worst_residual), .unit = "ratio",
     .text = "largest \\|fit − measured\\| / measured"},
    {"mean_residual", QS__NUMBER, QS__OPTIONAL, QS__AT(qs_fit_piece, mean_residual), .unit = "ratio", .absent = "not known",
     .text = "mean of \\|fit − measured\\| / measured over its sizes"},
};

/* Pieces stand in ascending order. */
static qs_status bound_check(const qs__place *place, const char *field, int64_t before, int64_t value) {
    const qs__place bound = qs__member(place, field);
    if (value >= before) return QS_OK;
    return qs__refuse_value(&bound, "%lld must be at least %lld", (long long)value, (long long)before);
}

static qs_status fit_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_fit_piece *one = object;
    return bound_check(place, "to_elements", place->index > 0 ? one[-1].to_elements : 1, one->to_elements);
}

static const qs__record fit_record = {QS__FIELDS(fit_fields), .title = "A straight line: `classes.*.conversions[].pieces[]`",
                                      .layout = QS__ONE_LINE, .check = fit_check};

static const qs__field conversion_fields[] = {
    {"kind", QS__NAME, QS__REQUIRED, QS__AT(qs_conversion_cost, kind), .values = "`cast`, `absmax`, `quantize`, `dequantize`, `add`, ...",
     .text = "the operator"},
    {"from", QS__FORMAT, QS__REQUIRED, QS__AT(qs_conversion_cost, from), .text = "what it reads"},
    {"to", QS__FORMAT, QS__LEFT_OUT, QS__AT(qs_conversion_cost, to), .absent = "of `absmax`: none", .text = "what it writes"},
    {"granularity", QS__CHOICE, QS__REQUIRED, QS__AT(qs_conversion_cost, steps), .names = granularities,
     .text = "of the step: one; one for each index of axis 0 (output channels of weights); of axis 1 (input channels of weights; maxima of "
             "an activation's channels); shift groups of channels; one, behind a Hadamard transform along axis 1; the same along axis 0; "
             "output channels, with the maxima of input channels found in the same pass; scales of blocks along axis 1; along positions, "
             "or axis 0"},
    {"rounding", QS__ROUNDING, QS__REQUIRED, QS__AT(qs_conversion_cost, rounding), .values = "`nearest-even`, `stochastic`, ...",
     .text = "how it rounds"},
    {"mse", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_conversion_cost, least_squares),
     .text = "of `quantize`: its range is the one of least squared error, which it looks for"},
    {"weights", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_conversion_cost, weights),
     .text = "of weights, which are cold: they were used a step ago. A kind without such a row is priced by its other row, and the other "
             "way round"},
    {"pieces", QS__OBJECT, QS__REQUIRED, QS__IN(qs_conversion_cost, piece, pieces), .least = 1, .most = 3, .of = &fit_record,
     .unit = "rows", .text = "straight lines, by size"},
    {"in_steps", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_conversion_cost, in_steps), .high = MOST_US, .unit = "ratio",
     .absent = "no step showed it", .text = "fitted over seen time of the kind in whole steps: information only"},
    {"alone", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_conversion_cost, alone), .high = MOST_US, .unit = "ratio", .absent = "1",
     .text = "time while the other ranks of its host wait over the fitted time"},
    {"recorded", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_conversion_cost, recorded), .high = MOST_US, .unit = "ratio",
     .absent = "`recorded` of the class", .text = "time where steps are started as recordings of the device over the fitted time"},
};
static const qs__record conversion_record = {QS__FIELDS(conversion_fields), .title = "A conversion: `classes.*.conversions[]`",
                                             .layout = QS__ONE_LINE};

/* ---- Classes ----------------------------------------------------------------------------------------------------------------------- */

static qs_status speed_read(const qs__place *place, void *object) {
    qs_class_profile *one = object;
    return qs__speeds_read(place, &one->speed, &one->products);
}

static void speed_write(qs__writer *writer, const char *name, const void *object) {
    const qs_class_profile *one = object;
    qs__speeds_write(writer, name, one->speed, &one->products);
}

static const qs__hook speed_hook = {speed_read, speed_write, NULL, NULL};

static const qs__field device_fields[] = {
    {"backend", QS__NAME, QS__REQUIRED, QS__AT(qs_class_profile, backend), .text = "as in the cluster file"},
    {"name", QS__TEXT, QS__REQUIRED, QS__AT(qs_class_profile, device), .text = "what it was measured on: of backend `cpu` the processor"},
    {"speed", QS__OBJECT, QS__REQUIRED, QS__OWN, .hook = &speed_hook, .values = "part, or object: format → part",
     .text = "as in the cluster file; times include the rests of `speed`"},
    {"library", QS__TEXT, QS__REQUIRED, QS__AT(qs_class_profile, library), .text = "kernel library and its version"},
    {"joins", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_class_profile, joins),
     .text = "its kernels do a batch norm, the sum and the relu behind it in one, or the last two, and a relu's gradient with the sum that "
             "it is of"},
    {"build", QS__TEXT, QS__REQUIRED, QS__AT(qs_class_profile, build), .text = "compiler"},
};
static const qs__record device_record = {QS__FIELDS(device_fields), .layout = QS__ONE_LINE};

static const qs__field condition_fields[] = {
    {"pinned", QS__FLAG, QS__REQUIRED, QS__AT(qs_conditions, pinned), .text = "every thread had a core of its own"},
    {"load_average", QS__NUMBER, QS__REQUIRED, QS__AT(qs_conditions, load_average), .unit = "processes",
     .text = "of the machine when measuring began, over a minute"},
    {"preemptions", QS__NUMBER, QS__REQUIRED, QS__AT(qs_conditions, preemptions), .unit = "per second",
     .text = "involuntary context switches of the process"},
    {"waited", QS__NUMBER, QS__REQUIRED, QS__AT(qs_conditions, waited), .high = 1,
     .text = "part of the time that the thread which waited longest, of all ranks of the class, was ready but did not run"},
    {"core", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_conditions, core), .low = -1, .standard = -1, .absent = "not known, or nobody waited",
     .text = "where that thread last ran"},
    {"stolen", QS__NUMBER, QS__REQUIRED, QS__AT(qs_conditions, stolen), .high = 1,
     .text = "part of the time of its cores that the machine's host gave to others, at the rank that lost most"},
    {"communicator", QS__TEXT, QS__REQUIRED, QS__AT(qs_conditions, communicator), .text = "name and version"},
    {"libc", QS__TEXT, QS__REQUIRED, QS__AT(qs_conditions, libc), .text = "name and version"},
};
static const qs__record conditions_record = {QS__FIELDS(condition_fields), .layout = QS__ONE_LINE};

static const qs__field quality_fields[] = {
    {"plans", QS__COUNT, QS__REQUIRED, QS__AT(qs_quality, plans), .text = "measured plans"},
    {"steps", QS__COUNT, QS__REQUIRED, QS__AT(qs_quality, steps), .text = "timed steps of each"},
    {"measured", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_quality, measured), .absent = "not known", .text = "kernels that stood in these plans"},
    {"taken", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_quality, taken), .absent = "none",
     .text = "kernels that did not, with times from profiles of other models here ([prediction.md](prediction.md#cases-of-other-models))"},
    {"taken_pace", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_quality, taken_pace), .high = MOST_US, .unit = "ratio", .absent = "none was taken",
     .text = "by which taken times were multiplied: what both have measured took so many times as long now"},
    {"confidence", QS__NUMBER, QS__REQUIRED, QS__AT(qs_quality, confidence), .unit = "share",
     .text = "half width of the 95 % interval of a plan's median step; the worst plan's"},
    {"kernels", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_quality, kernels), .high = 1, .unit = "share", .absent = "not known",
     .text = "the same of what kernels take of a step, which several plans tell: what measuring went on for until it was 1 %, or the time "
             "was over"},
    {"budget_s", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_quality, budget_s), .unit = "s", .absent = "none",
     .text = "seconds that the whole profile was given (`--minutes`)"},
    {"seconds", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_quality, seconds), .unit = "s", .absent = "not known",
     .text = "that it took, from where it was begun or gone on with"},
    {"drift", QS__NUMBER, QS__REQUIRED, QS__AT(qs_quality, drift), .unit = "share",
     .text = "how far the pace of one round over all plans was from the median round; the worst round's"},
    {"disturbed", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_quality, disturbed), .high = 1, .absent = "0",
     .text = "of the timed steps, those left out: each was slower than its plan's others by 5 % and more"},
    {"closure_mean", QS__NUMBER, QS__REQUIRED, QS__AT(qs_quality, closure_mean), .unit = "share",
     .text = "\\|predicted − measured\\| of these plans from the figures below: the mean"},
    {"closure_worst", QS__NUMBER, QS__REQUIRED, QS__AT(qs_quality, closure_worst), .unit = "share", .text = "the largest of these"},
};
static const qs__record quality_record = {QS__FIELDS(quality_fields), .layout = QS__ONE_LINE};

static const qs__field copies_fields[] = {
    {"in_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_copy_cost, in_us), .high = MOST_US, .unit = "µs", .text = "of a copy to the device"},
    {"in_us_per_byte", QS__NUMBER, QS__REQUIRED, QS__AT(qs_copy_cost, in_us_per_byte), .high = MOST_US, .unit = "µs/byte",
     .text = "time = `in_us` + `in_us_per_byte` × bytes"},
    {"out_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_copy_cost, out_us), .high = MOST_US, .unit = "µs", .text = "of a copy to the host"},
    {"out_us_per_byte", QS__NUMBER, QS__REQUIRED, QS__AT(qs_copy_cost, out_us_per_byte), .high = MOST_US, .unit = "µs/byte",
     .text = "as `in_us_per_byte`"},
};
static const qs__record copies_record = {QS__FIELDS(copies_fields), .layout = QS__ONE_LINE};

static const qs__field class_fields[] = {
    {"device", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &device_record, .text = "where it was measured"},
#define QS_BACKEND(name)                              \
    {#name,                                           \
     QS__OBJECT,                                      \
     QS__REQUIRED,                                    \
     QS__OWN,                                         \
     .of = &qs__##name##_profile_record,              \
     .selector = offsetof(qs_class_profile, backend), \
     .text = "fields of backend `" #name "`; only its classes have them"},
#include "backends.def"
#undef QS_BACKEND
    {"date", QS__TEXT, QS__REQUIRED, QS__AT(qs_class_profile, date), .text = "when it was measured"},
    {"conditions", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_class_profile, conditions), .of = &conditions_record,
     .known = offsetof(qs_class_profile, conditions.known), .absent = "not known", .text = "under which it was measured"},
    {"quality", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_class_profile, quality), .of = &quality_record,
     .known = offsetof(qs_class_profile, quality.known), .absent = "not known",
     .text = "how far kernel times can be trusted, from the plans they were measured in"},
    {"estimated", QS__FLAG, QS__REQUIRED, QS__AT(qs_class_profile, estimated), .text = "true: computed from a roofline, not measured"},
    {"base_bytes", QS__INTEGER, QS__REQUIRED, QS__AT(qs_class_profile, base_bytes), .unit = "bytes",
     .text = "resident memory of a process that evaluates in fp32, without arena and data"},
    {"step_overhead_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_profile, step_overhead_us), .unit = "µs",
     .text = "dispatch, timers and polling, per schedule step"},
    {"iteration_overhead_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_profile, iteration_overhead_us), .unit = "µs",
     .text = "the training loop's own work, per iteration"},
    {"data_us_per_sample", QS__NUMBER, QS__REQUIRED, QS__AT(qs_class_profile, data_us_per_sample), .unit = "µs",
     .text = "of making a batch of the profiled set, with decoding and scaling of image files, without copies to the device"},
    {"copies", QS__OBJECT, QS__LEFT_OUT, QS__AT(qs_class_profile, copies), .of = &copies_record,
     .known = offsetof(qs_class_profile, copies.known), .absent = "the host sees the device's memory",
     .text = "between the host and memory of the device that it does not see: samples, losses, and gradients that ranks add up"},
    {"jitter", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_profile, jitter), .high = 1, .absent = "0",
     .text = "standard deviation of a rank's whole step around its median, as a share of the step"},
    {"beside", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_profile, beside), .high = MOST_US, .unit = "ratio", .absent = "not fitted: 1",
     .text = "what balanced ranks were found to take, over what steps took in measured plans; times beside busy ranks hold it "
             "([eq. (4.16)](method.md#412-balanced-ranks))"},
    {"recorded", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_profile, recorded), .high = MOST_US, .unit = "ratio",
     .absent = "the device makes no recordings, or none was measured",
     .text = "time of the measured plans' kernels where steps are started as recordings of the device ([cuda.md](cuda.md#recordings)), "
             "over their times one by one"},
    {"recorded_loop_us", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class_profile, recorded_loop_us), .high = MOST_US, .unit = "µs",
     .absent = "`iteration_overhead_us` and data",
     .text = "what an iteration takes beside its kernels where these are in recordings: data, and "
             "the training loop's own work, as far as they do not run beside kernels"},
    {"kernels", QS__OBJECT, QS__REQUIRED, QS__ARRAY(qs_class_profile, kernel, kernels), .of = &kernel_record, .compare = compare_kernels,
     .values = "rows, sorted by `case`", .text = "what kernels cost"},
    {"conversions", QS__OBJECT, QS__REQUIRED, QS__ARRAY(qs_class_profile, conversion, conversions), .of = &conversion_record,
     .values = "rows", .text = "fits of the operators that change formats"},
};
static const qs__record class_record = {QS__FIELDS(class_fields), .title = "Profile of a class: `classes.*`", .key = QS_NAME};

/* ---- All-reduces ------------------------------------------------------------------------------------------------------------------- */

static const qs__field message_fields[] = {
    {"to_bytes", QS__INTEGER, QS__REQUIRED, QS__AT(qs_message_piece, to_bytes), .low = 1, .unit = "bytes",
     .text = "the piece holds up to here, the last one also beyond; not falling"},
    {"us_per_byte", QS__NUMBER, QS__REQUIRED, QS__AT(qs_message_piece, us_per_byte), .high = MOST_US, .unit = "µs/byte",
     .text = "time = `us` + `us_per_byte` × bytes"},
    {"us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_message_piece, us), .high = MOST_US, .unit = "µs", .text = "see `us_per_byte`"},
};

static qs_status message_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_message_piece *one = object;
    return bound_check(place, "to_bytes", place->index > 0 ? one[-1].to_bytes : 1, one->to_bytes);
}

static const qs__record message_record = {QS__FIELDS(message_fields), .title = "A straight line: `collectives[].pieces[]`",
                                          .layout = QS__ONE_LINE, .check = message_check};

static const qs__field collective_fields[] = {
    {"ranks", QS__COUNT, QS__REQUIRED, QS__AT(qs_collective_cost, ranks), .low = 1, .text = "ranks that took part"},
    {"hosts", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_collective_cost, hosts), .low = 1, .values = "1 .. `ranks`", .absent = "1",
     .text = "hosts that the ranks were on"},
    {"link", QS__NAME, QS__LEFT_OUT, QS__AT(qs_collective_cost, link), .values = "`shared-memory`, `network`, ...", .absent = "not said",
     .text = "slowest kind of link between them"},
    {"algorithm", QS__NAME, QS__REQUIRED, QS__AT(qs_collective_cost, algorithm),
     .values = "`shared`, `library`, `ring`, `recursive-doubling`", .text = "of the all-reduce"},
    {"wire", QS__NAME, QS__LEFT_OUT, QS__AT(qs_collective_cost, wire), .values = "as `buckets.wire`", .absent = "`fp32`",
     .text = "in which values travelled; packing is part of the time"},
    {"alpha_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_collective_cost, alpha_us), .high = MOST_US, .unit = "µs",
     .text = "one line over all sizes: time = `alpha_us` + `us_per_byte` × bytes"},
    {"us_per_byte", QS__NUMBER, QS__REQUIRED, QS__AT(qs_collective_cost, us_per_byte), .high = MOST_US, .unit = "µs/byte",
     .text = "of the values in fp32, whatever the wire"},
    {"r2", QS__NUMBER, QS__REQUIRED, QS__AT(qs_collective_cost, r2), .low = -INFINITY, .high = 1, .text = "R² of that line"},
    {"worst_residual", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_collective_cost, worst_residual), .with = "samples", .unit = "ratio",
     .absent = "not known", .text = "largest \\|line − measured\\| / measured"},
    {"spread", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_collective_cost, spread), .with = "samples", .unit = "ratio", .absent = "not known",
     .text = "largest uncertainty of a size's median, as a share of it"},
    {"samples", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_collective_cost, samples), .low = 1, .absent = "not known",
     .text = "all-reduces behind the row"},
    {"pieces", QS__OBJECT, QS__LEFT_OUT, QS__IN(qs_collective_cost, piece, pieces), .least = 1, .most = 3, .of = &message_record,
     .unit = "rows", .absent = "the line", .text = "closer lines, by size"},
    {"cpu_share", QS__NUMBER, QS__REQUIRED, QS__AT(qs_collective_cost, cpu_share), .high = 1,
     .text = "part of the duration in which this rank's compute stands still"},
    {"temporary_per_byte", QS__NUMBER, QS__REQUIRED, QS__AT(qs_collective_cost, temporary_per_byte), .unit = "bytes per byte",
     .text = "what is allocated for a message"},
    {"window_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_collective_cost, window_bytes), .unit = "bytes", .absent = "0",
     .text = "memory that a process holds for all-reduces all the while: `shared`"},
};

static qs_status collective_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_collective_cost *one = object;
    const qs__place hosts = qs__member(place, "hosts");
    if (one->hosts <= one->ranks) return QS_OK;
    return qs__refuse_value(&hosts, "%d is outside 1 .. %d", one->hosts, one->ranks);
}

static const qs__record collective_record = {QS__FIELDS(collective_fields), .title = "An all-reduce: `collectives[]`",
                                             .layout = QS__ONE_LINE, .check = collective_check};

/* ---- The profile ------------------------------------------------------------------------------------------------------------------- */

static const qs__field model_fields[] = {
    {"name", QS__NAME, QS__REQUIRED, QS__AT(qs_profile, model), .text = "name with its options, or path of a graph.json"},
};
static const qs__record model_record = {QS__FIELDS(model_fields), .layout = QS__ONE_LINE};

static const qs__field batch_fields[] = {
    {"samples", QS__INTEGER, QS__REQUIRED, QS__AT(qs_profile_batch, samples), .low = 1, .high = INT32_MAX,
     .text = "ascending; `batch` is among them"},
    {"measured", QS__FLAG, QS__REQUIRED, QS__AT(qs_profile_batch, measured),
     .text = "false: times lie on straight lines between the nearest measured batches (`us.samples` 0), kernels and scratch bytes are the "
             "device's own"},
};

static qs_status batch_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_profile_batch *row = object;
    const qs__place samples = qs__member(place, "samples");
    if (place->index == 0 || row[-1].samples < row->samples) return QS_OK;
    return qs__refuse_value(&samples, "%lld does not follow %lld: batches stand in ascending order", (long long)row->samples,
                            (long long)row[-1].samples);
}

static const qs__record batch_record = {QS__FIELDS(batch_fields), .title = "A batch: `batches[]`", .layout = QS__ONE_LINE,
                                        .check = batch_check};

static const qs__field length_fields[] = {
    {"length", QS__INTEGER, QS__REQUIRED, QS__AT(qs_profile_length, length), .low = 1, .high = INT32_MAX, .unit = "values",
     .text = "ascending; the last is that of `samples`"},
    {"samples", QS__INTEGER, QS__REQUIRED, QS__AT(qs_profile_length, samples), .unit = "samples",
     .text = "of the training part that are padded to it: its share of the steps"},
};

static qs_status length_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_profile_length *row = object;
    const qs__place length = qs__member(place, "length");
    if (place->index >= QS_MOST_LENGTHS) return qs__refuse_value(&length, "more than %d lengths", QS_MOST_LENGTHS);
    if (place->index == 0 || row[-1].length < row->length) return QS_OK;
    return qs__refuse_value(&length, "%lld does not follow %lld: lengths stand in ascending order", (long long)row->length,
                            (long long)row[-1].length);
}

static const qs__record length_record = {QS__FIELDS(length_fields), .title = "A length: `lengths[]`", .layout = QS__ONE_LINE,
                                         .check = length_check};

static const qs__field check_fields[] = {
    {"plan", QS__TEXT, QS__REQUIRED, QS__AT(qs_profile_check, plan), .text = "the file, as it was named"},
    {"steps", QS__COUNT, QS__REQUIRED, QS__AT(qs_profile_check, steps), .text = "timed steps"},
    {"median_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_profile_check, median_us), .unit = "µs",
     .text = "the median step of the slowest rank, with its data"},
    {"undisturbed", QS__COUNT, QS__REQUIRED, QS__AT(qs_profile_check, undisturbed),
     .text = "steps in which every rank's kernels took as long as they usually do, within 5 %"},
    {"measured_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_profile_check, measured_us), .unit = "µs", .text = "the median of these"},
    {"confidence", QS__NUMBER, QS__REQUIRED, QS__AT(qs_profile_check, confidence), .unit = "ratio",
     .text = "half the width of that median's 95 % interval over it"},
    {"predicted_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_profile_check, predicted_us), .unit = "µs",
     .text = "iteration time from this profile"},
    {"no_casts_us", QS__NUMBER, QS__REQUIRED, QS__AT(qs_profile_check, no_casts_us), .unit = "µs",
     .text = "the same without the costs of conversions"},
};
static const qs__record check_record = {QS__FIELDS(check_fields), .title = "A checked plan: `checks[]`", .layout = QS__ONE_LINE};

static const qs__field profile_fields[] = {
    {"graph", QS__TEXT, QS__REQUIRED, QS__AT(qs_profile, graph), .values = "signature", .text = "of the model, batch excluded"},
    {"model", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &model_record},
    {"samples", QS__OBJECT, QS__REQUIRED, QS__AT(qs_profile, samples), .of = &qs__samples_record,
     .text = "what the model takes and learns, as it was profiled"},
    {"batch", QS__INTEGER, QS__REQUIRED, QS__AT(qs_profile, batch), .low = 1, .high = INT32_MAX, .unit = "samples",
     .text = "local batch at which kernels were timed"},
    {"batches", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_profile, batch_row, batches), .least = 1, .of = &batch_record, .values = "rows",
     .absent = "only `batch`", .text = "local batches that kernels have rows for, the batch being part of the case"},
    {"lengths", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_profile, length_row, lengths), .least = 1, .of = &length_record, .values = "rows",
     .absent = "samples have one length", .text = "lengths that kernels have rows for, and how often each occurs"},
    {"classes", QS__OBJECT, QS__REQUIRED, QS__TABLE(qs_profile, class_, classes), .of = &class_record,
     .values = "object: class name → profile of the class", .text = "what was measured on each class"},
    {"collectives", QS__OBJECT, QS__REQUIRED, QS__ARRAY(qs_profile, collective, collectives), .of = &collective_record,
     .values = "rows, the job's own algorithm first", .text = "fits of the all-reduce"},
    {"checks", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_profile, check, checks), .least = 1, .of = &check_record, .values = "rows",
     .absent = "none",
     .text = "plans of `profile --check`: their steps were timed in turn with those that kernels have their times from, and no figure is "
             "taken from them"},
    {"statistics", QS__OBJECT, QS__REQUIRED, QS__AT(qs_profile, statistics), .of = &qs__statistics_record},
};

static qs_status profile_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_profile *profile = object;
    const qs__place batches = qs__member(place, "batches");
    if (profile->batches == 0 || qs_profile_batch_find(profile, profile->batch)) return QS_OK;
    return qs__refuse_value(&batches, "%lld, the profile's batch, is not among them", (long long)profile->batch);
}

const qs__record qs__profile_record = {QS__FIELDS(profile_fields), .kind = "profile", .size = sizeof(qs_profile), .check = profile_check};

qs_status qs_profile_read(const char *path, qs_profile *out) {
    return qs__record_read(&qs__profile_record, path, out);
}

qs_status qs_profile_parse(const char *json, const char *source, qs_profile *out) {
    return qs__record_parse(&qs__profile_record, json, strlen(json), source, out);
}

qs_status qs_profile_text(const qs_profile *profile, char **json) {
    return qs__record_text(&qs__profile_record, profile, json);
}

qs_status qs_profile_write(const char *path, const qs_profile *profile) {
    char *json;
    QS_TRY(qs_profile_text(profile, &json));
    return qs__text_save(json, path);
}

const char *qs_profile_signature(const qs_profile *profile, char *buffer) {
    return qs__record_signature(&qs__profile_record, profile, buffer);
}

void qs_profile_release(qs_profile *profile) {
    qs__record_release(&qs__profile_record, profile);
}

void qs_class_profile_sort(qs_class_profile *profile) {
    if (profile->kernels > 1) qsort(profile->kernel, (size_t)profile->kernels, sizeof *profile->kernel, compare_kernels);
}
