// SPDX-License-Identifier: Apache-2.0
/* qsync devices: backends of this build on this machine, at an instruction-set ceiling. */
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

qs_status verb_devices(int argc, char **argv) {
    const verb_usage usage = {.verb = "devices",
                              .arguments = "",
                              .purpose = "Lists the backends of this build and what they can compute on this machine.",
                              .examples = "  qsync devices --isa avx2_vnni\n"};
    request asked = {0};
    bool done = false;
    int first = 0;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    json_t *list = json_array();
    for (size_t i = 0; qs_device_backend_at(i); i++) {
        const qs_device_options options = {.backend = qs_device_backend_at(i), .threads = asked.threads, .isa = asked.isa, .speed = 1};
        qs_device *device = NULL;
        qs_device_info info;
        const qs_status status = qs_device_open(&options, &device);
        if (status != QS_OK) {
            json_decref(list);
            return status;
        }
        qs_device_describe(device, &info);
        json_t *row = info_json(&info);
        if (asked.peaks && asked.json) json_object_set_new(row, "peak_gop_per_s", peaks_json(device, &info));
        json_array_append_new(list, row);
        if (!asked.json) info_print(&info);
        if (asked.peaks && !asked.json) peaks_print(device, &info);
        qs_device_close(device);
    }
    if (asked.json) return json_print(json_pack("{s:o}", "devices", list));
    json_decref(list);
    return QS_OK;
}
