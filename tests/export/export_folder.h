// SPDX-License-Identifier: Apache-2.0
/* A folder for what tests write, which is gone behind them: TEST_MAIN_WITH(set_up, tear_down, ...). */
#ifndef QSYNC_TESTS_EXPORT_FOLDER
#define QSYNC_TESTS_EXPORT_FOLDER

#include "kit/folder.h"

static char test_folder[FOLDER_PATH];

static int set_up(void **state) {
    (void)state;
    folder_make(test_folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return folder_remove(test_folder);
}

#endif
