// SPDX-License-Identifier: Apache-2.0
/* Operators that exporters wrote as several nodes, found again as patterns over the folded graph: one function a rule. Each restores an
 * operator that later opsets of ONNX have. */
#include "fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

qs__node *qs__maker(qs__import *one, int value, const char *op) {
    const int at = value >= 0 ? one->value[value].producer : -1;
    return at >= 0 && !one->node[at].dead && qs__is_standard(&one->node[at]) && strcmp(one->node[at].op, op) == 0 ? &one->node[at] : NULL;
}

/* A number of the file. */
static bool number_of(qs__import *one, int value, double *out) {
    return value >= 0 && qs__one_number(one, &one->value[value], out);
}

static bool is_number(qs__import *one, int value, double wanted, double tolerance) {
    double number;
    return number_of(one, value, &number) && fabs(number - wanted) <= tolerance * fabs(wanted);
}

static bool is_array(const qs__import *one, int value) {
    return value >= 0 && one->value[value].kind == QS__NUMBERS && one->value[value].tensor->count > 1;
}

/* The other input of a node of two, where one of them is that; -1 else. */
static int other_of(const qs__node *node, int value) {
    if (node->inputs != 2) return -1;
    return node->input[0] == value ? node->input[1] : node->input[1] == value ? node->input[0] : -1;
}

/* Of a node of two inputs the number, and the other input; -1: neither is one. */
static int beside_number(qs__import *one, const qs__node *node, double *number) {
    if (node->inputs != 2) return -1;
    if (number_of(one, node->input[1], number)) return node->input[0];
    return number_of(one, node->input[0], number) ? node->input[1] : -1;
}

/* Whether a reduction goes over the last axis alone. */
static bool over_last(qs__import *one, const qs__node *node) {
    int64_t axes[QS__MOST_RANK], extent[QS__MOST_RANK];
    const int rank = qs__extents_of(one, node->input[0], extent);
    return qs__int_list(one, node, "axes", 1, axes) == 1 && rank > 1 && (axes[0] == -1 || axes[0] == rank - 1);
}

void qs__node_replace(qs__node *node, const char *op, int inputs, const int *input, double setting) {
    memcpy(node->own, input, (size_t)inputs * sizeof *input);
    node->input = node->own;
    node->inputs = inputs;
    node->op = op;
    node->setting = setting;
    node->fused = true;
}

/* The factors of a product that only it reads, those of its factors put in their places. */
enum { MOST_FACTORS = 6 };
static int factors_of(qs__import *one, const qs__node *node, int *factor, double *constant) {
    int count = 0, open[2 * MOST_FACTORS], left = 0;
    *constant = 1;
    for (int i = 0; i < 2; i++)
        open[left++] = node->input[i];
    while (left > 0) {
        const int value = open[--left];
        double number;
        const qs__node *product = qs__maker(one, value, "Mul"), *quotient = qs__maker(one, value, "Div");
        if (number_of(one, value, &number))
            *constant *= number;
        else if (product && product->inputs == 2 && one->value[value].readers == 1 && left + 2 <= 2 * MOST_FACTORS)
            open[left++] = product->input[0], open[left++] = product->input[1];
        else if (quotient && number_of(one, quotient->input[1], &number) && one->value[value].readers == 1)
            *constant /= number, open[left++] = quotient->input[0];
        else if (count == MOST_FACTORS)
            return -1;
        else
            factor[count++] = value;
    }
    return count;
}

/* ---- Normalisations of positions ------------------------------------------------------------------------------------------ */

/* mean((x - mean(x))²) + epsilon, or of x itself, under a root: *x and *epsilon; `centred` is x - mean(x), -1: x itself. */
static bool spread_of(qs__import *one, int value, int centred, double *epsilon) {
    const qs__node *root = qs__maker(one, value, "Sqrt"), *sum, *mean, *square;
    if (!root) return false;
    sum = qs__maker(one, root->input[0], "Add");
    const int variance = sum ? beside_number(one, sum, epsilon) : -1;
    mean = qs__maker(one, variance, "ReduceMean");
    if (!mean || !over_last(one, mean)) return false;
    if ((square = qs__maker(one, mean->input[0], "Pow")) && is_number(one, square->input[1], 2, 0))
        ;
    else if (!(square = qs__maker(one, mean->input[0], "Mul")) || square->input[0] != square->input[1])
        return false;
    if (square->input[0] == centred) return true;
    /* Some exporters subtract twice. */
    const qs__node *again = qs__maker(one, square->input[0], "Sub"), *first = qs__maker(one, centred, "Sub");
    if (!again || !first || again->input[0] != first->input[0]) return false;
    const qs__node *a = qs__maker(one, again->input[1], "ReduceMean"), *b = qs__maker(one, first->input[1], "ReduceMean");
    return a && b && a->input[0] == b->input[0];
}

/* x, where a value is x - mean(x) over the last axis; -1 else. */
static int centred_of(qs__import *one, int value) {
    const qs__node *difference = qs__maker(one, value, "Sub"),
                   *mean = difference ? qs__maker(one, difference->input[1], "ReduceMean") : NULL;
    return mean && mean->input[0] == difference->input[0] && over_last(one, mean) ? difference->input[0] : -1;
}

/* The value is read by one node alone, which is of that operator and of an array of the file besides. */
static qs__node *reader_with_array(qs__import *one, int value, const char *op, int *array) {
    if (one->value[value].readers != 1) return NULL;
    for (int n = one->value[value].producer + 1; n < one->nodes; n++) {
        qs__node *node = &one->node[n];
        if (node->dead || other_of(node, value) < 0) continue;
        *array = other_of(node, value);
        return strcmp(node->op, op) == 0 && is_array(one, *array) ? node : NULL;
    }
    return NULL;
}

/* (x - mean) / sqrt(var + ε), or x / sqrt(mean(x²) + ε); then scale and shift where they are. */
static void norm_of_positions(qs__import *one, qs__node *node) {
    double epsilon = 0, unit;
    int x = -1, scale = -1, shift = -1;
    int top = -1, root = -1;
    if (strcmp(node->op, "Div") == 0 && node->inputs == 2)
        top = node->input[0], root = node->input[1];
    else if (strcmp(node->op, "Mul") == 0 && node->inputs == 2)
        for (int i = 0; i < 2 && root < 0; i++) {
            const qs__node *inverse = qs__maker(one, node->input[i], "Reciprocal"), *quotient = qs__maker(one, node->input[i], "Div");
            if (inverse) root = inverse->input[0];
            if (quotient && number_of(one, quotient->input[0], &unit) && unit == 1) root = quotient->input[1];
            top = node->input[1 - i];
        }
    if (root < 0 || !spread_of(one, root, top, &epsilon)) return;
    x = centred_of(one, top);
    const bool centred = x >= 0;
    qs__node *last = node, *next;
    int array = -1;
    if ((next = reader_with_array(one, last->output[0], "Mul", &array))) last = next, scale = array;
    if (centred && (next = reader_with_array(one, last->output[0], "Add", &array))) last = next, shift = array;
    const int input[] = {centred ? x : top, scale, shift};
    qs__node_replace(last, centred ? "LayerNormalization" : "RMSNormalization", 3, input, epsilon);
}

/* Whether an array of the file has that number everywhere. */
static bool is_filled(qs__import *one, int value, double wanted) {
    if (!is_array(one, value)) return false;
    double *all = qs__all_numbers(one, &one->value[value]);
    bool same = all != NULL;
    for (int64_t i = 0; same && i < one->value[value].tensor->count; i++)
        same = all[i] == wanted;
    free(all);
    return same;
}

/* An array of the file, also one that stands there in other extents; -1: it is none. */
static int array_of(qs__import *one, int value) {
    for (const qs__node *seen = qs__maker(one, value, "Reshape"); seen; seen = qs__maker(one, value, "Reshape"))
        value = seen->input[0];
    return is_array(one, value) ? value : -1;
}

/* PyTorch: groups of channels seen as channels, normalised over their positions, seen as they were, then scale and shift. */
static void norm_of_groups(qs__import *one, qs__node *node) {
    if (strcmp(node->op, "Add") != 0 || node->inputs != 2) return;
    for (int i = 0; i < 2; i++) {
        const int shift = array_of(one, node->input[1 - i]);
        const qs__node *scaled = qs__maker(one, node->input[i], "Mul");
        if (!scaled || scaled->inputs != 2 || shift < 0) continue;
        const int first = array_of(one, scaled->input[0]), scale = first >= 0 ? first : array_of(one, scaled->input[1]);
        const qs__node *back = qs__maker(one, scaled->input[first >= 0], "Reshape"),
                       *norm = back ? qs__maker(one, back->input[0], "InstanceNormalization") : NULL;
        const qs__node *seen = norm ? qs__maker(one, norm->input[0], "Reshape") : NULL;
        int64_t before[QS__MOST_RANK], after[QS__MOST_RANK];
        if (!seen || scale < 0 || !is_filled(one, norm->input[1], 1) || !is_filled(one, norm->input[2], 0)) continue;
        const int rank = qs__extents_of(one, seen->input[0], before);
        if (rank < 3 || qs__extents_of(one, back->output[0], after) != rank || memcmp(before, after, (size_t)rank * sizeof *before) != 0)
            continue;
        if (one->value[shift].tensor->count != before[1] || one->value[scale].tensor->count != before[1]) continue;
        const int input[] = {seen->input[0], scale, shift};
        const double epsilon = qs__float(one, norm, "epsilon", 1e-5);
        node->groups = one->value[norm->input[1]].tensor->count;
        qs__node_replace(node, "GroupNormalization", 3, input, epsilon);
        return;
    }
}

/* Keras: x m + (shift - mean m) with m = scale / sqrt(var + ε). */
static void norm_of_keras(qs__import *one, qs__node *node) {
    double epsilon = 0;
    if (strcmp(node->op, "Add") != 0 || node->inputs != 2) return;
    for (int i = 0; i < 2; i++) {
        const qs__node *scaled = qs__maker(one, node->input[i], "Mul"), *rest = qs__maker(one, node->input[1 - i], "Sub");
        const qs__node *moved = rest && is_array(one, rest->input[0]) ? qs__maker(one, rest->input[1], "Mul") : NULL;
        if (!scaled || !moved || scaled->inputs != 2 || moved->inputs != 2) continue;
        for (int k = 0; k < 2; k++) {
            const int x = scaled->input[k], factor = scaled->input[1 - k], middle = other_of(moved, factor);
            const qs__node *mean = middle >= 0 ? qs__maker(one, middle, "ReduceMean") : NULL, *product = qs__maker(one, factor, "Mul");
            if (!mean || mean->input[0] != x || !over_last(one, mean) || !product || product->inputs != 2) continue;
            const int array = is_array(one, product->input[0]) ? 0 : 1;
            const qs__node *inverse = qs__maker(one, product->input[1 - array], "Reciprocal");
            const qs__node *root = inverse ? qs__maker(one, inverse->input[0], "Sqrt") : NULL,
                           *sum = root ? qs__maker(one, root->input[0], "Add") : NULL;
            const int variance = sum ? beside_number(one, sum, &epsilon) : -1;
            const qs__node *square = qs__maker(one, variance, "ReduceMean");
            const qs__node *squared = square && over_last(one, square) ? qs__maker(one, square->input[0], "Mul") : NULL;
            if (!is_array(one, product->input[array]) || !squared || squared->input[0] != squared->input[1] ||
                centred_of(one, squared->input[0]) != x)
                continue;
            const int input[] = {x, product->input[array], rest->input[0]};
            qs__node_replace(node, "LayerNormalization", 3, input, epsilon);
            return;
        }
    }
}

/* ---- Activations ---------------------------------------------------------------------------------------------------------- */

/* x, where the value is 1 + erf(x / sqrt(2)). */
static int error_of(qs__import *one, int value) {
    double number;
    const qs__node *sum = qs__maker(one, value, "Add");
    const int inner = sum ? beside_number(one, sum, &number) : -1;
    const qs__node *erf = inner >= 0 && number == 1 ? qs__maker(one, inner, "Erf") : NULL, *scaled;
    if (!erf) return -1;
    if ((scaled = qs__maker(one, erf->input[0], "Div")) && is_number(one, scaled->input[1], sqrt(2), 1e-3)) return scaled->input[0];
    scaled = qs__maker(one, erf->input[0], "Mul");
    const int x = scaled ? beside_number(one, scaled, &number) : -1;
    return x >= 0 && fabs(number - sqrt(0.5)) < 1e-3 ? x : -1;
}

/* Whether a value is x³ times a factor. */
static bool is_cube(qs__import *one, int value, int x, double factor) {
    int part[MOST_FACTORS];
    double constant;
    const qs__node *product = qs__maker(one, value, "Mul");
    const int parts = product && product->inputs == 2 ? factors_of(one, product, part, &constant) : 0;
    if (parts < 1 || fabs(constant - factor) > 1e-3 * factor) return false;
    int power = 0;
    for (int i = 0; i < parts; i++) {
        double exponent;
        const qs__node *raised = qs__maker(one, part[i], "Pow");
        if (part[i] == x)
            power++;
        else if (raised && raised->input[0] == x && number_of(one, raised->input[1], &exponent))
            power += (int)exponent;
        else
            return false;
    }
    return power == 3;
}

/* x, where the value is 1 + tanh(sqrt(2/π) (x + 0.044715 x³)). */
static int tanh_of(qs__import *one, int value) {
    double number;
    int part[MOST_FACTORS];
    const qs__node *sum = qs__maker(one, value, "Add");
    const int inner = sum ? beside_number(one, sum, &number) : -1;
    const qs__node *tanh = inner >= 0 && number == 1 ? qs__maker(one, inner, "Tanh") : NULL;
    const qs__node *product = tanh ? qs__maker(one, tanh->input[0], "Mul") : NULL;
    if (!product || product->inputs != 2) return -1;
    const int parts = factors_of(one, product, part, &number);
    if (parts < 1 || fabs(number - 0.7978845608) > 1e-3) return -1;
    const qs__node *cubic = parts == 1 ? qs__maker(one, part[0], "Add") : NULL;
    for (int i = 0; cubic && i < 2; i++)
        if (is_cube(one, cubic->input[1 - i], cubic->input[i], 0.044715)) return cubic->input[i];
    return -1;
}

/* Products of x with a function of it. */
static void gated(qs__import *one, qs__node *node) {
    int part[MOST_FACTORS];
    double constant;
    if (strcmp(node->op, "Mul") != 0 || node->inputs != 2) return;
    const int parts = factors_of(one, node, part, &constant);
    if (parts != 2) return;
    for (int i = 0; i < 2; i++) {
        const int x = part[1 - i], of = part[i];
        const qs__node *sigmoid = qs__maker(one, of, "Sigmoid"), *hard = qs__maker(one, of, "HardSigmoid"),
                       *tanh = qs__maker(one, of, "Tanh"), *clip = qs__maker(one, of, "Clip");
        const qs__node *plus = tanh ? qs__maker(one, tanh->input[0], "Softplus") : NULL;
        double term = 0;
        if (constant == 0.5 && error_of(one, of) == x)
            qs__node_replace(node, "Gelu", 1, &x, 0);
        else if (constant == 0.5 && tanh_of(one, of) == x)
            qs__node_replace(node, "Gelu", 1, &x, 1);
        else if (constant == 1 && sigmoid && sigmoid->input[0] == x)
            qs__node_replace(node, "Swish", 1, &x, 0);
        else if (constant == 1 && plus && plus->input[0] == x)
            qs__node_replace(node, "Mish", 1, &x, 0);
        else if (constant == 1 && hard && hard->input[0] == x && fabs(qs__float(one, hard, "alpha", 0.2) - 1.0 / 6) < 1e-4 &&
                 qs__float(one, hard, "beta", 0.5) == 0.5)
            qs__node_replace(node, "HardSwish", 1, &x, 0);
        else if (clip && fabs(constant - 1.0 / 6) < 1e-4) { /* x (x + 3) between 0 and 6 over 6 */
            const qs__node *shifted = qs__maker(one, clip->input[0], "Add");
            const bool bounds = clip->inputs >= 3 ? is_number(one, clip->input[1], 0, 0) && is_number(one, clip->input[2], 6, 0)
                                                  : qs__float(one, clip, "min", -1) == 0 && qs__float(one, clip, "max", 0) == 6;
            if (!shifted || beside_number(one, shifted, &term) != x || term != 3 || !bounds) continue;
            qs__node_replace(node, "HardSwish", 1, &x, 0);
        } else
            continue;
        return;
    }
}

/* x (x + 3) between 0 and 6, divided by 6 at the end. */
static void gated_quotient(qs__import *one, qs__node *node) {
    qs__node *product = strcmp(node->op, "Div") == 0 && is_number(one, node->input[1], 6, 0) ? qs__maker(one, node->input[0], "Mul") : NULL;
    if (!product || product->inputs != 2) return;
    for (int i = 0; i < 2; i++) {
        double term = 0;
        const int x = product->input[1 - i];
        const qs__node *clip = qs__maker(one, product->input[i], "Clip"), *shifted = clip ? qs__maker(one, clip->input[0], "Add") : NULL;
        if (!shifted || beside_number(one, shifted, &term) != x || term != 3) continue;
        if (clip->inputs >= 3 ? !(is_number(one, clip->input[1], 0, 0) && is_number(one, clip->input[2], 6, 0))
                              : qs__float(one, clip, "max", 0) != 6)
            continue;
        qs__node_replace(node, "HardSwish", 1, &x, 0);
        return;
    }
}

/* ---- Attention --------------------------------------------------------------------------------------------------------------- */

/* Shares of a softmax whose scores stand where a mask says so, else a number that hides them, times that mask: of a query that sees nothing
 * they are 0, as ours are by themselves. Our own export writes it. */
static void masked_shares(qs__import *one, qs__node *node) {
    double hiding;
    if (strcmp(node->op, "Mul") != 0 || node->inputs != 2) return;
    for (int i = 0; i < 2; i++) {
        const int shares = node->input[i];
        const qs__node *softmax = qs__maker(one, shares, "Softmax"), *seen = qs__maker(one, node->input[1 - i], "Cast");
        const qs__node *hidden = softmax ? qs__maker(one, softmax->input[0], "Where") : NULL;
        if (!seen || !hidden || hidden->inputs != 3 || hidden->input[0] != seen->input[0]) continue;
        if (!number_of(one, hidden->input[2], &hiding)) continue;
        qs__node_replace(node, "Identity", 1, &shares, 0);
        return;
    }
}

/* Products of heads that share keys, seen as rows one behind the other for each key head and as heads again. Our own export writes it. */
static void shared_keys(qs__import *one, qs__node *node) {
    int64_t apart[QS__MOST_RANK], rows[QS__MOST_RANK], keys[QS__MOST_RANK], out[QS__MOST_RANK];
    const qs__node *product = strcmp(node->op, "Reshape") == 0 ? qs__maker(one, node->input[0], "MatMul") : NULL;
    const qs__node *seen = product && one->value[node->input[0]].readers == 1 ? qs__maker(one, product->input[0], "Reshape") : NULL;
    if (!seen || product->fused || one->value[product->input[1]].kind == QS__NUMBERS) return;
    if (qs__extents_of(one, seen->input[0], apart) != 4 || qs__extents_of(one, product->input[0], rows) != 4 ||
        qs__extents_of(one, product->input[1], keys) != 4 || qs__extents_of(one, node->output[0], out) != 4)
        return;
    if (rows[1] < 1 || apart[1] % rows[1] != 0 || apart[1] == rows[1] || rows[2] != apart[1] / rows[1] * apart[2] || keys[1] != rows[1] ||
        rows[3] != apart[3] || out[1] != apart[1] || out[2] != apart[2] || out[3] != keys[3])
        return;
    const int input[] = {seen->input[0], product->input[1]};
    qs__node_replace(node, "MatMul", 2, input, 0);
}

/* ---- All of them ---------------------------------------------------------------------------------------------------------- */

void qs__readers_count(qs__import *one) {
    for (int v = 0; v < one->values; v++)
        one->value[v].readers = one->value[v].is_output, one->value[v].reader = -1;
    for (int n = one->nodes - 1; n >= 0; n--) {
        qs__node *node = &one->node[n];
        bool read = false;
        for (int i = 0; i < node->outputs; i++)
            read = read || (node->output[i] >= 0 && one->value[node->output[i]].readers > 0);
        node->dead = !read;
        for (int i = 0; i < node->inputs && read; i++)
            if (node->input[i] >= 0) one->value[node->input[i]].readers++, one->value[node->input[i]].reader = n;
    }
}

void qs__fuse(qs__import *one) {
    static void (*const rules[])(qs__import *, qs__node *) = {norm_of_keras,  norm_of_groups, norm_of_positions, gated,
                                                              gated_quotient, masked_shares,  shared_keys};
    qs__readers_count(one);
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        for (int n = 0; n < one->nodes && one->status == QS_OK; n++)
            if (!one->node[n].dead && !one->node[n].fused) rules[r](one, &one->node[n]);
        qs__readers_count(one);
    }
}
