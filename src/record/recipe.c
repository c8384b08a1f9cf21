// SPDX-License-Identifier: Apache-2.0
/* Recipes: the quantizer of each operand of an operator's three GEMMs. The built-in ones are made from their name, so every format that the
 * number room knows has one without a list here. */
#include <string.h>

#include "qsync/blocks.h"
#include "table.h"

const char *const qs__recipe_names =
    "fp32, bf16, fp16, any other float format; all three products in integers: int8:tensor, int4:shift4, int4:shift4:mse, int4:hadamard "
    "and "
    "the like; blocks that share scales: mxfp8, mxfp4:stochastic, nvfp4; forward/gradients such as int8/bf16, bf16/int4:shift4, "
    "mxfp4/mxfp8 and "
    "int4:shift4:nearest-even/log4; or forward/input gradient/weight gradient: int4:shift4/int8/log4";

const char *qs_gemm_name(qs_gemm gemm) {
    static const char *const names[QS_GEMMS] = {"forward", "input_gradient", "weight_gradient"};
    return gemm < QS_GEMMS ? names[gemm] : NULL;
}

void qs_recipe_operands(const qs_recipe *recipe, qs_gemm gemm, const qs_format **a, const qs_format **b) {
    *a = gemm == QS_GEMM_WEIGHT_GRADIENT  ? recipe->weight_gradient.src.format
         : gemm == QS_GEMM_INPUT_GRADIENT ? recipe->input_gradient.weights.format
                                          : recipe->forward.src.format;
    *b = gemm == QS_GEMM_WEIGHT_GRADIENT  ? recipe->weight_gradient.diff_dst.format
         : gemm == QS_GEMM_INPUT_GRADIENT ? recipe->input_gradient.diff_dst.format
                                          : recipe->forward.weights.format;
}

/* ---- Built-in recipes ------------------------------------------------------------------------------------------------------------ */

/* One step for the tensor; floats round to nearest, integers stochastically. */
static qs_quantizer whole(const qs_format *format) {
    return (qs_quantizer){.format = format, .rounding = format->kind == QS_KIND_FLOAT ? QS_NEAREST_EVEN : QS_STOCHASTIC};
}

static bool is_integer(const qs_quantizer *quantizer) {
    return quantizer->format->kind == QS_KIND_INTEGER;
}

/* Steps of weights: one for each channel that the sum does not run over. */
static qs_quantizer by_channel(const qs_format *format, const qs_quantizer *like, bool of_inputs) {
    return (qs_quantizer){.format = format,
                          .granularity = QS_PER_CHANNEL,
                          .channel_is_input = of_inputs,
                          .rounding = like->rounding,
                          .least_squares = like->least_squares};
}

/* Integers of as many bits, for the other factor of a gradient of powers of two. */
static const qs_format *integer_like(const qs_format *format) {
    char name[sizeof format->name];
    snprintf(name, sizeof name, "int%d", format->bits);
    return format->is_logarithmic ? qs_format_of(name) : format;
}

/* Forward in `lower`, where integers give weights a step for each output channel. All three products in integers (docs/method.md §9.3):
 * every operand has its steps by the channels that its sum runs over, and weights one for each channel that it does not run over; the
 * weight gradient takes the codes that forward saved. Under a Hadamard transform both factors of a product are transformed along its inner
 * dimension (input channels, output channels, samples), and each takes one step; blocks that share scales lie along the same ones. */
static qs_recipe make_recipe(const qs_quantizer *lower, const qs_quantizer *input, const qs_quantizer *weight) {
    const bool transformed = lower->granularity == QS_HADAMARD;
    qs_recipe recipe = {.forward = {.src = *lower, .weights = *lower},
                        .input_gradient = {.diff_dst = *input, .weights = *input},
                        .weight_gradient = {.src = *weight, .diff_dst = *weight}};
    recipe.input_gradient.diff_dst.channel_is_input = recipe.weight_gradient.diff_dst.channel_is_input = false;
    if (input->blocks) recipe.input_gradient.weights.channel_is_input = false;
    if (weight->blocks) {
        recipe.weight_gradient.src.channel_is_input = false;
        recipe.weight_gradient.src.over_samples = recipe.weight_gradient.diff_dst.over_samples = true;
    }
    if (is_integer(lower) && !transformed) recipe.forward.weights = by_channel(lower->format, lower, false);
    if (transformed && is_integer(input)) {
        recipe.input_gradient.weights.channel_is_input = recipe.weight_gradient.src.channel_is_input = false;
        recipe.weight_gradient.src.over_samples = recipe.weight_gradient.diff_dst.over_samples = true;
        return recipe;
    }
    if (is_integer(input))
        recipe.input_gradient.weights =
            is_integer(lower) ? by_channel(lower->format, lower, true) : by_channel(integer_like(input->format), input, true);
    recipe.weight_gradient.src.second_draw = false;
    if (is_integer(weight)) recipe.weight_gradient.src.format = integer_like(weight->format);
    if (is_integer(weight) && is_integer(lower)) recipe.weight_gradient.src = *lower;
    return recipe;
}

/* A float, or an integer as quantizers are written, with what may be left out for `gradient`, which may be powers of two. */
static bool part_read(const char *text, bool gradient, qs_quantizer *out) {
    if (strchr(text, '(') && strncmp(text, "fp(", 3) != 0 && strncmp(text, "mx(", 3) != 0) return false;
    if (qs_quantizer_find(text, out) != QS_OK || out->format->is_unsigned || out->granularity == QS_PER_CHANNEL) return false;
    if (out->blocks) return !strstr(text, ":along"); /* the product says along what */
    if (!is_integer(out)) return !strchr(text, ':');
    if (gradient) return out->rounding == QS_STOCHASTIC && out->granularity != QS_HADAMARD;
    return !out->format->is_logarithmic && !out->second_draw && (out->rounding == QS_STOCHASTIC || out->rounding == QS_NEAREST_EVEN);
}

/* "bf16"; "int4:shift4:mse": all three products in the integer; "int8/bf16", "int4:shift4/int8:tensor/log4": forward, gradients, or the
 * input's and the weights' gradient apart. */
qs_status qs_recipe_builtin(const char *name, qs_recipe *out) {
    char text[QS_NAME] = "", *rest = text;
    qs_quantizer part[QS_GEMMS] = {{0}};
    int parts = 0;
    bool known = strlen(name) < sizeof text;
    if (known) strcpy(text, name);
    for (char *one; known && (one = strsep(&rest, "/")) != NULL; parts++) {
        const bool bare = !strchr(one, ':') && !strchr(name, '/'); /* "int8" alone does not say of what */
        known = parts < QS_GEMMS && part_read(one, parts > 0, &part[parts]) && !(bare && is_integer(&part[parts]));
    }
    const bool transformed = known && part[0].granularity == QS_HADAMARD;
    if (known && transformed && parts > 1) known = !is_integer(&part[1]) && (parts == 2 || !is_integer(&part[2]));
    bool special = false;
    for (int i = 0; known && i < parts; i++)
        special = special || is_integer(&part[i]) || part[i].blocks;
    if (known && parts > 1) known = special;
    if (!known) return qs_fail(QS_USAGE, "no recipe \"%.80s\"; recipes: %s", name, qs__recipe_names);
    if (parts == 1) {
        part[1] = part[0];
        part[1].least_squares = false;
        if (is_integer(&part[0])) part[1].rounding = QS_STOCHASTIC;
    }
    *out = make_recipe(&part[0], &part[1], &part[parts > 2 ? 2 : 1]);
    snprintf(out->name, sizeof out->name, "%s", parts == 1 && !special ? part[0].format->name : name);
    return QS_OK;
}

qs_recipe qs__recipe_fp32(void) {
    const qs_quantizer fp32 = whole(qs_format_of("fp32"));
    qs_recipe recipe = make_recipe(&fp32, &fp32, &fp32);
    snprintf(recipe.name, sizeof recipe.name, "fp32");
    return recipe;
}

/* ---- Recipes of a class ---------------------------------------------------------------------------------------------------------- */

static bool is_higher(const qs_format *a, const qs_format *b) {
    if (a->kind != b->kind) return a->kind == QS_KIND_FLOAT;
    if (a->kind == QS_KIND_INTEGER) return a->bits > b->bits;
    return qs_format_at_least(a, b) && !qs_format_at_least(b, a);
}

/* Bits of a value: of blocks those of its element, with a share of the scale. */
static double bits_of(const qs_quantizer *quantizer) {
    return quantizer->blocks ? quantizer->blocks->bits : quantizer->format->bits;
}

static bool is_higher_recipe(const qs_recipe *a, const qs_recipe *b) {
    const qs_format *forward[] = {a->forward.src.format, b->forward.src.format};
    const bool blocks = a->forward.src.blocks || b->forward.src.blocks;
    if (blocks && bits_of(&a->forward.src) != bits_of(&b->forward.src)) return bits_of(&a->forward.src) > bits_of(&b->forward.src);
    if (!blocks && forward[0] != forward[1]) return is_higher(forward[0], forward[1]);
    if (a->weight_gradient.diff_dst.blocks || b->weight_gradient.diff_dst.blocks)
        return bits_of(&a->weight_gradient.diff_dst) > bits_of(&b->weight_gradient.diff_dst);
    return is_higher(a->weight_gradient.diff_dst.format, b->weight_gradient.diff_dst.format);
}

/* Integers of 8 bits leave the gradients to a 16-bit float that the class computes in, else to fp32; narrower ones take all products. */
static qs_status recipe_of_format(const qs_class *one, const qs_format *format, qs_recipe *out) {
    const qs_format *gradient = qs_format_of("fp32");
    char name[QS_NAME];
    for (int i = one->formats - 1; i >= 0; i--)
        if (one->format[i]->kind == QS_KIND_FLOAT && one->format[i]->bits == 16) gradient = one->format[i];
    if (format->kind == QS_KIND_FLOAT)
        snprintf(name, sizeof name, "%s", format->name);
    else if (format->bits == 8)
        snprintf(name, sizeof name, "%s/%s", format->name, gradient->name);
    else
        snprintf(name, sizeof name, "%s:shift4", format->name);
    return qs_recipe_builtin(name, out);
}

qs_status qs_class_recipes(const qs_class *one, int capacity, qs_recipe *out, int *count) {
    const int recipes = one->recipes > 0 ? one->recipes : one->formats;
    if (recipes > capacity) return qs_fail(QS_USAGE, "class %s has %d recipes, there is room for %d", one->name, recipes, capacity);
    for (int i = 0; i < recipes; i++) {
        qs_recipe recipe;
        QS_TRY(one->recipes > 0 ? qs_recipe_builtin(one->recipe[i], &recipe) : recipe_of_format(one, one->format[i], &recipe));
        for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
            const qs_format *a, *b;
            qs_recipe_operands(&recipe, gemm, &a, &b);
            if (a->kind == QS_KIND_FLOAT && b->kind == QS_KIND_FLOAT) recipe.accumulator[gemm] = one->accumulator;
        }
        int at = i;
        for (; at > 0 && is_higher_recipe(&recipe, &out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = recipe;
    }
    *count = recipes;
    return QS_OK;
}

/* ---- In files ------------------------------------------------------------------------------------------------------------------ */

static const qs__field forward_fields[] = {
    {"src", QS__QUANTIZER, QS__REQUIRED, QS__AT(qs_recipe, forward.src), .text = "of the input, as an operand of the forward GEMM"},
    {"weights", QS__QUANTIZER, QS__REQUIRED, QS__AT(qs_recipe, forward.weights), .text = "of the weights there"},
    {"accumulator", QS__ACCUMULATOR, QS__OPTIONAL, QS__AT(qs_recipe, accumulator[QS_GEMM_FORWARD]),
     .related = offsetof(qs_recipe, forward.src), .absent = "`int32` for integers, else `fp32`", .text = "what this GEMM adds in"},
    {"dst", QS__FORMAT, QS__OPTIONAL, QS__AT(qs_recipe, forward.dst), .standard_text = "auto", .values = "format, or `auto`",
     .text = "of the output; auto: the widest of what the adjustable consumers need"},
};
static const qs__record forward_record = {QS__FIELDS(forward_fields), .layout = QS__ONE_LINE};

static const qs__field input_gradient_fields[] = {
    {"diff_dst", QS__QUANTIZER, QS__REQUIRED, QS__AT(qs_recipe, input_gradient.diff_dst),
     .text = "of the output's gradient, as an operand of the input gradient"},
    {"weights", QS__QUANTIZER, QS__REQUIRED, QS__AT(qs_recipe, input_gradient.weights), .text = "of the weights there"},
    {"accumulator", QS__ACCUMULATOR, QS__OPTIONAL, QS__AT(qs_recipe, accumulator[QS_GEMM_INPUT_GRADIENT]),
     .related = offsetof(qs_recipe, input_gradient.diff_dst), .absent = "`int32` for integers, else `fp32`",
     .text = "what this GEMM adds in"},
};
static const qs__record input_gradient_record = {QS__FIELDS(input_gradient_fields), .layout = QS__ONE_LINE};

static const qs__field weight_gradient_fields[] = {
    {"src", QS__QUANTIZER, QS__REQUIRED, QS__AT(qs_recipe, weight_gradient.src), .suffix = "<saved", .values = "quantizer and `<saved`",
     .text = "of the input, made from what forward saved; where one of the two is transformed, it is made in the forward pass and saved "
             "beside it"},
    {"diff_dst", QS__QUANTIZER, QS__REQUIRED, QS__AT(qs_recipe, weight_gradient.diff_dst), .text = "of the output's gradient there"},
    {"accumulator", QS__ACCUMULATOR, QS__OPTIONAL, QS__AT(qs_recipe, accumulator[QS_GEMM_WEIGHT_GRADIENT]),
     .related = offsetof(qs_recipe, weight_gradient.diff_dst), .absent = "`int32` for integers, else `fp32`",
     .text = "what this GEMM adds in"},
    {"out", QS__WORD, QS__OPTIONAL, QS__OWN, .standard_text = "fp32", .text = "weight gradients are written in fp32"},
};
static const qs__record weight_gradient_record = {QS__FIELDS(weight_gradient_fields), .layout = QS__ONE_LINE};

static const qs__field recipe_fields[] = {
    {"forward", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &forward_record},
    {"input_gradient", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &input_gradient_record},
    {"weight_gradient", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &weight_gradient_record},
};
const qs__record qs__recipe_record = {QS__FIELDS(recipe_fields), .title = "A recipe: `recipes.*`", .key = QS_NAME};
