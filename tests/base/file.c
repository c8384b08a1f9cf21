// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Files are read whole under a limit and replaced atomically; failures name the file and leave nothing behind. */
#include "kit/kit.h"
#include "kit/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[FOLDER_PATH];

static int make_scratch(void **state) {
    (void)state;
    folder_make(folder);
    return 0;
}

static int entries(const char *path) {
    DIR *stream = opendir(path);
    int count = 0;
    while (readdir(stream)) {
        count++;
    }
    closedir(stream);
    return count - 2; /* "." and ".." */
}

static char *inside(const char *name) {
    return folder_path(folder, name);
}

TEST(write_and_read) {
    static char large[300000];
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (char)(i * 7);
    }
    char *path = inside("data");
    const size_t sizes[] = {sizeof large, 10, 0};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(qs_file_write(path, large, sizes[i]));
        assert_int_equal(entries(folder), 1);
        char *data;
        size_t bytes;
        assert_ok(qs_file_read(path, sizes[i], &data, &bytes));
        assert_int_equal(bytes, sizes[i]);
        assert_memory_equal(data, large, bytes);
        assert_int_equal(data[bytes], 0);
        free(data);
    }
    unlink(path);
    free(path);
}

TEST(limits) {
    char *path = inside("limited"), *data = (char *)state;
    size_t bytes = 5;
    assert_ok(qs_file_write(path, "12345678", 8));
    assert_refused(qs_file_read(path, 7, &data, &bytes), QS_BAD_FILE, path);
    assert_message("7 bytes");
    assert_ptr_equal(data, state);
    assert_int_equal(bytes, 5);
    unlink(path);
    free(path);
}

TEST(files_without_a_size) {
    char *data;
    size_t bytes;
    assert_ok(qs_file_read("/proc/self/status", 1 << 20, &data, &bytes));
    assert_true(bytes > 0);
    assert_non_null(strstr(data, "Name:"));
    free(data);
}

TEST(failures_name_the_file) {
    char *path = inside("no/such/file"), *data;
    size_t bytes;
    assert_refused(qs_file_read(path, 10, &data, &bytes), QS_BAD_FILE, path);
    assert_int_equal(qs_file_read(folder, 10, &data, &bytes), QS_BAD_FILE);
    assert_refused(qs_file_write(path, "x", 1), QS_BAD_FILE, path);
    assert_int_equal(qs_file_write(folder, "x", 1), QS_BAD_FILE);
    char listing[128];
    snprintf(listing, sizeof listing, "%s", folder);
    assert_int_equal(entries(listing), 0);
    free(path);
}

/* A pipe stands for devices: its bytes arrive, and it is still a pipe. */
TEST(special_files) {
    char *path = inside("pipe"), got[8] = "";
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_ok(qs_file_write(path, "bytes", 5));
    assert_int_equal(read(reader, got, sizeof got), 5);
    assert_string_equal(got, "bytes");
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_true(S_ISFIFO(facts.st_mode));
    close(reader);
    unlink(path);
    free(path);
}

TEST(folders) {
    char *path = inside("a/b//c/"), *file = inside("a/file"), *below = inside("a/file/b");
    assert_ok(qs_folder_make(path));
    assert_ok(qs_folder_make(path));
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_true(S_ISDIR(facts.st_mode));
    assert_ok(qs_folder_make("/"));
    assert_ok(qs_file_write(file, "x", 1));
    assert_int_equal(qs_folder_make(file), QS_BAD_FILE);
    assert_refused(qs_folder_make(below), QS_BAD_FILE, below);
    assert_int_equal(qs_folder_make(""), QS_BAD_FILE);
    unlink(file);
    free(path);
    free(file);
    free(below);
}

static int remove_scratch(void **state) {
    (void)state;
    const char *const names[] = {"a/b/c", "a/b", "a"};
    for (size_t i = 0; i < 3; i++) {
        char *path = inside(names[i]);
        rmdir(path);
        free(path);
    }
    return rmdir(folder);
}

TEST_MAIN_WITH(make_scratch, remove_scratch, write_and_read, limits, files_without_a_size, failures_name_the_file, folders, special_files)
