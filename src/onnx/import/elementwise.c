// SPDX-License-Identifier: Apache-2.0
/* Operators of one value, of a value and numbers of the file, and of two values, with broadcasting. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"

/* ---- Functions of one number ---------------------------------------------------------------------------------------------- */

/* Appends an operator that keeps the shape. */
static int unary(qs__import *one, const qs__node *node, const char *op, qs__value *x) {
    const int made = qs__make(one, op, NULL, 1, &x->source, x->shape);
    qs__flow(qs__made_by(one, node, 0), made, x->shape, &x->layout);
    return made;
}

static void simple(qs__import *one, const qs__node *node, const char *op) {
    qs__value x;
    if (qs__flow_in(one, node, 0, &x)) unary(one, node, op, &x);
}

/* One with a number that the file gives as an attribute. */
static void with_attribute(qs__import *one, const qs__node *node, const char *op, const char *attribute, double standard) {
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int made = unary(one, node, op, &x);
    qs__set(one, made, attribute, qs__float(one, node, attribute, standard));
}

void qs__import_Relu(qs__import *one, const qs__node *node) {
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int made = unary(one, node, "relu", &x);
    if (node->fused && node->setting > 0) qs__set(one, made, "ceiling", node->setting); /* of what codes hold (codes.c) */
}
void qs__import_Sigmoid(qs__import *one, const qs__node *node) {
    simple(one, node, "sigmoid");
}
void qs__import_Tanh(qs__import *one, const qs__node *node) {
    simple(one, node, "tanh");
}
void qs__import_HardSwish(qs__import *one, const qs__node *node) {
    simple(one, node, "hard_swish");
}
void qs__import_Swish(qs__import *one, const qs__node *node) {
    simple(one, node, "silu");
}
void qs__import_Mish(qs__import *one, const qs__node *node) {
    simple(one, node, "mish");
}
void qs__import_Softsign(qs__import *one, const qs__node *node) {
    simple(one, node, "softsign");
}
void qs__import_Celu(qs__import *one, const qs__node *node) {
    with_attribute(one, node, "celu", "alpha", 1);
}
void qs__import_Softplus(qs__import *one, const qs__node *node) {
    simple(one, node, "softplus");
}
void qs__import_Exp(qs__import *one, const qs__node *node) {
    simple(one, node, "exp");
}
void qs__import_Log(qs__import *one, const qs__node *node) {
    simple(one, node, "log");
}
void qs__import_Sqrt(qs__import *one, const qs__node *node) {
    simple(one, node, "sqrt");
}
void qs__import_Abs(qs__import *one, const qs__node *node) {
    simple(one, node, "abs");
}
void qs__import_Erf(qs__import *one, const qs__node *node) {
    simple(one, node, "erf");
}
void qs__import_Reciprocal(qs__import *one, const qs__node *node) {
    simple(one, node, "reciprocal");
}
void qs__import_LeakyRelu(qs__import *one, const qs__node *node) {
    with_attribute(one, node, "leaky_relu", "alpha", 0.01);
}
void qs__import_Elu(qs__import *one, const qs__node *node) {
    with_attribute(one, node, "elu", "alpha", 1);
}

void qs__import_HardSigmoid(qs__import *one, const qs__node *node) {
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int made = unary(one, node, "hard_sigmoid", &x);
    qs__set(one, made, "alpha", qs__float(one, node, "alpha", 0.2));
    qs__set(one, made, "beta", qs__float(one, node, "beta", 0.5));
}

void qs__import_Gelu(qs__import *one, const qs__node *node) {
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const char *given = node->fused ? "none" : qs__word(one, node, "approximate", "none");
    const bool tanh = node->fused ? node->setting == 1 : given[0] == 't';
    const int made = unary(one, node, "gelu", &x);
    if (tanh) qs__set(one, made, "approximate", 1);
}

/* factor x + term; x itself where that is it. */
static void affine(qs__import *one, const qs__node *node, qs__value *x, double factor, double term) {
    if (factor == 1 && term == 0) {
        qs__pass_on(one, node, x);
        return;
    }
    if (factor == 0) {
        qs__refuse_node(one, "it multiplies by 0");
        return;
    }
    const int made = unary(one, node, "affine", x);
    if (factor != 1) qs__set(one, made, "factor", factor);
    if (term != 0) qs__set(one, made, "term", term);
}

void qs__import_Neg(qs__import *one, const qs__node *node) {
    qs__value x;
    if (qs__flow_in(one, node, 0, &x)) affine(one, node, &x, -1, 0);
}

void qs__import_Selu(qs__import *one, const qs__node *node) {
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int made = unary(one, node, "selu", &x);
    qs__set(one, made, "alpha", qs__float(one, node, "alpha", 1.67326319217681884765625));
    qs__set(one, made, "gamma", qs__float(one, node, "gamma", 1.05070102214813232421875));
}

/* A clip between numbers, of which one side or both may be missing. */
static void clip(qs__import *one, const qs__node *node, qs__value *x, double least, double most) {
    if (least <= -(double)FLT_MAX && most >= (double)FLT_MAX) {
        qs__pass_on(one, node, x);
        return;
    }
    const bool positive = least == 0 && most != 0; /* relu takes a ceiling of 0 for none; clip refuses it */
    const int made = unary(one, node, positive ? "relu" : "clip", x);
    if (positive) {
        if (most < (double)FLT_MAX) qs__set(one, made, "ceiling", most);
        return;
    }
    qs__set(one, made, "least", fmax(least, -(double)FLT_MAX));
    qs__set(one, made, "most", fmin(most, (double)FLT_MAX));
}

void qs__import_Clip(qs__import *one, const qs__node *node) {
    qs__value x;
    double bound[2] = {-INFINITY, INFINITY};
    if (!qs__flow_in(one, node, 0, &x)) return;
    bound[0] = qs__float(one, node, "min", bound[0]);
    bound[1] = qs__float(one, node, "max", bound[1]);
    for (int i = 0; i < 2; i++)
        if (qs__read_by(one, node, 1 + i) && !qs__one_number(one, qs__read_by(one, node, 1 + i), &bound[i])) {
            qs__refuse_node(one, "its bounds are not numbers of the file");
            return;
        }
    clip(one, node, &x, bound[0], bound[1]);
}

/* ---- A value and numbers -------------------------------------------------------------------------------------------------- */

typedef enum pair { ADD, SUBTRACT, MULTIPLY, DIVIDE, MINIMUM, MAXIMUM, POWER, SLOPE } pair;

/* With one number: x pair number, or the other way round. */
static void with_number(qs__import *one, const qs__node *node, pair kind, qs__value *x, double number, bool first) {
    int made;
    switch (kind) {
    case ADD:
        affine(one, node, x, 1, number);
        return;
    case SUBTRACT:
        affine(one, node, x, first ? 1 : -1, first ? -number : number);
        return;
    case MULTIPLY:
        affine(one, node, x, number, 0);
        return;
    case DIVIDE:
        if (first && number == 0) {
            qs__refuse_node(one, "it divides by 0");
            return;
        }
        if (!first) x->source = unary(one, node, "reciprocal", x);
        affine(one, node, x, first ? 1 / number : number, 0);
        return;
    case MINIMUM:
        clip(one, node, x, -INFINITY, number);
        return;
    case MAXIMUM:
        clip(one, node, x, number, INFINITY);
        return;
    case POWER:
        if (!first) {
            qs__refuse_node(one, "its exponent is no number of the file");
            return;
        }
        if (number == 1)
            qs__pass_on(one, node, x);
        else if (number == 0.5)
            unary(one, node, "sqrt", x);
        else
            qs__set(one, unary(one, node, "power", x), "exponent", number);
        return;
    case SLOPE:
        made = unary(one, node, "leaky_relu", x);
        qs__set(one, made, "alpha", number);
        return;
    }
}

/* Puts axes of one index before the others until there are `rank`. */
static void widen(qs__value *value, int rank) {
    while (value->layout.axes < rank)
        qs__layout_insert(&value->layout, 0);
}

/* A bias of the product that made the value, which has none yet and nobody else reads. */
static bool is_bias(qs__import *one, const qs__value *x, const qs__value *numbers, const qs__layout *fine) {
    const qs_graph_operator *row = x->source >= 0 ? qs__row(one, x->source) : NULL;
    if (!row || x->readers != 1 || row->bias || row->outputs == 0 || numbers->tensor->count != row->outputs) return false;
    if (!qs__is_of(one, x->source, "conv2d") && !qs__is_of(one, x->source, "linear")) return false;
    /* The numbers go along the factors that are the last ones in memory, in their order. */
    int64_t channels = 1;
    int f = fine->factors;
    while (f > 0 && channels < row->outputs)
        channels *= fine->factor[--f].extent;
    return channels == row->outputs && f + numbers->layout.factors == fine->factors;
}

/* The factors of x that the numbers vary along, as a set; both layouts are aligned. Which of x's factors a factor of the numbers is. */
static int spread(const qs__layout *x, const qs__layout *numbers, int *of) {
    int count = 0;
    for (int a = 0; a < x->axes; a++)
        for (int i = 0; i < numbers->axis[a].count; i++, count++)
            of[(int)numbers->axis[a].at[i]] = x->axis[a].at[i];
    return count;
}

/* Of gain, offset and prelu. */
static const char *parameter_of(pair kind) {
    return kind == ADD ? "shift" : "scale";
}

/* Applies numbers that vary along some factors of x: `over` channels (those last in memory), positions (those first), or all. */
static void apply(qs__import *one, const qs__node *node, pair kind, qs__value *x, qs__value *numbers) {
    static const char *const ops[] = {[ADD] = "offset", [MULTIPLY] = "gain", [SLOPE] = "prelu"};
    int of[QS__MOST_FACTORS], order[QS__MOST_FACTORS];
    bool along[QS__MOST_FACTORS] = {false};
    const int count = spread(&x->layout, &numbers->layout, of), factors = x->layout.factors;
    for (int i = 0; i < count; i++)
        along[of[i]] = true;
    int first = 0, last = 0; /* how many of the first, or the last, factors behind the batch are along */
    while (first + 1 < factors && along[first + 1])
        first++;
    while (last + 1 < factors && along[factors - 1 - last])
        last++;
    if (last != count && first != count) { /* brings them behind the others */
        int place = 0;
        for (int f = 0; f < factors; f++)
            if (!along[f]) order[place++] = f;
        for (int f = 0; f < factors; f++)
            if (along[f]) order[place++] = f;
        qs__arrange(one, x, order);
        first = 0;
        last = count;
        spread(&x->layout, &numbers->layout, of);
    }
    /* Numbers in the order of memory. */
    qs__layout ordered = {.factors = numbers->layout.factors, .axes = 0};
    memcpy(ordered.factor, numbers->layout.factor, sizeof ordered.factor);
    for (int f = 1; f < factors && ordered.axes < QS__MOST_RANK; f++)
        for (int i = 0; i < count; i++)
            if (of[i] == f) ordered.axis[ordered.axes++] = (qs__axis_parts){1, {(signed char)i}};
    const bool all = count > 0 && count + 1 == factors, single = count == 0, channels = last == count && !all && !single;
    const int64_t values = qs__layout_count(&ordered);
    const bool one_row = channels && numbers->rows != 0 && values == numbers->tensor->dim[1]; /* of a table, for all positions */
    qs_shape shape = x->shape;
    int source = x->source;
    if (one_row) {
        shape = qs_shape_of(3, (int64_t)1, values, qs__layout_count(&x->layout) / values);
        source = qs__seen_as(one, x, &shape);
    } else if (channels || all)
        source = qs__seen(one, x, all ? x->shape.dim[1] : values, &shape);
    else if (!single)
        source = qs__seen(one, x, qs__layout_count(&x->layout) / values, &shape);
    numbers->layout = ordered;
    if ((all || one_row) && kind == ADD && numbers->parameter && shape.axes == 3 && numbers->rows != 0) {
        const int made = qs__make(one, "positions", numbers, 1, &source, shape);
        qs__set(one, made, "vocabulary", (double)numbers->rows);
        if (numbers->same_row || one_row) qs__set(one, made, "sequences", (double)shape.dim[2]); /* of one position each */
        qs__row(one, made)->offset = (int)numbers->first;
        qs__give(one, made, "weights", numbers);
        qs__flow(qs__made_by(one, node, 0), made, shape, &x->layout);
        return;
    }
    if (numbers->rows != 0) {
        qs__refuse_node(one, "rows of %s, which are not added to all positions of a value", numbers->from);
        return;
    }
    const int made = qs__make(one, ops[kind], numbers->parameter ? numbers : NULL, 1, &source, shape);
    if (!channels) qs__set(one, made, "over", all ? 1 : single ? 2 : 3);
    if (all && shape.axes == 2) qs__row(one, made)->settings = 0; /* all are channels */
    qs__give(one, made, parameter_of(kind), numbers);
    qs__flow(qs__made_by(one, node, 0), made, shape, &x->layout);
}

/* The values of numbers, each changed, as a constant that the import owns. */
static qs__value changed(qs__import *one, const qs__value *numbers, bool inverse) {
    qs__value out = *numbers;
    float *values = NULL;
    qs_onnx_tensor *tensor = qs__tensor_make(one, numbers->tensor, &values);
    for (int64_t i = 0; tensor && i < tensor->count; i++)
        values[i] = inverse ? 1 / values[i] : -values[i];
    if (tensor) out.tensor = tensor;
    out.parameter = false;
    return out;
}

static bool has_zero(qs__import *one, const qs__value *numbers) {
    double *all = qs__all_numbers(one, numbers);
    bool found = false;
    for (int64_t i = 0; all && i < numbers->tensor->count && !found; i++)
        found = all[i] == 0;
    free(all);
    return found;
}

static void with_numbers(qs__import *one, const qs__node *node, pair kind, qs__value *x, const qs__value *given, bool first) {
    qs__value numbers = *given;
    const int rank = qs__rank(x) > qs__rank(&numbers) ? qs__rank(x) : qs__rank(&numbers);
    widen(x, rank);
    widen(&numbers, rank);
    for (int a = 0; a < rank; a++)
        if (qs__extent(&numbers, a) > 1 && qs__extent(x, a) == 1) {
            qs__refuse_node(one, "numbers of the file that are wider than the value, %lld along axis %d",
                            (long long)qs__extent(&numbers, a), a);
            return;
        }
    qs__layout_merge(&x->layout);
    if (numbers.rows == 0) qs__layout_merge(&numbers.layout);
    qs__layout fine = x->layout;
    if (!qs__layout_align(&fine, &numbers.layout)) {
        qs__refuse_node(one, "extents of its inputs do not fit");
        return;
    }
    if (kind == ADD && is_bias(one, x, &numbers, &fine)) {
        qs__row(one, x->source)->bias = true;
        qs__give(one, x->source, "bias", &numbers);
        qs__pass_on(one, node, x);
        return;
    }
    x->layout = fine;
    if (kind == SUBTRACT && first) {
        numbers = changed(one, &numbers, false);
        if (given->parameter) qs__note(one, "%s is subtracted: it is kept as a constant", given->name);
        kind = ADD;
    } else if (kind == SUBTRACT) {
        const int negative = qs__make(one, "affine", NULL, 1, &x->source, x->shape);
        qs__set(one, negative, "factor", -1);
        x->source = negative;
        kind = ADD;
    } else if (kind == DIVIDE && first) {
        if (has_zero(one, &numbers)) {
            qs__refuse_node(one, "it divides by numbers of the file of which some are 0");
            return;
        }
        numbers = changed(one, &numbers, true);
        if (given->parameter) qs__note(one, "%s is divided by: it is kept as a constant", given->name);
        kind = MULTIPLY;
    } else if (kind == DIVIDE) {
        x->source = qs__make(one, "reciprocal", NULL, 1, &x->source, x->shape);
        kind = MULTIPLY;
    }
    if (kind != ADD && kind != MULTIPLY && kind != SLOPE) {
        qs__refuse_node(one, "with an array of the file");
        return;
    }
    apply(one, node, kind, x, &numbers);
}

/* ---- Two values ----------------------------------------------------------------------------------------------------------- */

/* What is there of an image whose factors are seen as its axes of four, each of them there or not; false: they are no image's, or cut it
 * otherwise. */
static bool of_image(const qs__value *wide, const qs__layout *layout, const bool *has, qs_shape *part) {
    static const int axis[] = {2, 3, 1}; /* in memory: height, width, channels */
    int f = 1;
    *part = qs_shape_of(4, (int64_t)1, (int64_t)1, (int64_t)1, (int64_t)1);
    for (int i = 0; i < 3 && wide->shape.axes == 4; i++) {
        const int first = f;
        int64_t extent = 1;
        for (; f < layout->factors && extent < wide->shape.dim[axis[i]] && has[f] == has[first]; f++)
            extent *= layout->factor[f].extent;
        if (extent != wide->shape.dim[axis[i]]) return false;
        if (f > first && has[first]) part->dim[axis[i]] = extent;
    }
    return f == layout->factors && f > 1;
}

/* The wider value first. Repeats the narrower along axes of one index, seen as an image where the wider one is, else in three groups
 * of factors of which it has all or none: the source of it in the shape `from`, and the shape that it comes to. */
static int repeated(qs__import *one, const qs__value *wide, qs__value *narrow, qs_shape *from, qs_shape *shape) {
    qs__layout a = wide->layout, b = narrow->layout;
    int of[QS__MOST_FACTORS], order[QS__MOST_FACTORS], count = 0;
    bool has[QS__MOST_FACTORS] = {false};
    if (!qs__layout_align(&a, &b)) {
        qs__refuse_node(one, "extents of its inputs do not fit");
        return 0;
    }
    narrow->layout = b;
    spread(&a, &b, of);
    for (int f = 0; f < a.factors; f++)
        for (int i = 0; i < b.factors; i++)
            if (of[i] == f) order[count++] = i, has[f] = true;
    qs__arrange(one, narrow, order);
    if (of_image(wide, &a, has, from)) {
        *shape = wide->shape;
        shape->dim[0] = 1;
        return qs__seen_as(one, narrow, from);
    }
    /* Runs of factors that are there, or are not. */
    int64_t extent[4] = {1, 1, 1, 1};
    bool there[4] = {false};
    int runs = 0;
    for (int f = 1; f < a.factors; f++) {
        if (f == 1 || has[f] != has[f - 1]) there[runs++] = has[f];
        if (runs > 3) {
            qs__refuse_node(one, "a value is repeated along more than two of its axes that do not lie together");
            return 0;
        }
        extent[runs - 1] *= a.factor[f].extent;
    }
    /* Height, width, channels: channels last. */
    int64_t full[3] = {1, 1, 1}, part[3] = {1, 1, 1};
    for (int r = 0; r < runs; r++) {
        const int at = r == runs - 1 ? 2 : r;
        full[at] = extent[r];
        part[at] = there[r] ? extent[r] : 1;
    }
    *from = runs == 3   ? qs_shape_of(4, (int64_t)1, part[2], part[0], part[1])
            : runs == 2 ? qs_shape_of(3, (int64_t)1, part[2], part[0])
                        : qs_shape_of(2, (int64_t)1, part[2]);
    *shape = runs == 3   ? qs_shape_of(4, (int64_t)1, full[2], full[0], full[1])
             : runs == 2 ? qs_shape_of(3, (int64_t)1, full[2], full[0])
                         : qs_shape_of(2, (int64_t)1, full[2]);
    return qs__seen_as(one, narrow, from);
}

qs__value qs__repeated_as(qs__import *one, const qs__value *wide, qs__value *narrow) {
    qs__value out = *wide;
    qs_shape from, shape = {0};
    const int source = repeated(one, wide, narrow, &from, &shape);
    if (shape.axes == 0) return out;
    out.source = qs__make(one, "expand", NULL, 1, &source, shape);
    if (shape.axes > 2) qs__set(one, out.source, "height", (double)shape.dim[2]);
    if (shape.axes > 3) qs__set(one, out.source, "width", (double)shape.dim[3]);
    qs__set(one, out.source, "channels", (double)shape.dim[1]);
    out.shape = shape;
    return out;
}

/* Whether each axis of `narrow` is the other's or 1, and some are 1. */
static bool is_narrower(const qs__value *narrow, const qs__value *wide) {
    bool less = false;
    for (int a = 0; a < qs__rank(wide); a++) {
        const int64_t m = qs__extent(wide, a), n = qs__extent(narrow, a);
        if (n != 1 && n != m) return false;
        less = less || n != m;
    }
    return less;
}

static void with_value(qs__import *one, const qs__node *node, pair kind, qs__value *x, qs__value *y) {
    static const char *const ops[] = {
        [ADD] = "add", [SUBTRACT] = "subtract", [MULTIPLY] = "multiply", [DIVIDE] = "divide", [MINIMUM] = "minimum", [MAXIMUM] = "maximum"};
    const int rank = qs__rank(x) > qs__rank(y) ? qs__rank(x) : qs__rank(y);
    widen(x, rank);
    widen(y, rank);
    qs__layout_merge(&x->layout);
    qs__layout_merge(&y->layout);
    if (kind > MAXIMUM) {
        qs__refuse_node(one, "of two values");
        return;
    }
    if (kind == MULTIPLY && (is_narrower(y, x) || is_narrower(x, y))) {
        qs__value *wide = is_narrower(y, x) ? x : y, *narrow = wide == x ? y : x;
        qs_shape from, shape = {0};
        qs__value as = *wide;
        const int smaller = repeated(one, wide, narrow, &from, &shape);
        if (shape.axes == 0) return;
        const int made = qs__make(one, "gate", NULL, 2, (int[]){qs__seen_as(one, &as, &shape), smaller}, shape);
        qs__flow(qs__made_by(one, node, 0), made, shape, &as.layout);
        return;
    }
    if (is_narrower(x, y))
        *x = qs__repeated_as(one, y, x);
    else if (is_narrower(y, x))
        *y = qs__repeated_as(one, x, y);
    if (one->status != QS_OK) return;
    if (!qs__bring_alike(one, x, y)) {
        qs__refuse_node(one, "extents of its two values do not fit");
        return;
    }
    const int second = qs__seen_as(one, y, &x->shape);
    const int made = qs__make(one, ops[kind], NULL, 2, (int[]){x->source, second}, x->shape);
    qs__flow(qs__made_by(one, node, 0), made, x->shape, &x->layout);
}

/* Dispatches by what the two are. */
static void binary(qs__import *one, const qs__node *node, pair kind) {
    qs__value *a = qs__read_by(one, node, 0), *b = qs__read_by(one, node, 1), x, y;
    double number;
    if (!a || !b || a->kind == QS__UNKNOWN || b->kind == QS__UNKNOWN) return;
    const bool first = a->kind == QS__FLOW;
    if (first && b->kind == QS__FLOW) {
        x = *a, y = *b;
        with_value(one, node, kind, &x, &y);
        return;
    }
    x = first ? *a : *b, y = first ? *b : *a;
    if (kind == SLOPE) y.parameter = y.parameter || y.number; /* a slope is learned, also where there is one */
    if (x.kind != QS__FLOW) {
        qs__refuse_node(one, "of integers");
    } else if (y.kind == QS__MASK && kind == ADD) {
        qs__value rest;
        if (qs__hide(one, node, &x, &y, &rest)) return;
        with_numbers(one, node, ADD, &x, &rest, true);
        qs__hide_by(one, node, &y);
    } else if (y.kind != QS__NUMBERS) {
        qs__refuse_node(one, "of a value and a mask");
    } else if (y.of_batch) {
        qs__refuse_node(one, "of a value and numbers that depend on the batch");
    } else if (y.tensor->count == 1 && !(kind == SLOPE && y.number) && qs__one_number(one, &y, &number) && qs__rank(&y) <= qs__rank(&x)) {
        with_number(one, node, kind, &x, number, first);
        if (y.number && y.from && !qs__is_anonymous(y.from))
            qs__note(one, "%s is one number: it is a setting of what %s became, and is not trained", y.from, node->op);
    } else if (kind == ADD && qs__hide_constant(one, node, &x, &y)) {
        return;
    } else {
        with_numbers(one, node, kind, &x, &y, first);
    }
}

void qs__import_Add(qs__import *one, const qs__node *node) {
    binary(one, node, ADD);
}
void qs__import_Sub(qs__import *one, const qs__node *node) {
    binary(one, node, SUBTRACT);
}
void qs__import_Mul(qs__import *one, const qs__node *node) {
    binary(one, node, MULTIPLY);
}
void qs__import_Div(qs__import *one, const qs__node *node) {
    binary(one, node, DIVIDE);
}
void qs__import_Pow(qs__import *one, const qs__node *node) {
    binary(one, node, POWER);
}
void qs__import_PRelu(qs__import *one, const qs__node *node) {
    binary(one, node, SLOPE);
}

/* Several values, two by two. */
static void several(qs__import *one, const qs__node *node, pair kind) {
    qs__node step = *node;
    int pairs[2];
    if (node->inputs == 1) {
        qs__value x;
        if (qs__flow_in(one, node, 0, &x)) qs__pass_on(one, node, &x);
        return;
    }
    step.inputs = 2;
    step.input = pairs;
    pairs[0] = node->input[0];
    for (int i = 1; i < node->inputs; i++) {
        pairs[1] = node->input[i];
        binary(one, &step, kind);
        pairs[0] = node->output[0];
    }
}

void qs__import_Sum(qs__import *one, const qs__node *node) {
    several(one, node, ADD);
}
void qs__import_Min(qs__import *one, const qs__node *node) {
    several(one, node, MINIMUM);
}
void qs__import_Max(qs__import *one, const qs__node *node) {
    several(one, node, MAXIMUM);
}
