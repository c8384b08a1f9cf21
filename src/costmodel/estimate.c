// SPDX-License-Identifier: Apache-2.0
/* Profiles of devices that are not at hand: rooflines over published figures. A kernel takes its launch and the larger of operations over
 * rate and bytes over bandwidth. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/comm.h"
#include "qsync/costmodel.h"

/* Of the published figures, what good kernels and libraries reach in training; the same for all devices, so that the ratios between devices
 * and formats are those of the data sheets. */
static const double compute_share = 0.5, memory_share = 0.75, link_share = 0.7;
static const double launch_us = 4, local_latency_us = 5, network_latency_us = 10;
/* Batches of a profile lie so close: the job's over this. */
enum { GRID = 16, MOST_BATCHES = 256 };

/* ---- One step ---------------------------------------------------------------------------------------------------------------- */

typedef struct pace {
    const qs_published_device *device;
    const qs_class *class_; /* that is lent in part, or of format for format */
} pace;

static double memory_us(const pace *at, double bytes) {
    return bytes / (at->device->memory * memory_share * 1e3);
}

/* Tensor units take whole matrices: grouped convolutions, and all that is no GEMM, run on the ordinary cores, and so do products inside a
 * pass, which GPUs form in fp32. */
static double rate_of(const pace *at, const qs_case *one) {
    const bool dense = qs_op_multiplies(one->op) && one->attributes.groups <= 1;
    return (dense ? qs_published_rate(at->device, one->operand[0].format) : at->device->fp32) * compute_share * 1e6;
}

static double kernel_us(const pace *at, const qs_case *one) {
    const double slower = 1 / qs_case_speed(one, at->class_->speed, &at->class_->products);
    return slower * (launch_us + fmax(qs_case_flops(one) / rate_of(at, one), memory_us(at, qs_case_bytes(one))));
}

/* ---- Cases --------------------------------------------------------------------------------------------------------------------- */

typedef struct recorder {
    pace at;
    qs_class_profile *out;
    size_t kernels, conversions; /* capacities */
} recorder;

static qs_status record(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    recorder *to = context;
    *out = (qs_kernel_row){.kernel = "estimated"};
    QS_TRY(qs_grow(&to->out->kernel, &to->kernels, (size_t)to->out->kernels + 1, sizeof *to->out->kernel));
    qs_kernel_cost *row = &to->out->kernel[to->out->kernels];
    *row = (qs_kernel_cost){.us = kernel_us(&to->at, one)};
    row->us_low = row->us_high = row->us;
    snprintf(row->kernel, sizeof row->kernel, "%s", out->kernel);
    QS_TRY(qs_format_text(&row->case_text, "%s", case_text));
    to->out->kernels++;
    return QS_OK;
}

/* ---- Conversions ------------------------------------------------------------------------------------------------------------- */

/* `bits` move for every element of the source. */
static qs_status conversion_add(recorder *to, qs_conversion_cost row, const char *kind, int bits) {
    const double slower = 1 / to->at.class_->speed;
    row.pieces = 1;
    row.piece[0] = (qs_fit_piece){
        .to_elements = INT64_C(1) << 24, .us_per_element = slower * memory_us(&to->at, bits / 8.0), .us = slower * launch_us, .r2 = 1};
    snprintf(row.kind, sizeof row.kind, "%s", kind);
    QS_TRY(qs_grow(&to->out->conversion, &to->conversions, (size_t)to->out->conversions + 1, sizeof row));
    to->out->conversion[to->out->conversions++] = row;
    return QS_OK;
}

static qs_status casts_add(recorder *to, const qs_format *from, const qs_format *into) {
    static const qs_rounding rounding[] = {QS_NEAREST_EVEN, QS_STOCHASTIC};
    for (int r = 0; r < 2; r++)
        QS_TRY(
            conversion_add(to, (qs_conversion_cost){.from = from, .to = into, .rounding = rounding[r]}, "cast", from->bits + into->bits));
    return QS_OK;
}

/* Blocks that share scales, one behind the other in either direction; maxima are found in the pass that rounds. */
static qs_status blocks_add(recorder *to, const qs_format *from, const qs_format *into) {
    static const qs_rounding rounding[] = {QS_NEAREST_EVEN, QS_STOCHASTIC};
    for (qs_conversion_steps steps = QS_STEPS_BLOCKS; steps <= QS_STEPS_BLOCK_ROWS; steps++)
        for (int r = 0; r < 2; r++)
            QS_TRY(conversion_add(to, (qs_conversion_cost){.from = from, .to = into, .steps = steps, .rounding = rounding[r]},
                                  "block_round", from->bits + into->bits));
    return QS_OK;
}

static qs_status fixed_point_add(recorder *to, const qs_format *real, const qs_format *integer) {
    const int bits = real->bits + integer->bits;
    for (qs_conversion_steps steps = 0; steps < QS_STEPS_BLOCKS; steps++) {
        qs_conversion_cost down = {.from = real, .to = integer, .steps = steps, .rounding = QS_NEAREST_EVEN};
        const qs_conversion_cost up = {.from = integer, .to = real, .steps = steps, .rounding = QS_NEAREST_EVEN};
        QS_TRY(conversion_add(to, down, "quantize", bits));
        down.least_squares = true; /* all errors in one pass over the values, which is before that of the codes */
        QS_TRY(conversion_add(to, down, "quantize", real->bits + bits));
        down.least_squares = false;
        down.rounding = QS_STOCHASTIC;
        QS_TRY(conversion_add(to, down, "quantize", bits));
        QS_TRY(conversion_add(to, up, "dequantize", bits));
    }
    return QS_OK;
}

/* The formats of a class, each once. */
static int formats_list(const qs_class *class_, const qs_format **all) {
    int count = class_->formats;
    memcpy(all, class_->format, (size_t)count * sizeof *all);
    for (int i = 0; i < class_->storages; i++) {
        bool known = false;
        for (int k = 0; k < class_->formats; k++)
            known = known || all[k] == class_->storage[i];
        if (!known) all[count++] = class_->storage[i];
    }
    return count;
}

static qs_status pair_add(recorder *to, const qs_format *from, const qs_format *into) {
    if (from->kind != QS_KIND_FLOAT) return QS_OK;
    return into->kind == QS_KIND_FLOAT ? casts_add(to, from, into) : fixed_point_add(to, from, into);
}

/* Normalisations in fixed point make codes whether or not the class multiplies any. */
static void codes_add(const qs_graph *graph, const qs_format **all, int *count) {
    const qs_format *codes = qs_format_of("int8");
    bool wanted = false;
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        wanted = wanted || (graph->node[n].op->norm && graph->node[n].op->norm->quantized);
    for (int i = 0; i < *count; i++)
        wanted = wanted && all[i] != codes;
    if (wanted) all[(*count)++] = codes;
}

static bool has_blocks(int recipes, const qs_recipe *recipe) {
    bool found = false;
    for (int r = 0; r < recipes; r++)
        found =
            found || recipe[r].forward.src.blocks || recipe[r].input_gradient.diff_dst.blocks || recipe[r].weight_gradient.diff_dst.blocks;
    return found;
}

static qs_status conversions_estimate(recorder *to, const qs_class *class_, const qs_graph *graph, bool blocks) {
    const qs_format *all[2 * QS_MAX_FORMATS + 1];
    int count = formats_list(class_, all);
    codes_add(graph, all, &count);
    for (int a = 0; a < count; a++) {
        for (int b = 0; b < count; b++)
            if (a != b) QS_TRY(pair_add(to, all[a], all[b]));
        for (int b = 0; b < count; b++)
            if (blocks && all[a]->kind == QS_KIND_FLOAT && all[b]->kind == QS_KIND_FLOAT) QS_TRY(blocks_add(to, all[a], all[b]));
        if (all[a]->kind != QS_KIND_FLOAT) continue;
        QS_TRY(
            conversion_add(to, (qs_conversion_cost){.from = all[a], .to = all[a], .rounding = QS_NEAREST_EVEN}, "add", 3 * all[a]->bits));
        for (qs_conversion_steps steps = 0; steps < QS_STEPS_BLOCKS; steps++)
            if (steps != QS_STEPS_SHIFT && steps != QS_STEPS_CHANNEL && steps != QS_STEPS_CHANNEL_AND_COLUMN)
                /* groups follow from maxima of columns; rows find their own where they are quantized */
                QS_TRY(conversion_add(to, (qs_conversion_cost){.from = all[a], .steps = steps, .rounding = QS_NEAREST_EVEN}, "absmax",
                                      all[a]->bits));
    }
    return QS_OK;
}

/* ---- A class ------------------------------------------------------------------------------------------------------------------- */

static qs_status class_check(const qs_class *class_, const qs_published_device *device) {
    const double capacity = device->capacity * 1073741824.0;
    const qs_format *all[2 * QS_MAX_FORMATS];
    const int count = formats_list(class_, all);
    for (int i = 0; i < count; i++)
        if (qs_published_rate(device, all[i]) <= 0)
            return qs_fail(QS_UNSUPPORTED, "class %s: %s has no published rate in %s; leave it out of the class's formats and storage",
                           class_->name, device->product, all[i]->name);
    if (class_->cuda_multiprocessors > 0)
        return qs_fail(QS_UNSUPPORTED, "class %s: published figures are of whole GPUs, not of %d multiprocessors; leave the field out",
                       class_->name, class_->cuda_multiprocessors);
    if ((double)class_->memory_capacity <= capacity) return QS_OK;
    return qs_fail(QS_MISMATCH, "class %s: a capacity of %lld bytes, but %s has %g GiB", class_->name, (long long)class_->memory_capacity,
                   device->product, device->capacity);
}

static qs_status device_find(const qs_class *class_, const qs_published_device **out) {
    if (*class_->device) return qs_fail_within(qs_published_find(class_->device, out), "class %s", class_->name);
    size_t count = 0;
    while (qs_published_name_at(count))
        count++;
    return qs_fail(QS_USAGE, "class %s names no \"device\" to estimate it by; published are %s", class_->name,
                   qs_names_join(count, qs_published_name_at));
}

static void class_describe(const qs_class *class_, const qs_published_device *device, qs_class_profile *out) {
    *out = (qs_class_profile){.threads = class_->threads, .speed = class_->speed, .products = class_->products, .estimated = true};
    snprintf(out->class_name, sizeof out->class_name, "%s", class_->name);
    snprintf(out->backend, sizeof out->backend, "%s", class_->backend);
    snprintf(out->device, sizeof out->device, "%s", device->product);
    snprintf(out->isa, sizeof out->isa, "published");
    snprintf(out->library, sizeof out->library, "roofline");
}

/* Cases without samples in their shapes (weights, updates) are met again at every batch. */
static void duplicates_drop(qs_class_profile *out) {
    int kept = 0;
    qs_class_profile_sort(out);
    for (int i = 0; i < out->kernels; i++) {
        if (kept > 0 && strcmp(out->kernel[kept - 1].case_text, out->kernel[i].case_text) == 0)
            free(out->kernel[i].case_text);
        else
            out->kernel[kept++] = out->kernel[i];
    }
    out->kernels = kept;
}

/* Kernels at every batch and length that the profile shall know. */
static qs_status batches_estimate(qs_lowering *lowering, const qs_graph_lengths *lengths, const qs_profile *profile, int recipes,
                                  const qs_recipe *recipe, qs_class_profile *out) {
    for (int k = 0; k < lengths->count; k++)
        for (int b = 0; b < profile->batches; b++) {
            lowering->graph = lengths->graph[k];
            lowering->batch = profile->batch_row[b].samples;
            QS_TRY(qs_schedule_cases(lowering, recipes, recipe, NULL, NULL));
        }
    duplicates_drop(out);
    return QS_OK;
}

static qs_status class_estimate(const qs_graph_lengths *lengths, const qs_class *class_, const qs_job *job, const qs_profile *profile,
                                qs_class_profile *out) {
    const qs_published_device *device = NULL;
    const qs_graph *graph = lengths->graph[lengths->count - 1];
    const qs_recipe **first = NULL;
    qs_recipe recipe[QS_MAX_FORMATS];
    int recipes = 0;
    QS_TRY(device_find(class_, &device));
    QS_TRY(class_check(class_, device));
    QS_TRY(qs_class_recipes(class_, QS_MAX_FORMATS, recipe, &recipes));
    class_describe(class_, device, out);
    recorder to = {.at = {device, class_}, .out = out};
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *first, &first));
    qs_lowering lowering = {
        .mode = QS_MODE_TRAIN, .job = job, .recipe = first, .half = qs_class_half(class_), .lookup = record, .context = &to};
    qs_status status = qs_fail_within(batches_estimate(&lowering, lengths, profile, recipes, recipe, out), "class %s", class_->name);
    if (status == QS_OK) status = conversions_estimate(&to, class_, graph, has_blocks(recipes, recipe));
    free(first);
    return status;
}

/* ---- All-reduces --------------------------------------------------------------------------------------------------------------- */

/* Two ranks at the ends of one link: two messages of half the bytes in a ring, one of all of them in recursive doubling. */
static qs_collective_cost link_row(const qs_job *job, int hosts, const char *link, double bytes_per_us, double latency_us) {
    const int messages = qs_comm_all_reduce_facts(job->algorithm, "fp32", 2).messages;
    qs_collective_cost row = {
        .ranks = 2, .hosts = hosts, .alpha_us = messages * latency_us, .us_per_byte = 1 / (bytes_per_us * link_share), .r2 = 1};
    snprintf(row.algorithm, sizeof row.algorithm, "%s", job->algorithm);
    snprintf(row.link, sizeof row.link, "%s", link);
    return row;
}

/* The slowest link within a host sets the pace; published figures count both directions. */
static qs_collective_cost local_row(const qs_cluster *cluster, const qs_job *job) {
    double slowest = INFINITY;
    for (int c = 0; c < cluster->classes; c++) {
        const qs_published_device *device = NULL;
        if (qs_published_find(cluster->class_[c].device, &device) == QS_OK) slowest = fmin(slowest, device->link / 2);
    }
    return link_row(job, 1, "shared-memory", slowest * 1e3, local_latency_us);
}

/* The slowest link between hosts, of those that tell. */
static qs_status network_row(const qs_cluster *cluster, const qs_job *job, qs_collective_cost *out) {
    const char *kind = qs_cluster_network(cluster);
    double slowest = INFINITY, latency_us = 0;
    for (int i = 0; i < cluster->links; i++) {
        const qs_link *link = &cluster->link[i];
        if (strcmp(link->kind, "shared-memory") == 0 || link->bytes_per_second <= 0) continue;
        slowest = fmin(slowest, (double)link->bytes_per_second / 1e6);
        latency_us = fmax(latency_us, link->latency_us);
    }
    if (isinf(slowest))
        return qs_fail(QS_MISMATCH, "the cluster does not say how fast its hosts are linked: add \"bytes_per_second\" to a link of kind %s",
                       kind);
    *out = link_row(job, 2, kind, slowest, latency_us > 0 ? latency_us : network_latency_us);
    return QS_OK;
}

static qs_status collectives_estimate(const qs_cluster *cluster, const qs_job *job, qs_profile *out) {
    const int ranks = qs_cluster_ranks(cluster);
    int *host = NULL, hosts = 0;
    if (qs_comm_all_reduce_facts(job->algorithm, "fp32", 2).shared)
        return qs_fail(QS_UNSUPPORTED,
                       "all-reduce shared is of processes on one machine: estimate with ring, recursive-doubling or library");
    if (strcmp(job->wire, "fp32") != 0)
        return qs_fail(QS_UNSUPPORTED, "wire %s: what packing takes is not published: estimate with wire fp32, or measure", job->wire);
    QS_TRY(qs_allocate((size_t)ranks, sizeof *host, &host));
    qs_cluster_hosts(cluster, host, &hosts);
    free(host);
    QS_TRY(qs_allocate(2, sizeof *out->collective, &out->collective));
    out->collective[out->collectives++] = local_row(cluster, job);
    if (hosts < 2) return QS_OK;
    QS_TRY(network_row(cluster, job, &out->collective[out->collectives]));
    out->collectives++;
    return QS_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------------------- */

static void model_describe(const qs_graph *graph, const qs_job *job, qs_profile *out) {
    *out = (qs_profile){.batch = job->batch, .samples = graph->samples};
    snprintf(out->model, sizeof out->model, "%s", qs_model_is_file(job->model) ? job->model : graph->name); /* what opens it */
    qs_graph_signature(graph, out->graph);
}

/* The job's batch and, in steps of a sixteenth of it, those around it. */
static qs_status batches_list(const qs_job *job, int64_t least, int64_t most, qs_profile *out) {
    const int64_t own = job->batch, step = own / GRID > 0 ? own / GRID : 1;
    if (least < 1 || least > own || most < own || most > INT32_MAX)
        return qs_fail(QS_USAGE, "batches %lld to %lld: must be at least 1 and have the job's, %lld, between them", (long long)least,
                       (long long)most, (long long)own);
    const int64_t below = (own - least) / step, above = (most - own) / step;
    if (below + above >= MOST_BATCHES)
        return qs_fail(QS_USAGE, "batches %lld to %lld: more than %d steps of %lld", (long long)least, (long long)most, MOST_BATCHES,
                       (long long)step);
    QS_TRY(qs_allocate((size_t)(below + above + 1), sizeof *out->batch_row, &out->batch_row));
    for (int64_t i = -below; i <= above; i++)
        out->batch_row[out->batches++] = (qs_profile_batch){.samples = own + i * step};
    return QS_OK;
}

qs_status qs_profile_estimate(const qs_graph *graph, const qs_cluster *cluster, const qs_job *job, int64_t least, int64_t most,
                              qs_profile *out) {
    qs_profile profile;
    qs_graph_lengths lengths = {0};
    qs_status status = QS_OK;
    model_describe(graph, job, &profile);
    QS_GOTO(qs_graph_lengths_make(graph, &job->lengths, &lengths));
    QS_GOTO(qs_allocate((size_t)job->lengths.count, sizeof *profile.length_row, &profile.length_row));
    for (; profile.lengths < job->lengths.count; profile.lengths++)
        profile.length_row[profile.lengths].length = job->lengths.at[profile.lengths];
    QS_GOTO(batches_list(job, least, most, &profile));
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *profile.class_, &profile.class_));
    for (int c = 0; c < cluster->classes; c++) {
        profile.classes = c + 1;
        QS_GOTO(class_estimate(&lengths, &cluster->class_[c], job, &profile, &profile.class_[c]));
    }
    QS_GOTO(collectives_estimate(cluster, job, &profile));
    *out = profile;
    profile = (qs_profile){0};
done:
    qs_graph_lengths_release(&lengths);
    qs_profile_release(&profile);
    return status;
}
