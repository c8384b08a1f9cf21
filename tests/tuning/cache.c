// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The user's cache: what is kept apart, what is replaced, where it lies, many processes at once, and files that are none. */
#include "kit/folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "qsync/tuning.h"

static char folder[FOLDER_PATH], file[FOLDER_PATH + 32];
static int warnings;
static char last_warning[1024];

static void note(void *context, qs_log_level level, const char *line) {
    (void)context;
    if (level != QS_LOG_WARNING) return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", line);
}

static int start(void **state) {
    (void)state;
    folder_make(folder);
    snprintf(file, sizeof file, "%s/cache.sqlite", folder);
    warnings = 0;
    qs_log_set(note, NULL);
    return 0;
}

static int end(void **state) {
    char journal[112];
    (void)state;
    snprintf(journal, sizeof journal, "%s-journal", file);
    unlink(journal);
    unlink(file);
    qs_log_set(NULL, NULL);
    return rmdir(folder);
}

static qs_device_info device(void) {
    return (qs_device_info){
        .backend = "cpu", .cpu = "A processor", .isa = "all", .library = "library 1", .kernels = "0123", .threads = 2, .speed = 1};
}

enum { MOST = 40 };

/* Choices that say of every case the same kernel. */
static void fill(const char *kernel, int count, qs_tuning *out) {
    assert_ok(qs_allocate((size_t)count, sizeof *out->choice, &out->choice));
    for (out->choices = 0; out->choices < count; out->choices++) {
        assert_ok(qs_format_text(&out->choice[out->choices].case_text, "case %03d of some length", out->choices));
        snprintf(out->choice[out->choices].kernel, sizeof out->choice->kernel, "%s", kernel);
    }
}

static qs_status put(const qs_device_info *of, const char *kernel, int count) {
    qs_tuning tuning;
    fill(kernel, count, &tuning);
    const qs_status status = qs_tuning_write(file, of, &tuning);
    qs_tuning_release(&tuning);
    return status;
}

/* How many choices there are for a device, all of one kernel. */
static int count_of(const qs_device_info *of, const char *kernel) {
    qs_tuning tuning;
    assert_ok(qs_tuning_read(file, of, &tuning));
    const int count = tuning.choices;
    for (int i = 0; i < count; i++) {
        assert_string_equal(tuning.choice[i].kernel, kernel);
        if (i > 0) assert_true(strcmp(tuning.choice[i - 1].case_text, tuning.choice[i].case_text) < 0);
    }
    qs_tuning_release(&tuning);
    return count;
}

static bool can_write(void) {
    const qs_device_info one = device();
    const qs_status status = put(&one, "first", 3);
    if (status == QS_UNSUPPORTED) return false; /* a build without SQLite */
    assert_ok(status);
    return true;
}

/* A choice holds for the processor, ceiling, library, kernels and threads that it was measured with. */
TEST(devices_are_kept_apart) {
    const qs_device_info one = device();
    if (!can_write()) skip();
    assert_int_equal(count_of(&one, "first"), 3);
    for (int i = 0; i < 5; i++) {
        qs_device_info other = device();
        if (i == 0) strcpy(other.cpu, "Another");
        if (i == 1) strcpy(other.isa, "avx2");
        if (i == 2) strcpy(other.library, "library 2");
        if (i == 3) strcpy(other.kernels, "4567");
        if (i == 4) other.threads = 1;
        assert_int_equal(count_of(&other, "none"), 0);
        assert_ok(put(&other, "other", 5));
        assert_int_equal(count_of(&other, "other"), 5);
    }
    assert_int_equal(count_of(&one, "first"), 3);
    qs_device_info without = device();
    without.kernels[0] = '\0'; /* the device ref */
    assert_int_equal(count_of(&without, "none"), 0);
    assert_int_equal(warnings, 0);
}

TEST(later_ones_replace) {
    const qs_device_info one = device();
    qs_tuning tuning;
    if (!can_write()) skip();
    assert_ok(put(&one, "second", 2));
    assert_ok(qs_tuning_read(file, &one, &tuning));
    assert_int_equal(tuning.choices, 3);
    assert_string_equal(tuning.choice[0].kernel, "second");
    assert_string_equal(tuning.choice[1].kernel, "second");
    assert_string_equal(tuning.choice[2].kernel, "first");
    qs_tuning_release(&tuning);
}

TEST(text_round_trip) {
    for (int count = 0; count < 10; count++) {
        qs_tuning one, back;
        char *text = NULL, *again = NULL;
        fill("kernel:of:it", count, &one);
        assert_ok(qs_tuning_text(&one, &text));
        assert_ok(qs_tuning_parse(text, &back));
        assert_int_equal(back.choices, count);
        assert_ok(qs_tuning_text(&back, &again));
        assert_string_equal(text, again);
        free(text);
        free(again);
        qs_tuning_release(&one);
        qs_tuning_release(&back);
    }
    qs_tuning none;
    assert_int_equal(qs_tuning_parse("no tab here\n", &none), QS_BAD_FILE);
}

static void path_is(const char *expected) {
    char *path = NULL;
    assert_ok(qs_tuning_path(&path));
    if (expected)
        assert_string_equal(path, expected);
    else
        assert_null(path);
    free(path);
}

TEST(places) {
    setenv("HOME", "/home/of", 1);
    setenv("XDG_CACHE_HOME", "/var/caches", 1);
    setenv("QSYNC_CACHE", "some/file", 1);
    path_is("some/file");
    setenv("QSYNC_CACHE", "off", 1);
    path_is(NULL);
    unsetenv("QSYNC_CACHE");
    path_is("/var/caches/qsync/tuning.sqlite");
    setenv("XDG_CACHE_HOME", "relative", 1); /* its standard says: to be ignored */
    path_is("/home/of/.cache/qsync/tuning.sqlite");
    unsetenv("HOME");
    path_is(NULL);
}

/* ---- Files that are none ---- */

static void file_write(const char *text, size_t bytes) {
    FILE *out = fopen(file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, bytes, out), bytes);
    assert_int_equal(fclose(out), 0);
}

/* Reading gives nothing, and says why; writing fails; the file stays what it is. */
static void is_left_aside(const char *why) {
    const qs_device_info one = device();
    qs_tuning tuning;
    char *before = NULL, *after = NULL;
    size_t bytes[2];
    assert_ok(qs_file_read(file, 1 << 20, &before, &bytes[0]));
    warnings = 0;
    assert_ok(qs_tuning_read(file, &one, &tuning));
    assert_int_equal(tuning.choices, 0);
    assert_int_equal(warnings, 1);
    if (!strstr(last_warning, why) || !strstr(last_warning, file)) fail_msg("\"%s\" does not say %s", last_warning, why);
    assert_int_equal(put(&one, "mine", 3), QS_BAD_FILE);
    assert_ok(qs_file_read(file, 1 << 20, &after, &bytes[1]));
    assert_true(bytes[0] == bytes[1] && memcmp(before, after, bytes[0]) == 0);
    free(before);
    free(after);
}

/* Bytes 60 to 63 of the header are the layout's number, 68 to 71 the application's, the highest byte first. */
static void byte_change(long at, int value) {
    FILE *out = fopen(file, "r+b");
    assert_non_null(out);
    assert_int_equal(fseek(out, at, SEEK_SET), 0);
    assert_int_equal(fputc(value, out), value);
    assert_int_equal(fclose(out), 0);
}

static void bad_files(void **state) {
    static char noise[9000];
    (void)state;
    const qs_device_info one = device();
    qs_tuning tuning;
    assert_ok(qs_tuning_read(file, &one, &tuning)); /* it is not there: nothing to tell */
    assert_ok(qs_tuning_read(NULL, &one, &tuning));
    assert_int_equal(warnings, 0);
    if (!can_write()) skip();
    byte_change(63, 9);
    is_left_aside("layout 9");
    byte_change(63, 1);
    byte_change(71, 0);
    is_left_aside("another program");
    unlink(file);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 7 + i / 256);
    file_write(noise, sizeof noise);
    is_left_aside("not a database");
    unlink(file);
    assert_ok(put(&one, "mine", 30));
    assert_int_equal(truncate(file, 5000), 0); /* the header says more */
    is_left_aside("damaged");
    file_write("", 0); /* a file of nothing becomes one */
    warnings = 0;
    assert_int_equal(count_of(&one, "none"), 0);
    assert_int_equal(warnings, 0);
    assert_ok(put(&one, "mine", 3));
    assert_int_equal(count_of(&one, "mine"), 3);
}

TEST(no_regular_file) {
    const qs_device_info one = device();
    qs_tuning tuning;
    char *path = NULL;
    assert_int_equal(mkfifo(file, 0600), 0); /* would block whoever opens it */
    assert_ok(qs_tuning_read(file, &one, &tuning));
    if (warnings == 0) skip(); /* a build without SQLite */
    assert_non_null(strstr(last_warning, "not a regular file"));
    assert_int_equal(put(&one, "mine", 1), QS_BAD_FILE);
    assert_ok(qs_tuning_read(folder, &one, &tuning));
    assert_int_equal(warnings, 2);
    assert_ok(qs_path_join(file, "below", &path)); /* a file where a folder should be */
    assert_int_equal(qs_tuning_write(path, &one, &(qs_tuning){0}), QS_BAD_FILE);
    free(path);
}

/* ---- Many at once ---- */

enum { WRITERS = 5, READERS = 3, TURNS = 12 };

/* Children tell and end: the tests behind are not theirs. */
static void expect(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "%s: %s %s\n", what, qs_message(), last_warning);
    _exit(1);
}

/* Every write is of all cases: whoever reads sees the kernels of one writer, never a mixture. */
static void write_often(int number) {
    const qs_device_info one = device();
    char name[32];
    for (int turn = 0; turn < TURNS; turn++) {
        snprintf(name, sizeof name, "kernel %d.%d", number, turn);
        expect(put(&one, name, MOST) == QS_OK, "writing");
    }
}

static void read_often(void) {
    const qs_device_info one = device();
    for (int turn = 0; turn < 4 * TURNS; turn++) {
        qs_tuning tuning;
        expect(qs_tuning_read(file, &one, &tuning) == QS_OK && warnings == 0, "reading");
        expect(tuning.choices == 0 || tuning.choices == MOST, "a part of what was written");
        for (int i = 1; i < tuning.choices; i++)
            expect(strcmp(tuning.choice[i].kernel, tuning.choice[0].kernel) == 0, "a mixture of what was written");
        qs_tuning_release(&tuning);
    }
}

TEST(many_processes) {
    pid_t child[WRITERS + READERS];
    const qs_device_info one = device();
    if (!can_write()) skip();
    unlink(file); /* who comes first makes it */
    for (int i = 0; i < WRITERS + READERS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0) {
            if (i < WRITERS)
                write_often(i);
            else
                read_often();
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS + READERS; i++) {
        int result = 1;
        assert_int_equal(waitpid(child[i], &result, 0), child[i]);
        assert_int_equal(result, 0);
    }
    qs_tuning tuning;
    assert_ok(qs_tuning_read(file, &one, &tuning));
    assert_int_equal(tuning.choices, MOST);
    qs_tuning_release(&tuning);
}

/* ---- What cases took ---- */

static qs_status timings_put(const qs_device_info *of, const char *circumstances, const char *kernel, int64_t measured,
                             const char *samples) {
    qs_timings timings = {0};
    assert_ok(qs_timings_add(&timings, "b", kernel, measured, samples));
    assert_ok(qs_timings_add(&timings, "a", kernel, measured, samples));
    const qs_status status = qs_timings_write(file, of, circumstances, &timings);
    qs_timings_release(&timings);
    return status;
}

static int timings_found(const qs_device_info *of, const char *circumstances, int64_t since) {
    qs_timings timings;
    assert_ok(qs_timings_read(file, of, circumstances, since, &timings));
    const int found = timings.count;
    qs_timings_release(&timings);
    return found;
}

static void timings_are_kept_apart(void **state) {
    (void)state;
    const qs_device_info one = device();
    qs_device_info other = device();
    const int64_t now = (int64_t)time(NULL);
    qs_timings timings;
    assert_int_equal(timings_found(&one, "here", 0), 0); /* no file yet */
    assert_ok(put(&one, "choice", 3));
    assert_int_equal(timings_found(&one, "here", 0), 0); /* a file that has choices alone */
    assert_ok(timings_put(&one, "here", "k", now + 100, "5"));
    assert_ok(timings_put(&one, "here", "l", now + 200, "6"));
    assert_ok(timings_put(&one, "there", "k", now + 300, "7"));
    assert_ok(timings_put(&one, "here", "k", now + 400, "8")); /* replaces the first */
    assert_int_equal(timings_found(&one, "here", 0), 4);
    assert_int_equal(timings_found(&one, "here", now + 300), 2);
    assert_int_equal(timings_found(&one, "there", 0), 2);
    assert_int_equal(timings_found(&one, "nowhere", 0), 0);
    assert_ok(qs_timings_read(file, &one, "here", 0, &timings));
    assert_string_equal(qs_timings_find(&timings, "a", "k")->samples, "8");
    assert_int_equal(qs_timings_find(&timings, "b", "l")->measured, now + 200);
    assert_null(qs_timings_find(&timings, "b", "m"));
    assert_null(qs_timings_find(&timings, "c", "k"));
    qs_timings_release(&timings);
    other.threads++;
    assert_int_equal(timings_found(&other, "here", 0), 0);
    other = device();
    other.kernels[0] = '\0'; /* which kernels it has is not known */
    assert_ok(timings_put(&other, "here", "k", now + 1, "9"));
    assert_int_equal(timings_found(&other, "here", 0), 0);
    qs_tuning tuning; /* choices are what they were */
    assert_ok(qs_tuning_read(file, &one, &tuning));
    assert_int_equal(tuning.choices, 3);
    qs_tuning_release(&tuning);
    assert_int_equal(warnings, 0);
}

/* Whoever writes drops what is too old for anybody. */
static void old_timings_are_dropped(void **state) {
    (void)state;
    const qs_device_info one = device();
    const int64_t now = (int64_t)time(NULL), year = (int64_t)QS_TIMINGS_MOST_DAYS * QS_DAY_SECONDS;
    assert_ok(timings_put(&one, "here", "k", now - year - 100, "5"));
    assert_int_equal(timings_found(&one, "here", 0), 2);
    assert_ok(timings_put(&one, "there", "k", now - year + 1000, "6"));
    assert_int_equal(timings_found(&one, "here", 0), 0);
    assert_int_equal(timings_found(&one, "there", 0), 2);
}

/* A file that begins with timings takes choices later. */
static void timings_may_come_first(void **state) {
    (void)state;
    const qs_device_info one = device();
    assert_ok(timings_put(&one, "here", "k", 100, "5"));
    assert_ok(put(&one, "choice", 2));
    assert_int_equal(timings_found(&one, "here", 0), 2);
    FILE *text = fopen(file, "wb");
    fputs("no database", text);
    fclose(text);
    assert_int_equal(timings_found(&one, "here", 0), 0);
    assert_int_equal(warnings, 1);
    assert_int_equal(timings_put(&one, "here", "k", 1, "1"), QS_BAD_FILE);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void) {
    const struct CMUnitTest tests[] = {WITH_FILE(devices_are_kept_apart),
                                       WITH_FILE(later_ones_replace),
                                       WITH_FILE(bad_files),
                                       WITH_FILE(no_regular_file),
                                       WITH_FILE(many_processes),
                                       WITH_FILE(timings_are_kept_apart),
                                       WITH_FILE(old_timings_are_dropped),
                                       WITH_FILE(timings_may_come_first),
                                       cmocka_unit_test(text_round_trip),
                                       cmocka_unit_test(places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
