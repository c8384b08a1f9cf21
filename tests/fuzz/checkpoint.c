// SPDX-License-Identifier: Apache-2.0
/* A fuzz target of libFuzzer over all that a user's ONNX file passes (CONTRIBUTING.md says how it is run): reading, folding, the import
 * with its layouts, fusions and operators, the graph built of it, and the weights put into the graph. Whatever bytes come in: no crash, no
 * hang, no gigabytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "qsync/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void unheard(void *context, qs_log_level level, const char *line) {
    (void)context, (void)level, (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum { MOST = 1 << 18 }; /* values: what is larger is a matter of memory alone */
    static char path[64];
    qs_graph *graph = NULL;
    qs_log_set(unheard, NULL);
    if (!path[0]) snprintf(path, sizeof path, "/dev/shm/fuzzed-%ld.onnx", (long)getpid());
    if (qs_file_write(path, data, bytes) != QS_OK) abort();
    if (qs_model_open(path, NULL, &graph) == QS_OK) {
        const int64_t trained = graph->trained_elements + graph->frozen_elements, statistics = graph->statistics_elements;
        float *values = trained < MOST && statistics < MOST ? calloc((size_t)(trained + statistics) + 1, sizeof *values) : NULL;
        if (values) qs_weights_start(path, graph, NULL, values, values + trained, NULL);
        free(values);
    }
    qs_graph_release(graph);
    unlink(path);
    return 0;
}
