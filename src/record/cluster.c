// SPDX-License-Identifier: Apache-2.0
/* cluster.json: the device classes, their memory and formats, and the links between them. Which ranks share a host. */
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* Bounds that only catch slips of the pen. */
enum { MOST_RANKS = 1 << 20, MOST_LINKS = 1 << 16 };

/* ---- A class --------------------------------------------------------------------------------------------------------------- */

static const char *const roles[] = {"training", "inference", NULL};

static const qs__field memory_fields[] = {
    {"capacity", QS__SIZE, QS__REQUIRED, QS__AT(qs_class, memory_capacity), .low = 1, .text = "memory of one device"},
    {"limit", QS__SIZE, QS__DERIVED, QS__AT(qs_class, memory_limit), .low = 1, .related = offsetof(qs_class, memory_capacity),
     .values = "bytes, `\"644MiB\"`, or `\"30%\"` of the capacity", .absent = "`share` of the capacity",
     .text = "what the arena may take; at most the capacity"},
};
static const qs__record memory_record = {QS__FIELDS(memory_fields), .layout = QS__ONE_LINE};

static qs_status speed_read(const qs__place *place, void *object) {
    qs_class *one = object;
    return qs__speeds_read(place, &one->speed, &one->products);
}

static void speed_write(qs__writer *writer, const char *name, const void *object) {
    const qs_class *one = object;
    qs__speeds_write(writer, name, one->speed, &one->products);
}

static const qs__hook speed_hook = {speed_read, speed_write, NULL, NULL};

static const qs__field class_fields[] = {
    {"role", QS__CHOICE, QS__REQUIRED, QS__AT(qs_class, inference), .names = roles,
     .text = "which side the class is on; nothing assumes which of the two is slower"},
    {"backend", QS__NAME, QS__REQUIRED, QS__AT(qs_class, backend), .text = "device backend: `cpu`, `ref`, `far`, `cuda`"},
#define QS_BACKEND(name)                      \
    {#name,                                   \
     QS__OBJECT,                              \
     QS__OPTIONAL,                            \
     QS__OWN,                                 \
     .of = &qs__##name##_class_record,        \
     .selector = offsetof(qs_class, backend), \
     .absent = "as each of its fields",       \
     .text = "fields of backend `" #name "`; only its classes have them"},
#include "backends.def"
#undef QS_BACKEND
    {"device", QS__NAME, QS__LEFT_OUT, QS__AT(qs_class, device), .absent = "not said",
     .text = "published device (`v100`, `t4`, ...) whose figures `qsync profile --estimate` takes"},
    {"count", QS__COUNT, QS__OPTIONAL, QS__AT(qs_class, count), .low = 1, .high = MOST_RANKS, .standard = 1, .unit = "ranks",
     .text = "processes of this class"},
    {"hosts", QS__TEXT, QS__LEFT_OUT, QS__IN(qs_class, host, hosts), .least = 1, .most = QS_MAX_HOSTS, .unit = "patterns",
     .absent = "any host", .text = "hosts that it may run on, with shell wildcards (`gpu*`)"},
    {"share", QS__PART, QS__INPUT, QS__AT(qs_class, speed), .standard = 1,
     .text = "part of the device that is lent: the default of `speed` and of `memory.limit`, which are written in its place"},
    {"speed", QS__OBJECT, QS__DERIVED, QS__OWN, .hook = &speed_hook, .values = "part, or object: format → part", .absent = "`share`",
     .text =
         "part of its compute: after each kernel the device rests for kernel time × (1/speed − 1). By formats, `fp32` among them: of the "
         "products of linear layers, convolutions and matmuls in each (a format that is not named counts as the narrowest named one of "
         "its kind that is as wide, else as `fp32`); all else has the greatest of them"},
    {"memory", QS__OBJECT, QS__LEFT_OUT, QS__OWN, .of = &memory_record, .absent = "no limit",
     .text = "what one device has, and how much of it may be used"},
    {"formats", QS__FORMAT, QS__REQUIRED, QS__IN(qs_class, format, formats), .least = 1, .most = QS_MAX_FORMATS, .unit = "formats",
     .text = "compute formats; `fp32` is among them. What planners make of them: a float format is a recipe; `int8` stands for `int8/bf16` "
             "(or fp16, fp32), narrower integers for all three products in them, `int4` for `int4:shift4`. Plans may use any narrower "
             "integer as well"},
    {"storage", QS__FORMAT, QS__DERIVED, QS__IN(qs_class, storage, storages), .least = 1, .most = QS_MAX_FORMATS, .unit = "formats",
     .absent = "the floats among `formats`", .text = "formats in which activations may be kept; `fp32` is among them"},
    {"recipes", QS__TEXT, QS__LEFT_OUT, QS__IN(qs_class, recipe, recipes), .least = 1, .most = QS_MAX_FORMATS, .unit = "built-in recipes",
     .absent = "one for each of `formats`",
     .text = "what planners try, from the highest precision to the lowest in whatever order they stand here; `fp32` is among them, and "
             "their formats are among `formats`: `[\"fp32\", \"bf16\", \"int8/bf16\", \"int8:tensor\", \"int4:shift2\"]`"},
    {"accumulator", QS__ACCUMULATOR, QS__LEFT_OUT, QS__AT(qs_class, accumulator), .absent = "`fp32`",
     .text = "what its GEMMs of floats add in; profiles are measured with it, plans for the class name it, and training it without a plan "
             "is refused ([accumulators.md](accumulators.md))"},
};

static bool has_format(int count, const qs_format *const *formats, const qs_format *wanted) {
    for (int i = 0; i < count; i++)
        if (formats[i] == wanted) return true;
    return false;
}

static qs_status formats_check(const qs__place *place, const char *key, int count, const qs_format *const *formats) {
    const qs__place list = qs__member(place, key);
    for (int i = 0; i < count; i++) {
        const qs__place element = qs__element(&list, (size_t)i);
        if (has_format(i, formats, formats[i])) return qs__refuse_value(&element, "\"%s\" stands there twice", formats[i]->name);
    }
    if (has_format(count, formats, qs_format_of("fp32"))) return QS_OK;
    return qs__refuse_value(&list, "must contain \"fp32\": losses, sums and optimizers are kept in it");
}

/* Built-in ones that compute in the class's formats, under the names that they have there. */
static qs_status recipes_check(const qs__place *place, qs_class *one) {
    const qs__place list = qs__member(place, "recipes");
    bool has_fp32 = one->recipes == 0;
    for (int i = 0; i < one->recipes; i++) {
        const qs__place element = qs__element(&list, (size_t)i);
        char *name = one->recipe[i];
        qs_recipe recipe;
        if (qs_recipe_builtin(name, &recipe) != QS_OK) return qs__refuse_value(&element, "%s", qs_message());
        memcpy(name, recipe.name, sizeof recipe.name);
        const qs_format *const used[] = {recipe.forward.src.format, recipe.weight_gradient.diff_dst.format};
        for (int u = 0; u < 2; u++)
            if (!has_format(one->formats, one->format, used[u]))
                return qs__refuse_value(&element, "\"%s\" computes in %s, which is not among the class's formats", name, used[u]->name);
        for (int other = 0; other < i; other++)
            if (strcmp(one->recipe[other], name) == 0) return qs__refuse_value(&element, "\"%s\" stands there twice", name);
        has_fp32 = has_fp32 || strcmp(name, "fp32") == 0;
    }
    return has_fp32 ? QS_OK : qs__refuse_value(&list, "must contain \"fp32\": plans go back to it where nothing lower is needed");
}

static qs_status class_check(const qs__place *place, void *object, void *root) {
    (void)root;
    qs_class *one = object;
    const qs__place share = qs__member(place, "share"), memory = qs__member(place, "memory"), limit = qs__member(&memory, "limit");
    double part = 1;
    if (share.value) QS_TRY(qs__part_take(&share, &part));
    if (memory.value && !limit.value)
        one->memory_limit = part < 1 ? (int64_t)fmax(part * (double)one->memory_capacity, 1) : one->memory_capacity;
    if (one->memory_limit > one->memory_capacity)
        return qs__refuse_value(&limit, "%lld bytes are above the capacity of %lld", (long long)one->memory_limit,
                                (long long)one->memory_capacity);
    QS_TRY(formats_check(place, "formats", one->formats, one->format));
    if (one->storages > 0) QS_TRY(formats_check(place, "storage", one->storages, one->storage));
    for (int i = 0; i < one->formats && !qs__member(place, "storage").value; i++)
        if (one->format[i]->kind == QS_KIND_FLOAT) one->storage[one->storages++] = one->format[i];
    return recipes_check(place, one);
}

static const qs__record class_record = {QS__FIELDS(class_fields), .title = "A device class: `classes.*`", .key = QS_NAME,
                                        .check = class_check};

/* ---- A link ---------------------------------------------------------------------------------------------------------------- */

static const qs__field link_fields[] = {
    {"between", QS__TEXT, QS__REQUIRED, QS__PAIR(qs_link, between), .least = 2, .most = 2, .values = "two class names",
     .text = "the classes that it joins, or one class, named twice"},
    {"kind", QS__NAME, QS__REQUIRED, QS__AT(qs_link, kind),
     .text = "`shared-memory`: these share a host; any other name, like `network`: they are on different hosts"},
    {"ranks_per_host", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_link, ranks_per_host), .low = 1, .high = MOST_RANKS, .standard = 1,
     .text = "of a class whose own ranks are on different hosts: `between` names it twice"},
    {"bytes_per_second", QS__SIZE, QS__LEFT_OUT, QS__AT(qs_link, bytes_per_second), .low = 1, .values = "bytes, or `\"12.5GB\"`",
     .absent = "not said", .text = "of a host's end, in one direction; estimated profiles need it of links between hosts"},
    {"latency_us", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_link, latency_us), .high = 1e9, .unit = "µs", .absent = "not said",
     .text = "of a message; estimated profiles take 10 µs where it is not said"},
};

static bool is_network(const qs_link *link) {
    return strcmp(link->kind, "shared-memory") != 0;
}

static int class_index(const qs_cluster *cluster, const char *name) {
    for (int i = 0; i < cluster->classes; i++)
        if (strcmp(cluster->class_[i].name, name) == 0) return i;
    return -1;
}

/* Names of the classes for a message. */
static const char *class_names(const qs_cluster *cluster, char *text, size_t capacity) {
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < cluster->classes && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", cluster->class_[i].name);
    return text;
}

static qs_status link_check(const qs__place *place, void *object, void *root) {
    const qs_link *link = object;
    char names[512];
    const qs__place between = qs__member(place, "between"), spread = qs__member(place, "ranks_per_host");
    for (size_t i = 0; i < 2; i++) {
        const qs__place end = qs__element(&between, i);
        if (class_index(root, link->between[i]) < 0)
            return qs__refuse_value(&end, "\"%s\" is not in classes (%s)", link->between[i], class_names(root, names, sizeof names));
    }
    if (spread.value && (!is_network(link) || strcmp(link->between[0], link->between[1]) != 0))
        return qs__refuse_value(&spread, "holds between the ranks of one class that are on different hosts");
    return QS_OK;
}

static const qs__record link_record = {QS__FIELDS(link_fields), .title = "A link: `links[]`", .layout = QS__ONE_LINE, .check = link_check};

/* ---- The cluster ----------------------------------------------------------------------------------------------------------- */

static const qs__field cluster_fields[] = {
    {"classes", QS__OBJECT, QS__REQUIRED, QS__TABLE(qs_cluster, class_, classes), .least = 1, .of = &class_record,
     .values = "object: name → class",
     .text = "what one owns, in the order in which ranks are dealt out; at least one. Names have up to 63 bytes"},
    {"links", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_cluster, link, links), .most = MOST_LINKS, .of = &link_record, .values = "list",
     .absent = "empty", .text = "how classes reach each other"},
};

static qs_status cluster_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs__place classes = qs__member(place, "classes");
    if (qs_cluster_ranks(object) <= MOST_RANKS) return QS_OK;
    return qs__refuse_value(&classes, "the counts add up to more than %d ranks", MOST_RANKS);
}

const qs__record qs__cluster_record = {QS__FIELDS(cluster_fields), .kind = "cluster", .size = sizeof(qs_cluster), .check = cluster_check};

qs_status qs_cluster_read(const char *path, qs_cluster *out) {
    return qs__record_read(&qs__cluster_record, path, out);
}

qs_status qs_cluster_parse(const char *json, const char *source, qs_cluster *out) {
    return qs__record_parse(&qs__cluster_record, json, strlen(json), source, out);
}

qs_status qs_cluster_text(const qs_cluster *cluster, char **json) {
    return qs__record_text(&qs__cluster_record, cluster, json);
}

qs_status qs_cluster_copy(const qs_cluster *cluster, qs_cluster *out) {
    return qs__record_copy(&qs__cluster_record, cluster, out);
}

const char *qs_cluster_signature(const qs_cluster *cluster, char *buffer) {
    return qs__record_signature(&qs__cluster_record, cluster, buffer);
}

void qs_cluster_release(qs_cluster *cluster) {
    qs__record_release(&qs__cluster_record, cluster);
}

qs_status qs_cluster_single(const char *backend, int threads, qs_cluster *out) {
    static const char *const formats[] = {"fp32", "bf16", "int8"};
    if (threads < 1 || threads > QS__MOST_THREADS) return qs_fail(QS_USAGE, "threads %d is outside 1 .. %d", threads, QS__MOST_THREADS);
    qs_cluster cluster = {.classes = 1};
    QS_TRY(qs_allocate(1, sizeof(qs_class), &cluster.class_));
    qs_class *one = cluster.class_;
    *one = (qs_class){.name = "single", .count = 1, .threads = threads, .isa = "all", .speed = 1};
    snprintf(one->backend, sizeof one->backend, "%s", backend);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        one->format[one->formats++] = one->storage[one->storages++] = qs_format_of(formats[i]);
    *out = cluster;
    return QS_OK;
}

/* ---- Asking ---------------------------------------------------------------------------------------------------------------- */

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
    const int index = class_index(cluster, name);
    if (index < 0) return qs_fail(QS_USAGE, "no class \"%s\"; classes: %s", name, class_names(cluster, names, sizeof names));
    *out = index;
    return QS_OK;
}

bool qs_class_allows_host(const qs_class *one, const char *host) {
    for (int i = 0; i < one->hosts; i++)
        if (fnmatch(one->host[i], host, 0) == 0) return true;
    return one->hosts == 0;
}

const qs_format *qs_class_half(const qs_class *one) {
    for (int i = 0; i < one->storages; i++)
        if (one->storage[i]->kind == QS_KIND_FLOAT && one->storage[i]->bits == 16) return one->storage[i];
    return qs_format_of("fp32");
}

/* ---- Hosts ----------------------------------------------------------------------------------------------------------------- */

const char *qs_cluster_network(const qs_cluster *cluster) {
    for (int i = 0; i < cluster->links; i++)
        if (is_network(&cluster->link[i])) return cluster->link[i].kind;
    return "network";
}

/* The network between two classes, or between the ranks of one; NULL when nothing says that they are apart. */
static const qs_link *network_between(const qs_cluster *cluster, int a, int b) {
    const char *left = cluster->class_[a].name, *right = cluster->class_[b].name;
    for (int i = 0; i < cluster->links; i++) {
        const qs_link *link = &cluster->link[i];
        const bool straight = strcmp(link->between[0], left) == 0 && strcmp(link->between[1], right) == 0;
        const bool turned = strcmp(link->between[0], right) == 0 && strcmp(link->between[1], left) == 0;
        if ((straight || turned) && is_network(link)) return link;
    }
    return NULL;
}

static int ranks_per_host(const qs_cluster *cluster, int index) {
    const qs_link *own = network_between(cluster, index, index);
    return own ? own->ranks_per_host : cluster->class_[index].count > 0 ? cluster->class_[index].count : 1;
}

static int hosts_of(const qs_cluster *cluster, int index) {
    const int per_host = ranks_per_host(cluster, index);
    return (cluster->class_[index].count + per_host - 1) / per_host;
}

void qs_cluster_hosts(const qs_cluster *cluster, int *host, int *hosts) {
    *hosts = 0;
    for (int c = 0, rank = 0; c < cluster->classes; c++) {
        /* A class is on the hosts of the first class before it that has hosts enough, where no network separates it from those that are
         * there already; else on hosts of its own. */
        int first = -1, at = 0;
        for (int e = 0; e < c && first < 0; at += cluster->class_[e++].count) {
            bool joins = cluster->class_[e].count > 0 && hosts_of(cluster, c) <= hosts_of(cluster, e);
            for (int other = 0, there = 0; joins && other < c; there += cluster->class_[other++].count)
                if (cluster->class_[other].count > 0 && host[there] == host[at] && network_between(cluster, other, c)) joins = false;
            if (joins) first = host[at];
        }
        if (first < 0) {
            first = *hosts;
            *hosts += hosts_of(cluster, c);
        }
        for (int i = 0; i < cluster->class_[c].count; i++)
            host[rank++] = first + i / ranks_per_host(cluster, c);
    }
}
