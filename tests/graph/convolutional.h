// SPDX-License-Identifier: Apache-2.0
/* Which of the built-in models are convolutional: they have a width. */
#ifndef QSYNC_TESTS_GRAPH_CONVOLUTIONAL_H
#define QSYNC_TESTS_GRAPH_CONVOLUTIONAL_H

#include "kit/kit.h"
#include "qsync/graph.h"

static inline bool is_convolutional(const char *model) {
    char name[64];
    qs_model_input input;
    snprintf(name, sizeof name, "%s:width=1", model);
    return qs_model_input_of(name, &input) == QS_OK;
}

#endif
