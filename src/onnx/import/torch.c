// SPDX-License-Identifier: Apache-2.0
/* Weights of PyTorch's linear layers, which its exporters turn and name anew: under the names of the module again, and in its order.
 *
 * A linear layer has weights [O,I], and Add and MatMul want [I,O]: where an exporter folds constants, it writes the turned matrix under a
 * number. The new exporter ("val_14") notes on the node which call it was, and in which modules. The old one ("onnx::MatMul_444") names the
 * node by the modules, "/encoder/layer.0/dense/MatMul", and leaves the bias, which is added next, its name. */
#include <stdlib.h>
#include <string.h>

#include "family.h"

/* ---- Names of the file ---------------------------------------------------------------------------------------------------- */

/* Values by their names, and those that are called like a bias also by their names with underlines in the places of dots, as arguments of
 * calls have them; made once. */
static bool names_know(qs__import *one) {
    if (one->named.count > 0) return one->status == QS_OK;
    for (int v = 0; v < one->values && one->status == QS_OK; v++) {
        const char *is = one->value[v].name;
        const size_t length = strlen(is);
        int64_t before;
        qs__stick(one, qs__names_set(&one->named, is, v));
        if (!qs__ends_in(is, length, "bias")) continue;
        char *mangled = qs__keep_memory(one, length + 1, 1);
        for (size_t i = 0; mangled && i < length; i++)
            mangled[i] = (char)(is[i] == '.' ? '_' : is[i]);
        if (mangled && !qs__names_get(&one->mangled, mangled, &before)) qs__stick(one, qs__names_set(&one->mangled, mangled, v));
    }
    return one->status == QS_OK;
}

/* "encoder.fc.weight" of "encoder.fc.bias"; false: it ends otherwise. */
static bool weight_beside(const char *bias, char name[QS_ONNX_MAX_NAME]) {
    const size_t length = strlen(bias), stem = length - strlen("bias");
    if (!qs__ends_in(bias, length, "bias") || stem + sizeof "weight" > QS_ONNX_MAX_NAME) return false;
    snprintf(name, QS_ONNX_MAX_NAME, "%.*sweight", (int)stem, bias);
    return true;
}

/* ---- The new exporter ----------------------------------------------------------------------------------------------------- */

/* The name of a linear layer's matrix by its node's notes: the call's second argument is "%p_" and the path with underlines, and the path
 * of the module, with dots, stands in the scopes. */
static bool name_by_call(const qs_onnx_node *node, char name[QS_ONNX_MAX_NAME]) {
    char mangled[QS_ONNX_MAX_NAME], argument[QS_ONNX_MAX_NAME];
    const char *arguments = strstr(node->call, "aten.linear.default](args = ("), *second = arguments ? strstr(arguments, ", %p_") : NULL;
    if (!second || memchr(arguments + strlen("aten.linear.default](args = ("), ',', (size_t)(second - arguments)) != (const void *)second)
        return false;
    second += strlen(", %p_");
    const size_t length = strcspn(second, ",)");
    if (length == 0 || length >= sizeof argument) return false;
    memcpy(argument, second, length);
    argument[length] = '\0';
    bool found = false;
    for (const char *at = strchr(node->scopes, '\''); at; at = strchr(at, '\'')) { /* 'a', 'a.b', ...: the longest that fits is the last */
        const size_t bytes = strcspn(++at, "'");
        if (bytes == 0 || bytes + 1 + length >= sizeof mangled || at[bytes] == '\0') {
            at += bytes + (at[bytes] != '\0');
            continue;
        }
        for (size_t i = 0; i < bytes; i++)
            mangled[i] = (char)(at[i] == '.' ? '_' : at[i]);
        if (bytes + 1 < length && memcmp(mangled, argument, bytes) == 0 && argument[bytes] == '_') {
            snprintf(name, QS_ONNX_MAX_NAME, "%.*s.%s", (int)bytes, at, argument + bytes + 1);
            found = true;
        }
        at += bytes + 1;
    }
    return found;
}

/* Whether a path is the text, where that has underlines in the places of dots, and nothing follows but an end of an argument. */
static bool is_mangled(const char *path, const char *text) {
    for (; *path; path++, text++)
        if (*text != *path && !(*path == '.' && *text == '_')) return false;
    return *text == ',' || *text == ')';
}

/* The same by the bias, the third argument, where the file has one: its name says where the dots are. */
static void name_by_argument(qs__import *one, const qs_onnx_node *node, char name[QS_ONNX_MAX_NAME]) {
    char argument[QS_ONNX_MAX_NAME], found[QS_ONNX_MAX_NAME];
    const char *weights = strstr(node->call, ", %p_"), *bias = weights ? strstr(weights + 1, ", %p_") : NULL;
    int64_t value;
    if (!bias || !names_know(one)) return;
    bias += strlen(", %p_");
    const size_t length = strcspn(bias, ",)");
    if (bias[length] == '\0' || length >= sizeof argument) return;
    memcpy(argument, bias, length);
    argument[length] = '\0';
    if (!qs__names_get(&one->mangled, argument, &value) || !weight_beside(one->value[value].name, found)) return;
    if (is_mangled(found, weights + strlen(", %p_"))) memcpy(name, found, sizeof found);
}

/* ---- The old exporter ----------------------------------------------------------------------------------------------------- */

/* By the bias of so many outputs that is added to the product, and to nothing else. */
static bool name_by_bias(qs__import *one, const qs__node *node, int64_t outputs, char name[QS_ONNX_MAX_NAME]) {
    const int product = node->output[0];
    if (product < 0 || one->value[product].readers != 1 || one->value[product].reader < 0) return false;
    const qs__node *sum = &one->node[one->value[product].reader];
    if (strcmp(sum->op, "Add") != 0 || sum->inputs != 2) return false;
    const qs__value *bias = qs__read_by(one, sum, sum->input[0] == product);
    return bias && bias->kind == QS__NUMBERS && bias->parameter && bias->tensor->count == outputs && weight_beside(bias->name, name);
}

/* By the modules that the node stands in: each part of its name is a module inside of the one before, but for children of a Sequential,
 * which say their parent again: "/features/features.0/fc/MatMul". */
static bool name_by_modules(const qs__node *node, char name[QS_ONNX_MAX_NAME]) {
    const char *at = node->from->name, *last = strrchr(at, '/');
    size_t used = 0, part = 0; /* of `name`; where its last part begins */
    if (*at != '/' || !last || last == at || strncmp(last + 1, node->op, strlen(node->op)) != 0) return false;
    while (at < last) {
        const char *module = at + 1;
        const size_t length = strcspn(module, "/"), before = used - part;
        const bool again = used > 0 && length > before && strncmp(module, name + part, before) == 0 && module[before] == '.';
        if (used + 1 + length + sizeof ".weight" > QS_ONNX_MAX_NAME) return false;
        if (!again) part = used > 0 ? used + 1 : 0;
        if (!again && used > 0) name[used] = '.';
        memcpy(name + part, module, length);
        used = part + length;
        at = module + length;
    }
    memcpy(name + used, ".weight", sizeof ".weight");
    return true;
}

/* ---- Both ----------------------------------------------------------------------------------------------------------------- */

void qs__torch_weights(qs__import *one, const qs__node *node, qs__value *matrix) {
    char name[QS_ONNX_MAX_NAME];
    const char *called = matrix->from ? matrix->from : matrix->name;
    int64_t taken;
    if (!matrix->parameter || qs__rank(matrix) != 2) return;
    if (strncmp(called, "val_", 4) == 0) {
        if (!name_by_call(node->from, name)) return;
        name_by_argument(one, node->from, name);
    } else if (strncmp(called, "onnx::MatMul_", 13) != 0 || !names_know(one) ||
               !(name_by_bias(one, node, qs__extent(matrix, 1), name) || name_by_modules(node, name)) ||
               qs__names_get(&one->named, name, &taken))
        return;
    char *kept = qs__keep_memory(one, strlen(name) + 1, 1);
    if (!kept) return;
    memcpy(kept, name, strlen(name) + 1);
    matrix->from = kept;
    matrix->turned = true;
    qs__note(one, "matrices that the exporter turned and named by numbers have the names and the order of the module again");
}
