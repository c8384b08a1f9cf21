// SPDX-License-Identifier: Apache-2.0
/* qsync inspect of a weights file: its tensors. */
#include <string.h>

#include "inspect.h"

#include "qsync/checkpoint.h"

bool is_weights_file(const char *path) {
    static const char *const ends[] = {".safetensors", ".gguf", ".bin"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length > strlen(ends[i]) && strcmp(path + length - strlen(ends[i]), ends[i]) == 0) return true;
    return false;
}

static json_t *set_json(const qs_tensor_set *set, const char *hash) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < set->count; i++) {
        const qs_named_tensor *one = &set->tensors[i];
        json_t *shape = json_array();
        for (int axis = 0; axis < one->tensor.shape.axes; axis++)
            json_array_append_new(shape, json_integer(one->tensor.shape.dim[axis]));
        json_array_append_new(tensors, json_pack("{s:s,s:s,s:o,s:I}", "name", one->name, "dtype", one->dtype, "shape", shape, "values",
                                                 (json_int_t)qs_shape_count(&one->tensor.shape)));
    }
    return json_pack("{s:s,s:s,s:s,s:o}", "model", set->model, "signature", set->graph, "hash", hash, "tensors", tensors);
}

static void set_print(const qs_tensor_set *set, const char *path, const char *hash) {
    char shape[96];
    int64_t values = 0;
    printf("%-56s %-8s %-22s %14s\n", "tensor", "dtype", "shape", "values");
    for (size_t i = 0; i < set->count; i++) {
        const qs_named_tensor *one = &set->tensors[i];
        const int64_t count = qs_shape_count(&one->tensor.shape);
        printf("%-56s %-8s %-22s %14lld\n", one->name, one->dtype, qs_shape_text(&one->tensor.shape, shape), (long long)count);
        values += count;
    }
    printf("\n%s, %s\n%zu tensors, %lld values; of model %s\n", path, hash, set->count, (long long)values,
           set->model[0] ? set->model : "that the file does not name");
}

qs_status weights_inspect(const char *path, bool json) {
    qs_tensor_set set;
    char hash[32];
    qs_status status = QS_OK;
    QS_TRY(qs_weights_open(path, 0, &set));
    snprintf(hash, sizeof hash, "xxh64:%016llx", (unsigned long long)set.hash);
    if (json)
        status = json_print(set_json(&set, hash));
    else
        set_print(&set, path, hash);
    qs_tensor_set_release(&set);
    return status;
}
