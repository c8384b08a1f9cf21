// SPDX-License-Identifier: Apache-2.0
/* The device `far`: a child process, qsync-far, with a device of another backend and all memory (qsync/far.h). This end numbers memory,
 * kernels and events, sends what is asked, and takes what comes back whenever it waits or looks. One thread drives it, as any device. */
#include "backend.h"
#include "far/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct far_event {
    struct far *far;
    uint64_t number, serial, reached;
    double seconds;
    int queue;   /* where it was recorded last */
    bool failed; /* what was before it */
} far_event;

/* A copy that is still to come. */
typedef struct arrival {
    uint64_t number;
    void *to;
    size_t bytes;
} arrival;

typedef struct far {
    int socket;
    pid_t child;
    double speed;
    qs_speeds products;
    qs__far_facts facts;
    char gone[256]; /* why the child is; "": it is there */
    uint64_t memories, kernels, reads;
    far_event **event; /* (events) by number, NULL: free */
    size_t events, event_capacity;
    uint64_t *serial; /* (events) of the last record under a number, whoever had it */
    size_t serial_capacity;
    arrival *arrival;
    size_t arrivals, arrival_capacity;
    bool answered; /* what came back last */
    qs_status status;
    char *answer;
    size_t answer_bytes;
} far;

typedef struct far_object {
    far *far;
    uint64_t number;
} far_object;

/* ---- The child ---- */

static qs_status gone(const far *here) {
    return qs_fail(QS_FAILED, "%s; start the run again", here->gone);
}

/* Why the child is gone. No failure yet: who only cleans up keeps the message that it has. */
static void gone_note(far *here) {
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 100 && ended == 0; i++) {
        ended = waitpid(here->child, &status, WNOHANG);
        if (ended == 0) qs_wait_until(qs_clock() + 0.01);
    }
    if (ended > 0 && WIFSIGNALED(status))
        snprintf(here->gone, sizeof here->gone, "the device far is gone: its process %ld was ended by signal %d", (long)here->child,
                 WTERMSIG(status));
    else
        snprintf(here->gone, sizeof here->gone, "the device far is gone: its process %ld closed its socket (exit code %d)",
                 (long)here->child, ended > 0 ? WEXITSTATUS(status) : -1);
    if (ended > 0) here->child = 0;
}

static qs_status program_find(char *path, size_t bytes) {
    const char *named = getenv("QSYNC_FAR");
    if (named && named[0]) {
        snprintf(path, bytes, "%s", named);
    } else {
        const ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
        path[length > 0 ? length : 0] = 0;
        char *name = strrchr(path, '/');
        name = name ? name + 1 : path;
        snprintf(name, bytes - (size_t)(name - path), "qsync-far");
    }
    if (access(path, X_OK) == 0) return QS_OK;
    return qs_fail(QS_USAGE,
                   "the device far runs the program qsync-far, and %s is none: install it beside this program, or name it in "
                   "QSYNC_FAR",
                   path);
}

static qs_status child_start(far *here) {
    char path[4096];
    int pair[2];
    posix_spawn_file_actions_t actions;
    QS_TRY(program_find(path, sizeof path));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return qs_fail(QS_FAILED, "no socket for the device far: %s", strerror(errno));
    const int room = 1 << 20;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    char *const arguments[] = {path, NULL};
    int error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
        if (error == 0) error = posix_spawn(&here->child, path, &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(pair[1]);
    here->socket = pair[0];
    return error == 0 ? QS_OK : qs_fail(QS_FAILED, "cannot start %s: %s", path, strerror(error));
}

/* ---- Messages ---- */

/* What sends and takes is false when the child is gone; here->gone says why. */
static bool message_post(far *here, const qs__far_command *command, const void *payload) {
    if (here->gone[0]) return false;
    if (qs__far_send(here->socket, command, sizeof *command) &&
        (command->payload == 0 || qs__far_send(here->socket, payload, command->payload)))
        return true;
    gone_note(here);
    return false;
}

static qs_status message_send(far *here, const qs__far_command *command, const void *payload) {
    return message_post(here, command, payload) ? QS_OK : gone(here);
}

/* Bytes that nobody waits for any more. */
static bool payload_drop(far *here, uint64_t bytes) {
    char unwanted[4096];
    for (; bytes > 0; bytes -= bytes < sizeof unwanted ? bytes : sizeof unwanted)
        if (!qs__far_receive(here->socket, unwanted, bytes < sizeof unwanted ? bytes : sizeof unwanted)) return false;
    return true;
}

static bool data_take(far *here, const qs__far_reply *reply) {
    for (size_t i = 0; i < here->arrivals; i++) {
        if (here->arrival[i].number != reply->object) continue;
        const arrival one = here->arrival[i];
        memmove(here->arrival + i, here->arrival + i + 1, (--here->arrivals - i) * sizeof one);
        return reply->payload == one.bytes ? qs__far_receive(here->socket, one.to, one.bytes) : payload_drop(here, reply->payload);
    }
    return payload_drop(here, reply->payload);
}

static void event_take(far *here, const qs__far_reply *reply) {
    far_event *event = reply->object < here->events ? here->event[reply->object] : NULL;
    if (!event || reply->serial <= event->reached) return;
    event->reached = reply->serial;
    event->seconds = reply->seconds;
    event->failed = reply->status != QS_OK;
}

static bool answer_take(far *here, const qs__far_reply *reply) {
    free(here->answer);
    here->answer = calloc(1, reply->payload + 1);
    here->answered = here->answer != NULL;
    here->status = (qs_status)reply->status;
    here->answer_bytes = reply->payload;
    return here->answer && qs__far_receive(here->socket, here->answer, reply->payload);
}

/* One message, if there is one or if it is waited for. */
static bool message_take(far *here, bool wait, bool *taken) {
    struct pollfd look = {.fd = here->socket, .events = POLLIN};
    qs__far_reply reply;
    *taken = false;
    if (here->gone[0]) return false;
    if (!wait && poll(&look, 1, 0) <= 0) return true;
    *taken = qs__far_receive(here->socket, &reply, sizeof reply);
    if (*taken && reply.kind == QS__FAR_EVENT)
        event_take(here, &reply);
    else if (*taken)
        *taken = reply.kind == QS__FAR_DATA ? data_take(here, &reply) : answer_take(here, &reply);
    if (!*taken) gone_note(here);
    return *taken;
}

/* Sends, and waits for the answer: here->status and here->answer. */
static bool answer_await(far *here, const qs__far_command *command, const void *payload) {
    bool taken;
    here->answered = false;
    if (!message_post(here, command, payload)) return false;
    while (!here->answered)
        if (!message_take(here, true, &taken)) return false;
    return true;
}

/* An answer of at least `least` bytes. */
static qs_status request(far *here, const qs__far_command *command, const void *payload, size_t least) {
    if (!answer_await(here, command, payload)) return gone(here);
    if (here->status != QS_OK) return qs_fail(here->status, "%s", here->answer);
    return here->answer_bytes >= least ? QS_OK : qs_fail(QS_FAILED, "the device far answered with %zu bytes", here->answer_bytes);
}

/* ---- Opening ---- */

static qs_status name_copy(const char *what, const char *name, char to[QS__FAR_NAME]) {
    if (name && strlen(name) >= QS__FAR_NAME) return qs_fail(QS_USAGE, "%s '%s' of the device far is too long a name", what, name);
    snprintf(to, QS__FAR_NAME, "%s", name ? name : "");
    return QS_OK;
}

static qs_status setting_make(const qs_device_options *options, qs__far_setting *out) {
    const qs_far_options *with = &options->far;
#ifdef QS_WITH_CPU
    const char *runs = with->runs ? with->runs : "cpu";
#else
    const char *runs = with->runs ? with->runs : "ref";
#endif
    *out = (qs__far_setting){.protocol = QS__FAR_PROTOCOL,
                             .command_bytes = sizeof(qs__far_command),
                             .threads = options->threads,
                             .memory_bytes = with->memory_bytes,
                             .speed = options->speed,
                             .bytes_per_second = with->bytes_per_second,
                             .latency_us = with->latency_us};
    out->products = options->products.formats;
    for (int i = 0; i < out->products; i++) {
        snprintf(out->product[i], sizeof out->product[i], "%s", options->products.format[i]->name);
        out->part[i] = options->products.part[i];
    }
    if (strcmp(runs, "far") == 0) return qs_fail(QS_USAGE, "the device far cannot run itself: name cpu or ref in `runs`");
    if (!(with->bytes_per_second >= 0) || !(with->latency_us >= 0 && with->latency_us <= 1e6) || with->memory_bytes < 0)
        return qs_fail(QS_USAGE,
                       "the device far: bytes_per_second %g, latency_us %g (at most 1000000) and memory_bytes %lld must not be negative",
                       with->bytes_per_second, with->latency_us, (long long)with->memory_bytes);
    QS_TRY(name_copy("backend", runs, out->runs));
    QS_TRY(name_copy("isa", options->isa, out->isa));
    return name_copy("kernel family", options->family, out->family);
}

static void far_close(void *state) {
    far *here = state;
    int status;
    if (here->socket >= 0) close(here->socket);
    for (int i = 0; i < 500 && here->child > 0 && waitpid(here->child, &status, WNOHANG) == 0; i++)
        qs_wait_until(qs_clock() + 0.002);
    if (here->child > 0 && waitpid(here->child, &status, WNOHANG) == 0) {
        (void)kill(here->child, SIGKILL);
        (void)waitpid(here->child, &status, 0);
    }
    free(here->event);
    free(here->serial);
    free(here->arrival);
    free(here->answer);
    free(here);
}

static qs_status far_open(const qs_device_options *options, void **state) {
    qs__far_setting setting;
    far *here = NULL;
    qs_status status = QS_OK;
    QS_TRY(setting_make(options, &setting));
    QS_TRY(qs_allocate(1, sizeof *here, &here));
    here->socket = -1;
    here->speed = options->speed;
    here->products = options->products;
    QS_GOTO(child_start(here));
    const qs__far_command command = {.kind = QS__FAR_OPEN, .payload = sizeof setting};
    QS_GOTO(request(here, &command, &setting, sizeof here->facts));
    memcpy(&here->facts, here->answer, sizeof here->facts);
    *state = here;
    return QS_OK;
done:
    far_close(here);
    return qs_fail_within(status, "device far");
}

static void far_describe(const void *state, qs_device_info *out) {
    const far *here = state;
    snprintf(out->isa, sizeof out->isa, "%s", here->facts.isa);
    snprintf(out->library, sizeof out->library, "%s", here->facts.library);
    snprintf(out->kernels, sizeof out->kernels, "%.*s", (int)sizeof out->kernels - 1, here->facts.kernels);
    for (int i = 0; i < QS__FAR_FORMATS && here->facts.formats[i][0]; i++)
        out->formats[i] = qs_format_of(here->facts.formats[i])->name;
}

/* ---- Kernels ---- */

/* Case and name behind a head, each with its NUL. The payload's bytes. */
static size_t texts_put(char *to, size_t head, const qs_case *one, const char *name) {
    const size_t text = strlen(qs_case_text(one, to + head)) + 1;
    return head + text + (size_t)snprintf(to + head + text, 128, "%s", name ? name : "") + 1;
}

static qs_status far_fact(void *state, const qs_case *one, const char *name, qs_kernel_fact *out) {
    far *here = state;
    char texts[QS_CASE_TEXT + 128];
    const qs__far_command command = {.kind = QS__FAR_FACT, .payload = texts_put(texts, 0, one, name)};
    QS_TRY(request(here, &command, texts, sizeof *out));
    memcpy(out, here->answer, sizeof *out);
    return QS_OK;
}

static qs_status far_candidates(void *state, const qs_case *one, qs_kernel_fact *out, int *count) {
    far *here = state;
    char texts[QS_CASE_TEXT + 128];
    const qs__far_command command = {.kind = QS__FAR_CANDIDATES, .payload = texts_put(texts, 0, one, NULL)};
    QS_TRY(request(here, &command, texts, sizeof *out));
    *count = (int)(here->answer_bytes / sizeof *out);
    memcpy(out, here->answer, (size_t)*count * sizeof *out);
    return QS_OK;
}

static void location_put(qs__far_binding *to, int i, qs_location from) {
    to->memory[i] = from.memory ? ((const far_object *)from.memory->state)->number : 0;
    to->offset[i] = from.offset;
}

static qs_status far_prepare(void *state, const qs_case *one, const char *name, const qs_location *operand, qs_location scratch,
                             void **kernel) {
    far *here = state;
    char payload[sizeof(qs__far_binding) + QS_CASE_TEXT + 128];
    qs__far_binding binding = {0};
    far_object *made = NULL;
    for (int i = 0; i < one->operands; i++)
        if (one->operand[i].format) location_put(&binding, i, operand[i]);
    location_put(&binding, QS_MAX_OPERANDS, scratch);
    memcpy(payload, &binding, sizeof binding);
    QS_TRY(qs_allocate(1, sizeof *made, &made));
    *made = (far_object){here, ++here->kernels};
    const qs__far_command command = {
        .kind = QS__FAR_PREPARE, .object = made->number, .payload = texts_put(payload, sizeof binding, one, name)};
    const qs_status status = request(here, &command, payload, 0);
    if (status == QS_OK)
        *kernel = made;
    else
        free(made);
    return status;
}

static qs_status far_run(void *kernel, const qs_run *run) {
    const far_object *one = kernel;
    return message_send(one->far, &(qs__far_command){.kind = QS__FAR_RUN, .object = one->number, .payload = sizeof *run}, run);
}

static void far_kernel_release(void *kernel) {
    far_object *one = kernel;
    (void)message_post(one->far, &(qs__far_command){.kind = QS__FAR_RELEASE_KERNEL, .object = one->number}, NULL);
    free(one);
}

static void far_trim(void *state) {
    (void)message_post(state, &(qs__far_command){.kind = QS__FAR_TRIM}, NULL);
}

/* The child's device rests as well: what it says is of its speed, and the front counts that again. */
static double far_peak(void *state, const qs_format *format) {
    far *here = state;
    double peak;
    const qs__far_command command = {.kind = QS__FAR_PEAK, .payload = strlen(format->name) + 1};
    if (request(here, &command, format->name, sizeof peak) != QS_OK) return 0;
    memcpy(&peak, here->answer, sizeof peak);
    return peak / qs_format_speed(format, here->speed, &here->products);
}

/* ---- Memory ---- */

static qs_status far_reserve(void *state, size_t bytes, void **memory) {
    far *here = state;
    far_object *made = NULL;
    QS_TRY(qs_allocate(1, sizeof *made, &made));
    *made = (far_object){here, ++here->memories};
    const qs_status status = request(here, &(qs__far_command){.kind = QS__FAR_RESERVE, .object = made->number, .bytes = bytes}, NULL, 0);
    if (status == QS_OK)
        *memory = made;
    else
        free(made);
    return status;
}

static qs_status far_resize(void *memory, size_t bytes) {
    const far_object *one = memory;
    return request(one->far, &(qs__far_command){.kind = QS__FAR_RESIZE, .object = one->number, .bytes = bytes}, NULL, 0);
}

static void far_release(void *memory) {
    far_object *one = memory;
    (void)message_post(one->far, &(qs__far_command){.kind = QS__FAR_RELEASE_MEMORY, .object = one->number}, NULL);
    free(one);
}

static uint64_t number_of(const void *memory) {
    return ((const far_object *)memory)->number;
}

static qs_status far_write(void *state, int queue, void *memory, size_t offset, const void *from, size_t bytes) {
    const qs__far_command command = {
        .kind = QS__FAR_WRITE, .queue = (uint32_t)queue, .object = number_of(memory), .offset = offset, .payload = bytes};
    return bytes > 0 ? message_send(state, &command, from) : QS_OK;
}

/* Asks for bytes that come back when the queue is there. */
static qs_status arrival_ask(far *here, qs__far_command *command, void *to, size_t bytes) {
    QS_TRY(qs_grow(&here->arrival, &here->arrival_capacity, here->arrivals + 1, sizeof *here->arrival));
    here->arrival[here->arrivals++] = (arrival){++here->reads, to, bytes};
    command->other = here->reads;
    return message_send(here, command, NULL);
}

static qs_status far_read(void *state, int queue, void *memory, size_t offset, void *to, size_t bytes) {
    qs__far_command command = {
        .kind = QS__FAR_READ, .queue = (uint32_t)queue, .object = number_of(memory), .offset = offset, .bytes = bytes};
    return bytes > 0 ? arrival_ask(state, &command, to, bytes) : QS_OK;
}

static qs_status far_finite(void *state, int queue, void *memory, size_t offset, int64_t count, bool *finite) {
    qs__far_command command = {.kind = QS__FAR_FINITE,
                               .queue = (uint32_t)queue,
                               .object = number_of(memory),
                               .offset = offset,
                               .bytes = (size_t)count * sizeof(float)};
    return arrival_ask(state, &command, finite, sizeof *finite);
}

static qs_status far_copy(void *state, int queue, const qs_location *from, const qs_location *to, size_t bytes) {
    const qs__far_command command = {.kind = QS__FAR_COPY,
                                     .queue = (uint32_t)queue,
                                     .object = number_of(from->memory->state),
                                     .offset = from->offset,
                                     .other = number_of(to->memory->state),
                                     .other_offset = to->offset,
                                     .bytes = bytes};
    return message_send(state, &command, NULL);
}

static qs_status far_fill(void *state, int queue, void *memory, size_t offset, int value, size_t bytes) {
    const qs__far_command command = {
        .kind = QS__FAR_FILL, .queue = (uint32_t)queue, .object = number_of(memory), .offset = offset, .bytes = bytes, .value = value};
    return message_send(state, &command, NULL);
}

static qs_status far_touch(void *state, int queue, void *memory, size_t offset, size_t bytes, bool change) {
    const qs__far_command command = {
        .kind = QS__FAR_TOUCH, .queue = (uint32_t)queue, .object = number_of(memory), .offset = offset, .bytes = bytes, .value = change};
    return message_send(state, &command, NULL);
}

static qs_status far_wait(void *state, int queue) {
    return request(state, &(qs__far_command){.kind = QS__FAR_WAIT, .queue = (uint32_t)queue}, NULL, 0);
}

static qs_status far_pin(void *state, int threads, const int *core) {
    return request(state, &(qs__far_command){.kind = QS__FAR_PIN, .payload = (size_t)threads * sizeof *core}, core, 0);
}

static void far_drain(void *state, int queue) {
    (void)answer_await(state, &(qs__far_command){.kind = QS__FAR_WAIT, .queue = (uint32_t)queue}, NULL);
}

/* ---- Events ---- */

static qs_status far_event_create(void *state, void **event) {
    far *here = state;
    far_event *made = NULL;
    size_t number = 0;
    while (number < here->events && here->event[number])
        number++;
    QS_TRY(qs_grow(&here->event, &here->event_capacity, number + 1, sizeof *here->event));
    QS_TRY(qs_grow(&here->serial, &here->serial_capacity, number + 1, sizeof *here->serial));
    QS_TRY(qs_allocate(1, sizeof *made, &made));
    *made = (far_event){.far = here, .number = number, .serial = here->serial[number], .reached = here->serial[number]};
    here->event[number] = made;
    if (number == here->events) here->events++;
    *event = made;
    return QS_OK;
}

static void far_event_release(void *event) {
    far_event *one = event;
    one->far->event[one->number] = NULL;
    free(one);
}

static qs_status far_record(void *event, int queue) {
    far_event *one = event;
    one->serial = ++one->far->serial[one->number];
    one->queue = queue;
    const qs__far_command command = {.kind = QS__FAR_RECORD, .queue = (uint32_t)queue, .object = one->number, .serial = one->serial};
    return message_send(one->far, &command, NULL);
}

static qs_status far_follow(void *event, int queue) {
    const far_event *one = event;
    const qs__far_command command = {.kind = QS__FAR_FOLLOW, .queue = (uint32_t)queue, .object = one->number, .serial = one->serial};
    return one->serial == 0 ? QS_OK : message_send(one->far, &command, NULL);
}

static qs_status far_event_done(void *event, bool *done) {
    far_event *one = event;
    bool taken = true;
    while (taken && one->reached < one->serial)
        if (!message_take(one->far, false, &taken)) return gone(one->far);
    *done = one->reached >= one->serial;
    if (!*done || !one->failed) return QS_OK;
    one->failed = false;
    return far_wait(one->far, one->queue);
}

static qs_status far_event_wait(void *event) {
    far_event *one = event;
    bool taken;
    while (one->reached < one->serial)
        if (!message_take(one->far, true, &taken)) return gone(one->far);
    return far_event_done(one, &taken);
}

static double far_elapsed(const void *from, const void *to) {
    return ((const far_event *)to)->seconds - ((const far_event *)from)->seconds;
}

static const qs__stage stage = {
    .reserve = far_reserve,
    .resize = far_resize,
    .release = far_release,
    .write = far_write,
    .read = far_read,
    .copy = far_copy,
    .fill = far_fill,
    .touch = far_touch,
    .finite = far_finite,
    .wait = far_wait,
    .drain = far_drain,
    .pin = far_pin,
    .event_create = far_event_create,
    .event_release = far_event_release,
    .record = far_record,
    .follow = far_follow,
    .event_wait = far_event_wait,
    .event_done = far_event_done,
    .elapsed = far_elapsed,
};

const qs__backend qs__device_far = {
    .name = "far",
    .open = far_open,
    .close = far_close,
    .describe = far_describe,
    .fact = far_fact,
    .candidates = far_candidates,
    .prepare = far_prepare,
    .run = far_run,
    .release = far_kernel_release,
    .trim = far_trim,
    .peak = far_peak,
    .stage = &stage,
};
