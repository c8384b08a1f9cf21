// SPDX-License-Identifier: Apache-2.0
/* One canonical text of every record kind, with every field there is, and the small helpers that the tests of this room share. Include
 * after cmocka.h. */
#ifndef QSYNC_TESTS_RECORD_SAMPLES_H
#define QSYNC_TESTS_RECORD_SAMPLES_H

#include "kit/kit.h"
#include "qsync/record.h"

/* The text of all fields is longer than the 4095 bytes that every compiler of ISO C takes; those of the project take it. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

static const char cluster_sample[] = "{\n"
                                     "  \"schema\": \"qsync/cluster/2\",\n"
                                     "  \"classes\": {\n"
                                     "    \"zeta\": {\n"
                                     "      \"role\": \"training\",\n"
                                     "      \"backend\": \"cpu\",\n"
                                     "      \"cpu\": {\"threads\": 4, \"isa\": \"all\"},\n"
                                     "      \"count\": 2,\n"
                                     "      \"speed\": 1,\n"
                                     "      \"formats\": [\"fp32\", \"bf16\"],\n"
                                     "      \"storage\": [\"fp32\", \"bf16\"]\n"
                                     "    },\n"
                                     "    \"alpha\": {\n"
                                     "      \"role\": \"inference\",\n"
                                     "      \"backend\": \"cpu\",\n"
                                     "      \"cpu\": {\"threads\": 1, \"isa\": \"avx2_vnni\"},\n"
                                     "      \"device\": \"t4\",\n"
                                     "      \"count\": 3,\n"
                                     "      \"hosts\": [\"edge*\", \"lab-?\"],\n"
                                     "      \"speed\": 0.8,\n"
                                     "      \"memory\": {\"capacity\": 2147483648, \"limit\": 644245094},\n"
                                     "      \"formats\": [\"fp32\", \"int8\"],\n"
                                     "      \"storage\": [\"fp32\", \"bf16\", \"int8\"],\n"
                                     "      \"recipes\": [\"fp32\", \"int8/fp32\"],\n"
                                     "      \"accumulator\": \"fp(6,9)/chunk64/align-truncate\"\n"
                                     "    }\n"
                                     "  },\n"
                                     "  \"links\": [\n"
                                     "    {\"between\": [\"zeta\", \"alpha\"], \"kind\": \"network\", \"bytes_per_second\": "
                                     "12500000000, \"latency_us\": 7.5},\n"
                                     "    {\"between\": [\"alpha\", \"alpha\"], \"kind\": \"ib\", \"ranks_per_host\": 2}\n"
                                     "  ]\n"
                                     "}\n";

#define JOB_FIELDS(indent)                                                                                                                 \
    indent                                                                                                                                 \
        "\"model\": \"resnet8\",\n" indent "\"dataset\": \"fashion-mnist\",\n" indent "\"batch\": 96,\n" indent                            \
        "\"optimizer\": {\"name\": \"sgd\", \"momentum\": 0.85, \"weight_decay\": 0.0001},\n" indent                                       \
        "\"rate\": {\"base\": 0.3, \"warmup_epochs\": 1.5, \"warmup_steps\": 30, \"schedule\": \"step\", \"layer_decay\": 0.75},\n" indent \
        "\"loss_scaling\": {\"dynamic\": 1024},\n" indent "\"clip_norm\": 2.5,\n" indent "\"label_smoothing\": 0.125,\n" indent            \
        "\"decay\": \"matrices\",\n" indent "\"freeze\": \"conv1.*,stage1.*\",\n" indent                                                   \
        "\"buckets\": {\"bytes\": 4194304, \"wire\": \"fp32\", \"algorithm\": \"library\"},\n" indent "\"epochs\": 7,\n" indent            \
        "\"seed\": 9223372036854775807,\n" indent "\"augmentation\": false\n"

static const char job_sample[] = "{\n  \"schema\": \"qsync/job/2\",\n" JOB_FIELDS("  ") "}\n";

static const char profile_sample[] =
    "{\n"
    "  \"schema\": \"qsync/profile/2\",\n"
    "  \"graph\": \"xxh64:01\",\n"
    "  \"model\": {\"name\": \"resnet8\"},\n"
    "  \"samples\": {\n"
    "    \"unit\": \"images\",\n"
    "    \"inputs\": [{\"name\": \"input\", \"type\": \"u8\", \"extents\": [28, 28, 1]}, {\"name\": \"words\", \"type\": \"i32\", "
    "\"extents\": [7], \"varies\": true, \"bound\": 9, \"padding\": -3}],\n"
    "    \"target\": {\"kind\": \"class_per_position\", \"classes\": 10, \"extent\": 7, \"ignored\": -1}\n"
    "  },\n"
    "  \"batch\": 64,\n"
    "  \"batches\": [\n"
    "    {\"samples\": 32, \"measured\": true},\n"
    "    {\"samples\": 48, \"measured\": false},\n"
    "    {\"samples\": 64, \"measured\": true}\n"
    "  ],\n"
    "  \"classes\": {\n"
    "    \"weak\": {\n"
    "      \"device\": {\"backend\": \"cpu\", \"name\": \"CPU\", \"speed\": 0.8, \"library\": \"own\", \"build\": \"gcc\"},\n"
    "      \"cpu\": {\"threads\": 1, \"isa\": \"all\", \"cache_bytes\": 128},\n"
    "      \"date\": \"2026\",\n"
    "      \"conditions\": {\"pinned\": true, \"load_average\": 0.25, \"preemptions\": 1.5, \"waited\": 0.01, \"stolen\": 0, "
    "\"communicator\": \"MPI\", \"libc\": \"c\"},\n"
    "      \"quality\": {\"plans\": 12, \"steps\": 10, \"confidence\": 0.01, \"drift\": 0.02, \"disturbed\": 0.05, \"closure_mean\": "
    "0.005, "
    "\"closure_worst\": 0.015},\n"
    "      \"estimated\": false,\n"
    "      \"base_bytes\": 19000000,\n"
    "      \"step_overhead_us\": 0.9,\n"
    "      \"iteration_overhead_us\": 12,\n"
    "      \"data_us_per_sample\": 3.1,\n"
    "      \"copies\": {\"in_us\": 11, \"in_us_per_byte\": 0.001, \"out_us\": 12, \"out_us_per_byte\": 0.002},\n"
    "      \"jitter\": 0.015,\n"
    "      \"kernels\": [\n"
    "        {\"case\": \"add/forward a\", \"kernel\": \"own:add\", \"us\": {\"median\": 1.5, \"low\": 1.25, \"high\": 2, \"samples\": "
    "40, \"cold_bytes\": 6, \"us_per_cold_byte\": 0.0001, \"alone\": 1.125}, "
    "\"scratch_bytes\": 0, \"allocates\": false},\n"
    "        {\"case\": \"conv2d/forward b\", \"kernel\": \"own:c\", \"us\": {\"median\": 0.1, \"low\": "
    "0.1, \"high\": 0.30000000000000004, \"samples\": 40}, \"scratch_bytes\": 2, \"allocates\": true, \"tuned\": true, "
    "\"held_bytes\": 2, \"shared_bytes\": 8, \"code_bytes\": 4}\n"
    "      ],\n"
    "      \"conversions\": [\n"
    "        {\"kind\": \"absmax\", \"from\": \"fp32\", \"granularity\": \"tensor\", \"rounding\": \"nearest-even\", \"pieces\": "
    "[{\"to_elements\": 1024, \"us_per_element\": 0.0001, \"us\": 0.5, \"r2\": 0.999, \"worst_residual\": 0.02, \"mean_residual\": "
    "0.01}]},\n"
    "        {\"kind\": \"quantize\", \"from\": \"bf16\", \"to\": \"int8\", \"granularity\": \"channel\", \"rounding\": \"stochastic\", "
    "\"weights\": true, \"pieces\": [{\"to_elements\": 1024, \"us_per_element\": 0.0001, \"us\": 0.5, \"r2\": 0.999, \"worst_residual\": "
    "0.02, \"mean_residual\": 0.01}, "
    "{\"to_elements\": 16777216, \"us_per_element\": 1.1e-05, \"us\": 3, \"r2\": 1, \"worst_residual\": 0, \"mean_residual\": 0}], "
    "\"in_steps\": 1.02, \"alone\": 0.875}\n"
    "      ]\n"
    "    }\n"
    "  },\n"
    "  \"collectives\": [\n"
    "    {\"ranks\": 2, \"algorithm\": \"library\", \"alpha_us\": 9, \"us_per_byte\": 2e-05, \"r2\": 0.99, \"cpu_share\": 0.3, "
    "\"temporary_per_byte\": 0.5, \"window_bytes\": 4194304},\n"
    "    {\"ranks\": 4, \"hosts\": 2, \"link\": \"network\", \"algorithm\": \"ring\", \"wire\": \"bf16\", \"alpha_us\": 9, "
    "\"us_per_byte\": 0.01, "
    "\"r2\": 0.999, \"worst_residual\": 0.125, \"spread\": 0.03, \"samples\": 140, \"pieces\": [{\"to_bytes\": 64, \"us_per_byte\": "
    "0.012, \"us\": 80}, {\"to_bytes\": 128, \"us_per_byte\": 0.01, \"us\": 120}], \"cpu_share\": 0.2, \"temporary_per_byte\": "
    "0.25}\n"
    "  ],\n"
    "  \"checks\": [\n"
    "    {\"plan\": \"a\", \"steps\": 54, \"median_us\": 9, \"undisturbed\": 9, \"measured_us\": 2000, \"confidence\": 0.01, "
    "\"predicted_us\": 2020, "
    "\"no_casts_us\": 1900}\n"
    "  ],\n"
    "  \"statistics\": {\n"
    "    \"batch\": 32,\n"
    "    \"iterations\": 2,\n"
    "    \"ranks\": 2,\n"
    "    \"operators\": {\n"
    "      \"stage1.block0.conv1\": {\n"
    "        \"src\": {\n"
    "          \"count\": 64,\n"
    "          \"norm2\": [1.5, 2],\n"
    "          \"absmax\": [3, 4],\n"
    "          \"minimum\": [-3, -4],\n"
    "          \"maximum\": [2.5, 1e+20],\n"
    "          \"channel_absmax2\": [5, 6],\n"
    "          \"variance_int8\": [7, 8],\n"
    "          \"variance_bf16\": [1e-05, 2e-05],\n"
    "          \"variance_fp16\": [1e-08, 0],\n"
    "          \"channel_range2\": [9, 10],\n"
    "          \"range_histogram\": {\"lowest\": -3, \"elements\": [12.5, 0, 1000]}\n"
    "        },\n"
    "        \"weights\": {\n"
    "          \"count\": 288,\n"
    "          \"norm2\": [0, 0],\n"
    "          \"absmax\": [0, 0],\n"
    "          \"minimum\": [0, 0],\n"
    "          \"maximum\": [0, 0],\n"
    "          \"channel_absmax2\": [0, 0],\n"
    "          \"variance_int8\": [0, 0],\n"
    "          \"variance_bf16\": [0, 0],\n"
    "          \"variance_fp16\": [0, 0],\n"
    "          \"variance_int8_channel\": [0.25, 0]\n"
    "        },\n"
    "        \"diff_dst\": {\n"
    "          \"count\": 64,\n"
    "          \"norm2\": [1, 2],\n"
    "          \"absmax\": [1, 2],\n"
    "          \"minimum\": [1, 2],\n"
    "          \"maximum\": [1, 2],\n"
    "          \"channel_absmax2\": [1, 2],\n"
    "          \"variance_int8\": [1, 2],\n"
    "          \"variance_bf16\": [1, 2],\n"
    "          \"variance_fp16\": [1, 2]\n"
    "        },\n"
    "        \"hessian_top\": -1.5\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";

#define FLOAT_RECIPE(name)                                                                                                                 \
    "    \"" name "\": {\n"                                                                                                                \
    "      \"forward\": {\"src\": \"" name "\", \"weights\": \"" name "\", \"accumulator\": \"fp32\", \"dst\": \"auto\"},\n"               \
    "      \"input_gradient\": {\"diff_dst\": \"" name "\", \"weights\": \"" name "\", \"accumulator\": \"fp32\"},\n"                      \
    "      \"weight_gradient\": {\"src\": \"" name "<saved\", \"diff_dst\": \"" name "\", \"accumulator\": \"fp32\", \"out\": \"fp32\"}\n" \
    "    }"

/* %s: the signature of the job, which the tests fill in. */
static const char plan_pattern[] =
    "{\n"
    "  \"schema\": \"qsync/plan/2\",\n"
    "  \"planner\": \"qsync\",\n"
    "  \"signature\": {\"graph\": \"xxh64:01\", \"cluster\": \"xxh64:02\", \"profile\": \"xxh64:03\", \"job\": \"%s\"},\n"
    "  \"job\": {\n" JOB_FIELDS(
        "    ") "  },\n"
                "  \"samples_per_second\": 812.5,\n"
                "  \"unit\": \"images\",\n"
                "  \"without\": {\"weak\": 640.25, \"big\": 0},\n"
                "  \"left_out\": {\"old\": 790},\n"
                "  \"recipes\": {\n" FLOAT_RECIPE("fp32") ",\n" FLOAT_RECIPE(
                    "bf16") ",\n"
                            "    \"mine\": {\n"
                            "      \"forward\": {\"src\": \"int8:tensor:stochastic\", \"weights\": \"int8:channel(out):stochastic\", "
                            "\"accumulator\": \"int32\", \"dst\": \"bf16\"},\n"
                            "      \"input_gradient\": {\"diff_dst\": \"bf16\", \"weights\": \"bf16\", \"accumulator\": "
                            "\"fp(6,9)/chunk64/align-truncate\"},\n"
                            "      \"weight_gradient\": {\"src\": \"bf16<saved\", \"diff_dst\": \"bf16\", \"accumulator\": \"fp32\", "
                            "\"out\": \"fp32\"}\n"
                            "    }\n"
                            "  },\n"
                            "  \"classes\": {\n"
                            "    \"weak\": {\n"
                            "      \"batch\": 96,\n"
                            "      \"operators\": {\n"
                            "        \"stage1.block0.conv1\": \"mine\",\n"
                            "        \"fc\": {\"recipe\": \"bf16\", \"pin\": true, \"accumulator\": {\"forward\": \"fp32\", "
                            "\"weight_gradient\": \"fp(8,10)/stochastic\"}}\n"
                            "      },\n"
                            "      \"tensors\": {\n"
                            "        \"fc\": {\"value\": \"fp(4,3,4):tensor:floor\", \"saved\": \"fp(4,3,4)\", "
                            "\"gradient\": \"fp(5,2,0)\", \"promote_at\": 0.01, \"promote_to\": \"fp(6,9,0)\"},\n"
                            "        \"fc.weights\": {\"value\": \"fp(6,9,0)\"}\n"
                            "      },\n"
                            "      \"assignment\": {\"ratio_low\": 0.25, \"bytes\": {\"high\": 4000, \"plan\": 3500, \"low\": 2100}, "
                            "\"arena\": {\"high\": 83886144, \"low\": 83886016}},\n"
                            "      \"kernels\": {\n"
                            "        \"conv2d/forward src=int8[96,1,28,28]\": {\"kernel\": \"brgconv:avx512_core_vnni\", "
                            "\"scratch_bytes\": 512, \"allocates\": false}\n"
                            "      },\n"
                            "      \"schedule\": \"xxh64:04\",\n"
                            "      \"predicted\": {\n"
                            "        \"iteration_us\": 41200.5,\n"
                            "        \"compute_us\": 40000,\n"
                            "        \"waiting_us\": 900,\n"
                            "        \"memory\": {\"arena\": 83886080, \"communication\": 1179648, \"base\": 19000000, \"program\": "
                            "2500000},\n"
                            "        \"sum_omega\": 0.00032,\n"
                            "        \"lower_bound\": 0.00031,\n"
                            "        \"phases\": {\"forward_us\": 13000, \"backward_us\": 22000, \"cast_us\": 2500, "
                            "\"communication_us\": 300.5, \"waiting_us\": 900, \"optimizer_us\": 2000, \"data_us\": 500}\n"
                            "      },\n"
                            "      \"why\": {\n"
                            "        \"stage1.block0.conv1\": {\"stopped_by\": \"throughput\", \"next\": \"bf16\", \"time_us\": 310, "
                            "\"bytes\": -524288, \"omega\": 1e-05},\n"
                            "        \"fc\": {\"stopped_by\": \"highest\", \"time_us\": 0, \"bytes\": 0, \"omega\": 0}\n"
                            "      }\n"
                            "    }\n"
                            "  }\n"
                            "}\n";

/* The plan's canonical text; caller frees. */
static inline char *plan_sample(void) {
    char signature[32], *text;
    qs_job job;
    assert_ok(qs_job_parse(job_sample, "job", &job));
    qs_job_signature(&job, signature);
    size_t bytes = sizeof plan_pattern + sizeof signature;
    text = malloc(bytes);
    assert_non_null(text);
    snprintf(text, bytes, plan_pattern, signature);
    return text;
}

#endif
