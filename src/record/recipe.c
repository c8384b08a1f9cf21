// SPDX-License-Identifier: Apache-2.0
/* Recipes: the quantizer of each operand of an operator's three GEMMs. The built-in ones are made from their name, so every format that the
 * number room knows has one without a list here. */
#include "record_internal.h"

#include <string.h>

const char *const qs__recipe_names =
    "fp32, bf16, fp16, any other float format, integer/float such as int8/bf16 and int8/fp32, or all three "
    "products in integers: int8:tensor, int4:shift4, int4:hadamard and the like";

/* The weight gradient is written in fp32; the field stands in the file so that it says so. */
static const char gradient_out[] = "fp32";
static const char saved_mark[] = "<saved";

/* ---- Built-in recipes ------------------------------------------------------------------------------------------------------ */

static qs_quantizer whole(const qs_format *format) {
    return (qs_quantizer){.format = format, .rounding = format->kind == QS_KIND_FLOAT ? QS_NEAREST_EVEN : QS_STOCHASTIC};
}

/* Float: everything in it. Integer: stochastic everywhere, weights with a step per output channel (qsync.md §3, §4.3). */
static qs_recipe make_recipe(const qs_quantizer *lower, const qs_format *gradient) {
    qs_recipe recipe = {0};
    bool integer = lower->format->kind == QS_KIND_INTEGER;
    recipe.forward.src = recipe.forward.weights = *lower;
    if (integer && lower->granularity != QS_HADAMARD) {
        recipe.forward.weights = whole(lower->format);
        recipe.forward.weights.granularity = QS_PER_CHANNEL;
    }
    recipe.input_gradient.diff_dst = recipe.input_gradient.weights = whole(gradient);
    recipe.weight_gradient.src = recipe.weight_gradient.diff_dst = whole(gradient);
    return recipe;
}

/* Both factors of each product are transformed along its inner dimension, then take one step: input channels, output channels, samples. */
static qs_recipe make_transformed_recipe(const qs_quantizer *codes) {
    qs_recipe recipe = {0};
    recipe.forward.src = recipe.forward.weights = *codes;
    recipe.input_gradient.diff_dst = *codes;
    recipe.input_gradient.diff_dst.channel_is_input = false;
    recipe.input_gradient.weights = recipe.weight_gradient.src = recipe.input_gradient.diff_dst;
    recipe.weight_gradient.src.over_samples = true;
    recipe.weight_gradient.diff_dst = recipe.weight_gradient.src;
    return recipe;
}

/* All three products in integers (shiftquant.md §4): each operand's steps by the channels that its sum runs over, weights with a step for
 * each channel that it does not run over. The weight gradient takes the codes that forward saved. */
static qs_recipe make_integer_recipe(const qs_quantizer *codes) {
    qs_recipe recipe = make_recipe(codes, codes->format);
    if (codes->granularity == QS_HADAMARD) return make_transformed_recipe(codes);
    recipe.input_gradient.weights = recipe.forward.weights;
    recipe.input_gradient.weights.channel_is_input = true;
    recipe.weight_gradient.src = recipe.forward.src;
    recipe.input_gradient.diff_dst = *codes;
    recipe.input_gradient.diff_dst.channel_is_input = false;
    recipe.weight_gradient.diff_dst = recipe.input_gradient.diff_dst;
    return recipe;
}

/* "int8", "int4:shift4" or "int4:hadamard": signed codes with one step, in shift groups, or transformed; the formats of other inputs follow
 * from it. */
static bool codes_named(const char *name, size_t length, qs_quantizer *out) {
    char text[QS_NAME];
    if (length >= sizeof text) return false;
    memcpy(text, name, length);
    text[length] = '\0';
    const char *colon = strchr(text, ':');
    if ((colon && strchr(colon + 1, ':')) || strchr(text, '(') || qs_quantizer_find(text, out) != QS_OK) return false;
    return out->format->kind == QS_KIND_INTEGER && !out->format->is_unsigned && out->granularity != QS_PER_CHANNEL &&
           out->rounding == QS_STOCHASTIC;
}

static const qs_format *float_named(const char *name) {
    const qs_format *format;
    return qs_format_find(name, &format) == QS_OK && format->kind == QS_KIND_FLOAT ? format : NULL;
}

qs_status qs_recipe_builtin(const char *name, qs_recipe *out) {
    const char *slash = strchr(name, '/');
    const qs_format *real = float_named(slash ? slash + 1 : name);
    qs_quantizer codes;
    if (!slash && real) {
        codes = whole(real);
        *out = make_recipe(&codes, real);
    } else if (slash && real && codes_named(name, (size_t)(slash - name), &codes)) {
        *out = make_recipe(&codes, real);
    } else if (!slash && strchr(name, ':') && codes_named(name, strlen(name), &codes)) {
        *out = make_integer_recipe(&codes);
    } else {
        return qs_fail(QS_USAGE, "no recipe \"%.80s\"; recipes: %s", name, qs__recipe_names);
    }
    snprintf(out->name, sizeof out->name, "%s", name);
    if (!slash && real) snprintf(out->name, sizeof out->name, "%s", real->name);
    return QS_OK;
}

/* ---- Recipes of a class ---------------------------------------------------------------------------------------------------- */

static bool is_higher(const qs_format *a, const qs_format *b) {
    if (a->kind != b->kind) return a->kind == QS_KIND_FLOAT;
    if (a->kind == QS_KIND_INTEGER) return a->bits > b->bits;
    return qs_format_at_least(a, b) && !qs_format_at_least(b, a);
}

/* What the gradients of an integer recipe are computed in: a 16-bit float that the class computes in, else fp32. */
static const qs_format *gradient_format(const qs_class *one) {
    for (int i = 0; i < one->formats; i++) {
        if (one->format[i]->kind == QS_KIND_FLOAT && one->format[i]->bits == 16) return one->format[i];
    }
    return qs_format_of("fp32");
}

static void accumulate_all(const qs_narrow *narrow, qs_recipe *recipe) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        const qs_format *a, *b;
        qs_recipe_operands(recipe, gemm, &a, &b);
        if (a->kind == QS_KIND_FLOAT && b->kind == QS_KIND_FLOAT) recipe->accumulator[gemm] = *narrow;
    }
}

static bool is_higher_recipe(const qs_recipe *a, const qs_recipe *b) {
    const qs_format *forward[] = {a->forward.src.format, b->forward.src.format};
    if (forward[0] != forward[1]) return is_higher(forward[0], forward[1]);
    return is_higher(a->weight_gradient.diff_dst.format, b->weight_gradient.diff_dst.format);
}

static qs_status recipe_of_format(const qs_class *one, const qs_format *format, qs_recipe *out) {
    char name[QS_NAME];
    if (format->kind == QS_KIND_FLOAT)
        snprintf(name, sizeof name, "%s", format->name);
    else if (format->bits == 8)
        snprintf(name, sizeof name, "%s/%s", format->name, gradient_format(one)->name);
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
        accumulate_all(&one->accumulator, &recipe);
        int at = i;
        for (; at > 0 && is_higher_recipe(&recipe, &out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = recipe;
    }
    *count = recipes;
    return QS_OK;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------------- */

static qs_status parse_quantizer(const qs__place *place, const char *text, qs_quantizer *out) {
    return qs_quantizer_find(text, out) == QS_OK ? QS_OK : qs__refuse_field(place, "%s", qs_message());
}

qs_status qs__get_quantizer(const qs__place *object, const char *key, qs_quantizer *out) {
    qs__place field = qs__field(object, key);
    char text[80];
    if (!field.value) return QS_OK;
    QS_TRY(qs__take_text(&field, text, sizeof text));
    return parse_quantizer(&field, text, out);
}

static qs_status read_saved_quantizer(const qs__place *gemm, const char *key, qs_quantizer *out) {
    qs__place field = qs__field(gemm, key);
    char text[80];
    QS_TRY(qs__take_text(&field, text, sizeof text));
    size_t length = strlen(text), mark = sizeof saved_mark - 1;
    if (length <= mark || strcmp(text + length - mark, saved_mark) != 0) {
        return qs__refuse_field(&field, "\"%s\" must end in \"%s\": it is made from what forward saved", text, saved_mark);
    }
    text[length - mark] = '\0';
    return parse_quantizer(&field, text, out);
}

static qs_status read_out(const qs__place *gemm) {
    char text[32] = "";
    QS_TRY(qs__get_text(gemm, "out", text, sizeof text));
    if (!*text || strcmp(text, gradient_out) == 0) return QS_OK;
    qs__place field = qs__field(gemm, "out");
    return qs__refuse_field(&field, "must be \"%s\", is \"%s\"", gradient_out, text);
}

static qs_status read_forward(const qs__place *recipe, qs_recipe *out) {
    qs__place gemm = qs__field(recipe, "forward");
    QS_TRY(qs__expect_fields(&gemm, "src weights", "accumulator dst"));
    QS_TRY(qs__get_quantizer(&gemm, "src", &out->forward.src));
    QS_TRY(qs__get_quantizer(&gemm, "weights", &out->forward.weights));
    QS_TRY(qs__accumulator_read(&gemm, out->forward.src.format, &out->accumulator[QS_GEMM_FORWARD]));
    qs__place dst = qs__field(&gemm, "dst");
    if (!dst.value || (json_is_string(dst.value) && strcmp(json_string_value(dst.value), "auto") == 0)) return QS_OK;
    return qs__take_format(&dst, &out->forward.dst);
}

static qs_status read_gradients(const qs__place *recipe, qs_recipe *out) {
    qs__place input = qs__field(recipe, "input_gradient");
    QS_TRY(qs__expect_fields(&input, "diff_dst weights", "accumulator"));
    QS_TRY(qs__get_quantizer(&input, "diff_dst", &out->input_gradient.diff_dst));
    QS_TRY(qs__get_quantizer(&input, "weights", &out->input_gradient.weights));
    QS_TRY(qs__accumulator_read(&input, out->input_gradient.diff_dst.format, &out->accumulator[QS_GEMM_INPUT_GRADIENT]));
    qs__place weight = qs__field(recipe, "weight_gradient");
    QS_TRY(qs__expect_fields(&weight, "src diff_dst", "accumulator out"));
    QS_TRY(read_saved_quantizer(&weight, "src", &out->weight_gradient.src));
    QS_TRY(qs__get_quantizer(&weight, "diff_dst", &out->weight_gradient.diff_dst));
    QS_TRY(qs__accumulator_read(&weight, out->weight_gradient.diff_dst.format, &out->accumulator[QS_GEMM_WEIGHT_GRADIENT]));
    return read_out(&weight);
}

qs_status qs__recipe_read(const qs__place *member, qs_recipe *out) {
    qs_recipe recipe = {0};
    QS_TRY(qs__take_key(member, recipe.name, sizeof recipe.name));
    QS_TRY(qs__expect_fields(member, "forward input_gradient weight_gradient", ""));
    QS_TRY(read_forward(member, &recipe));
    QS_TRY(read_gradients(member, &recipe));
    *out = recipe;
    return QS_OK;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

void qs__put_quantizer(qs__writer *writer, const char *key, const qs_quantizer *quantizer) {
    char text[64];
    qs__put_text(writer, key, qs_quantizer_text(quantizer, text));
}

static void write_saved_quantizer(qs__writer *writer, const char *key, const qs_quantizer *quantizer) {
    char text[64], marked[80];
    snprintf(marked, sizeof marked, "%s%s", qs_quantizer_text(quantizer, text), saved_mark);
    qs__put_text(writer, key, marked);
}

void qs__recipe_write(qs__writer *writer, const qs_recipe *recipe) {
    qs__open_object(writer, recipe->name, QS__LINES);
    qs__open_object(writer, "forward", QS__ONE_LINE);
    qs__put_quantizer(writer, "src", &recipe->forward.src);
    qs__put_quantizer(writer, "weights", &recipe->forward.weights);
    qs__accumulator_write(writer, recipe->forward.src.format, &recipe->accumulator[QS_GEMM_FORWARD]);
    qs__put_text(writer, "dst", recipe->forward.dst ? recipe->forward.dst->name : "auto");
    qs__close(writer);
    qs__open_object(writer, "input_gradient", QS__ONE_LINE);
    qs__put_quantizer(writer, "diff_dst", &recipe->input_gradient.diff_dst);
    qs__put_quantizer(writer, "weights", &recipe->input_gradient.weights);
    qs__accumulator_write(writer, recipe->input_gradient.diff_dst.format, &recipe->accumulator[QS_GEMM_INPUT_GRADIENT]);
    qs__close(writer);
    qs__open_object(writer, "weight_gradient", QS__ONE_LINE);
    write_saved_quantizer(writer, "src", &recipe->weight_gradient.src);
    qs__put_quantizer(writer, "diff_dst", &recipe->weight_gradient.diff_dst);
    qs__accumulator_write(writer, recipe->weight_gradient.diff_dst.format, &recipe->accumulator[QS_GEMM_WEIGHT_GRADIENT]);
    qs__put_text(writer, "out", gradient_out);
    qs__close(writer);
    qs__close(writer);
}
