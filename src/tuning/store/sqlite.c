// SPDX-License-Identifier: Apache-2.0
/* Rows in SQLite. The header's application number tells a cache of ours from any other database, the version one layout from the next. A
 * rollback journal, not a write-ahead log: writers are rare, and it also works where home folders are shared between machines. */
#include "store/store.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { APPLICATION = 0x51535459 /* "QSTY" */, LAYOUT = 1, WAIT_MS = 10000 };

static const char make[] = "PRAGMA application_id = %d; PRAGMA user_version = %d;"
                           "CREATE TABLE choice (cpu TEXT, isa TEXT, library TEXT, kernels TEXT, threads INTEGER, case_text TEXT,"
                           " kernel TEXT, PRIMARY KEY (cpu, isa, library, kernels, threads, case_text)) WITHOUT ROWID";
/* Beside it, maybe later: programs that know only choices leave it alone. */
static const char make_timings[] =
    "CREATE TABLE IF NOT EXISTS timing (cpu TEXT, isa TEXT, library TEXT, kernels TEXT, threads INTEGER, circumstances TEXT,"
    " case_text TEXT, kernel TEXT, measured INTEGER, samples TEXT,"
    " PRIMARY KEY (cpu, isa, library, kernels, threads, circumstances, case_text, kernel)) WITHOUT ROWID";
static const char find[] = "SELECT case_text, kernel FROM choice WHERE cpu = ?1 AND isa = ?2 AND library = ?3 AND kernels = ?4"
                           " AND threads = ?5 ORDER BY case_text";
static const char find_timings[] = "SELECT case_text, kernel, measured, samples FROM timing WHERE cpu = ?1 AND isa = ?2 AND library = ?3"
                                   " AND kernels = ?4 AND threads = ?5 AND circumstances = ?6 AND measured >= ?7"
                                   " ORDER BY case_text, kernel";
static const char drop_timings[] = "DELETE FROM timing WHERE measured < ?1";
static const char put_timing[] = "INSERT OR REPLACE INTO timing VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
static const char put[] = "INSERT OR REPLACE INTO choice VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

typedef struct store {
    const char *path;
    sqlite3 *base;
    sqlite3_stmt *statement;
} store;

static qs_status refuse(const store *one, const char *what) {
    return qs_fail(QS_BAD_FILE, "%s: %s: %s", one->path, what, one->base ? sqlite3_errmsg(one->base) : "out of memory");
}

/* A pipe would block the run, a folder cannot be read. */
static qs_status regular_check(const char *path, bool *there) {
    struct stat facts;
    *there = stat(path, &facts) == 0;
    if (!*there || S_ISREG(facts.st_mode)) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: is not a regular file", path);
}

static qs_status open_file(store *one, int flags) {
    if (sqlite3_open_v2(one->path, &one->base, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) return refuse(one, "cannot open it");
    sqlite3_busy_timeout(one->base, WAIT_MS);
    return QS_OK;
}

static void close_file(store *one) {
    sqlite3_finalize(one->statement);
    sqlite3_close(one->base);
    *one = (store){0};
}

static qs_status run(const store *one, const char *text) {
    return sqlite3_exec(one->base, text, NULL, NULL, NULL) == SQLITE_OK ? QS_OK : refuse(one, "cannot use it");
}

static qs_status table_make(const store *one) {
    char text[512];
    snprintf(text, sizeof text, make, APPLICATION, LAYOUT);
    return run(one, text);
}

static qs_status prepare(store *one, const char *text) {
    sqlite3_finalize(one->statement);
    one->statement = NULL;
    return sqlite3_prepare_v2(one->base, text, -1, &one->statement, NULL) == SQLITE_OK ? QS_OK : refuse(one, "cannot use it");
}

static qs_status number_read(store *one, const char *text, int *out) {
    QS_TRY(prepare(one, text));
    if (sqlite3_step(one->statement) != SQLITE_ROW) return refuse(one, "cannot read it");
    *out = sqlite3_column_int(one->statement, 0);
    return QS_OK;
}

/* Reading alone takes what a truncated file lacks for zeros. A cache is small: this takes milliseconds. */
static qs_status wholeness_check(store *one) {
    QS_TRY(prepare(one, "PRAGMA quick_check(1)"));
    if (sqlite3_step(one->statement) != SQLITE_ROW) return refuse(one, "cannot read it");
    const char *found = (const char *)sqlite3_column_text(one->statement, 0);
    return found && strcmp(found, "ok") == 0 ? QS_OK : qs_fail(QS_BAD_FILE, "%s: is damaged: %s", one->path, found ? found : "");
}

/* *made: it has our table; a file of nothing has not. */
static qs_status identity_check(store *one, bool *made) {
    int application = 0, layout = 0, tables = 0;
    QS_TRY(number_read(one, "PRAGMA application_id", &application));
    QS_TRY(number_read(one, "PRAGMA user_version", &layout));
    QS_TRY(number_read(one, "SELECT count(*) FROM sqlite_master", &tables));
    *made = tables > 0;
    if (!*made && application == 0) return QS_OK;
    if (application != APPLICATION) return qs_fail(QS_BAD_FILE, "%s: is a database of another program", one->path);
    if (layout != LAYOUT)
        return qs_fail(QS_BAD_FILE, "%s: has layout %d, this program knows %d; another qsync keeps it", one->path, layout, LAYOUT);
    return wholeness_check(one);
}

/* ?1 to ?5. */
static void device_bind(const store *one, const qs_device_info *device) {
    const char *const texts[] = {device->cpu, device->isa, device->library, device->kernels};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_text(one->statement, i + 1, texts[i], -1, SQLITE_STATIC);
    sqlite3_bind_int(one->statement, 5, device->threads);
}

/* ---- Reading ---- */

static qs_status rows_read(store *one, const qs_device_info *device, qs_tuning *out) {
    bool made = false;
    int more;
    QS_TRY(run(one, "BEGIN")); /* one state of the file for all that follows */
    QS_TRY(identity_check(one, &made));
    if (!made) return QS_OK;
    QS_TRY(prepare(one, find));
    device_bind(one, device);
    while ((more = sqlite3_step(one->statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(one->statement, 0);
        const char *kernel = (const char *)sqlite3_column_text(one->statement, 1);
        if (text && kernel) QS_TRY(qs__choice_add(out, text, kernel));
    }
    return more == SQLITE_DONE ? QS_OK : refuse(one, "cannot read it");
}

qs_status qs__store_read(const char *path, const qs_device_info *device, qs_tuning *out) {
    store one = {.path = path};
    qs_tuning found = {0};
    bool there = false;
    QS_TRY(regular_check(path, &there));
    if (!there) return QS_OK;
    qs_status status = open_file(&one, SQLITE_OPEN_READWRITE); /* falls back to reading where writing is not allowed */
    if (status == QS_OK) status = rows_read(&one, device, &found);
    close_file(&one);
    if (status == QS_OK)
        *out = found;
    else
        qs_tuning_release(&found);
    return status;
}

/* ---- Writing ---- */

static qs_status row_put(store *one, const qs_device_info *device, const qs_kernel_choice *choice) {
    device_bind(one, device);
    sqlite3_bind_text(one->statement, 6, choice->case_text, -1, SQLITE_STATIC);
    sqlite3_bind_text(one->statement, 7, choice->kernel, -1, SQLITE_STATIC);
    const bool done = sqlite3_step(one->statement) == SQLITE_DONE;
    if (!done) return refuse(one, "cannot write to it");
    sqlite3_reset(one->statement);
    return QS_OK;
}

/* Who comes first makes the table: the others find it once they have the lock. */
static qs_status rows_write(store *one, const qs_device_info *device, const qs_tuning *tuning) {
    bool made = false;
    QS_TRY(run(one, "BEGIN IMMEDIATE"));
    QS_TRY(identity_check(one, &made));
    if (!made) QS_TRY(table_make(one));
    QS_TRY(prepare(one, put));
    for (int i = 0; i < tuning->choices; i++)
        QS_TRY(row_put(one, device, &tuning->choice[i]));
    return run(one, "COMMIT"); /* what ends before is rolled back when the file is closed */
}

qs_status qs__store_write(const char *path, const qs_device_info *device, const qs_tuning *tuning) {
    store one = {.path = path};
    bool there = false;
    QS_TRY(regular_check(path, &there));
    qs_status status = open_file(&one, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (status == QS_OK) status = rows_write(&one, device, tuning);
    close_file(&one);
    return status;
}

/* ---- Timings ---- */

static qs_status timings_read(store *one, const qs_device_info *device, const char *circumstances, int64_t since, qs_timings *out) {
    bool made = false;
    int there = 0, more;
    QS_TRY(run(one, "BEGIN"));
    QS_TRY(identity_check(one, &made));
    if (!made) return QS_OK;
    QS_TRY(number_read(one, "SELECT count(*) FROM sqlite_master WHERE name = 'timing'", &there));
    if (there == 0) return QS_OK;
    QS_TRY(prepare(one, find_timings));
    device_bind(one, device);
    sqlite3_bind_text(one->statement, 6, circumstances, -1, SQLITE_STATIC);
    sqlite3_bind_int64(one->statement, 7, since);
    while ((more = sqlite3_step(one->statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(one->statement, 0);
        const char *kernel = (const char *)sqlite3_column_text(one->statement, 1);
        const char *samples = (const char *)sqlite3_column_text(one->statement, 3);
        if (text && kernel && samples) QS_TRY(qs_timings_add(out, text, kernel, sqlite3_column_int64(one->statement, 2), samples));
    }
    return more == SQLITE_DONE ? QS_OK : refuse(one, "cannot read it");
}

qs_status qs__timings_read(const char *path, const qs_device_info *device, const char *circumstances, int64_t since, qs_timings *out) {
    store one = {.path = path};
    qs_timings found = {0};
    bool there = false;
    QS_TRY(regular_check(path, &there));
    if (!there) return QS_OK;
    qs_status status = open_file(&one, SQLITE_OPEN_READWRITE);
    if (status == QS_OK) status = timings_read(&one, device, circumstances, since, &found);
    close_file(&one);
    if (status == QS_OK)
        *out = found;
    else
        qs_timings_release(&found);
    return status;
}

static qs_status timing_put(store *one, const qs_device_info *device, const char *circumstances, const qs_timing *timing) {
    device_bind(one, device);
    sqlite3_bind_text(one->statement, 6, circumstances, -1, SQLITE_STATIC);
    sqlite3_bind_text(one->statement, 7, timing->case_text, -1, SQLITE_STATIC);
    sqlite3_bind_text(one->statement, 8, timing->kernel, -1, SQLITE_STATIC);
    sqlite3_bind_int64(one->statement, 9, timing->measured);
    sqlite3_bind_text(one->statement, 10, timing->samples, -1, SQLITE_STATIC);
    if (sqlite3_step(one->statement) != SQLITE_DONE) return refuse(one, "cannot write to it");
    sqlite3_reset(one->statement);
    return QS_OK;
}

static qs_status timings_write(store *one, const qs_device_info *device, const char *circumstances, const qs_timings *timings) {
    bool made = false;
    QS_TRY(run(one, "BEGIN IMMEDIATE"));
    QS_TRY(identity_check(one, &made));
    if (!made) QS_TRY(table_make(one));
    QS_TRY(run(one, make_timings));
    QS_TRY(prepare(one, drop_timings));
    sqlite3_bind_int64(one->statement, 1, (int64_t)time(NULL) - (int64_t)QS_TIMINGS_MOST_DAYS * QS_DAY_SECONDS);
    if (sqlite3_step(one->statement) != SQLITE_DONE) return refuse(one, "cannot write to it");
    QS_TRY(prepare(one, put_timing));
    for (int i = 0; i < timings->count; i++)
        QS_TRY(timing_put(one, device, circumstances, &timings->timing[i]));
    return run(one, "COMMIT");
}

qs_status qs__timings_write(const char *path, const qs_device_info *device, const char *circumstances, const qs_timings *timings) {
    store one = {.path = path};
    bool there = false;
    QS_TRY(regular_check(path, &there));
    qs_status status = open_file(&one, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (status == QS_OK) status = timings_write(&one, device, circumstances, timings);
    close_file(&one);
    return status;
}
