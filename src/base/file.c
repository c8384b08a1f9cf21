// SPDX-License-Identifier: Apache-2.0
/* Files: whole reads with a limit, and writes that leave either the old file or the complete new one, also after a power failure:
 * temporary file in the same folder, fsync, rename, fsync of the folder. */
#include "qsync/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static qs_status fail_at(const char *path, const char *what, int error) {
    return qs_fail(QS_BAD_FILE, "%s: %s: %s", path, what, strerror(error));
}

static qs_status read_all(int file, const char *path, size_t limit, char **data, size_t *bytes) {
    char *block = NULL;
    size_t capacity = 0, used = 0;
    qs_status status = QS_OK;
    struct stat facts;
    if (fstat(file, &facts) == 0 && facts.st_size > 0 && (uintmax_t)facts.st_size <= limit) {
        QS_GOTO(qs_grow(&block, &capacity, (size_t)facts.st_size + 2, 1)); /* one byte to see the end, one for the NUL */
    }
    for (;;) {
        QS_GOTO(qs_grow(&block, &capacity, used + 2, 1));
        ssize_t got = read(file, block + used, capacity - used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) QS_GOTO(fail_at(path, "cannot read", errno));
        if (got == 0) break;
        used += (size_t)got;
        if (used > limit) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: larger than the limit of %zu bytes", path, limit));
    }
    block[used] = '\0';
    *data = block;
    *bytes = used;
    block = NULL;
done:
    free(block);
    return status;
}

qs_status qs_file_read(const char *path, size_t limit, char **data, size_t *bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail_at(path, "cannot open", errno);
    qs_status status = read_all(file, path, limit, data, bytes);
    close(file);
    return status;
}

static int write_all(int file, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t put = write(file, data, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}

/* The file's bytes on the disk under its temporary name; an errno value. */
static int write_temporary(const char *path, const void *data, size_t bytes) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return errno;
    int error = write_all(file, data, bytes);
    if (!error && fsync(file) != 0) error = errno;
    if (close(file) != 0 && !error) error = errno;
    if (error) unlink(path);
    return error;
}

/* Makes a rename in this folder durable. File systems that cannot (EINVAL) are taken as they are. */
static int sync_folder_of(const char *path) {
    char *folder = strdup(path);
    if (!folder) return ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    int file = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 ? errno : 0;
    free(folder);
    if (file < 0) return error;
    if (fsync(file) != 0 && errno != EINVAL) error = errno;
    close(file);
    return error;
}

/* Devices and pipes take the bytes and stay what they are: a rename would put a file in their place. */
static bool is_special(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
}

static qs_status write_special(const char *path, const void *data, size_t bytes) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return fail_at(path, "cannot write", errno);
    int error = write_all(file, data, bytes);
    if (close(file) != 0 && !error) error = errno;
    return error ? fail_at(path, "cannot write", error) : QS_OK;
}

qs_status qs_file_write(const char *path, const void *data, size_t bytes) {
    if (is_special(path)) return write_special(path, data, bytes);
    static atomic_uint serial; /* threads of one process never share a temporary name */
    char *temporary;
    QS_TRY(qs_format_text(&temporary, "%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1u)));
    qs_status status = QS_OK;
    int error = write_temporary(temporary, data, bytes);
    if (error) QS_GOTO(fail_at(path, "cannot write", error));
    if (rename(temporary, path) != 0) {
        error = errno;
        unlink(temporary);
        QS_GOTO(fail_at(path, "cannot replace", error));
    }
    error = sync_folder_of(path);
    if (error) QS_GOTO(fail_at(path, "cannot sync its folder", error));
done:
    free(temporary);
    return status;
}

static int make_one(const char *path) {
    struct stat facts;
    if (mkdir(path, 0777) == 0) return 0;
    int error = errno;
    if (stat(path, &facts) != 0) return error;
    return S_ISDIR(facts.st_mode) ? 0 : ENOTDIR;
}

qs_status qs_folder_make(const char *path) {
    char *copy;
    QS_TRY(qs_format_text(&copy, "%s", path));
    int error = 0;
    for (char *at = copy + (*copy == '/'); !error && (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        error = make_one(copy);
        *at = '/';
    }
    if (!error) error = make_one(copy);
    free(copy);
    return error ? fail_at(path, "cannot make the folder", error) : QS_OK;
}
