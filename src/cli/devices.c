// SPDX-License-Identifier: Apache-2.0
/* qsync devices: backends of this build on this machine, at an instruction-set ceiling, and the GPUs behind them. */
#include <math.h>

#include "cli.h"

/* Operations a second, two for a multiply-add; NAN where the peak is not known. */
static double peak_of(qs_device *device, const char *format) {
    const double peak = 2 * qs_device_peak(device, qs_format_of(format));
    return peak > 0 ? peak : NAN;
}

static json_t *peaks_json(qs_device *device, const qs_device_info *info) {
    json_t *peaks = json_object();
    for (int i = 0; i < 8 && info->formats[i]; i++)
        json_object_set_new(peaks, info->formats[i], json_number(peak_of(device, info->formats[i]) / 1e9));
    return peaks;
}

static void peaks_print(qs_device *device, const qs_device_info *info) {
    printf("       peak");
    for (int i = 0; i < 8 && info->formats[i]; i++) {
        const double peak = peak_of(device, info->formats[i]);
        printf(" %s %s", info->formats[i], isnan(peak) ? "unknown" : count_text(peak));
        if (!isnan(peak)) printf("op/s");
    }
    printf("\n");
}

static json_t *info_json(const qs_device_info *info) {
    json_t *formats = json_array();
    for (int i = 0; formats && i < 8 && info->formats[i]; i++)
        json_array_append_new(formats, json_string(info->formats[i]));
    return json_pack("{s:s,s:s,s:s,s:s,s:i,s:o}", "backend", info->backend, "cpu", info->cpu, "isa", info->isa, "library", info->library,
                     "threads", info->threads, "formats", formats);
}

static void info_print(const qs_device_info *info) {
    printf("%-6s %s\n       isa %s, library %s, %d thread%s\n       formats", info->backend, info->cpu, info->isa, info->library,
           info->threads, info->threads == 1 ? "" : "s");
    for (int i = 0; i < 8 && info->formats[i]; i++)
        printf(" %s", info->formats[i]);
    printf("\n");
}

/* ---- GPUs ---- */

enum { MOST_LISTED = 64 };

static json_t *listing_json(const qs_device_listing *one) {
    json_t *formats = json_array();
    for (int i = 0; formats && i < 8 && one->formats[i]; i++)
        json_array_append_new(formats, json_string(one->formats[i]));
    return json_pack("{s:i,s:s,s:s,s:s,s:i,s:i,s:i,s:I,s:I,s:o,s:s?}", "index", one->index, "name", one->name, "uuid", one->uuid,
                     "capability", one->capability, "multiprocessors", one->multiprocessors, "part_least", one->part_least, "part_step",
                     one->part_step, "memory_bytes", (json_int_t)one->memory_bytes, "free_bytes", (json_int_t)one->free_bytes, "formats",
                     formats, "unusable", one->unusable[0] ? one->unusable : NULL);
}

static void listing_print(const qs_device_listing *one) {
    printf("       %d: %s, %s\n          compute capability %s, %d multiprocessors", one->index, one->name, one->uuid, one->capability,
           one->multiprocessors);
    if (one->part_step > 0) printf(" (parts of %d and more, in steps of %d)", one->part_least, one->part_step);
    printf(", %s", bytes_text((double)one->memory_bytes));
    if (!one->unusable[0]) printf(", %s free", bytes_text((double)one->free_bytes));
    printf(", fast in");
    for (int i = 0; i < 8 && one->formats[i]; i++)
        printf(" %s", one->formats[i]);
    printf("\n");
    if (one->unusable[0]) printf("          cannot be used: %s\n", one->unusable);
}

/* The devices behind a backend that has several; the reason why it has none. */
static qs_status listing_show(const char *backend, bool json, json_t *row) {
    qs_device_listing all[MOST_LISTED];
    int count = 0;
    QS_TRY(qs_device_list(backend, MOST_LISTED, all, &count));
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_array_append_new(list, listing_json(&all[i]));
        if (!json) listing_print(&all[i]);
    }
    if (count > 0)
        json_object_set_new(row, "gpus", list);
    else
        json_decref(list);
    return QS_OK;
}

typedef struct request {
    const char *isa;
    int threads;
    bool peaks, json;
} request;

static const option_row option_rows[] = {
    {OPTION_ISA(request)},
    {OPTION_THREADS(request)},
    {OPTION(request, peaks, "peaks", NULL, "measure what products can reach: operands in registers")},
    {OPTION_JSON(request)},
};

/* A backend that cannot be used on this machine is told as such; wrong options are failures. */
static qs_status backend_show(const char *backend, const request *asked, json_t *list) {
    const qs_device_options options = {.backend = backend, .threads = asked->threads, .isa = asked->isa, .speed = 1};
    qs_device *device = NULL;
    qs_device_info info;
    json_t *row;
    qs_status status = qs_device_open(&options, &device);
    if (status == QS_USAGE) return status;
    if (status == QS_OK) {
        qs_device_describe(device, &info);
        row = info_json(&info);
        if (asked->peaks && asked->json) json_object_set_new(row, "peak_gop_per_s", peaks_json(device, &info));
        if (!asked->json) info_print(&info);
        if (asked->peaks && !asked->json) peaks_print(device, &info);
        qs_device_close(device);
    } else {
        row = json_pack("{s:s,s:s}", "backend", backend, "unusable", qs_message());
        if (!asked->json) printf("%-6s cannot be used: %s\n", backend, qs_message());
    }
    json_array_append_new(list, row);
    status = listing_show(backend, asked->json, row);
    return status == QS_UNSUPPORTED ? QS_OK : status; /* which opening it has told */
}

qs_status verb_devices(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "devices",
        .arguments = "",
        .purpose =
            "Lists the backends of this build and what they can compute on this machine: of cuda every GPU, and why one cannot be used.",
        .examples = "  qsync devices --isa avx2_vnni\n"};
    request asked = {0};
    bool done = false;
    int first = 0;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    json_t *list = json_array();
    qs_status status = QS_OK;
    for (size_t i = 0; status == QS_OK && qs_device_backend_at(i); i++)
        status = backend_show(qs_device_backend_at(i), &asked, list);
    if (status == QS_OK && asked.json) return json_print(json_pack("{s:o}", "devices", list));
    json_decref(list);
    return status;
}
