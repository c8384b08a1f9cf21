// SPDX-License-Identifier: Apache-2.0
/* The child's end of `far`: a device of another backend, its memory and kernels by their numbers, and two queues. One thread reads the
 * socket and deals commands out, so that whoever sends never waits for what is queued; the caller's thread does what is in the queue of
 * kernels, another one what is in that of copies. */
#include "far/wire.h"
#include "qsync/far.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef struct command {
    struct command *next;
    uint64_t behind; /* so many commands of the queue of copies come first */
    qs__far_command head;
    char *payload; /* with a NUL behind it */
} command;

typedef struct queue {
    command *first, *last;
    uint64_t dealt, done; /* commands, under the lock */
    qs_status status;     /* of the first failure since the last wait: what is behind it is left out */
    char message[1024];
} queue;

typedef struct kernel {
    qs_kernel *kernel;
    char *text; /* of its case */
} kernel;

/* An event as it was reached last. */
typedef struct mark {
    uint64_t serial;
    qs_status status; /* of the queue that it was recorded in, then */
    char *message;    /* NULL: it is QS_OK */
} mark;

/* What stands under a number of its kind. */
typedef struct objects {
    void **at;
    size_t capacity;
} objects;

typedef struct server {
    int socket;
    qs__far_setting setting;
    qs_device *device; /* NULL: not open yet */
    pthread_mutex_t lock, sending;
    pthread_cond_t changed; /* a queue got something, an event was reached, the socket closed */
    queue queue[QS_QUEUES];
    bool closed;
    qs_status ended; /* of the thread that reads the socket */
    mark *reached;   /* (events) under the lock */
    size_t events;
    objects memory, kernel; /* only in the queue of kernels, but for lookups of memory: those are under the lock */
    size_t reserved;        /* bytes */
} server;

/* ---- Sending ---- */

static void reply_send(server *here, const qs__far_reply *reply, const void *payload) {
    pthread_mutex_lock(&here->sending);
    /* After half a message nothing that follows could be understood: the reader sees the end of the socket, and ends all. */
    if (!qs__far_send(here->socket, reply, sizeof *reply) || (reply->payload > 0 && !qs__far_send(here->socket, payload, reply->payload)))
        (void)shutdown(here->socket, SHUT_RDWR);
    pthread_mutex_unlock(&here->sending);
}

static void answer_send(server *here, qs_status status, const void *payload, size_t bytes) {
    qs__far_reply reply = {.kind = QS__FAR_ANSWER, .status = (int32_t)status, .payload = bytes};
    if (status != QS_OK) reply.payload = strlen(qs_message());
    reply_send(here, &reply, status == QS_OK ? payload : qs_message());
}

/* ---- Objects ---- */

static qs_status object_put(server *here, objects *all, uint64_t number, void *object) {
    pthread_mutex_lock(&here->lock);
    const qs_status status = qs_grow(&all->at, &all->capacity, number + 1, sizeof *all->at);
    if (status == QS_OK) all->at[number] = object;
    pthread_mutex_unlock(&here->lock);
    return status;
}

static void *object_at(server *here, const objects *all, uint64_t number) {
    pthread_mutex_lock(&here->lock);
    void *object = number < all->capacity ? all->at[number] : NULL;
    pthread_mutex_unlock(&here->lock);
    return object;
}

static qs_location location_at(server *here, uint64_t memory, uint64_t offset) {
    return qs_location_of(memory ? object_at(here, &here->memory, memory) : NULL, offset);
}

/* ---- Answered commands ---- */

static qs_status device_open(server *here, const command *one, qs__far_facts *out) {
    qs_device_info info;
    if (one->head.payload != sizeof here->setting)
        return qs_fail(QS_MISMATCH, "qsync-far is of another build than the program that started it: install both together");
    memcpy(&here->setting, one->payload, sizeof here->setting);
    const qs__far_setting *with = &here->setting;
    if (with->protocol != QS__FAR_PROTOCOL || with->command_bytes != sizeof(qs__far_command))
        return qs_fail(QS_MISMATCH, "qsync-far is of another build than the program that started it: install both together");
    qs_device_options options = {.backend = with->runs,
                                 .threads = with->threads,
                                 .isa = with->isa[0] ? with->isa : NULL,
                                 .speed = with->speed,
                                 .products.formats = with->products,
                                 .family = with->family[0] ? with->family : NULL};
    for (int i = 0; i < with->products; i++) {
        options.products.part[i] = with->part[i];
        QS_TRY(qs_format_find(with->product[i], &options.products.format[i]));
    }
    QS_TRY(qs_device_open(&options, &here->device));
    qs_device_describe(here->device, &info);
    *out = (qs__far_facts){0};
    snprintf(out->isa, sizeof out->isa, "%s", info.isa);
    snprintf(out->library, sizeof out->library, "%s", info.library);
    snprintf(out->kernels, sizeof out->kernels, "%s", info.kernels);
    for (int i = 0; i < QS__FAR_FORMATS && info.formats[i]; i++)
        snprintf(out->formats[i], sizeof out->formats[i], "%s", info.formats[i]);
    return QS_OK;
}

/* The other end puts the case before a message itself. */
static qs_status without_case(qs_status status, const char *text) {
    const size_t length = strlen(text);
    char message[1024];
    if (status == QS_OK || strncmp(qs_message(), text, length) != 0 || qs_message()[length] != ':') return status;
    snprintf(message, sizeof message, "%s", qs_message() + length + 2);
    return qs_fail(status, "%s", message);
}

static qs_status fact_find(server *here, const char *text, qs_kernel_fact *out) {
    const char *name = text + strlen(text) + 1;
    qs_case one;
    QS_TRY(qs_case_parse(text, &one));
    return without_case(name[0] ? qs_device_fact_of(here->device, &one, name, out) : qs_device_fact(here->device, &one, out), text);
}

static qs_status kernel_prepare(server *here, const command *from) {
    qs__far_binding binding;
    const char *text = from->payload + sizeof binding, *name = text + strlen(text) + 1;
    qs_location operand[QS_MAX_OPERANDS + 1];
    qs_case one;
    kernel *made = NULL;
    qs_status status;
    memcpy(&binding, from->payload, sizeof binding);
    for (int i = 0; i <= QS_MAX_OPERANDS; i++)
        operand[i] = location_at(here, binding.memory[i], binding.offset[i]);
    QS_TRY(qs_case_parse(text, &one));
    QS_TRY(qs_allocate(1, sizeof *made, &made));
    QS_GOTO(qs_format_text(&made->text, "%s", text));
    QS_GOTO(
        without_case(qs_device_prepare(here->device, &one, name[0] ? name : NULL, operand, operand[QS_MAX_OPERANDS], &made->kernel), text));
    QS_GOTO(object_put(here, &here->kernel, from->head.object, made));
    return QS_OK;
done:
    qs_kernel_release(made->kernel);
    free(made->text);
    free(made);
    return status;
}

static qs_status cores_pin(server *here, const command *one) {
    int core[QS_MOST_CORES];
    const size_t threads = one->head.payload / sizeof *core;
    if (threads > QS_MOST_CORES) return qs_fail(QS_USAGE, "%zu threads: at most %d are pinned", threads, QS_MOST_CORES);
    memcpy(core, one->payload, threads * sizeof *core);
    return qs_device_pin(here->device, (int)threads, core);
}

static qs_status capacity_check(const server *here, size_t now, size_t wanted) {
    const size_t all = (size_t)here->setting.memory_bytes, others = here->reserved - now;
    if (all == 0 || (wanted <= all && others <= all - wanted)) return QS_OK;
    return qs_fail(QS_OUT_OF_MEMORY,
                   "the device far cannot reserve %zu bytes: %zu of its %zu bytes are free; take a smaller batch or less precise "
                   "recipes, or give it more (memory_bytes)",
                   wanted, others < all ? all - others : 0, all);
}

static qs_status memory_reserve(server *here, uint64_t number, size_t bytes) {
    qs_memory *memory = NULL;
    QS_TRY(capacity_check(here, 0, bytes));
    QS_TRY(qs_memory_reserve(here->device, bytes, &memory));
    const qs_status status = object_put(here, &here->memory, number, memory);
    if (status != QS_OK)
        qs_memory_release(memory);
    else
        here->reserved += bytes;
    return status;
}

static qs_status memory_resize(server *here, qs_memory *memory, size_t bytes) {
    const size_t before = qs_memory_bytes(memory);
    if (bytes > before) QS_TRY(capacity_check(here, before, bytes));
    QS_TRY(qs_memory_resize(memory, bytes));
    here->reserved += bytes - before;
    return QS_OK;
}

static void request_do(server *here, const command *one) {
    const qs__far_command *head = &one->head;
    qs_kernel_fact fact[QS_MOST_CANDIDATES] = {0};
    qs__far_facts facts;
    qs_case case_;
    int count = 1;
    double peak = 0;
    if (!here->device && head->kind != QS__FAR_OPEN) {
        answer_send(here, qs_fail(QS_USAGE, "the device far is not open"), NULL, 0);
        return;
    }
    qs_status status = QS_OK;
    switch ((qs__far_kind)head->kind) {
    case QS__FAR_OPEN:
        answer_send(here, device_open(here, one, &facts), &facts, sizeof facts);
        break;
    case QS__FAR_FACT:
        answer_send(here, fact_find(here, one->payload, fact), fact, sizeof *fact);
        break;
    case QS__FAR_CANDIDATES:
        status = qs_case_parse(one->payload, &case_);
        if (status == QS_OK) status = without_case(qs_device_candidates(here->device, &case_, fact, &count), one->payload);
        answer_send(here, status, fact, (size_t)count * sizeof *fact);
        break;
    case QS__FAR_PREPARE:
        answer_send(here, kernel_prepare(here, one), NULL, 0);
        break;
    case QS__FAR_PEAK:
        peak = qs_device_peak(here->device, qs_format_of(one->payload));
        answer_send(here, QS_OK, &peak, sizeof peak);
        break;
    case QS__FAR_PIN:
        answer_send(here, cores_pin(here, one), NULL, 0);
        break;
    case QS__FAR_RESERVE:
        answer_send(here, memory_reserve(here, head->object, head->bytes), NULL, 0);
        break;
    case QS__FAR_RESIZE:
        answer_send(here, memory_resize(here, object_at(here, &here->memory, head->object), head->bytes), NULL, 0);
        break;
    default:
        answer_send(here, qs_fail(QS_USAGE, "command %u of the device far is unknown", head->kind), NULL, 0);
    }
}

/* ---- Events ---- */

/* Told before the other queue goes on: what follows an event is later by the clock, and in what the other end hears. */
static qs_status event_reach(server *here, const queue *in, uint64_t event, uint64_t serial) {
    const qs__far_reply reply = {
        .kind = QS__FAR_EVENT, .status = (int32_t)in->status, .object = event, .serial = serial, .seconds = qs_clock()};
    reply_send(here, &reply, NULL);
    pthread_mutex_lock(&here->lock);
    qs_status status = qs_grow(&here->reached, &here->events, event + 1, sizeof *here->reached);
    if (status == QS_OK) {
        mark *one = &here->reached[event];
        free(one->message);
        *one = (mark){.serial = serial, .status = in->status};
        if (in->status != QS_OK) status = qs_format_text(&one->message, "%s", in->message);
    }
    pthread_cond_broadcast(&here->changed);
    pthread_mutex_unlock(&here->lock);
    return status;
}

/* What failed before the event fails whoever follows it: it would work with what is not there. */
static qs_status event_await(server *here, uint64_t event, uint64_t serial) {
    qs_status status = QS_OK;
    pthread_mutex_lock(&here->lock);
    while (!here->closed && (event >= here->events || here->reached[event].serial < serial))
        pthread_cond_wait(&here->changed, &here->lock);
    if (!here->closed && here->reached[event].message) status = qs_fail(here->reached[event].status, "%s", here->reached[event].message);
    pthread_mutex_unlock(&here->lock);
    return status;
}

/* Copies that were queued before a memory goes, or changes its size, are done first. */
static void copies_await(server *here, uint64_t behind) {
    pthread_mutex_lock(&here->lock);
    while (!here->closed && here->queue[QS_QUEUE_COPIES].done < behind)
        pthread_cond_wait(&here->changed, &here->lock);
    pthread_mutex_unlock(&here->lock);
}

/* ---- Queued commands ---- */

/* A copy between host and device lasts as long as its link says. */
static void link_wait(const server *here, double begin, size_t bytes) {
    const qs__far_setting *with = &here->setting;
    const double seconds = 1e-6 * with->latency_us + (with->bytes_per_second > 0 ? (double)bytes / with->bytes_per_second : 0);
    if (seconds > 0) qs_wait_until(begin + seconds);
}

static void data_send(server *here, const queue *in, const qs__far_command *head) {
    const double begin = qs_clock();
    const qs_location from = location_at(here, head->object, head->offset);
    qs__far_reply reply = {.kind = QS__FAR_DATA, .status = (int32_t)in->status, .object = head->other};
    const void *payload = (const char *)qs_memory_host(from.memory) + from.offset;
    bool finite = true;
    if (in->status == QS_OK && head->kind == QS__FAR_FINITE) {
        finite = isfinite(qs_absmax_array((int64_t)(head->bytes / sizeof(float)), payload));
        payload = &finite;
    }
    if (in->status == QS_OK) {
        reply.payload = head->kind == QS__FAR_FINITE ? sizeof finite : head->bytes;
        link_wait(here, begin, reply.payload);
    }
    reply_send(here, &reply, payload);
}

static qs_status kernel_run(server *here, const command *one) {
    const kernel *found = object_at(here, &here->kernel, one->head.object);
    qs_run run;
    memcpy(&run, one->payload, sizeof run);
    return qs_fail_within(qs_kernel_run(found->kernel, &run), "%s", found->text);
}

/* Fills do not go through the device: the threads of its pool belong to the queue of kernels. */
static qs_status work_do(server *here, const command *one) {
    const qs__far_command *head = &one->head;
    const double begin = qs_clock();
    const qs_location at = location_at(here, head->object, head->offset);
    qs_queue *inner = qs_device_queue(here->device, (qs_queue_kind)head->queue);
    switch ((qs__far_kind)head->kind) {
    case QS__FAR_RUN:
        return kernel_run(here, one);
    case QS__FAR_WRITE:
        QS_TRY(qs_memory_write(inner, at, one->payload, head->payload));
        link_wait(here, begin, head->payload);
        return QS_OK;
    case QS__FAR_COPY:
        return qs_memory_copy(inner, at, location_at(here, head->other, head->other_offset), head->bytes);
    case QS__FAR_FILL:
        if (head->queue == QS_QUEUE_KERNELS) return qs_memory_fill(inner, at, (int)head->value, head->bytes);
        memset((char *)qs_memory_host(at.memory) + at.offset, (int)head->value, head->bytes);
        return QS_OK;
    case QS__FAR_TOUCH:
        return qs_memory_touch(inner, at, head->bytes, head->value != 0);
    default:
        return QS_OK;
    }
}

static void release_do(server *here, const qs__far_command *head) {
    if (head->kind == QS__FAR_TRIM) {
        qs_device_trim(here->device);
    } else if (head->kind == QS__FAR_RELEASE_MEMORY) {
        qs_memory *memory = object_at(here, &here->memory, head->object);
        here->reserved -= qs_memory_bytes(memory);
        (void)object_put(here, &here->memory, head->object, NULL);
        qs_memory_release(memory);
    } else {
        kernel *one = object_at(here, &here->kernel, head->object);
        (void)object_put(here, &here->kernel, head->object, NULL);
        qs_kernel_release(one->kernel);
        free(one->text);
        free(one);
    }
}

static void command_do(server *here, const command *one) {
    const qs__far_command *head = &one->head;
    queue *in = &here->queue[head->queue];
    qs_status status = QS_OK;
    if (one->behind > 0) copies_await(here, one->behind);
    if (head->kind == QS__FAR_WAIT) {
        answer_send(here, in->status == QS_OK ? QS_OK : qs_fail(in->status, "%s", in->message), NULL, 0);
        in->status = QS_OK;
    } else if (head->kind < QS__FAR_WAIT) {
        request_do(here, one);
    } else if (head->kind <= QS__FAR_TRIM) {
        release_do(here, head);
    } else if (head->kind == QS__FAR_RECORD) {
        status = event_reach(here, in, head->object, head->serial);
    } else if (head->kind == QS__FAR_FOLLOW) {
        status = event_await(here, head->object, head->serial);
    } else if (head->kind == QS__FAR_READ || head->kind == QS__FAR_FINITE) {
        data_send(here, in, head);
    } else if (in->status == QS_OK) {
        status = work_do(here, one);
    }
    if (status == QS_OK || in->status != QS_OK) return;
    in->status = status;
    snprintf(in->message, sizeof in->message, "%s", qs_message());
}

/* ---- Threads ---- */

static void command_free(command *one) {
    free(one->payload);
    free(one);
}

static void queue_serve(server *here, int kind) {
    queue *in = &here->queue[kind];
    for (uint64_t done = 0;; done++) {
        pthread_mutex_lock(&here->lock);
        in->done = done;
        pthread_cond_broadcast(&here->changed);
        while (!in->first && !here->closed)
            pthread_cond_wait(&here->changed, &here->lock);
        command *one = here->closed ? NULL : in->first;
        if (one && !(in->first = one->next)) in->last = NULL;
        pthread_mutex_unlock(&here->lock);
        if (!one) return;
        command_do(here, one);
        command_free(one);
    }
}

static void *copies_serve(void *here) {
    queue_serve(here, QS_QUEUE_COPIES);
    return NULL;
}

static bool command_read(server *here, command *one) {
    if (!qs__far_receive(here->socket, &one->head, sizeof one->head) || one->head.queue >= QS_QUEUES) return false;
    here->ended = qs_allocate(one->head.payload + 2, 1, &one->payload);
    return here->ended == QS_OK && qs__far_receive(here->socket, one->payload, one->head.payload);
}

static void *socket_serve(void *context) {
    server *here = context;
    command *one = NULL;
    while (qs_allocate(1, sizeof *one, &one) == QS_OK && command_read(here, one)) {
        pthread_mutex_lock(&here->lock);
        queue *to = &here->queue[one->head.queue];
        if (one->head.kind == QS__FAR_RELEASE_MEMORY || one->head.kind == QS__FAR_RESIZE) one->behind = here->queue[QS_QUEUE_COPIES].dealt;
        to->dealt++;
        if (to->last)
            to->last->next = one;
        else
            to->first = one;
        to->last = one;
        pthread_cond_broadcast(&here->changed);
        pthread_mutex_unlock(&here->lock);
        one = NULL;
    }
    if (one) command_free(one);
    pthread_mutex_lock(&here->lock);
    here->closed = true;
    pthread_cond_broadcast(&here->changed);
    pthread_mutex_unlock(&here->lock);
    return NULL;
}

static void server_end(server *here) {
    for (size_t i = 0; i < here->kernel.capacity; i++) {
        kernel *one = here->kernel.at[i];
        if (!one) continue;
        qs_kernel_release(one->kernel);
        free(one->text);
        free(one);
    }
    for (size_t i = 0; i < here->memory.capacity; i++)
        qs_memory_release(here->memory.at[i]);
    for (int kind = 0; kind < QS_QUEUES; kind++)
        for (command *one = here->queue[kind].first, *next; one; one = next) {
            next = one->next;
            command_free(one);
        }
    qs_device_close(here->device);
    free(here->kernel.at);
    free(here->memory.at);
    for (size_t i = 0; i < here->events; i++)
        free(here->reached[i].message);
    free(here->reached);
}

qs_status qs_far_serve(int socket) {
    server here = {
        .socket = socket, .lock = PTHREAD_MUTEX_INITIALIZER, .sending = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t reader, copier;
    if (pthread_create(&reader, NULL, socket_serve, &here) != 0) return qs_fail(QS_FAILED, "no thread for the socket of the device far");
    const bool copies = pthread_create(&copier, NULL, copies_serve, &here) == 0;
    if (copies) queue_serve(&here, QS_QUEUE_KERNELS);
    if (!copies) {
        pthread_cancel(reader);
        pthread_join(reader, NULL);
        return qs_fail(QS_FAILED, "no thread for the copies of the device far");
    }
    pthread_join(copier, NULL);
    pthread_join(reader, NULL);
    server_end(&here);
    if (here.ended != QS_OK) return qs_fail(here.ended, "no memory for a command of the program that started it");
    return QS_OK;
}
