// SPDX-License-Identifier: Apache-2.0
/* The model of a weights file, and the names of models that Hugging Face's config.json describes. */
#include "generate_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- config.json of Hugging Face's transformers ---------------------------------------------------------------------------------- */

/* An option of a model, and what the file calls it. */
typedef struct setting {
    const char *option, *key;
    double standard; /* where the file does not say it, or says null; below 0: it must */
} setting;

/* What a file may say otherwise than models here are: where the key is there and not null, its value must be this. */
typedef struct rule {
    const char *key, *value; /* a text, or "true"; NULL: false */
} rule;

typedef struct family {
    const char *type, *model;
    setting setting[11]; /* a row without an option ends them, one without a key the rules */
    rule rule[6];
} family;

static const family families[] = {
    {"gpt2",
     "gpt2",
     {{"layers", "n_layer", -1},
      {"hidden", "n_embd", -1},
      {"heads", "n_head", -1},
      {"vocab", "vocab_size", -1},
      {"positions", "n_positions", -1},
      {"inner", "n_inner", 0}, /* 0: four times hidden */
      {"tied", "tie_word_embeddings", 1},
      {"epsilon", "layer_norm_epsilon", 1e-5}},
     {{"activation_function", "gelu_new"}, {"scale_attn_weights", "true"}, {"scale_attn_by_inverse_layer_idx", NULL}}},
    {"llama",
     "llama",
     {{"layers", "num_hidden_layers", -1},
      {"hidden", "hidden_size", -1},
      {"heads", "num_attention_heads", -1},
      {"kv", "num_key_value_heads", 0}, /* 0: as heads */
      {"vocab", "vocab_size", -1},
      {"positions", "max_position_embeddings", -1},
      {"inner", "intermediate_size", -1},
      {"tied", "tie_word_embeddings", 0},
      {"epsilon", "rms_norm_eps", 1e-6},
      {"base", "rope_theta", 10000}},
     {{"hidden_act", "silu"}, {"rope_scaling", NULL}, {"rope_type", "default"}, {"attention_bias", NULL}, {"mlp_bias", NULL}}}};

/* Since its version 5 the library keeps what is said of rotary positions in an object of its own. */
static const json_t *said_of(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    return value ? value : json_object_get(json_object_get(root, "rope_parameters"), key);
}

static qs_status setting_read(const json_t *root, const char *path, const setting *one, double *out) {
    const json_t *value = said_of(root, one->key);
    if (json_is_boolean(value))
        *out = json_is_true(value);
    else if (json_is_number(value))
        *out = json_number_value(value);
    else if ((!value || json_is_null(value)) && one->standard >= 0)
        *out = one->standard;
    else
        return qs_fail(QS_BAD_FILE, "%s: %s is %s, must be a number", path, one->key,
                       !value                ? "missing"
                       : json_is_null(value) ? "null"
                                             : "something else");
    return QS_OK;
}

static qs_status rule_check(const json_t *root, const char *path, const rule *one) {
    const json_t *value = said_of(root, one->key);
    const char *text = json_is_true(value) ? "true" : json_string_value(value);
    if (!value || json_is_null(value) || (one->value ? text && strcmp(text, one->value) == 0 : json_is_false(value))) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "%s: models with another %s than %s are not built here", path, one->key,
                   one->value ? one->value : "none");
}

/* The name of the model, at most QS_MODEL - 1 characters. */
static qs_status family_name(const json_t *root, const char *path, const family *of, char *name) {
    size_t used = (size_t)snprintf(name, QS_MODEL, "%s", of->model);
    double hidden = 0;
    for (const rule *one = of->rule; one->key; one++)
        QS_TRY(rule_check(root, path, one));
    for (const setting *one = of->setting; one->option; one++) {
        double value = 0;
        QS_TRY(setting_read(root, path, one, &value));
        if (strcmp(one->option, "hidden") == 0) hidden = value;
        if (strcmp(one->option, "inner") == 0 && value == 0) value = 4 * hidden;
        used += (size_t)snprintf(name + used, QS_MODEL - used, "%c%s=%.15g", one == of->setting ? ':' : ',', one->option, value);
        if (used >= QS_MODEL) return qs_fail(QS_BAD_FILE, "%s: the name of its model is longer than %d characters", path, QS_MODEL - 1);
    }
    return QS_OK;
}

/* name: "" where the file is not there. */
static qs_status config_read(const char *path, char *name) {
    json_error_t error;
    name[0] = '\0';
    if (access(path, R_OK) != 0) return QS_OK;
    json_t *root = json_load_file(path, 0, &error);
    if (!root) return qs_fail(QS_BAD_FILE, "%s:%d: %s", path, error.line, error.text);
    const char *type = json_string_value(json_object_get(root, "model_type"));
    qs_status status =
        type ? qs_fail(QS_UNSUPPORTED, "%s is of a model of the type %s: known are gpt2 and llama; --model says another", path, type)
             : qs_fail(QS_USAGE, "%s has no model_type, which says of which model the weights are: say it with --model", path);
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++)
        if (strcmp(type, families[i].type) == 0) status = family_name(root, path, &families[i], name);
    json_decref(root);
    return status;
}

/* ---- All that may say it ------------------------------------------------------------------------------------------------------------- */

qs_status generate_model(const char *weights, const char *said, char *source) {
    char name[QS_MODEL_NAME], *config = NULL;
    source[0] = '\0';
    if (said && snprintf(source, QS_MODEL, "%s", said) >= QS_MODEL)
        return qs_fail(QS_USAGE, "--model %s: longer than %d characters", said, QS_MODEL - 1);
    if (!said) QS_TRY(job_model_beside(weights, source));
    if (source[0]) return QS_OK;
    const qs_status status = qs_weights_model(weights, name);
    if (status == QS_OK) snprintf(source, QS_MODEL, "%s", name);
    if (status != QS_MISMATCH) return status;
    const char *slash = strrchr(weights, '/');
    QS_TRY(qs_format_text(&config, "%.*sconfig.json", slash ? (int)(slash - weights) + 1 : 0, weights));
    const qs_status read = config_read(config, source);
    free(config);
    QS_TRY(read);
    return source[0] ? QS_OK
                     : qs_fail(QS_USAGE, "%s does not say of which model it is, and there is no config.json beside it: say it with --model",
                               weights);
}
