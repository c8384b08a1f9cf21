// SPDX-License-Identifier: Apache-2.0
/* The device cpu on every operator's case list, at every ceiling: equal to the reference within derived tolerances, guards intact, equal
 * bits when run twice or in other scratch, close with other threads; and what it must refuse. */
// labels: short
#include "device_support.h"
#include "kit/integer_cases.h"

typedef void (*check_case)(qs_device *device, const qs_case *one, const char *text);

static int others_seen; /* candidates behind the first ones */

static bool offers(const qs_device_info *info, const char *format) {
    for (int i = 0; info->formats[i]; i++) {
        if (!strcmp(info->formats[i], format)) return true;
    }
    return false;
}

/* Beyond the operators' lists: large enough for several threads, chunks and slots; formats that pass through scratch. */
static const char *const extra[] = {
    "relu/forward src=fp32[8,16,33,33] mask=int8[17424] dst=fp32[8,16,33,33]",
    "relu/forward src=bf16[8,17,33,33] mask=int8[18513] dst=bf16[8,17,33,33]",
    "relu/forward src=bf16[3,7,3,3] mask=int8[24] dst=fp32[3,7,3,3]",
    "relu/backward mask=int8[18513] diff_dst=bf16[8,17,33,33] diff_src=bf16[8,17,33,33]",
    "relu/backward mask=int8[24] diff_dst=bf16[3,7,3,3] diff_src=fp32[3,7,3,3]",
    "relu/forward src=bf16[8,17,33,33] mask=int8[18513] dst=bf16[8,17,33,33] ceiling=0.5",
    "add/forward src=bf16[8,17,33,33] src2=fp32[8,17,33,33] dst=bf16[8,17,33,33]",
    "relu/forward src=bf16[8,17,33,33] mask=int8[18513] dst=bf16[8,17,33,33] absmax=fp32[1]",
    "relu/backward mask=int8[18513] diff_dst=fp32[8,17,33,33] diff_src=fp32[8,17,33,33] absmax=fp32[1]",
    "add/forward src=bf16[8,17,33,33] src2=bf16[8,17,33,33] dst=bf16[8,17,33,33] absmax=fp32[1]",
    "concat/forward src=bf16[8,17,33,33] src2=bf16[8,24,33,33] dst=bf16[8,41,33,33]",
    "concat/backward diff_dst=fp32[8,41,33,33] diff_src=fp32[8,17,33,33] diff_src2=fp32[8,24,33,33]",
    "slice/forward src=fp32[8,41,33,33] dst=fp32[8,24,33,33] offset=17",
    "slice/backward diff_dst=bf16[8,24,33,33] diff_src=bf16[8,41,33,33] offset=9",
    "channel_shuffle/forward src=bf16[8,116,33,33] dst=bf16[8,116,33,33] groups=2",
    "channel_shuffle/backward diff_dst=fp32[8,58,33,33] diff_src=fp32[8,58,33,33] groups=2",
    "dropout/forward src=bf16[8,17,33,33] dst=fp32[8,17,33,33] probability=0.3 batched",
    "batch_norm/forward src=fp32[9,16,33,33] scale=fp32[16] shift=fp32[16] mean=fp32[16] variance=fp32[16] running_mean=fp32[16] "
    "running_variance=fp32[16] dst=fp32[9,16,33,33] epsilon=1e-05 momentum=0.1",
    "batch_norm/forward src=bf16[9,35,31,33] scale=fp32[35] shift=fp32[35] mean=fp32[35] variance=fp32[35] running_mean=fp32[35] "
    "running_variance=fp32[35] dst=fp32[9,35,31,33] epsilon=1e-05 momentum=0.1",
    "batch_norm/backward src=fp32[9,35,31,33] scale=fp32[35] mean=fp32[35] variance=fp32[35] diff_dst=bf16[9,35,31,33] "
    "diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] epsilon=1e-05 momentum=0.1",
    "batch_norm/forward src=bf16[9,35,31,33] scale=fp32[35] shift=fp32[35] mean=fp32[35] variance=fp32[35] running_mean=fp32[35] "
    "running_variance=fp32[35] mask=int8[40281] dst=bf16[9,35,31,33] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/backward src=bf16[9,35,31,33] scale=fp32[35] mean=fp32[35] variance=fp32[35] mask=int8[40281] diff_dst=bf16[9,35,31,33] "
    "diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/forward src=fp32[9,48,31,33] scale=fp32[48] shift=fp32[48] mean=fp32[48] variance=fp32[48] running_mean=fp32[48] "
    "running_variance=fp32[48] mask=int8[55242] dst=fp32[9,48,31,33] epsilon=1e-05 momentum=0.1 ceiling=6 relu",
    "l1_batch_norm/forward src=fp32[9,35,31,33] scale=fp32[35] shift=fp32[35] mean=fp32[35] deviation=fp32[35] running_mean=fp32[35] "
    "running_deviation=fp32[35] dst=bf16[9,35,31,33] epsilon=1e-05 momentum=0.1",
    "l1_batch_norm/backward src=bf16[9,35,31,33] scale=fp32[35] mean=fp32[35] deviation=fp32[35] mask=int8[40281] "
    "diff_dst=bf16[9,35,31,33] diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] epsilon=1e-05 momentum=0.1 relu",
    "l1_batch_norm_int8/forward src=int8[9,48,31,33] src_step=fp32[1] scale=fp32[48] shift=fp32[48] mean=fp32[48] deviation=fp32[48] "
    "running_mean=fp32[48] running_deviation=fp32[48] mask=int8[55242] dst=bf16[9,48,31,33] epsilon=1e-05 momentum=0.1 relu",
    "l1_batch_norm_int8/backward src=int8[9,48,31,33] src_step=fp32[1] scale=fp32[48] mean=fp32[48] deviation=fp32[48] mask=int8[55242] "
    "diff_dst=bf16[9,48,31,33] diff_src=bf16[9,48,31,33] diff_scale=fp32[48] diff_shift=fp32[48] epsilon=1e-05 momentum=0.1 relu",
    "l2_batch_norm_int8/forward src=int8[9,35,31,33] src_step=fp32[1] scale=fp32[35] shift=fp32[35] mean=fp32[35] variance=fp32[35] "
    "running_mean=fp32[35] running_variance=fp32[35] dst=fp32[9,35,31,33] epsilon=1e-05 momentum=0.1",
    "batch_norm/forward src=bf16[9,35,31,33] scale=fp32[35] shift=fp32[35] mean=fp32[35] variance=fp32[35] running_mean=fp32[35] "
    "running_variance=fp32[35] mask=int8[40281] dst=bf16[9,35,31,33] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/backward src=bf16[9,35,31,33] scale=fp32[35] mean=fp32[35] variance=fp32[35] mask=int8[40281] diff_dst=bf16[9,35,31,33] "
    "diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/forward src=bf16[9,16,32,33] scale=fp32[16] shift=fp32[16] mean=fp32[16] variance=fp32[16] running_mean=fp32[16] "
    "running_variance=fp32[16] mask=int8[19008] dst=bf16[9,16,32,33] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/backward src=bf16[9,16,32,33] scale=fp32[16] mean=fp32[16] variance=fp32[16] mask=int8[19008] diff_dst=bf16[9,16,32,33] "
    "diff_src=bf16[9,16,32,33] diff_scale=fp32[16] diff_shift=fp32[16] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/forward src=bf16[9,64,31,33] scale=fp32[64] shift=fp32[64] mean=fp32[64] variance=fp32[64] running_mean=fp32[64] "
    "running_variance=fp32[64] mask=int8[73656] dst=bf16[9,64,31,33] epsilon=1e-05 momentum=0.1 ceiling=1 relu",
    "batch_norm/backward src=bf16[9,64,31,33] scale=fp32[64] mean=fp32[64] variance=fp32[64] diff_dst=bf16[9,64,31,33] "
    "diff_src=bf16[9,64,31,33] diff_scale=fp32[64] diff_shift=fp32[64] epsilon=1e-05 momentum=0.1",
    "l1_batch_norm/forward src=bf16[9,32,31,33] scale=fp32[32] shift=fp32[32] mean=fp32[32] deviation=fp32[32] running_mean=fp32[32] "
    "running_deviation=fp32[32] dst=bf16[9,32,31,33] epsilon=1e-05 momentum=0.1",
    "l1_batch_norm/backward src=bf16[9,32,31,33] scale=fp32[32] mean=fp32[32] deviation=fp32[32] mask=int8[36828] "
    "diff_dst=bf16[9,32,31,33] diff_src=bf16[9,32,31,33] diff_scale=fp32[32] diff_shift=fp32[32] epsilon=1e-05 momentum=0.1 relu",
    "layer_norm/backward src=bf16[9,35,31,33] scale=fp32[35] mean=fp32[9207] variance=fp32[9207] diff_dst=bf16[9,35,31,33] "
    "diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] absmax=fp32[1] epsilon=1e-05",
    "layer_norm/forward src=fp32[9,48,31,33] scale=fp32[48] shift=fp32[48] mean=fp32[9207] variance=fp32[9207] dst=bf16[9,48,31,33] "
    "epsilon=1e-05",
    "layer_norm/backward src=fp32[9,35,31,33] scale=fp32[35] mean=fp32[9207] variance=fp32[9207] diff_dst=bf16[9,35,31,33] "
    "diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] epsilon=1e-05",
    "layer_norm/forward src=bf16[37,5003] scale=fp32[5003] shift=fp32[5003] mean=fp32[37] variance=fp32[37] mask=int8[23139] "
    "dst=fp32[37,5003] epsilon=1e-05 ceiling=1 relu",
    "layer_norm/backward src=bf16[37,5003] scale=fp32[5003] mean=fp32[37] variance=fp32[37] mask=int8[23139] diff_dst=fp32[37,5003] "
    "diff_src=fp32[37,5003] diff_scale=fp32[5003] diff_shift=fp32[5003] epsilon=1e-05 relu",
    "l1_layer_norm/forward src=bf16[9,35,31,33] scale=fp32[35] shift=fp32[35] mean=fp32[9207] deviation=fp32[9207] mask=int8[40281] "
    "dst=bf16[9,35,31,33] epsilon=1e-05 relu",
    "l1_layer_norm/backward src=bf16[9,35,31,33] scale=fp32[35] mean=fp32[9207] deviation=fp32[9207] mask=int8[40281] "
    "diff_dst=bf16[9,35,31,33] diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] epsilon=1e-05 relu",
    "l1_layer_norm/inference src=fp32[37,5003] scale=fp32[5003] shift=fp32[5003] dst=fp32[37,5003] epsilon=1e-05",
    "l1_layer_norm/backward src=fp32[37,5003] scale=fp32[5003] mean=fp32[37] deviation=fp32[37] diff_dst=fp32[37,5003] "
    "diff_src=fp32[37,5003] diff_scale=fp32[5003] diff_shift=fp32[5003] epsilon=1e-05",
    "l1_layer_norm_int8/forward src=int8[9,35,31,33] src_step=fp32[1] scale=fp32[35] shift=fp32[35] mean=fp32[9207] "
    "deviation=fp32[9207] mask=int8[40281] dst=bf16[9,35,31,33] epsilon=1e-05 relu",
    "l1_layer_norm_int8/backward src=int8[9,35,31,33] src_step=fp32[1] scale=fp32[35] mean=fp32[9207] deviation=fp32[9207] "
    "mask=int8[40281] diff_dst=bf16[9,35,31,33] diff_src=bf16[9,35,31,33] diff_scale=fp32[35] diff_shift=fp32[35] epsilon=1e-05 relu",
    "l1_layer_norm_int8/inference src=int8[37,5003] src_step=fp32[1] scale=fp32[5003] shift=fp32[5003] dst=fp32[37,5003] epsilon=1e-05",
    "l1_layer_norm_int8/backward src=int8[37,5003] src_step=fp32[1] scale=fp32[5003] mean=fp32[37] deviation=fp32[37] "
    "diff_dst=fp32[37,5003] diff_src=bf16[37,5003] diff_scale=fp32[5003] diff_shift=fp32[5003] epsilon=1e-05",
    "layer_norm/forward src=fp32[9,48,77] scale=fp32[48] shift=fp32[48] mean=fp32[693] variance=fp32[693] dst=fp32[9,48,77] epsilon=1e-12",
    "rms_norm/forward src=bf16[9,5003,3] scale=fp32[5003] dst=bf16[9,5003,3] absmax=fp32[1] epsilon=1e-05",
    "rms_norm/backward src=bf16[9,35,1023] scale=fp32[35] diff_dst=bf16[9,35,1023] diff_src=bf16[9,35,1023] diff_scale=fp32[35] "
    "epsilon=1e-05",
    "rms_norm/backward src=fp32[37,5003] scale=fp32[5003] diff_dst=fp32[37,5003] diff_src=bf16[37,5003] diff_scale=fp32[5003] "
    "epsilon=1e-06",
    "positions/forward src=bf16[9,37,129] weights=fp32[512,37] dst=bf16[9,37,129] vocabulary=512",
    "positions/backward diff_dst=bf16[9,37,129] diff_src=bf16[9,37,129] diff_weights=fp32[512,37] vocabulary=512",
    "rotary/forward src=fp32[5,96,513] dst=bf16[5,96,513] heads=3 base=10000",
    "position/backward diff_dst=bf16[5,300] diff_src=bf16[5,300,513] position=-1",
    "class_token/backward diff_dst=fp32[9,300,129] diff_src=fp32[9,300,128] diff_weights=fp32[1,300]",
    "gelu/forward src=fp32[9,300,129] dst=bf16[9,300,129] absmax=fp32[1] approximate=1",
    "multiply/backward src=bf16[9,300,129] src2=bf16[9,300,129] diff_dst=bf16[9,300,129] diff_src=bf16[9,300,129] "
    "diff_src2=bf16[9,300,129]",
    "max_pool/forward src=fp32[3,37,9,9] mask=int8[3,37,5,5] dst=fp32[3,37,5,5] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[3,37,5,5] diff_dst=bf16[3,37,5,5] diff_src=bf16[3,37,9,9] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[2,20,5,5] diff_dst=fp32[2,20,5,5] diff_src=fp32[2,20,13,13] kernel=2x2 stride=3x3 padding=1x1",
    "max_pool/forward src=bf16[3,32,9,9] mask=int8[3,32,5,5] dst=bf16[3,32,5,5] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[3,64,5,5] diff_dst=bf16[3,64,5,5] diff_src=bf16[3,64,9,9] kernel=3x3 stride=2x2 padding=1x1",
    "average_pool/backward diff_dst=fp32[2,20,4,4] diff_src=fp32[2,20,11,11] kernel=2x2 stride=3x3",
    "adam/forward src=fp32[40001] weights=fp32[40001] momentum=fp32[40001] second_moment=fp32[40001] beta1=0.9 beta2=0.999 epsilon=1e-08 "
    "weight_decay=0.01",
    "clip_norm/forward src=fp32[300001] flag=fp32[1] clip_norm=3",
    "sgd/forward src=fp32[40000] weights=fp32[40000] momentum=fp32[40000] momentum=0.9 weight_decay=0.0005",
    "softmax_cross_entropy/forward src=bf16[37,11] labels=fp32[37] loss=fp32[2]",
    "softmax_cross_entropy/backward src=bf16[37,11] labels=fp32[37] diff_src=bf16[37,11]",
    "softmax_cross_entropy/forward src=fp32[9,5003] labels=fp32[9] loss=fp32[2]",
    "softmax_cross_entropy/forward src=bf16[3,30522,5] labels=fp32[3,5] loss=fp32[2]",
    "softmax_cross_entropy/backward src=fp32[3,5003,5] labels=fp32[3,5] diff_src=fp32[3,5003,5]",
    "softmax_cross_entropy/backward src=bf16[9,4098] labels=fp32[9] diff_src=bf16[9,4098]",
    "conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] bias=fp32[16] dst=bf16[2,16,8,8] kernel=3x3 padding=1x1",
    "conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] dst=fp16[2,16,8,8] kernel=3x3 padding=1x1",
    "conv2d/forward src=int8[2,6,8,8] src_step=fp32[1] weights=int8[9,2,3,3] weights_step=fp32[9] bias=fp32[9] dst=bf16[2,9,8,8] "
    "kernel=3x3 padding=1x1 groups=3",
    "conv2d/forward src=int8[4,64,8,8] src_step=fp32[1] weights=int8[64,64,3,3] weights_step=fp32[1] bias=fp32[64] dst=fp32[4,64,8,8] "
    "kernel=3x3 padding=1x1",
    "conv2d/input_gradient weights=bf16[16,16,3,3] diff_dst=bf16[2,16,8,8] diff_src=fp32[2,16,8,8] kernel=3x3 padding=1x1",
    "conv2d/weight_gradient src=fp32[16,3,32,32] diff_dst=fp32[16,16,32,32] diff_weights=fp32[16,3,3,3] kernel=3x3 padding=1x1",
    "conv2d/forward src=fp32[5,40,33,31] weights=fp32[40,1,3,3] dst=fp32[5,40,33,31] kernel=3x3 padding=1x1 groups=40",
    "conv2d/forward src=bf16[5,40,33,31] weights=bf16[40,1,3,3] dst=fp16[5,40,17,16] kernel=3x3 stride=2x2 padding=1x1 groups=40",
    "conv2d/forward src=int8[5,40,33,31] src_step=fp32[1] weights=int8[40,1,3,3] weights_step=fp32[40] dst=bf16[5,40,33,31] kernel=3x3 "
    "padding=1x1 groups=40",
    "conv2d/input_gradient weights=bf16[40,1,3,3] diff_dst=bf16[5,40,17,16] diff_src=bf16[5,40,33,31] kernel=3x3 stride=2x2 padding=1x1 "
    "groups=40",
    "conv2d/forward src=bf16[5,37,33,31] weights=bf16[37,1,3,3] bias=fp32[37] dst=bf16[5,37,33,31] kernel=3x3 padding=1x1 groups=37",
    "conv2d/forward src=bf16[2,48,9,8] weights=bf16[48,1,3,3] dst=fp32[2,48,9,8] kernel=3x3 padding=1x1 groups=48",
    "conv2d/input_gradient weights=bf16[37,1,3,3] diff_dst=bf16[5,37,33,31] diff_src=bf16[5,37,33,31] kernel=3x3 padding=1x1 groups=37",
    "conv2d/input_gradient weights=fp32[48,1,3,3] diff_dst=fp32[2,48,8,9] diff_src=fp32[2,48,8,9] kernel=3x3 padding=1x1 groups=48",
    "conv2d/weight_gradient src=bf16[5,40,33,31] diff_dst=bf16[5,40,17,16] diff_weights=fp32[40,1,3,3] kernel=3x3 stride=2x2 padding=1x1 "
    "groups=40",
    "conv2d/weight_gradient src=fp32[40,40,13,31] diff_dst=fp32[40,40,13,31] diff_weights=fp32[40,1,3,3] kernel=3x3 padding=1x1 groups=40",
    "conv2d/forward src=fp32[2,16,9,9] weights=fp32[16,1,5,5] dst=fp32[2,16,9,9] kernel=5x5 padding=2x2 groups=16",
    "linear/forward src=fp32[16,128] weights=fp32[96,128] bias=fp32[96] dst=bf16[16,96]",
    "linear/forward src=uint4[100,260] src_step=fp32[1] src_group=int8[260] weights=int4[90,260] weights_step=fp32[90] bias=fp32[90] "
    "dst=fp32[100,90] shifts=4",
    "linear/forward src=int8[100,260] src_step=fp32[1] src_group=int8[260] weights=int8[90,260] weights_step=fp32[90] dst=bf16[100,90] "
    "shifts=8",
    "conv2d/input_gradient weights=int6[37,24,3,3] weights_step=fp32[24] diff_dst=int6[3,37,9,8] diff_dst_step=fp32[1] "
    "diff_dst_group=int8[37] diff_src=bf16[3,24,17,15] kernel=3x3 stride=2x2 padding=1x1 shifts=6",
    "conv2d/weight_gradient src=uint4[5,24,31,33] src_step=fp32[1] src_group=int8[24] diff_dst=int4[5,45,31,33] diff_dst_step=fp32[1] "
    "diff_dst_group=int8[45] diff_weights=fp32[45,24,3,3] diff_bias=fp32[45] kernel=3x3 padding=1x1",
    "linear/input_gradient weights=bf16[96,128] diff_dst=bf16[16,96] diff_src=fp32[16,128]",
    "attention/forward src=fp32[2,64,70] src2=fp32[2,64,290] src3=fp32[2,40,290] keep=fp32[2,290] dst=fp32[2,40,70] heads=2",
    "attention/forward src=bf16[2,64,300] src2=bf16[2,32,300] src3=bf16[2,32,300] dst=bf16[2,64,300] heads=2 key_heads=1 causal=1",
    "attention/forward src=bf16[1,33,20] src2=bf16[1,33,21] src3=bf16[1,35,21] dst=fp32[1,35,20] heads=1 probability=0.3",
    "attention/backward src=fp32[2,64,70] src2=fp32[2,64,290] src3=fp32[2,40,290] keep=fp32[2,290] diff_dst=fp32[2,40,70] "
    "diff_src=fp32[2,64,70] diff_src2=fp32[2,64,290] diff_src3=fp32[2,40,290] heads=2 probability=0.2",
    "attention/backward src=bf16[1,128,100] src2=bf16[1,64,100] src3=bf16[1,64,100] diff_dst=bf16[1,128,100] diff_src=bf16[1,128,100] "
    "diff_src2=bf16[1,64,100] diff_src3=bf16[1,64,100] heads=2 key_heads=1 causal=1",
    "attention/backward src=bf16[1,33,20] src2=bf16[1,33,21] src3=bf16[1,35,21] diff_dst=bf16[1,35,20] diff_src=fp32[1,33,20] "
    "diff_src2=bf16[1,33,21] diff_src3=fp32[1,35,21] heads=1",
    NULL};

/* Calls `check` for each case of each operator that the device takes; the others must be products in a format it does not have. */
static void one_case(qs_device *device, const char *text, check_case check) {
    qs_device_info info;
    qs_kernel_fact fact;
    qs_case one;
    qs_device_describe(device, &info);
    assert_ok(qs_case_parse(text, &one));
    qs_status status = qs_device_fact(device, &one, &fact);
    if (status == QS_OK) {
        check(device, &one, text);
        return;
    }
    assert_int_equal(status, QS_UNSUPPORTED);
    assert_int_equal(one.op->kind, QS_ADJUSTABLE);
    bool missing = strstr(text, "=fp16") || (strstr(text, "=bf16") && !offers(&info, "bf16"));
    if (!missing) fail_msg("refused: %s", qs_message());
}

static void every_case(qs_device *device, check_case check) {
    const qs_op *op;
    for (size_t i = 0; (op = qs_op_at(i)); i++) {
        for (const char *const *text = op->cases; *text; text++)
            one_case(device, *text, check);
    }
    for (const char *const *text = extra; *text; text++)
        one_case(device, *text, check);
    for (const char *const *text = integer_cases; *text; text++)
        one_case(device, *text, check);
}

/* Hashes of the results of our own kernels since they were set to 0. Products, and what is made of them, stand apart: their bits may depend
 * on the ceiling. */
static uint64_t own_bits, product_bits;

static bool has_products(const qs_op *op) {
    return op->kind == QS_ADJUSTABLE || strcmp(op->name, "attention") == 0;
}

static void note_own_bits(const bound_kernel *kernel, const bound *got) {
    if (strncmp(kernel->fact.kernel, "own:", 4)) return;
    uint64_t *bits = has_products(got->one.op) ? &product_bits : &own_bits;
    for (int i = 0; i < got->one.operands; i++) {
        if (got->one.operand[i].format) *bits = qs_hash(got->operands[i].data, tensor_bytes(&got->operands[i]), *bits);
    }
}

/* Losses over an odd number of classes are taken with label smoothing. */
static void smooth(bound *b) {
    const int axis = b->one.op->class_axis;
    if (axis > 0 && b->one.operand[qs_case_position(&b->one, QS_SRC)].shape.dim[axis] % 2) b->run.label_smoothing = 0.1;
}

static void check_values(qs_device *device, const qs_case *one, const char *text) {
    bound fresh, expected, got, again;
    bound_kernel kernel, other;
    bound_make(&fresh, one, 11);
    smooth(&fresh);
    bound_copy(&expected, one, &fresh);
    bound_copy(&got, one, &fresh);
    bound_copy(&again, one, &fresh);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    compare_written(&got, &expected, kernel.fact.kernel, text);
    note_own_bits(&kernel, &got);
    /* a second kernel, whose scratch is used twice, on fresh operands each time, and which outlives a trim */
    kernel_make(&other, device, &again);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1) qs_device_trim(device);
        bound_share(&again, &fresh);
        assert_ok(kernel_run(&other, &again.run));
        for (int i = 0; i < one->operands; i++) {
            if (!one->operand[i].format) continue;
            if (memcmp(got.operands[i].data, again.operands[i].data, tensor_bytes(&got.operands[i]))) {
                fail_msg("%s: %s differs between runs", text, qs_role_name(one->operand[i].role));
            }
        }
    }
    kernel_release(&kernel);
    kernel_release(&other);
    bound_release(&expected);
    bound_release(&got);
    bound_release(&again);
    bound_release(&fresh);
}

/* Two threads: close to the reference; our own kernels bit for bit as with one. */
static void check_threads(qs_device *device, const qs_case *one, const char *text) {
    bound expected, got;
    bound_kernel kernel;
    bound_make(&expected, one, 11);
    smooth(&expected);
    bound_copy(&got, one, &expected);
    bound_run(&expected);
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    compare_written(&got, &expected, kernel.fact.kernel, text);
    note_own_bits(&kernel, &got);
    kernel_release(&kernel);
    bound_release(&expected);
    bound_release(&got);
}

/* Both passes over all cases; our own kernels must not show threads in a single bit, nor, but for products, the ceiling. */
TEST(test_cases) {
    uint64_t bits[2], products[2];
    for (int threads = 1; threads <= 2; threads++) {
        qs_device *device = open_device("cpu", test_ceiling, threads, 1);
        own_bits = product_bits = 0;
        every_case(device, threads == 1 ? check_values : check_threads);
        bits[threads - 1] = own_bits;
        products[threads - 1] = product_bits;
        qs_device_close(device);
    }
    assert_true(bits[0] == bits[1] && products[0] == products[1]);
    if (*shared_bits == 0) *shared_bits = bits[0];
    assert_true(*shared_bits == bits[0]);
}

/* Every candidate, not only the one that is taken: the names tell them apart, facts by name are those of the list, none is out of its
 * scratch, and all agree with the reference. */
static void check_candidates(qs_device *device, const qs_case *one, const char *text) {
    qs_kernel_fact all[QS_MOST_CANDIDATES], own;
    int count = 0;
    assert_ok(qs_device_candidates(device, one, all, &count));
    assert_ok(qs_device_fact(device, one, &own));
    assert_true(count >= 1 && count <= QS_MOST_CANDIDATES);
    assert_string_equal(all[0].kernel, own.kernel);
    for (int i = 1; i < count; i++) {
        bound expected, got;
        bound_kernel kernel;
        char what[QS_CASE_TEXT + 80];
        snprintf(what, sizeof what, "%s by %s", text, all[i].kernel);
        for (int k = 0; k < i; k++)
            if (!strcmp(all[i].kernel, all[k].kernel)) fail_msg("%s: two candidates have this name", what);
        bound_make(&expected, one, 11);
        bound_copy(&got, one, &expected);
        bound_run(&expected);
        kernel_make_named(&kernel, device, all[i].kernel, &got);
        assert_string_equal(kernel.fact.kernel, all[i].kernel);
        assert_true(kernel.fact.scratch_bytes == all[i].scratch_bytes && kernel.fact.allocates == all[i].allocates);
        assert_ok(kernel_run(&kernel, &got.run));
        compare_written(&got, &expected, kernel.fact.kernel, what);
        kernel_release(&kernel);
        bound_release(&expected);
        bound_release(&got);
        others_seen++;
    }
}

TEST(test_candidates) {
    for (int threads = 1; threads <= 2; threads++) {
        qs_device *device = open_device("cpu", test_ceiling, threads, 1);
        others_seen = 0;
        every_case(device, check_candidates);
        assert_true(others_seen > 20);
        qs_device_close(device);
    }
}

/* A preferred kernel is taken where it is a candidate of its case, and only there. */
TEST(test_preference) {
    char convolution[] = "conv2d/forward src=fp32[4,16,8,8] weights=fp32[32,16,3,3] dst=fp32[4,32,8,8] kernel=3x3 padding=1x1",
         linear[] = "linear/forward src=fp32[8,64] weights=fp32[10,64] dst=fp32[8,10]", text[QS_CASE_TEXT];
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_kernel_fact all[QS_MOST_CANDIDATES], fact;
    qs_kernel_choice choice[2] = {{.case_text = linear, .kernel = "a kernel of another day"}, {.case_text = text}};
    qs_case one, other;
    qs_device_info info;
    int count = 0;
    assert_ok(qs_case_parse(convolution, &one));
    assert_ok(qs_case_parse(linear, &other));
    qs_case_text(&one, text);
    assert_ok(qs_device_candidates(device, &one, all, &count));
    qs_device_describe(device, &info);
    if (count == 1 && !strcmp(info.library, "own kernels")) { /* built without oneDNN: nothing to prefer */
        qs_device_close(device);
        skip();
    }
    assert_true(count >= 2 && !all[0].tuned);
    memcpy(choice[1].kernel, all[count - 1].kernel, sizeof choice[1].kernel);
    assert_ok(qs_device_prefer(device, 2, choice));
    assert_ok(qs_device_fact(device, &one, &fact));
    assert_string_equal(fact.kernel, all[count - 1].kernel);
    assert_true(fact.tuned);
    bound expected, got;
    bound_kernel kernel;
    bound_make(&expected, &one, 11);
    bound_copy(&got, &one, &expected);
    bound_run(&expected);
    kernel_make(&kernel, device, &got); /* fact and prepared form are of one kernel: the scratch is guarded */
    assert_ok(kernel_run(&kernel, &got.run));
    compare_written(&got, &expected, kernel.fact.kernel, text);
    kernel_release(&kernel);
    bound_release(&expected);
    bound_release(&got);
    assert_ok(qs_device_fact(device, &other, &fact));
    assert_false(fact.tuned);
    assert_ok(qs_device_fact_of(device, &one, all[0].kernel, &fact)); /* a name goes before what is preferred */
    assert_string_equal(fact.kernel, all[0].kernel);
    assert_false(fact.tuned);
    assert_refused(qs_device_fact_of(device, &one, "a kernel of another day", &fact), QS_MISMATCH, all[0].kernel);
    assert_ok(qs_device_prefer(device, 0, NULL));
    assert_ok(qs_device_fact(device, &one, &fact));
    assert_string_equal(fact.kernel, all[0].kernel);
    assert_false(fact.tuned);
    qs_device_close(device);
}

/* What elementwise kernels do with values that are no ordinary numbers: as the reference, bit for bit. */
TEST(test_special_values) {
    static const char *const texts[] = {"relu/forward src=fp32[5,13] mask=int8[9] dst=fp32[5,13]",
                                        "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13]",
                                        "relu/forward src=fp32[5,13] mask=int8[9] dst=bf16[5,13]",
                                        "relu/forward src=fp32[5,13] mask=int8[9] dst=fp32[5,13] ceiling=1",
                                        "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13] ceiling=1",
                                        "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13] ceiling=6",
                                        "relu/forward src=bf16[5,13] mask=int8[9] dst=fp32[5,13] ceiling=1.01171875",
                                        "relu/forward src=fp32[5,13] mask=int8[9] dst=fp32[5,13] absmax=fp32[1]",
                                        "relu/forward src=bf16[5,13] mask=int8[9] dst=bf16[5,13] absmax=fp32[1] ceiling=1",
                                        "relu/forward src=fp32[5,13] mask=int8[9] dst=fp16[5,13] absmax=fp32[1]",
                                        "add/forward src=bf16[5,13] src2=bf16[5,13] dst=bf16[5,13] absmax=fp32[1]",
                                        "cast/forward src=fp32[5,13] dst=bf16[5,13]",
                                        "cast/forward src=bf16[5,13] dst=fp32[5,13]",
                                        "max_pool/forward src=fp32[1,5,4,4] mask=int8[1,5,2,2] dst=fp32[1,5,2,2] kernel=2x2 stride=2x2",
                                        "max_pool/forward src=bf16[1,17,4,4] mask=int8[1,17,2,2] dst=bf16[1,17,2,2] kernel=2x2 stride=2x2",
                                        "max_pool/forward src=bf16[2,32,6,6] mask=int8[2,32,3,3] dst=bf16[2,32,3,3] kernel=2x2 stride=2x2",
                                        ("max_pool/backward mask=int8[2,32,3,3] diff_dst=bf16[2,32,3,3] diff_src=bf16[2,32,6,6] kernel=2x2 "
                                         "stride=2x2"),
                                        "quantize/forward src=fp32[5,13] absmax=fp32[1] dst=int8[5,13] dst_step=fp32[1]",
                                        "absmax/forward src=fp32[5,13] absmax=fp32[1]",
                                        "finite_check/forward src=bf16[5,13] flag=fp32[1]",
                                        "finite_check/forward src=fp32[5,13] flag=fp32[1]",
                                        "clip_norm/forward src=fp32[65] clip_norm=0.5"};
    static const float values[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 0x1p-140f, -0x1p-140f, 0x1.fffffep127f, -0x1.ff7ffep127f, 1, -1};
    enum { VALUES = COUNT_OF(values) };
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    for (size_t t = 0; t < COUNT_OF(texts); t++) {
        for (size_t skipped = 0; skipped < 3; skipped++) { /* with NaN, with infinities, with finite values only */
            bound expected, got;
            bound_kernel kernel;
            bound_parse(&expected, texts[t], 31);
            bound_parse(&got, texts[t], 31);
            const qs_role role = qs_case_position(&expected.one, QS_SRC) < 0 ? QS_DIFF_DST : QS_SRC;
            float *mixed = tensor_values(bound_tensor(&expected, role));
            size_t first = skipped == 2 ? 3 : skipped;
            for (int64_t i = 0; i < bound_count(&expected, role); i++) {
                if (i % 3 == 0) mixed[i] = values[first + (size_t)(i / 3) % (VALUES - first)];
            }
            tensor_store(bound_tensor(&expected, role), mixed);
            tensor_store(bound_tensor(&got, role), mixed);
            free(mixed);
            bound_run(&expected);
            kernel_make(&kernel, device, &got);
            assert_ok(kernel_run(&kernel, &got.run));
            for (int i = 0; i < got.one.operands; i++) {
                if (!got.one.operand[i].format) continue;
                if (memcmp(got.operands[i].data, expected.operands[i].data, tensor_bytes(&got.operands[i]))) {
                    fail_msg("%s: %s differs from the reference on special values", texts[t], qs_role_name(got.one.operand[i].role));
                }
            }
            kernel_release(&kernel);
            bound_release(&expected);
            bound_release(&got);
        }
    }
    qs_device_close(device);
}

/* Facts say the same each time they are asked for. */
static void check_fact(qs_device *device, const qs_case *one, const char *text) {
    qs_kernel_fact first, second;
    (void)text;
    assert_ok(qs_device_fact(device, one, &first));
    assert_ok(qs_device_fact(device, one, &second));
    assert_string_equal(first.kernel, second.kernel);
    assert_int_equal(first.scratch_bytes, second.scratch_bytes);
    assert_int_equal(first.allocates, second.allocates);
}

TEST(test_facts) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    every_case(device, check_fact);
    qs_device_close(device);
}

/* 64 products of ±127: a kernel that saturates pairs of products at 16 bits is off by far. */
TEST(test_integer_extremes) {
    static const char *const texts[] = {
        "conv2d/forward src=int8[1,64,4,4] src_step=fp32[1] weights=int8[32,64,2,2] weights_step=fp32[1] dst=fp32[1,32,3,3] kernel=2x2",
        "conv2d/forward src=int8[2,16,4,4] src_step=fp32[1] weights=int8[16,16,1,1] weights_step=fp32[16] dst=fp32[2,16,4,4] kernel=1x1",
        ("conv2d/forward src=int8[2,40,5,5] src_step=fp32[1] weights=int8[40,1,3,3] weights_step=fp32[40] dst=fp32[2,40,5,5] kernel=3x3 "
         "padding=1x1 groups=40"),
        "linear/forward src=int8[8,64] src_step=fp32[1] weights=int8[10,64] weights_step=fp32[1] dst=fp32[8,10]"};
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_device_info info;
    qs_device_describe(device, &info);
    /* Offered where it pays, there for all. */
    if (!strcmp(test_ceiling, "avx2") || !strcmp(test_ceiling, "avx512_core")) assert_false(offers(&info, "int8"));
    for (size_t t = 0; t < COUNT_OF(texts); t++) {
        for (int signs = 0; signs < 4; signs++) {
            bound b;
            bound_parse(&b, texts[t], 1);
            memset(bound_tensor(&b, QS_SRC)->data, signs & 1 ? -127 : 127, tensor_bytes(bound_tensor(&b, QS_SRC)));
            memset(bound_tensor(&b, QS_WEIGHTS)->data, signs & 2 ? -127 : 127, tensor_bytes(bound_tensor(&b, QS_WEIGHTS)));
            bound_fp32(&b, QS_SRC_STEP)[0] = 1;
            for (int64_t i = 0; i < bound_count(&b, QS_WEIGHTS_STEP); i++)
                bound_fp32(&b, QS_WEIGHTS_STEP)[i] = 0.5f;
            check_dst(device, &b); /* sums below 2^24, powers of two as steps: no rounding anywhere */
            bound_release(&b);
        }
    }
    qs_device_close(device);
}

TEST(test_refusals) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1), *other = NULL;
    qs_case one;
    qs_kernel_fact fact;
    assert_ok(qs_case_parse("linear/forward src=fp16[8,64] weights=fp16[10,64] dst=fp16[8,10]", &one));
    assert_refused(qs_device_fact(device, &one, &fact), QS_UNSUPPORTED, "fp16");
    assert_ok(qs_case_parse("linear/forward src=fp32[8,64] weights=fp32[10,64] dst=fp32[8,10]", &one));
    one.operand[0].shape.dim[1] = 65;
    assert_int_equal(qs_device_fact(device, &one, &fact), QS_USAGE);
    if (!memory_is_elsewhere()) { /* one process, one ceiling */
        const char *another = strcmp(test_ceiling, "avx2") ? "avx2" : "all";
        assert_int_equal(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = another, .speed = 1}, &other),
                         QS_USAGE);
    }
    assert_refused(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .isa = "sse9", .speed = 1}, &other), QS_USAGE,
                   "avx2_vnni");
    assert_null(other);
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_preference),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_integer_extremes),
    };
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests));
}
