// SPDX-License-Identifier: Apache-2.0
/* Checked byte streams over plain and gzip files. Inflates itself instead of going through gzread, because gzread keeps silent about
 * bytes that follow the compressed data and cannot tell where a file broke. */
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { input_block = 1 << 16, deflate_ratio = 1032, gzip_window = 15 + 16 };

qs_status qs__stream_fail(const qs__stream *stream, int64_t offset, const char *format, ...) {
    char rule[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    return qs_fail(QS_BAD_FILE, "%s: offset %lld: %s", stream->path, (long long)offset, rule);
}

int64_t qs__stream_bound(const qs__stream *stream) {
    if (!stream->compressed) return stream->file_bytes;
    return stream->file_bytes > INT64_MAX / deflate_ratio ? INT64_MAX : stream->file_bytes * deflate_ratio;
}

static bool ends_in(const char *text, const char *ending) {
    size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

/* Looks at the first two bytes: gzip's magic settles how the file is read, whatever its name. */
static qs_status open_content(qs__stream *stream) {
    unsigned char magic[2] = {0, 0};
    size_t got = fread(magic, 1, sizeof magic, stream->file);
    if (got < sizeof magic && ferror(stream->file)) return qs_fail(QS_BAD_FILE, "%s: cannot read: %s", stream->path, strerror(errno));
    rewind(stream->file);
    stream->compressed = got == sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b;
    if (!stream->compressed && ends_in(stream->path, ".gz")) {
        return qs__stream_fail(stream, 0, "not a gzip file (first bytes %02x %02x, must be 1f 8b); fetch it again", magic[0], magic[1]);
    }
    if (!stream->compressed) return QS_OK;
    QS_TRY(qs_allocate(input_block, 1, &stream->input));
    if (inflateInit2(&stream->inflater, gzip_window) != Z_OK) {
        free(stream->input);
        stream->input = NULL;
        return qs_fail(QS_OUT_OF_MEMORY, "%s: no memory to inflate", stream->path);
    }
    return QS_OK;
}

static qs_status open_file(qs__stream *stream) {
    struct stat facts;
    stream->file = fopen(stream->path, "rb");
    if (!stream->file) return qs_fail(QS_BAD_FILE, "%s: cannot open: %s", stream->path, strerror(errno));
    if (fstat(fileno(stream->file), &facts) != 0 || !S_ISREG(facts.st_mode))
        return qs_fail(QS_BAD_FILE, "%s: no regular file", stream->path);
    stream->file_bytes = facts.st_size;
    if (stream->file_bytes == 0) return qs__stream_fail(stream, 0, "the file is empty; fetch it again");
    return open_content(stream);
}

/* Works in place: zlib's state points back at its z_stream, so an open stream must not be moved. */
qs_status qs__stream_open(const char *path, qs__stream *out) {
    *out = (qs__stream){0};
    QS_TRY(qs_format_text(&out->path, "%s", path));
    qs_status status = open_file(out);
    if (status != QS_OK) qs__stream_close(out);
    return status;
}

void qs__stream_close(qs__stream *stream) {
    if (stream->input) inflateEnd(&stream->inflater);
    if (stream->file) fclose(stream->file);
    free(stream->input);
    free(stream->path);
    *stream = (qs__stream){0};
}

static qs_status read_file(qs__stream *stream, void *data, size_t bytes, size_t *got) {
    *got = fread(data, 1, bytes, stream->file);
    stream->input_bytes += (int64_t)*got;
    if (*got < bytes && ferror(stream->file)) return qs_fail(QS_BAD_FILE, "%s: cannot read: %s", stream->path, strerror(errno));
    return QS_OK;
}

static int64_t compressed_offset(const qs__stream *stream) {
    return stream->input_bytes - (int64_t)stream->inflater.avail_in;
}

/* After a gzip member: the end of the file, or another member. */
static qs_status next_member(qs__stream *stream) {
    z_stream *inflater = &stream->inflater;
    if (inflater->avail_in == 0) {
        size_t got = 0;
        QS_TRY(read_file(stream, stream->input, input_block, &got));
        inflater->next_in = stream->input;
        inflater->avail_in = (unsigned)got;
    }
    stream->ended = inflater->avail_in == 0;
    if (stream->ended) return QS_OK;
    if (inflater->next_in[0] != 0x1f) {
        return qs__stream_fail(stream, stream->position, "bytes follow the gzip data (at compressed offset %lld); nothing may follow",
                               (long long)compressed_offset(stream));
    }
    inflateReset(inflater);
    return QS_OK;
}

static qs_status inflate_some(qs__stream *stream) {
    z_stream *inflater = &stream->inflater;
    if (inflater->avail_in == 0) {
        size_t got = 0;
        QS_TRY(read_file(stream, stream->input, input_block, &got));
        inflater->next_in = stream->input;
        inflater->avail_in = (unsigned)got;
        if (got == 0) {
            int64_t offset = stream->position;
            return qs__stream_fail(stream, offset, "the gzip data is truncated (the file ends at compressed offset %lld); fetch it again",
                                   (long long)stream->input_bytes);
        }
    }
    int code = inflate(inflater, Z_NO_FLUSH);
    if (code == Z_STREAM_END) return next_member(stream);
    if (code == Z_OK || code == Z_BUF_ERROR) return QS_OK;
    return qs__stream_fail(stream, stream->position, "the gzip data is corrupt (%s, near compressed offset %lld); fetch it again",
                           inflater->msg ? inflater->msg : "no memory or wrong stream", (long long)compressed_offset(stream));
}

static qs_status read_compressed(qs__stream *stream, unsigned char *data, size_t bytes, size_t *got) {
    z_stream *inflater = &stream->inflater;
    *got = 0;
    while (*got < bytes && !stream->ended) {
        size_t room = bytes - *got < (1u << 30) ? bytes - *got : (1u << 30);
        inflater->next_out = data + *got;
        inflater->avail_out = (unsigned)room;
        qs_status status = inflate_some(stream);
        size_t made = room - inflater->avail_out;
        *got += made;
        stream->position += (int64_t)made;
        QS_TRY(status);
    }
    return QS_OK;
}

qs_status qs__stream_read(qs__stream *stream, void *data, size_t bytes, size_t *got) {
    if (stream->compressed) return read_compressed(stream, data, bytes, got);
    QS_TRY(read_file(stream, data, bytes, got));
    stream->position += (int64_t)*got;
    return QS_OK;
}

qs_status qs__stream_take(qs__stream *stream, void *data, size_t bytes, const char *what) {
    size_t got = 0;
    QS_TRY(qs__stream_read(stream, data, bytes, &got));
    if (got == bytes) return QS_OK;
    return qs__stream_fail(stream, stream->position, "the file ends within %s: %zu bytes missing", what, bytes - got);
}

qs_status qs__stream_skip(qs__stream *stream, int64_t bytes, const char *what) {
    unsigned char block[8192];
    while (bytes > 0) {
        size_t part = bytes < (int64_t)sizeof block ? (size_t)bytes : sizeof block;
        QS_TRY(qs__stream_take(stream, block, part, what));
        bytes -= (int64_t)part;
    }
    return QS_OK;
}

qs_status qs__stream_finish(qs__stream *stream) {
    unsigned char byte;
    size_t got = 0;
    int64_t end = stream->position;
    QS_TRY(qs__stream_read(stream, &byte, 1, &got));
    return got == 0 ? QS_OK : qs__stream_fail(stream, end, "bytes follow the last record; nothing may follow");
}
