// SPDX-License-Identifier: Apache-2.0
/* base: what every room stands on: statuses and messages, log, clock, counter-based random numbers, the one thread pool,
 * page-backed arenas and file helpers.
 *
 * Errors. Every function that can fail returns a qs_status and leaves its outputs untouched on failure. The one-line message
 * (what, which value, which rule, the way out) is kept per thread and read with qs_message(). The library never prints, never
 * exits, never aborts on bad input; assert() is for programmer errors only.
 *
 * Threads. All functions may be called from any thread; the pool itself is driven by one thread at a time. */
#ifndef QSYNC_BASE_H
#define QSYNC_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define QS_API __attribute__((visibility("default")))
#define QS_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define QS_API
#define QS_PRINTF(format_index, first)
#endif

/* ---- Statuses ---------------------------------------------------------------------------------------------------- */

/* One list: name, text, exit code of the command line. */
#define QS_STATUS_LIST(X)                                         \
    X(QS_OK, "success", 0)                                        \
    X(QS_FAILED, "failure", 1)                                    \
    X(QS_OUT_OF_MEMORY, "out of memory", 1)                       \
    X(QS_BAD_FILE, "unreadable or malformed file", 1)             \
    X(QS_MISMATCH, "records do not belong together", 1)           \
    X(QS_UNSUPPORTED, "not supported by this device or build", 1) \
    X(QS_USAGE, "wrong usage", 2)                                 \
    X(QS_INFEASIBLE, "infeasible plan", 3)                        \
    X(QS_NUMERIC, "numeric failure", 4)                           \
    X(QS_PEER_LOST, "a peer was lost", 5)                         \
    X(QS_PREEMPTED, "pre-empted, resumable", 75)

#define QS_STATUS_ENUM(name, text, exit_code) name,
typedef enum qs_status { QS_STATUS_LIST(QS_STATUS_ENUM) QS_STATUS_COUNT } qs_status;
#undef QS_STATUS_ENUM

/* Text of a status ("infeasible plan"); never NULL. */
QS_API const char *qs_status_text(qs_status status);
/* Exit code the command line ends with for this status. */
QS_API int qs_status_exit_code(qs_status status);

/* Records the message of a failure for this thread and returns `status`, so that `return qs_fail(...)` is one line. */
QS_API qs_status qs_fail(qs_status status, const char *format, ...) QS_PRINTF(2, 3);
/* Puts "<prefix>: " before the message at hand and returns `status` unchanged; does nothing when status is QS_OK. */
QS_API qs_status qs_fail_within(qs_status status, const char *format, ...) QS_PRINTF(2, 3);
/* The message of this thread's last failure; "" when there was none. Valid until the next failure on this thread. */
QS_API const char *qs_message(void);

/* Forwards a failure to the caller. */
#define QS_TRY(expression)                                \
    do {                                                  \
        qs_status qs_try_status = (expression);           \
        if (qs_try_status != QS_OK) return qs_try_status; \
    } while (0)
/* Forwards a failure to the function's single clean-up label `done`, with the status in a local named `status`. */
#define QS_GOTO(expression)             \
    do {                                \
        status = (expression);          \
        if (status != QS_OK) goto done; \
    } while (0)

/* ---- Memory on the heap ------------------------------------------------------------------------------------------- */

/* Zeroed array of count × size bytes into *out; QS_OUT_OF_MEMORY with the figure on failure or overflow. count 0 gives one element. */
QS_API qs_status qs_allocate(size_t count, size_t size, void *out);
/* Grows *array (heap, `size` bytes an element, *capacity elements) so that `needed` elements fit; new elements are zeroed. */
QS_API qs_status qs_grow(void *array, size_t *capacity, size_t needed, size_t size);
/* Heap copy of printf's text into *out (caller frees). */
QS_API qs_status qs_format_text(char **out, const char *format, ...) QS_PRINTF(2, 3);

/* ---- Log ----------------------------------------------------------------------------------------------------------- */

typedef enum qs_log_level { QS_LOG_DEBUG, QS_LOG_INFO, QS_LOG_WARNING } qs_log_level;
/* Receives one line, without newline; lines of several threads come one after the other. A sink must not log itself. */
typedef void (*qs_log_sink)(void *context, qs_log_level level, const char *line);
/* Sends the log to `sink`; NULL (the default) drops it. Not to be called while other threads log. */
QS_API void qs_log_set(qs_log_sink sink, void *context);
QS_API void qs_log(qs_log_level level, const char *format, ...) QS_PRINTF(2, 3);

/* ---- Clock --------------------------------------------------------------------------------------------------------- */

/* Monotonic seconds since an arbitrary start. */
QS_API double qs_clock(void);
/* Waits until qs_clock() >= deadline, sleeping for the long part and spinning (with yields) for the last 100 µs. */
QS_API void qs_wait_until(double deadline);

/* ---- Counter-based random numbers ------------------------------------------------------------------------------------ */
/* A draw is a pure function of a key and a counter: the same on every CPU, thread count and rank count. Keys are made from
 * (seed, step, operator, stream); counters are global element indices. The generator mixes 64-bit key and counter into 32 bits
 * with an avalanche hash: fast enough to round at memory speed, and passing the uniformity tests of the suite; not cryptographic. */

/* Folds four words into one key. `stream` tells the draws of one operator apart (GEMM, operand, dropout ...). */
QS_API uint64_t qs_random_key(uint64_t seed, uint64_t step, uint64_t operator_id, uint64_t stream);
/* The avalanche hash, inline because rounding kernels vectorise it: 32-bit key halves and a 32-bit counter (a pair index for the
 * 2×16-bit use). Equal in portable C and in every vector unit: integer arithmetic only. */
static inline uint32_t qs_random_hash(uint32_t key_low, uint32_t key_high, uint32_t counter) {
    uint32_t x = counter * 0x9E3779B1u + key_low;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x += key_high;
    x *= 0x846CA68Bu;
    x ^= x >> 16;
    return x;
}
/* 32 uniform bits for a 64-bit counter. Below 2^32 it is qs_random_hash(low half of key, high half of key, counter); the high half of a
 * larger counter is mixed into the key first. */
QS_API uint32_t qs_random_bits(uint64_t key, uint64_t counter);
/* The key whose halves, with the low half of `counter`, give qs_random_hash the draw of (key, counter): what vector kernels use for a run
 * of counters that share their high half. Equals `key` for counters below 2^32. */
QS_API uint64_t qs_random_key_for(uint64_t key, uint64_t counter);
/* Uniform in [0, 1), 24 bits. */
QS_API float qs_random_uniform(uint64_t key, uint64_t counter);
/* Standard normal (Box-Muller on two draws of the same counter). */
QS_API float qs_random_normal(uint64_t key, uint64_t counter);
/* The i-th element of a pseudo-random permutation of 0..count-1 for this key, for all i, written into permutation[count]. */
QS_API void qs_random_permutation(uint64_t key, int64_t count, int64_t *permutation);

/* ---- The thread pool -------------------------------------------------------------------------------------------------- */

/* Sets the number of threads of the pool (1 by default); the kernel library uses the same threads once this was called, from the thread
 * that called it. Call it before the first kernel exists. */
QS_API qs_status qs_threads_set(int threads);
QS_API int qs_threads(void);
/* Runs body(context, begin, end) over disjoint ranges that cover 0..count-1. Ranges are multiples of `grain` (but the last one), so
 * bodies may rely on begin % grain == 0. Returns when all are done. Which thread runs which range must not matter to results. */
typedef void (*qs_parallel_body)(void *context, int64_t begin, int64_t end);
QS_API void qs_parallel(int64_t count, int64_t grain, qs_parallel_body body, void *context);

/* ---- Cores ------------------------------------------------------------------------------------------------------------- */
/* Pinned threads are measured and run alike from one run to the next. Processes of a run exchange what they may run on, each deals in the
 * same way, each pins its own threads. Results never depend on it. */

#define QS_MOST_CORES 1024
typedef struct qs_cores {
    uint64_t machine;                     /* equal for processes of one machine */
    int32_t threads, current;             /* cores wanted; the one it runs on now */
    uint64_t allowed[QS_MOST_CORES / 64]; /* bits: its affinity mask, none where the system has no such thing */
} qs_cores;
/* What this process may run on. Plain bytes: processes may send it to one another. */
QS_API void qs_cores_read(int threads, qs_cores *out);
/* Deals a core to each thread of process[mine], into core[threads]; the same answer in all processes. False when the processes of its
 * machine together want more than they may use: then none of them should pin. Masks that a launcher has bound are kept. */
QS_API bool qs_cores_deal(int processes, const qs_cores *process, int mine, int *core);
/* Holds the pool's threads to these cores, one each; the first thread of several to all of them. Call it before the threads exist. */
QS_API qs_status qs_threads_pin(int threads, const int *core);

/* ---- Others on our cores --------------------------------------------------------------------------------------------------- */
/* What Linux counts about threads that are ready to run while something else has their core: another process, or more threads of this one
 * than cores. Where the system counts nothing, nobody ever waited. */

enum { QS_MOST_WAITING = 256 };
/* A reading: {0} before the first one. Threads beyond the first QS_MOST_WAITING are not looked at. */
typedef struct qs_waits {
    int64_t switches; /* of all threads so far: without a new one, nobody has waited */
    int threads, core;
    struct {
        int id;
        double seconds;
    } thread[QS_MOST_WAITING];
} qs_waits;
/* Brings the reading up to date. Returns the seconds that the thread which waited longest has waited since the last one, or since it
 * started; last->core is where it last ran, -1 when nobody waited. It costs a microsecond where no thread was
 * switched, some ten for each thread elsewhere. */
QS_API double qs_waited(qs_waits *last);

/* ---- Arenas -------------------------------------------------------------------------------------------------------- */

/* One page-backed block of memory, huge pages advised, touched at reservation so that no page fault happens later. */
typedef struct qs_arena {
    void *memory; /* 2 MiB aligned */
    size_t bytes; /* as asked for */
    size_t mapped;
    size_t span; /* of addresses, without memory behind `mapped`: how far it can grow; all memory of the machine where the system allows */
} qs_arena;
/* Reserves `bytes` (0 allowed: memory is NULL then) zeroed bytes. QS_OUT_OF_MEMORY with the figure when the system refuses. */
QS_API qs_status qs_arena_reserve(size_t bytes, qs_arena *out);
/* Grows or shrinks in place: the memory stays where it is, and contents up to the smaller size stay what they are. Growing touches the new
 * pages, and is refused like a reservation, the arena unchanged. Shrinking gives the pages behind the new end back to the system at once,
 * and never fails. An arena of nothing is reserved anew. */
QS_API qs_status qs_arena_resize(qs_arena *arena, size_t bytes);
/* Gives the memory back; a zeroed or released arena is fine. */
QS_API void qs_arena_release(qs_arena *arena);

/* ---- Schemas ------------------------------------------------------------------------------------------------------- */

/* The schema of a file of a kind ("plan"), which is a text literal. The number is that of the meaning of all files together: it rises when
 * a field or a name in one of them does not mean any more what it meant. */
#define QS_SCHEMA(kind) "qsync/" kind "/2"
/* QS_OK when `text` is the schema of that kind; QS_BAD_FILE with both and, where an older or newer program wrote it, with the way out. */
QS_API qs_status qs_schema_check(const char *source, const char *text, const char *kind);

/* ---- Files --------------------------------------------------------------------------------------------------------- */

/* Reads a whole file (at most `limit` bytes) into a heap block with a NUL behind it; caller frees *data. */
QS_API qs_status qs_file_read(const char *path, size_t limit, char **data, size_t *bytes);
/* Writes atomically: temporary file beside `path`, fsync, rename, fsync of the folder. On failure nothing is left behind.
 * A device or a pipe is written to as it is. */
QS_API qs_status qs_file_write(const char *path, const void *data, size_t bytes);
/* Makes a folder and its parents; an existing folder is fine. */
QS_API qs_status qs_folder_make(const char *path);
/* "folder/name" on the heap; caller frees. */
QS_API qs_status qs_path_join(const char *folder, const char *name, char **out);

/* Joins names with ", " for messages that list what exists; the text lives until the next call on this thread. */
QS_API const char *qs_names_join(size_t count, const char *(*name)(size_t index));
/* xxHash-64 of bytes, chained through `seed`. */
QS_API uint64_t qs_hash(const void *data, size_t bytes, uint64_t seed);

#endif
