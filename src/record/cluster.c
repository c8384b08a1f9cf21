// SPDX-License-Identifier: Apache-2.0
/* cluster.json: the device classes, their memory and formats, and the links between them. */
#include "record_internal.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Bounds that only catch slips of the pen. */
enum { MOST_RANKS = 1 << 20, MOST_THREADS = 4096 };
static const double least_part = 1e-3, most_latency_us = 1e9;

/* ---- Memory sizes ---------------------------------------------------------------------------------------------------------- */

static double unit_of(const char *text) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                 {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},     {"TB", 1e12}};
    while (*text == ' ')
        text++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text, units[i].name) == 0) return units[i].bytes;
    }
    return 0;
}

/* A plain decimal number at the start of text; -1 for anything else (signs, infinities, hexadecimal). */
static double decimal_at(const char *text, char **rest) {
    if (*text < '0' || *text > '9' || strspn(text, "0123456789.eE") < strspn(text, "0123456789.eExX")) return -1;
    return strtod(text, rest);
}

/* "644MiB"; "30%" only when `whole` is a size. */
static qs_status parse_size(const qs__place *place, const char *text, int64_t whole, int64_t *out) {
    char *rest = NULL;
    double number = decimal_at(text, &rest), bytes = -1;
    if (number >= 0 && strcmp(rest, "%") == 0) {
        if (whole <= 0) return qs__refuse_field(place, "\"%.40s\" needs a capacity to refer to", text);
        if (number > 100) return qs__refuse_field(place, "\"%.40s\" is above 100%%", text);
        bytes = (double)whole * number / 100;
    } else if (number >= 0 && unit_of(rest) > 0) {
        bytes = number * unit_of(rest);
    }
    if (bytes < 0) return qs__refuse_field(place, "\"%.40s\" is no size: bytes, or text like \"644MiB\", \"2GiB\", (limit) \"30%%\"", text);
    if (bytes < 1 || bytes > 9e18) return qs__refuse_field(place, "\"%.40s\" is outside 1 .. 9e18 bytes", text);
    *out = (int64_t)bytes;
    return QS_OK;
}

static qs_status read_size(const qs__place *object, const char *key, int64_t whole, int64_t *out) {
    qs__place field = qs__field(object, key);
    if (!json_is_string(field.value)) return qs__get_integer(object, key, 1, INT64_MAX, out);
    return parse_size(&field, json_string_value(field.value), whole, out);
}

/* A part of something: a number up to 1, or text like "30%". */
static qs_status read_part(const qs__place *object, const char *key, double *out) {
    qs__place field = qs__field(object, key);
    if (!json_is_string(field.value)) return qs__get_number(object, key, least_part, 1, out);
    char *rest = NULL;
    const char *text = json_string_value(field.value);
    const double percent = decimal_at(text, &rest);
    if (percent < 0 || strcmp(rest, "%") != 0) return qs__refuse_field(&field, "\"%.40s\" is no part: 0.3, or text like \"30%%\"", text);
    *out = percent / 100;
    if (*out >= least_part && *out <= 1) return QS_OK;
    return qs__refuse_field(&field, "\"%.40s\" is outside %g%% .. 100%%", text, 100 * least_part);
}

/* `part` of the capacity is lent where the file names no limit. */
static qs_status read_memory(const qs__place *member, double part, qs_class *out) {
    qs__place memory = qs__field(member, "memory");
    if (!memory.value) return QS_OK;
    QS_TRY(qs__expect_fields(&memory, "capacity", "limit"));
    QS_TRY(read_size(&memory, "capacity", 0, &out->memory_capacity));
    out->memory_limit = part < 1 ? (int64_t)fmax(part * (double)out->memory_capacity, 1) : out->memory_capacity;
    QS_TRY(read_size(&memory, "limit", out->memory_capacity, &out->memory_limit));
    if (out->memory_limit <= out->memory_capacity) return QS_OK;
    qs__place limit = qs__field(&memory, "limit");
    return qs__refuse_field(&limit, "%lld bytes are above the capacity of %lld", (long long)out->memory_limit,
                            (long long)out->memory_capacity);
}

/* ---- Classes --------------------------------------------------------------------------------------------------------------- */

static bool has_format(int count, const qs_format *const *formats, const qs_format *wanted) {
    for (int i = 0; i < count; i++) {
        if (formats[i] == wanted) return true;
    }
    return false;
}

static qs_status read_formats(const qs__place *member, const char *key, int *count, const qs_format **formats) {
    qs__place list = qs__field(member, key);
    QS_TRY(qs__expect_array(&list, 1, QS_MAX_FORMATS));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place element = qs__element(&list, i);
        const qs_format *format;
        QS_TRY(qs__take_format(&element, &format));
        if (has_format(*count, formats, format)) return qs__refuse_field(&element, "\"%s\" stands there twice", format->name);
        formats[(*count)++] = format;
    }
    if (has_format(*count, formats, qs_format_of("fp32"))) return QS_OK;
    return qs__refuse_field(&list, "must contain \"fp32\": losses, sums and optimizers are kept in it");
}

static qs_status read_storages(const qs__place *member, qs_class *out) {
    if (qs__field(member, "storage").value) return read_formats(member, "storage", &out->storages, out->storage);
    for (int i = 0; i < out->formats; i++) {
        if (out->format[i]->kind == QS_KIND_FLOAT) out->storage[out->storages++] = out->format[i];
    }
    return QS_OK;
}

static qs_status read_recipe(const qs__place *element, qs_class *out) {
    char *name = out->recipe[out->recipes];
    qs_recipe recipe;
    QS_TRY(qs__take_text(element, name, QS_NAME));
    if (qs_recipe_builtin(name, &recipe) != QS_OK) return qs__refuse_field(element, "%s", qs_message());
    snprintf(name, QS_NAME, "%s", recipe.name);
    const qs_format *const used[] = {recipe.forward.src.format, recipe.weight_gradient.diff_dst.format};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (!has_format(out->formats, out->format, used[i]))
            return qs__refuse_field(element, "\"%s\" computes in %s, which is not among the class's formats", name, used[i]->name);
    for (int i = 0; i < out->recipes; i++)
        if (strcmp(out->recipe[i], name) == 0) return qs__refuse_field(element, "\"%s\" stands there twice", name);
    out->recipes++;
    return QS_OK;
}

static qs_status read_recipes(const qs__place *member, qs_class *out) {
    qs__place list = qs__field(member, "recipes");
    if (!list.value) return QS_OK;
    QS_TRY(qs__expect_array(&list, 1, QS_MAX_FORMATS));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place element = qs__element(&list, i);
        QS_TRY(read_recipe(&element, out));
    }
    for (int i = 0; i < out->recipes; i++)
        if (strcmp(out->recipe[i], "fp32") == 0) return QS_OK;
    return qs__refuse_field(&list, "must contain \"fp32\": plans go back to it where nothing lower is needed");
}

static qs_status read_hosts(const qs__place *member, qs_class *out) {
    qs__place list = qs__field(member, "hosts");
    if (!list.value) return QS_OK;
    QS_TRY(qs__expect_array(&list, 1, QS_MAX_HOSTS));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place element = qs__element(&list, i);
        QS_TRY(qs__take_text(&element, out->host[i], sizeof out->host[i]));
    }
    out->hosts = (int)json_array_size(list.value);
    return QS_OK;
}

static qs_status read_role(const qs__place *member, bool *inference) {
    char role[32];
    QS_TRY(qs__get_text(member, "role", role, sizeof role));
    *inference = strcmp(role, "inference") == 0;
    if (*inference || strcmp(role, "training") == 0) return QS_OK;
    qs__place field = qs__field(member, "role");
    return qs__refuse_field(&field, "must be \"training\" or \"inference\", is \"%s\"", role);
}

static qs_status read_class(const qs__place *member, int index, void *context) {
    qs_cluster *cluster = context;
    qs_class *out = &cluster->class_[index];
    double share = 1;
    *out = (qs_class){.count = 1, .threads = 1, .isa = "all"};
    QS_TRY(qs__take_key(member, out->name, sizeof out->name));
    QS_TRY(
        qs__expect_fields(member, "role backend formats", "device count hosts threads isa share speed memory storage recipes accumulator"));
    QS_TRY(read_role(member, &out->inference));
    QS_TRY(qs__get_name(member, "backend", out->backend, sizeof out->backend));
    QS_TRY(qs__get_name(member, "device", out->device, sizeof out->device));
    QS_TRY(qs__get_count(member, "count", 1, MOST_RANKS, &out->count));
    QS_TRY(read_hosts(member, out));
    QS_TRY(qs__get_count(member, "threads", 1, MOST_THREADS, &out->threads));
    QS_TRY(qs__get_name(member, "isa", out->isa, sizeof out->isa));
    QS_TRY(read_part(member, "share", &share));
    out->speed = share;
    QS_TRY(read_part(member, "speed", &out->speed));
    QS_TRY(read_memory(member, share, out));
    QS_TRY(read_formats(member, "formats", &out->formats, out->format));
    QS_TRY(read_storages(member, out));
    QS_TRY(read_recipes(member, out));
    QS_TRY(qs__accumulator_read(member, qs_format_of("fp32"), &out->accumulator));
    cluster->classes = index + 1;
    return QS_OK;
}

static int index_of(const qs_cluster *cluster, const char *name) {
    for (int i = 0; i < cluster->classes; i++) {
        if (strcmp(cluster->class_[i].name, name) == 0) return i;
    }
    return -1;
}

/* Names of the classes for a message. */
static const char *class_names(const qs_cluster *cluster, char *text, size_t capacity) {
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < cluster->classes && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", cluster->class_[i].name);
    }
    return text;
}

/* ---- Links ----------------------------------------------------------------------------------------------------------------- */

static qs_status read_link(const qs__place *element, const qs_cluster *cluster, qs_link *out) {
    QS_TRY(qs__expect_fields(element, "between kind", "ranks_per_host bytes_per_second latency_us"));
    qs__place between = qs__field(element, "between");
    QS_TRY(qs__expect_array(&between, 2, 2));
    for (size_t i = 0; i < 2; i++) {
        qs__place end = qs__element(&between, i);
        QS_TRY(qs__take_text(&end, out->between[i], sizeof out->between[i]));
        char names[512];
        if (index_of(cluster, out->between[i]) < 0) {
            return qs__refuse_field(&end, "\"%s\" is not in classes (%s)", out->between[i], class_names(cluster, names, sizeof names));
        }
    }
    QS_TRY(qs__get_name(element, "kind", out->kind, sizeof out->kind));
    qs__place spread = qs__field(element, "ranks_per_host");
    if (spread.value && (!qs__link_is_network(out) || strcmp(out->between[0], out->between[1]) != 0))
        return qs__refuse_field(&spread, "holds between the ranks of one class that are on different hosts");
    out->ranks_per_host = 1;
    QS_TRY(read_size(element, "bytes_per_second", 0, &out->bytes_per_second));
    QS_TRY(qs__get_number(element, "latency_us", 0, most_latency_us, &out->latency_us));
    return qs__get_count(element, "ranks_per_host", 1, MOST_RANKS, &out->ranks_per_host);
}

static qs_status read_links(const qs__place *root, qs_cluster *cluster) {
    qs__place list = qs__field(root, "links");
    if (!list.value) return QS_OK;
    QS_TRY(qs__expect_array(&list, 0, 1 << 16));
    QS_TRY(qs__members_create(&list, sizeof(qs_link), &cluster->link));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place element = qs__element(&list, i);
        QS_TRY(read_link(&element, cluster, &cluster->link[i]));
        cluster->links = (int)i + 1;
    }
    return QS_OK;
}

/* ---- Reading --------------------------------------------------------------------------------------------------------------- */

static qs_status fill(const qs__place *root, qs_cluster *cluster) {
    QS_TRY(qs__expect_fields(root, "schema classes", "links"));
    qs__place classes = qs__field(root, "classes");
    QS_TRY(qs__expect_object(&classes));
    if (json_object_size(classes.value) == 0) return qs__refuse_field(&classes, "must name at least one class");
    QS_TRY(qs__members_create(&classes, sizeof(qs_class), &cluster->class_));
    QS_TRY(qs__each_member(&classes, read_class, cluster));
    if (qs_cluster_ranks(cluster) > MOST_RANKS) return qs__refuse_field(&classes, "the counts add up to more than %d ranks", MOST_RANKS);
    return read_links(root, cluster);
}

static qs_status read_root(const qs__place *root, qs_cluster *out) {
    qs_cluster cluster = {0};
    qs_status status = fill(root, &cluster);
    json_decref(root->value);
    if (status == QS_OK) {
        *out = cluster;
    } else {
        qs_cluster_release(&cluster);
    }
    return status;
}

qs_status qs_cluster_read(const char *path, qs_cluster *out) {
    qs__place root;
    QS_TRY(qs__record_load(path, "cluster", &root));
    return read_root(&root, out);
}

qs_status qs_cluster_parse(const char *json, const char *source, qs_cluster *out) {
    qs__place root;
    QS_TRY(qs__record_parse(json, strlen(json), source, "cluster", &root));
    return read_root(&root, out);
}

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

static void write_recipes(qs__writer *writer, const qs_class *one) {
    qs__open_array(writer, "recipes", QS__ONE_LINE);
    for (int i = 0; i < one->recipes; i++)
        qs__put_text(writer, NULL, one->recipe[i]);
    qs__close(writer);
}

static void write_class(qs__writer *writer, const qs_class *one) {
    qs__open_object(writer, one->name, QS__LINES);
    qs__put_text(writer, "role", one->inference ? "inference" : "training");
    qs__put_text(writer, "backend", one->backend);
    if (*one->device) qs__put_text(writer, "device", one->device);
    qs__put_integer(writer, "count", one->count);
    if (one->hosts > 0) {
        qs__open_array(writer, "hosts", QS__ONE_LINE);
        for (int i = 0; i < one->hosts; i++)
            qs__put_text(writer, NULL, one->host[i]);
        qs__close(writer);
    }
    qs__put_integer(writer, "threads", one->threads);
    qs__put_text(writer, "isa", one->isa);
    qs__put_number(writer, "speed", one->speed);
    if (one->memory_capacity > 0) {
        qs__open_object(writer, "memory", QS__ONE_LINE);
        qs__put_integer(writer, "capacity", one->memory_capacity);
        qs__put_integer(writer, "limit", one->memory_limit);
        qs__close(writer);
    }
    qs__put_names(writer, "formats", one->formats, one->format);
    qs__put_names(writer, "storage", one->storages, one->storage);
    if (one->recipes > 0) write_recipes(writer, one);
    if (one->accumulator.adder) qs__accumulator_write(writer, qs_format_of("fp32"), &one->accumulator);
    qs__close(writer);
}

static void write_link_figures(qs__writer *writer, const qs_link *link) {
    if (link->ranks_per_host > 1) qs__put_integer(writer, "ranks_per_host", link->ranks_per_host);
    if (link->bytes_per_second > 0) qs__put_integer(writer, "bytes_per_second", link->bytes_per_second);
    if (link->latency_us > 0) qs__put_number(writer, "latency_us", link->latency_us);
}

static void write_links(qs__writer *writer, const qs_cluster *cluster) {
    qs__open_array(writer, "links", QS__LINES);
    for (int i = 0; i < cluster->links; i++) {
        qs__open_object(writer, NULL, QS__ONE_LINE);
        qs__open_array(writer, "between", QS__ONE_LINE);
        for (int end = 0; end < 2; end++)
            qs__put_text(writer, NULL, cluster->link[i].between[end]);
        qs__close(writer);
        qs__put_text(writer, "kind", cluster->link[i].kind);
        write_link_figures(writer, &cluster->link[i]);
        qs__close(writer);
    }
    qs__close(writer);
}

qs_status qs_cluster_text(const qs_cluster *cluster, char **json) {
    qs__writer writer = {0};
    qs__record_begin(&writer, "cluster");
    qs__open_object(&writer, "classes", QS__LINES);
    for (int i = 0; i < cluster->classes; i++)
        write_class(&writer, &cluster->class_[i]);
    qs__close(&writer);
    if (cluster->links > 0) write_links(&writer, cluster);
    return qs__record_finish(&writer, "cluster", json);
}

void qs_cluster_release(qs_cluster *cluster) {
    free(cluster->class_);
    free(cluster->link);
    *cluster = (qs_cluster){0};
}

/* ---- Asking ---------------------------------------------------------------------------------------------------------------- */

qs_status qs_cluster_single(const char *backend, int threads, qs_cluster *out) {
    static const char *const formats[] = {"fp32", "bf16", "int8"};
    if (threads < 1 || threads > MOST_THREADS) return qs_fail(QS_USAGE, "threads %d is outside 1 .. %d", threads, MOST_THREADS);
    qs_cluster cluster = {0};
    QS_TRY(qs_allocate(1, sizeof(qs_class), &cluster.class_));
    qs_class *one = cluster.class_;
    *one = (qs_class){.name = "single", .count = 1, .threads = threads, .isa = "all", .speed = 1};
    snprintf(one->backend, sizeof one->backend, "%s", backend);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        one->format[one->formats++] = one->storage[one->storages++] = qs_format_of(formats[i]);
    }
    cluster.classes = 1;
    *out = cluster;
    return QS_OK;
}

int qs_cluster_ranks(const qs_cluster *cluster) {
    int64_t ranks = 0;
    for (int i = 0; i < cluster->classes; i++)
        ranks += cluster->class_[i].count;
    return ranks > INT_MAX ? INT_MAX : (int)ranks;
}

int qs_cluster_class_of(const qs_cluster *cluster, int rank) {
    if (rank < 0) return -1;
    for (int i = 0; i < cluster->classes; i++) {
        if (rank < cluster->class_[i].count) return i;
        rank -= cluster->class_[i].count;
    }
    return -1;
}

qs_status qs_cluster_find(const qs_cluster *cluster, const char *name, int *out) {
    char names[1024];
    int index = index_of(cluster, name);
    if (index < 0) return qs_fail(QS_USAGE, "no class \"%s\"; classes: %s", name, class_names(cluster, names, sizeof names));
    *out = index;
    return QS_OK;
}

const char *qs_cluster_signature(const qs_cluster *cluster, char *buffer) {
    char *json = NULL;
    qs_status status = qs_cluster_text(cluster, &json);
    return qs__sign(status == QS_OK ? json : NULL, buffer);
}

bool qs_class_allows_host(const qs_class *one, const char *host) {
    for (int i = 0; i < one->hosts; i++) {
        if (fnmatch(one->host[i], host, 0) == 0) return true;
    }
    return one->hosts == 0;
}

const qs_format *qs_class_half(const qs_class *one) {
    for (int i = 0; i < one->storages; i++) {
        if (one->storage[i]->kind == QS_KIND_FLOAT && one->storage[i]->bits == 16) return one->storage[i];
    }
    return qs_format_of("fp32");
}
