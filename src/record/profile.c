// SPDX-License-Identifier: Apache-2.0
/* profile.json: what was measured: kernel costs of every class, conversion fits. All-reduces stand in collectives.c, the raw statistics of
 * tensors in statistics.c. */
#include "profile_internal.h"

#include <stdlib.h>
#include <string.h>

/* No figure of a profile is longer than this: eleven days. Sums of them stay finite. */
static const double most_us = 1e12;

static const char *const granularity_names[] = {"tensor", "channel", "column", "shift", "hadamard", "hadamard-rows", "channel+column"};

/* ---- Reading: kernels ------------------------------------------------------------------------------------------------------ */

static qs_status read_kernel_time(const qs__place *row, qs_kernel_cost *out) {
    qs__place time = qs__field(row, "us");
    QS_TRY(qs__expect_fields(&time, "median low high samples", "cold_bytes us_per_cold_byte alone"));
    QS_TRY(qs__get_number(&time, "median", 0, most_us, &out->us));
    QS_TRY(qs__get_number(&time, "low", 0, most_us, &out->us_low));
    QS_TRY(qs__get_number(&time, "high", 0, most_us, &out->us_high));
    QS_TRY(qs__get_number(&time, "cold_bytes", 0, INFINITY, &out->cold_bytes));
    QS_TRY(qs__get_number(&time, "us_per_cold_byte", 0, most_us, &out->us_per_cold_byte));
    QS_TRY(qs__get_number(&time, "alone", 0, most_us, &out->us_alone));
    return qs__get_count(&time, "samples", 0, INT32_MAX, &out->samples);
}

static qs_status read_kernel(const qs__place *row, qs_kernel_cost *out) {
    char text[2048];
    QS_TRY(qs__expect_fields(row, "case kernel us scratch_bytes allocates", "tuned held_bytes shared_bytes code_bytes"));
    QS_TRY(qs__get_name(row, "case", text, sizeof text));
    QS_TRY(qs__get_name(row, "kernel", out->kernel, sizeof out->kernel));
    QS_TRY(read_kernel_time(row, out));
    QS_TRY(qs__get_integer(row, "scratch_bytes", 0, INT64_MAX, &out->scratch_bytes));
    QS_TRY(qs__get_flag(row, "allocates", &out->allocates));
    QS_TRY(qs__get_flag(row, "tuned", &out->tuned));
    QS_TRY(qs__get_integer(row, "held_bytes", 0, INT64_MAX, &out->held_bytes));
    QS_TRY(qs__get_integer(row, "shared_bytes", 0, INT64_MAX, &out->shared_bytes));
    QS_TRY(qs__get_integer(row, "code_bytes", 0, INT64_MAX, &out->code_bytes));
    return qs_format_text(&out->case_text, "%s", text);
}

static int compare_kernels(const void *a, const void *b) {
    const qs_kernel_cost *left = a, *right = b;
    return strcmp(left->case_text, right->case_text);
}

void qs_class_profile_sort(qs_class_profile *profile) {
    if (profile->kernels > 1) qsort(profile->kernel, (size_t)profile->kernels, sizeof *profile->kernel, compare_kernels);
}

static qs_status read_kernels(const qs__place *member, qs_class_profile *out) {
    qs__place list = qs__field(member, "kernels");
    QS_TRY(qs__expect_array(&list, 0, INT32_MAX));
    QS_TRY(qs__members_create(&list, sizeof(qs_kernel_cost), &out->kernel));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place row = qs__element(&list, i);
        QS_TRY(read_kernel(&row, &out->kernel[i]));
        out->kernels = (int)i + 1;
    }
    qs_class_profile_sort(out);
    for (int i = 1; i < out->kernels; i++) {
        const char *text = out->kernel[i].case_text;
        if (strcmp(text, out->kernel[i - 1].case_text) == 0) return qs__refuse_field(&list, "case \"%.400s\" stands there twice", text);
    }
    return QS_OK;
}

/* ---- Reading: conversions -------------------------------------------------------------------------------------------------- */

static qs_status read_piece(const qs__place *row, int64_t least, qs_fit_piece *out) {
    QS_TRY(qs__expect_fields(row, "to_elements us_per_element us r2 worst_residual", "mean_residual"));
    QS_TRY(qs__get_integer(row, "to_elements", least, INT64_MAX, &out->to_elements));
    QS_TRY(qs__get_number(row, "us_per_element", 0, most_us, &out->us_per_element));
    QS_TRY(qs__get_number(row, "us", 0, most_us, &out->us));
    QS_TRY(qs__get_number(row, "r2", -INFINITY, 1, &out->r2));
    QS_TRY(qs__get_number(row, "worst_residual", 0, INFINITY, &out->worst_residual));
    return qs__get_number(row, "mean_residual", 0, INFINITY, &out->mean_residual);
}

static qs_status read_pieces(const qs__place *row, qs_conversion_cost *out) {
    qs__place list = qs__field(row, "pieces");
    QS_TRY(qs__expect_array(&list, 1, sizeof out->piece / sizeof *out->piece));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place element = qs__element(&list, i);
        QS_TRY(read_piece(&element, i ? out->piece[i - 1].to_elements : 1, &out->piece[i]));
    }
    out->pieces = (int)json_array_size(list.value);
    return QS_OK;
}

static qs_status read_granularity(const qs__place *row, qs_conversion_steps *steps) {
    char text[32];
    QS_TRY(qs__get_text(row, "granularity", text, sizeof text));
    for (int i = 0; i < QS_STEPS_COUNT; i++) {
        if (strcmp(text, granularity_names[i]) == 0) {
            *steps = (qs_conversion_steps)i;
            return QS_OK;
        }
    }
    qs__place field = qs__field(row, "granularity");
    return qs__refuse_field(
        &field, "must be \"tensor\", \"channel\", \"column\", \"shift\", \"hadamard\", \"hadamard-rows\" or \"channel+column\", is \"%s\"",
        text);
}

static qs_status read_conversion(const qs__place *row, qs_conversion_cost *out) {
    char rounding[32];
    QS_TRY(qs__expect_fields(row, "kind from granularity rounding pieces", "to weights in_steps alone"));
    QS_TRY(qs__get_name(row, "kind", out->kind, sizeof out->kind));
    QS_TRY(qs__get_format(row, "from", &out->from));
    QS_TRY(qs__get_format(row, "to", &out->to));
    QS_TRY(read_granularity(row, &out->steps));
    QS_TRY(qs__get_text(row, "rounding", rounding, sizeof rounding));
    qs__place field = qs__field(row, "rounding");
    if (qs_rounding_find(rounding, &out->rounding) != QS_OK) return qs__refuse_field(&field, "%s", qs_message());
    QS_TRY(qs__get_flag(row, "weights", &out->weights));
    QS_TRY(qs__get_number(row, "in_steps", 0, most_us, &out->in_steps));
    QS_TRY(qs__get_number(row, "alone", 0, most_us, &out->alone));
    return read_pieces(row, out);
}

static qs_status read_conversions(const qs__place *member, qs_class_profile *out) {
    qs__place list = qs__field(member, "conversions");
    QS_TRY(qs__expect_array(&list, 0, INT32_MAX));
    QS_TRY(qs__members_create(&list, sizeof(qs_conversion_cost), &out->conversion));
    for (size_t i = 0; i < json_array_size(list.value); i++) {
        qs__place row = qs__element(&list, i);
        QS_TRY(read_conversion(&row, &out->conversion[i]));
    }
    out->conversions = (int)json_array_size(list.value);
    return QS_OK;
}

/* ---- Reading: classes, collectives, the whole ------------------------------------------------------------------------------ */

static qs_status read_device(const qs__place *member, qs_class_profile *out) {
    qs__place device = qs__field(member, "device");
    QS_TRY(qs__expect_fields(&device, "cpu isa threads speed library build", ""));
    QS_TRY(qs__get_text(&device, "cpu", out->cpu, sizeof out->cpu));
    QS_TRY(qs__get_text(&device, "isa", out->isa, sizeof out->isa));
    QS_TRY(qs__get_count(&device, "threads", 1, INT32_MAX, &out->threads));
    QS_TRY(qs__get_number(&device, "speed", 0, 1, &out->speed));
    QS_TRY(qs__get_text(&device, "library", out->library, sizeof out->library));
    return qs__get_text(&device, "build", out->build, sizeof out->build);
}

static qs_status read_conditions(const qs__place *member, qs_conditions *out) {
    qs__place place = qs__field(member, "conditions");
    if (!place.value) return QS_OK;
    QS_TRY(qs__expect_fields(&place, "pinned load_average preemptions waited stolen communicator libc", ""));
    QS_TRY(qs__get_flag(&place, "pinned", &out->pinned));
    QS_TRY(qs__get_number(&place, "load_average", 0, INFINITY, &out->load_average));
    QS_TRY(qs__get_number(&place, "preemptions", 0, INFINITY, &out->preemptions));
    QS_TRY(qs__get_number(&place, "waited", 0, 1, &out->waited));
    QS_TRY(qs__get_number(&place, "stolen", 0, 1, &out->stolen));
    QS_TRY(qs__get_text(&place, "communicator", out->communicator, sizeof out->communicator));
    QS_TRY(qs__get_text(&place, "libc", out->libc, sizeof out->libc));
    out->known = true;
    return QS_OK;
}

static qs_status read_quality(const qs__place *member, qs_quality *out) {
    qs__place place = qs__field(member, "quality");
    if (!place.value) return QS_OK;
    QS_TRY(qs__expect_fields(&place, "plans steps confidence drift closure_mean closure_worst", "disturbed"));
    QS_TRY(qs__get_count(&place, "plans", 0, INT32_MAX, &out->plans));
    QS_TRY(qs__get_count(&place, "steps", 0, INT32_MAX, &out->steps));
    QS_TRY(qs__get_number(&place, "confidence", 0, INFINITY, &out->confidence));
    QS_TRY(qs__get_number(&place, "drift", 0, INFINITY, &out->drift));
    QS_TRY(qs__get_number(&place, "disturbed", 0, 1, &out->disturbed));
    QS_TRY(qs__get_number(&place, "closure_mean", 0, INFINITY, &out->closure_mean));
    QS_TRY(qs__get_number(&place, "closure_worst", 0, INFINITY, &out->closure_worst));
    out->known = true;
    return QS_OK;
}

static qs_status read_class(const qs__place *member, int index, void *context) {
    qs_profile *profile = context;
    qs_class_profile *out = &profile->class_[index];
    profile->classes = index + 1;
    QS_TRY(qs__take_key(member, out->class_name, sizeof out->class_name));
    QS_TRY(qs__expect_fields(
        member, "device date estimated base_bytes step_overhead_us iteration_overhead_us data_us_per_sample kernels conversions",
        "conditions quality jitter cache_bytes"));
    QS_TRY(read_device(member, out));
    QS_TRY(read_conditions(member, &out->conditions));
    QS_TRY(read_quality(member, &out->quality));
    QS_TRY(qs__get_text(member, "date", out->date, sizeof out->date));
    QS_TRY(qs__get_flag(member, "estimated", &out->estimated));
    QS_TRY(qs__get_integer(member, "base_bytes", 0, INT64_MAX, &out->base_bytes));
    QS_TRY(qs__get_number(member, "step_overhead_us", 0, INFINITY, &out->step_overhead_us));
    QS_TRY(qs__get_number(member, "iteration_overhead_us", 0, INFINITY, &out->iteration_overhead_us));
    QS_TRY(qs__get_number(member, "data_us_per_sample", 0, INFINITY, &out->data_us_per_sample));
    QS_TRY(qs__get_number(member, "jitter", 0, 1, &out->jitter));
    QS_TRY(qs__get_integer(member, "cache_bytes", 0, INT64_MAX, &out->cache_bytes));
    QS_TRY(read_kernels(member, out));
    return read_conversions(member, out);
}

static qs_status read_model(const qs__place *root, qs_profile *out) {
    qs__place model = qs__field(root, "model");
    QS_TRY(qs__expect_fields(&model, "name channels height width classes", ""));
    QS_TRY(qs__get_name(&model, "name", out->model, sizeof out->model));
    QS_TRY(qs__get_count(&model, "channels", 1, INT32_MAX, &out->channels));
    QS_TRY(qs__get_count(&model, "height", 0, INT32_MAX, &out->height));
    QS_TRY(qs__get_count(&model, "width", 0, INT32_MAX, &out->width));
    return qs__get_count(&model, "classes", 1, INT32_MAX, &out->model_classes);
}

static qs_status fill(const qs__place *root, qs_profile *out) {
    QS_TRY(qs__expect_fields(root, "schema graph model batch classes collectives statistics", "batches checks"));
    QS_TRY(qs__get_text(root, "graph", out->graph, sizeof out->graph));
    QS_TRY(read_model(root, out));
    QS_TRY(qs__get_integer(root, "batch", 1, INT32_MAX, &out->batch));
    QS_TRY(qs__batches_read(root, out));
    qs__place classes = qs__field(root, "classes");
    QS_TRY(qs__expect_object(&classes));
    QS_TRY(qs__members_create(&classes, sizeof(qs_class_profile), &out->class_));
    QS_TRY(qs__each_member(&classes, read_class, out));
    QS_TRY(qs__collectives_read(root, out));
    QS_TRY(qs__checks_read(root, out));
    return qs__statistics_read(root, &out->statistics);
}

static qs_status read_root(const qs__place *root, qs_profile *out) {
    qs_profile profile = {0};
    qs_status status = fill(root, &profile);
    json_decref(root->value);
    if (status == QS_OK) {
        *out = profile;
    } else {
        qs_profile_release(&profile);
    }
    return status;
}

qs_status qs_profile_read(const char *path, qs_profile *out) {
    qs__place root;
    QS_TRY(qs__record_load(path, "profile", &root));
    return read_root(&root, out);
}

qs_status qs_profile_parse(const char *json, const char *source, qs_profile *out) {
    qs__place root;
    QS_TRY(qs__record_parse(json, strlen(json), source, "profile", &root));
    return read_root(&root, out);
}

/* ---- Writing --------------------------------------------------------------------------------------------------------------- */

static void write_kernel(qs__writer *writer, const qs_kernel_cost *row) {
    qs__open_object(writer, NULL, QS__ONE_LINE);
    qs__put_text(writer, "case", row->case_text);
    qs__put_text(writer, "kernel", row->kernel);
    qs__open_object(writer, "us", QS__ONE_LINE);
    qs__put_number(writer, "median", row->us);
    qs__put_number(writer, "low", row->us_low);
    qs__put_number(writer, "high", row->us_high);
    qs__put_integer(writer, "samples", row->samples);
    if (row->us_per_cold_byte > 0) {
        qs__put_number(writer, "cold_bytes", row->cold_bytes);
        qs__put_number(writer, "us_per_cold_byte", row->us_per_cold_byte);
    }
    if (row->us_alone > 0) qs__put_number(writer, "alone", row->us_alone);
    qs__close(writer);
    qs__put_integer(writer, "scratch_bytes", row->scratch_bytes);
    qs__put_flag(writer, "allocates", row->allocates);
    if (row->tuned) qs__put_flag(writer, "tuned", true);
    if (row->held_bytes > 0) qs__put_integer(writer, "held_bytes", row->held_bytes);
    if (row->shared_bytes > 0) qs__put_integer(writer, "shared_bytes", row->shared_bytes);
    if (row->code_bytes > 0) qs__put_integer(writer, "code_bytes", row->code_bytes);
    qs__close(writer);
}

static int compare_places(const void *a, const void *b) {
    const qs_kernel_cost *const *left = a, *const *right = b;
    return strcmp((*left)->case_text, (*right)->case_text);
}

/* In the order of cases, whatever order the struct has. */
static void write_kernels(qs__writer *writer, const qs_class_profile *one) {
    const qs_kernel_cost **sorted;
    qs_status status = qs_allocate((size_t)one->kernels, sizeof *sorted, &sorted);
    if (status != QS_OK) {
        qs__writer_fail(writer, status);
        return;
    }
    for (int i = 0; i < one->kernels; i++)
        sorted[i] = &one->kernel[i];
    qsort(sorted, (size_t)one->kernels, sizeof *sorted, compare_places);
    qs__open_array(writer, "kernels", QS__LINES);
    for (int i = 0; i < one->kernels; i++)
        write_kernel(writer, sorted[i]);
    qs__close(writer);
    free(sorted);
}

static void write_conversion(qs__writer *writer, const qs_conversion_cost *row) {
    qs__open_object(writer, NULL, QS__ONE_LINE);
    qs__put_text(writer, "kind", row->kind);
    qs__put_text(writer, "from", row->from->name);
    if (row->to) qs__put_text(writer, "to", row->to->name);
    qs__put_text(writer, "granularity", granularity_names[row->steps]);
    qs__put_text(writer, "rounding", qs_rounding_name(row->rounding));
    if (row->weights) qs__put_flag(writer, "weights", true);
    qs__open_array(writer, "pieces", QS__ONE_LINE);
    for (int i = 0; i < row->pieces; i++) {
        const qs_fit_piece *piece = &row->piece[i];
        qs__open_object(writer, NULL, QS__ONE_LINE);
        qs__put_integer(writer, "to_elements", piece->to_elements);
        qs__put_number(writer, "us_per_element", piece->us_per_element);
        qs__put_number(writer, "us", piece->us);
        qs__put_number(writer, "r2", piece->r2);
        qs__put_number(writer, "worst_residual", piece->worst_residual);
        qs__put_number(writer, "mean_residual", piece->mean_residual);
        qs__close(writer);
    }
    qs__close(writer);
    if (row->in_steps > 0) qs__put_number(writer, "in_steps", row->in_steps);
    if (row->alone > 0) qs__put_number(writer, "alone", row->alone);
    qs__close(writer);
}

static void write_conditions(qs__writer *writer, const qs_conditions *conditions) {
    if (!conditions->known) return;
    qs__open_object(writer, "conditions", QS__ONE_LINE);
    qs__put_flag(writer, "pinned", conditions->pinned);
    qs__put_number(writer, "load_average", conditions->load_average);
    qs__put_number(writer, "preemptions", conditions->preemptions);
    qs__put_number(writer, "waited", conditions->waited);
    qs__put_number(writer, "stolen", conditions->stolen);
    qs__put_text(writer, "communicator", conditions->communicator);
    qs__put_text(writer, "libc", conditions->libc);
    qs__close(writer);
}

static void write_quality(qs__writer *writer, const qs_quality *quality) {
    if (!quality->known) return;
    qs__open_object(writer, "quality", QS__ONE_LINE);
    qs__put_integer(writer, "plans", quality->plans);
    qs__put_integer(writer, "steps", quality->steps);
    qs__put_number(writer, "confidence", quality->confidence);
    qs__put_number(writer, "drift", quality->drift);
    if (quality->disturbed > 0) qs__put_number(writer, "disturbed", quality->disturbed);
    qs__put_number(writer, "closure_mean", quality->closure_mean);
    qs__put_number(writer, "closure_worst", quality->closure_worst);
    qs__close(writer);
}

static void write_class(qs__writer *writer, const qs_class_profile *one) {
    qs__open_object(writer, one->class_name, QS__LINES);
    qs__open_object(writer, "device", QS__ONE_LINE);
    qs__put_text(writer, "cpu", one->cpu);
    qs__put_text(writer, "isa", one->isa);
    qs__put_integer(writer, "threads", one->threads);
    qs__put_number(writer, "speed", one->speed);
    qs__put_text(writer, "library", one->library);
    qs__put_text(writer, "build", one->build);
    qs__close(writer);
    qs__put_text(writer, "date", one->date);
    write_conditions(writer, &one->conditions);
    write_quality(writer, &one->quality);
    qs__put_flag(writer, "estimated", one->estimated);
    qs__put_integer(writer, "base_bytes", one->base_bytes);
    qs__put_number(writer, "step_overhead_us", one->step_overhead_us);
    qs__put_number(writer, "iteration_overhead_us", one->iteration_overhead_us);
    qs__put_number(writer, "data_us_per_sample", one->data_us_per_sample);
    if (one->jitter > 0) qs__put_number(writer, "jitter", one->jitter);
    if (one->cache_bytes > 0) qs__put_integer(writer, "cache_bytes", one->cache_bytes);
    write_kernels(writer, one);
    qs__open_array(writer, "conversions", QS__LINES);
    for (int i = 0; i < one->conversions; i++)
        write_conversion(writer, &one->conversion[i]);
    qs__close(writer);
    qs__close(writer);
}

static void write_model(qs__writer *writer, const qs_profile *profile) {
    qs__open_object(writer, "model", QS__ONE_LINE);
    qs__put_text(writer, "name", profile->model);
    qs__put_integer(writer, "channels", profile->channels);
    qs__put_integer(writer, "height", profile->height);
    qs__put_integer(writer, "width", profile->width);
    qs__put_integer(writer, "classes", profile->model_classes);
    qs__close(writer);
}

qs_status qs_profile_text(const qs_profile *profile, char **json) {
    qs__writer writer = {0};
    qs__record_begin(&writer, "profile");
    qs__put_text(&writer, "graph", profile->graph);
    write_model(&writer, profile);
    qs__put_integer(&writer, "batch", profile->batch);
    qs__batches_write(&writer, profile);
    qs__open_object(&writer, "classes", QS__LINES);
    for (int i = 0; i < profile->classes; i++)
        write_class(&writer, &profile->class_[i]);
    qs__close(&writer);
    qs__collectives_write(&writer, profile);
    qs__checks_write(&writer, profile);
    qs__statistics_write(&writer, &profile->statistics);
    return qs__record_finish(&writer, "profile", json);
}

qs_status qs_profile_write(const char *path, const qs_profile *profile) {
    char *json;
    QS_TRY(qs_profile_text(profile, &json));
    return qs__record_save(path, json);
}

/* ---- Asking and releasing -------------------------------------------------------------------------------------------------- */

void qs_profile_release(qs_profile *profile) {
    for (int i = 0; i < profile->classes; i++) {
        qs_class_profile *one = &profile->class_[i];
        for (int k = 0; k < one->kernels; k++)
            free(one->kernel[k].case_text);
        free(one->kernel);
        free(one->conversion);
    }
    free(profile->class_);
    free(profile->batch_row);
    free(profile->collective);
    free(profile->check);
    qs__statistics_release(&profile->statistics);
    *profile = (qs_profile){0};
}

const qs_class_profile *qs_profile_class(const qs_profile *profile, const char *name) {
    for (int i = 0; i < profile->classes; i++) {
        if (strcmp(profile->class_[i].class_name, name) == 0) return &profile->class_[i];
    }
    return NULL;
}

const char *qs_profile_signature(const qs_profile *profile, char *buffer) {
    char *json = NULL;
    qs_status status = qs_profile_text(profile, &json);
    return qs__sign(status == QS_OK ? json : NULL, buffer);
}
