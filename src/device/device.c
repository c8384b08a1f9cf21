// SPDX-License-Identifier: Apache-2.0
/* Registry and front of the devices: checks, what they were told to prefer, and the rests that `speed` asks for. */
#include "backend.h"
#include "qsync/single_product.h"

#include <stdlib.h>
#include <string.h>

static const qs__backend *const backends[] = {
#define QS_DEVICE(name) &qs__device_##name,
#include "devices.def"
#undef QS_DEVICE
};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

enum { ALIGNMENT = 64 };

struct qs_kernel {
    qs_device *device;
    void *state;
    double speed; /* of the device's pace */
};

const char *qs_device_backend_at(size_t index) {
    return index < BACKENDS ? backends[index]->name : NULL;
}

static const qs__backend *find_backend(const char *name) {
    for (size_t i = 0; i < BACKENDS; i++) {
        if (!strcmp(backends[i]->name, name)) return backends[i];
    }
    return NULL;
}

static qs_status backend_named(const char *name, const qs__backend **out) {
    *out = name ? find_backend(name) : NULL;
    if (*out) return QS_OK;
    return qs_fail(QS_USAGE, "device backend '%s' is not in this build, which has: %s", name ? name : "",
                   qs_names_join(BACKENDS, qs_device_backend_at));
}

qs_status qs_device_list(const char *backend, int capacity, qs_device_listing *out, int *count) {
    const qs__backend *named;
    *count = 0;
    QS_TRY(backend_named(backend, &named));
    return named->list ? named->list(capacity, out, count) : QS_OK;
}

static qs_status check_options(const qs_device_options *options) {
    const qs__backend *named;
    QS_TRY(backend_named(options->backend, &named));
    if (!(options->speed > 0 && options->speed <= 1)) {
        return qs_fail(QS_USAGE, "device speed %g: it must be above 0 and at most 1", options->speed);
    }
    for (int i = 0; i < options->products.formats; i++)
        if (!(options->products.part[i] > 0 && options->products.part[i] <= 1))
            return qs_fail(QS_USAGE, "device speed %g in %s: it must be above 0 and at most 1", options->products.part[i],
                           options->products.format[i]->name);
    return QS_OK;
}

qs_status qs_device_open(const qs_device_options *options, qs_device **out) {
    qs_device *device = NULL;
    qs_status status;
    QS_TRY(check_options(options));
    QS_TRY(qs_threads_set(options->threads));
    QS_TRY(qs_allocate(1, sizeof *device, &device));
    device->backend = find_backend(options->backend);
    device->threads = options->threads;
    device->speed = options->speed;
    device->products = options->products;
    for (int kind = 0; kind < QS_QUEUES; kind++)
        device->queue[kind] = (qs_queue){device, kind};
    QS_GOTO(device->backend->open(options, &device->state));
    *out = device;
    device = NULL;
done:
    free(device);
    return status;
}

static void choices_free(int choices, qs_kernel_choice *choice) {
    for (int i = 0; i < choices; i++)
        free(choice[i].case_text);
    free(choice);
}

void qs_device_close(qs_device *device) {
    if (!device) return;
    qs_event_release(device->begin);
    qs_event_release(device->end);
    device->backend->close(device->state);
    choices_free(device->choices, device->choice);
    free(device);
}

qs_status qs_device_pin(qs_device *device, int threads, const int *core) {
    const qs__stage *stage = device->backend->stage;
    return stage ? stage->pin(device->state, threads, core) : qs_threads_pin(threads, core);
}

/* ---- Groups ---- */

static qs_status group_check(const qs_device *device) {
    if (device->backend->group) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "the device %s adds up with no other: choose an all-reduce through the host", device->backend->name);
}

qs_status qs_device_key(qs_device *device, void *key) {
    QS_TRY(group_check(device));
    return device->backend->group->key(device->state, key);
}

qs_status qs_device_join(qs_device *device, const void *key, int rank, int ranks) {
    QS_TRY(group_check(device));
    if (rank < 0 || rank >= ranks) return qs_fail(QS_USAGE, "rank %d of a group of %d", rank, ranks);
    device->joined = 0;
    QS_TRY(device->backend->group->join(device->state, key, rank, ranks));
    device->joined = ranks;
    return QS_OK;
}

int qs_device_joined(const qs_device *device) {
    return device->joined;
}

void *qs__device_state(qs_device *device, const qs__backend *backend) {
    return device->backend == backend ? device->state : NULL;
}

void qs_device_describe(const qs_device *device, qs_device_info *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->backend, sizeof out->backend, "%s", device->backend->name);
    qs__cpu_name(out->cpu, sizeof out->cpu);
    out->threads = device->threads;
    out->speed = device->speed;
    out->products = device->products;
    device->backend->describe(device->state, out);
}

static qs_status within_case(qs_status status, const qs_case *one) {
    char text[QS_CASE_TEXT];
    return status == QS_OK ? QS_OK : qs_fail_within(status, "%s", qs_case_text(one, text));
}

/* ---- Which kernel ---- */

static int by_case(const void *left, const void *right) {
    const qs_kernel_choice *a = left, *b = right;
    return strcmp(a->case_text, b->case_text);
}

qs_status qs_device_prefer(qs_device *device, int choices, const qs_kernel_choice *choice) {
    qs_kernel_choice *copy = NULL;
    QS_TRY(qs_allocate((size_t)choices, sizeof *copy, &copy));
    for (int i = 0; i < choices; i++) {
        const qs_status status = qs_format_text(&copy[i].case_text, "%s", choice[i].case_text);
        if (status != QS_OK) {
            choices_free(i, copy);
            return status;
        }
        memcpy(copy[i].kernel, choice[i].kernel, sizeof copy[i].kernel);
    }
    qsort(copy, (size_t)choices, sizeof *copy, by_case);
    choices_free(device->choices, device->choice);
    device->choice = copy;
    device->choices = choices;
    return QS_OK;
}

/* NULL: none. */
static const char *preferred_kernel(const qs_device *device, const qs_case *one) {
    char text[QS_CASE_TEXT];
    if (device->choices == 0) return NULL;
    const qs_kernel_choice key = {.case_text = text};
    qs_case_text(one, text);
    const qs_kernel_choice *found = bsearch(&key, device->choice, (size_t)device->choices, sizeof key, by_case);
    return found ? found->kernel : NULL;
}

/* What a backend is asked for: an operator that is another's mirror has that one's kernels, on every device. */
typedef struct question {
    qs_case mirror;
    const qs_case *one;
    int place[QS_MAX_OPERANDS]; /* of each operand among those of the case that was asked for; -1: absent */
} question;

static void question_make(const qs_case *one, question *out) {
    const bool mirrored = qs_case_mirror(one, &out->mirror, out->place);
    out->one = mirrored ? &out->mirror : one;
    for (int i = 0; i < one->operands && !mirrored; i++)
        out->place[i] = i;
}

/* The fact of the kernel so named; NULL: of the preferred one where there is such a candidate, else of the device's own choice. */
static qs_status fact_find(qs_device *device, const qs_case *one, const char *kernel, qs_kernel_fact *out) {
    const qs__backend *backend = device->backend;
    const char *preferred = preferred_kernel(device, one);
    qs_kernel_fact fact = {0};
    question asked;
    QS_TRY(qs_case_check(one));
    question_make(one, &asked);
    qs_status status = backend->fact(device->state, asked.one, kernel ? kernel : preferred, &fact);
    if (status == QS_MISMATCH && !kernel && preferred) status = backend->fact(device->state, asked.one, NULL, &fact);
    QS_TRY(within_case(status, one));
    fact.tuned = preferred && strcmp(preferred, fact.kernel) == 0;
    *out = fact;
    return QS_OK;
}

qs_status qs_device_fact(qs_device *device, const qs_case *one, qs_kernel_fact *out) {
    return fact_find(device, one, NULL, out);
}

qs_status qs_device_fact_of(qs_device *device, const qs_case *one, const char *kernel, qs_kernel_fact *out) {
    return fact_find(device, one, kernel, out);
}

qs_status qs_device_candidates(qs_device *device, const qs_case *one, qs_kernel_fact *out, int *count) {
    const char *preferred = preferred_kernel(device, one);
    int found = 1;
    question asked;
    QS_TRY(qs_case_check(one));
    question_make(one, &asked);
    memset(out, 0, QS_MOST_CANDIDATES * sizeof *out);
    QS_TRY(within_case(device->backend->candidates ? device->backend->candidates(device->state, asked.one, out, &found)
                                                   : device->backend->fact(device->state, asked.one, NULL, out),
                       one));
    for (int i = 0; i < found; i++)
        out[i].tuned = preferred && strcmp(preferred, out[i].kernel) == 0;
    *count = found;
    return QS_OK;
}

/* As fact_find: what a fact said of is what is prepared. */
static qs_status kernel_find(qs_device *device, const qs_case *one, const char *kernel, const qs_location *operand, qs_location scratch,
                             void **out) {
    const qs__backend *backend = device->backend;
    const char *preferred = kernel ? NULL : preferred_kernel(device, one);
    qs_location at[QS_MAX_OPERANDS] = {{.memory = NULL}};
    question asked;
    question_make(one, &asked);
    for (int i = 0; i < asked.one->operands; i++)
        if (asked.place[i] >= 0) at[i] = operand[asked.place[i]];
    const qs_status status = backend->prepare(device->state, asked.one, kernel ? kernel : preferred, at, scratch, out);
    return status == QS_MISMATCH && preferred ? backend->prepare(device->state, asked.one, NULL, at, scratch, out) : status;
}

/* Vector kernels load and store whole lines: what begins elsewhere would be a crash in one of them, some day. */
static qs_status place_check(const qs_device *device, qs_location place, const char *what, const qs_case *one) {
    if (place.memory && place.memory->device != device)
        return qs_fail(QS_USAGE, "%s of %s lies in the memory of another device: copy it", what, one->op->name);
    if (place.offset % ALIGNMENT == 0 && (!place.memory || place.offset <= place.memory->bytes)) return QS_OK;
    return qs_fail(QS_USAGE, "%s of %s begins at byte %zu of a memory of %zu: it must lie there and at a multiple of %d", what,
                   one->op->name, place.offset, place.memory ? place.memory->bytes : 0, ALIGNMENT);
}

static qs_status places_check(const qs_device *device, const qs_case *one, const qs_location *operand, qs_location scratch) {
    for (int i = 0; i < one->operands; i++) {
        const char *role = qs_role_name(one->operand[i].role);
        if (!one->operand[i].format) continue;
        if (!operand[i].memory) return qs_fail(QS_USAGE, "%s of %s has no memory", role, one->op->name);
        QS_TRY(place_check(device, operand[i], role, one));
    }
    return place_check(device, scratch, "scratch", one);
}

qs_status qs_device_prepare(qs_device *device, const qs_case *one, const char *name, const qs_location *operand, qs_location scratch,
                            qs_kernel **out) {
    qs_kernel *kernel = NULL;
    qs_status status;
    QS_TRY(qs_case_check(one));
    QS_TRY(places_check(device, one, operand, scratch));
    QS_TRY(qs_allocate(1, sizeof *kernel, &kernel));
    kernel->device = device;
    kernel->speed = qs_case_speed(one, device->speed, &device->products);
    QS_GOTO(within_case(kernel_find(device, one, name, operand, scratch, &kernel->state), one));
    *out = kernel;
    kernel = NULL;
done:
    free(kernel);
    return status;
}

/* ---- Running ---- */

/* Devices with queues of their own rest behind their kernels there. */
qs_status qs_kernel_run(qs_kernel *kernel, const qs_run *run) {
    const qs_device *device = kernel->device;
    if (kernel->speed >= 1 || device->backend->stage) return device->backend->run(kernel->state, run);
    double start = qs_clock();
    qs_status status = device->backend->run(kernel->state, run);
    double end = qs_clock();
    qs_wait_until(end + (end - start) * (1 / kernel->speed - 1));
    return status;
}

qs_status qs_kernel_time(qs_kernel *kernel, const qs_run *run, double *seconds) {
    qs_device *device = kernel->device;
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    if (!device->begin) QS_TRY(qs_event_create(device, &device->begin));
    if (!device->end) QS_TRY(qs_event_create(device, &device->end));
    QS_TRY(qs_event_record(device->begin, queue));
    QS_TRY(qs_kernel_run(kernel, run));
    QS_TRY(qs_event_record(device->end, queue));
    QS_TRY(qs_event_wait(device->end));
    *seconds = qs_event_elapsed(device->begin, device->end);
    return QS_OK;
}

void qs_kernel_release(qs_kernel *kernel) {
    if (!kernel) return;
    kernel->device->backend->release(kernel->state);
    free(kernel);
}

void qs_device_trim(qs_device *device) {
    if (device->backend->trim) device->backend->trim(device->state);
}

/* ---- Recordings ---- */

struct qs_recording {
    const qs__recorder *recorder;
    void *state;
};

bool qs_device_joins(const qs_device *device) {
    return device->backend->joins;
}

qs_records qs_device_records(const qs_device *device) {
    const qs__recorder *recorder = device->backend->recorder;
    return recorder ? recorder->records(device->state) : QS_RECORDS_NEVER;
}

qs_status qs_recording_make(int kernels, qs_kernel *const *kernel, const qs_run *run, qs_recording **out) {
    const qs_device *device = kernel[0]->device;
    void **states = NULL;
    qs_recording *recording = NULL;
    qs_status status;
    if (qs_device_records(device) == QS_RECORDS_NEVER)
        return qs_fail(QS_UNSUPPORTED, "the device %s records no runs of kernels", device->backend->name);
    QS_TRY(qs_allocate((size_t)kernels, sizeof *states, &states));
    for (int i = 0; i < kernels; i++)
        states[i] = kernel[i]->state;
    QS_GOTO(qs_allocate(1, sizeof *recording, &recording));
    recording->recorder = device->backend->recorder;
    QS_GOTO(recording->recorder->make(device->state, kernels, states, run, &recording->state));
    *out = recording;
    recording = NULL;
done:
    free(recording);
    free(states);
    return status;
}

qs_status qs_recording_run(qs_recording *recording, const qs_run *run) {
    return recording->recorder->run(recording->state, run);
}

void qs_recording_release(qs_recording *recording) {
    if (!recording) return;
    recording->recorder->release(recording->state);
    free(recording);
}

#ifndef QS_WITH_CPU
/* ---- Single products: cpu/single_product.c where there is a device cpu ---- */

qs_status qs_single_product_open(qs_device *device, const qs_single_product_shape *shape, const char *kind, qs_single_product **out) {
    (void)device, (void)shape, (void)out;
    return qs_fail(QS_UNSUPPORTED, "a product in %s: this build lacks the device cpu (QS_WITH_CPU=ON), which alone runs single products",
                   kind);
}

qs_status qs_single_product_run(qs_single_product *product, int stages) {
    (void)product, (void)stages;
    return QS_UNSUPPORTED;
}

const char *qs_single_product_kernel(const qs_single_product *product) {
    (void)product;
    return "";
}

void qs_single_product_close(qs_single_product *product) {
    (void)product;
}

#endif
/* ---- The roof ---- */

double qs_device_peak(qs_device *device, const qs_format *format) {
    if (!device->backend->peak) return 0;
    return device->backend->peak(device->state, format) * qs_format_speed(format, device->speed, &device->products);
}

/* Lines of /proc/cpuinfo that tell processors apart, in the order of the text: virtual machines give many generations one name. */
static const struct {
    const char *line, *before;
} cpu_lines[] = {{"model name", ""},         {"cpu family", ", family "}, {"model", " model "},
                 {"stepping", " stepping "}, {"CPU implementer", ""},     {"CPU part", " part "}};
enum { CPU_LINES = sizeof cpu_lines / sizeof cpu_lines[0] };

/* What stands behind "name<tabs>: "; NULL: a line of another name. */
static const char *cpu_value(char *line, const char *name) {
    char *colon = strchr(line, ':');
    const size_t length = strlen(name);
    if (!colon || strncmp(line, name, length) != 0 || line[length + strspn(line + length, " \t")] != ':') return NULL;
    line[strcspn(line, "\n")] = 0;
    return colon + 1 + strspn(colon + 1, " \t");
}

void qs__cpu_name(char *text, size_t bytes) {
    char line[256], value[CPU_LINES][64] = {{0}};
    size_t used = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, bytes, "unknown");
    if (!file) return;
    while (fgets(line, sizeof line, file) && line[0] != '\n')
        for (size_t i = 0; i < CPU_LINES; i++) {
            const char *found = cpu_value(line, cpu_lines[i].line);
            if (found) snprintf(value[i], sizeof value[i], "%s", found);
        }
    fclose(file);
    for (size_t i = 0; i < CPU_LINES && used < bytes; i++)
        if (value[i][0]) used += (size_t)snprintf(text + used, bytes - used, "%s%s", cpu_lines[i].before, value[i]);
}
