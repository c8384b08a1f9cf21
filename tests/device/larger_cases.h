// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_TESTS_DEVICE_LARGER_CASES_H
#define QSYNC_TESTS_DEVICE_LARGER_CASES_H

#include <stddef.h>

/* Beyond the operators' lists: large enough for several threads, chunks and slots; formats that pass through scratch. */
static const char *const larger_cases[] = {
    /* where the library's kernels in tile registers fail: windows in the padding alone, lines of taps apart with 37 channels */
    "conv2d/forward src=bf16[1,32,4,12] weights=bf16[21,32,3,3] dst=bf16[1,21,4,7] kernel=3x3 stride=2x2 padding=2x2 padding_more=1x0",
    "conv2d/forward src=int8[1,48,9,4] src_step=fp32[1] weights=int8[64,24,3,3] weights_step=fp32[1] dst=fp32[1,64,7,3] kernel=3x3 "
    "stride=2x2 padding=2x2 padding_more=3x0 groups=2",
    "conv2d/weight_gradient src=bf16[2,37,6,6] diff_dst=bf16[2,16,4,6] diff_weights=fp32[16,37,3,3] kernel=3x3 dilation=2x1 padding=1x1",
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
    "add/forward src=bf16[8,17,33,33] src2=bf16[8,17,33,33] mask=int8[18513] dst=bf16[8,17,33,33] relu",
    "add/forward src=fp16[8,17,33,33] src2=fp16[8,17,33,33] mask=int8[18513] dst=fp16[8,17,33,33] absmax=fp32[1] ceiling=0.5 relu",
    "add/forward src=e5m2[5,19,7] src2=fp(3,2)[5,19,7] mask=int8[84] dst=fp(3,2)[5,19,7] absmax=fp32[1] relu",
    "relu/backward mask=int8[18513] diff_dst=bf16[8,17,33,33] diff_dst2=bf16[8,17,33,33] diff_src=bf16[8,17,33,33] absmax=fp32[1]",
    "relu/backward mask=int8[18513] diff_dst=fp16[8,17,33,33] diff_dst2=fp16[8,17,33,33] diff_src=fp16[8,17,33,33]",
    "relu/backward mask=int8[18513] diff_dst=fp32[8,17,33,33] diff_dst2=bf16[8,17,33,33] diff_src=fp32[8,17,33,33]",
    "concat/forward src=bf16[8,17,33,33] src2=bf16[8,24,33,33] dst=bf16[8,41,33,33]",
    "concat/backward diff_dst=fp32[8,41,33,33] diff_src=fp32[8,17,33,33] diff_src2=fp32[8,24,33,33]",
    "slice/forward src=fp32[8,41,33,33] dst=fp32[8,24,33,33] offset=17",
    "slice/backward diff_dst=bf16[8,24,33,33] diff_src=bf16[8,41,33,33] offset=9",
    "channel_shuffle/forward src=bf16[8,116,33,33] dst=bf16[8,116,33,33] groups=2",
    "channel_shuffle/backward diff_dst=fp32[8,58,33,33] diff_src=fp32[8,58,33,33] groups=2",
    "dropout/forward src=bf16[8,17,33,33] dst=fp32[8,17,33,33] probability=0.3 batched",
    "group_norm/forward src=bf16[2,64,33,33] scale=fp32[64] shift=fp32[64] dst=bf16[2,64,33,33] groups=4 epsilon=1e-05",
    "group_norm/backward src=bf16[2,64,33,33] scale=fp32[64] diff_dst=bf16[2,64,33,33] diff_src=bf16[2,64,33,33] diff_scale=fp32[64] "
    "diff_shift=fp32[64] groups=4 epsilon=1e-05",
    "group_norm/backward src=fp16[3,90,31,33] scale=fp32[90] diff_dst=bf16[3,90,31,33] diff_src=fp32[3,90,31,33] diff_scale=fp32[90] "
    "diff_shift=fp32[90] groups=2 epsilon=1e-05",
    "instance_norm/backward src=fp32[9,35,31] scale=fp32[35] diff_dst=fp32[9,35,31] diff_src=fp32[9,35,31] diff_scale=fp32[35] "
    "diff_shift=fp32[35] epsilon=1e-05",
    "local_response_norm/forward src=e4m3fn[9,2501] dst=e4m3fn[9,2501] size=5 alpha=0.3 beta=0.75 bias=1",
    "local_response_norm/backward src=bf16[9,64,31,33] diff_dst=bf16[9,64,31,33] diff_src=bf16[9,64,31,33] size=5 alpha=0.3 beta=0.75 "
    "bias=1",
    "resize/backward diff_dst=bf16[3,16,62,66] diff_src=bf16[3,16,31,33] mode=1 scale_height=2 scale_width=2",
    "resize/backward diff_dst=fp32[3,5,11,9] diff_src=fp32[3,5,31,33] height=11 width=9",
    "recurrence/forward src=bf16[9,320,7] weights=bf16[320,40] bias=fp32[640] dst=bf16[9,80,7] cell=2 direction=2 order=1 biases=2",
    "recurrence/backward src=fp32[9,240,3] weights=fp32[240,40] bias=fp32[480] diff_dst=fp32[9,80,3] diff_src=fp32[9,240,3] "
    "diff_weights=fp32[240,40] diff_bias=fp32[480] cell=4 direction=2 biases=2",
    "recurrence/backward src=bf16[9,240,3] weights=bf16[240,40] bias=fp32[240] diff_dst=bf16[9,80,3] diff_src=bf16[9,240,3] "
    "diff_weights=fp32[240,40] diff_bias=fp32[240] cell=3 direction=2",
    "permute/forward src=bf16[3,137,261] dst=bf16[3,261,137] extent1=261 extent2=137 order=21",
    "permute/backward diff_dst=fp32[3,65,13,80] diff_src=fp32[3,80,845] extent1=65 extent2=13 extent3=20 extent4=4 order=2341",
    "permute/forward src=e4m3fn[2,137,61] dst=e4m3fn[2,61,137] extent1=61 extent2=137 order=21",
    "permute/forward src=bf16[2,200,264] dst=bf16[2,264,200] extent1=264 extent2=200 order=21",
    "permute/backward diff_dst=fp32[2,132,196] diff_src=fp32[2,196,132] extent1=132 extent2=196 order=21",
    "permute/forward src=e4m3fn[2,192,160] dst=e4m3fn[2,160,192] extent1=160 extent2=192 order=21",
    "permute/forward src=fp32[2,3,1111] dst=fp32[2,1111,3] extent1=1111 extent2=3 order=21",
    "permute/backward diff_dst=bf16[2,5,3000] diff_src=bf16[2,3000,5] extent1=5 extent2=3000 order=21",
    "permute/forward src=fp(4,6)[2,36,15] dst=fp(4,6)[2,15,36] extent1=15 extent2=36 order=21",
    "permute/forward src=fp(4,6)[2,32,15] dst=fp(4,6)[2,16,2,15] extent1=15 extent2=2 extent3=16 order=213",
    "gate/backward src=bf16[9,35,31,33] src2=bf16[9,35] diff_dst=bf16[9,35,31,33] diff_src=bf16[9,35,31,33] diff_src2=bf16[9,35]",
    "gate/backward src=fp32[9,35,31,33] src2=fp32[9,1,31,33] diff_dst=fp32[9,35,31,33] diff_src=fp32[9,35,31,33] diff_src2=fp32[9,1,31,33]",
    "gate/forward src=fp32[9,3,31,33] src2=bf16[9,1,31,1] dst=bf16[9,3,31,33] absmax=fp32[1]",
    "gate/forward src=fp(4,6)[9,7,5,3] src2=fp(4,6)[9,1,5,3] dst=fp(4,6)[9,7,5,3]",
    "gate/backward src=bf16[9,24,31,40] src2=bf16[9,1,1,40] diff_dst=bf16[9,24,31,40] diff_src=bf16[9,24,31,40] diff_src2=fp32[9,1,1,40]",
    "gate/backward src=fp32[2,11,3001] src2=bf16[2,11] diff_dst=fp32[2,11,3001] diff_src=bf16[2,11,3001] diff_src2=fp32[2,11]",
    "gate/backward src=bf16[700,16,9] src2=bf16[700,16] diff_dst=bf16[700,16,9] diff_src=bf16[700,16,9] diff_src2=bf16[700,16]",
    "gain/backward src=bf16[9,35,31,33] scale=fp32[35] diff_dst=bf16[9,35,31,33] diff_src=bf16[9,35,31,33] diff_scale=fp32[35]",
    "gain/backward src=fp32[9,35,1023] scale=fp32[1023,35] diff_dst=fp32[9,35,1023] diff_src=fp32[9,35,1023] diff_scale=fp32[1023,35] "
    "over=1",
    "offset/backward diff_dst=fp32[9,700,33] diff_src=fp32[9,700,33] diff_shift=fp32[33] over=3",
    "offset/forward src=bf16[9,700,33] shift=fp32[33,700] dst=bf16[9,700,33] over=1",
    "prelu/backward src=bf16[9,35,31,33] scale=fp32[1] diff_dst=bf16[9,35,31,33] diff_src=bf16[9,35,31,33] diff_scale=fp32[1] over=2",
    "expand/backward diff_dst=fp32[5,70,31,33] diff_src=fp32[5,1,31,1] width=33 channels=70",
    "expand/backward diff_dst=bf16[1,35,701] diff_src=bf16[1,1,701] channels=35", "reduce_sum/forward src=fp32[1,8,20000] dst=fp32[1,8,1]",
    "reduce_sum/forward src=bf16[2,35,31,33] dst=bf16[2,1,1,1] over=2",
    "reduce_sum/backward diff_dst=fp32[5,1,31,33] diff_src=bf16[5,72,31,33] over=1",
    "reduce_mean/backward diff_dst=fp32[9,35,1] diff_src=fp32[9,35,1023]",
    "reduce_max/forward src=bf16[2,35,31,33] dst=bf16[2,1,1,1] over=2", "reduce_max/forward src=bf16[1,16,9000] dst=fp32[1,16,1]",
    "reduce_max/backward src=bf16[2,24,31,33] diff_dst=bf16[2,24,1,1] diff_src=fp32[2,24,31,33]",
    "pad/backward diff_dst=bf16[2,16,12,5] diff_src=bf16[2,16,4,3] padding=4x0 padding_more=0x2 mode=2",
    "pad/backward diff_dst=fp32[2,24,9,9] diff_src=fp32[2,24,5,7] padding=1x4 padding_more=2x-6 mode=3",
    "reduce_mean/forward src=bf16[5,70,31,33] dst=bf16[5,70,1,1]",
    "reduce_max/backward src=bf16[5,70,31,33] diff_dst=bf16[5,1,31,33] diff_src=bf16[5,70,31,33] over=1",
    "mish/backward src=bf16[9,35,1023] diff_dst=bf16[9,35,1023] diff_src=fp32[9,35,1023] absmax=fp32[1]",
    "divide/backward src=bf16[9,35,1023] src2=bf16[9,35,1023] diff_dst=bf16[9,35,1023] diff_src=bf16[9,35,1023] diff_src2=fp32[9,35,1023]",
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
    /* rows of vectors of eight, that a warp holds */
    "layer_norm/forward src=bf16[5,768,7] scale=fp32[768] shift=fp32[768] mean=fp32[35] variance=fp32[35] dst=bf16[5,768,7] "
    "absmax=fp32[1] epsilon=1e-05",
    "layer_norm/backward src=bf16[5,768,7] scale=fp32[768] mean=fp32[35] variance=fp32[35] diff_dst=bf16[5,768,7] "
    "diff_src=bf16[5,768,7] diff_scale=fp32[768] diff_shift=fp32[768] absmax=fp32[1] epsilon=1e-05",
    "layer_norm/forward src=fp32[5,1000,7] scale=fp32[1000] shift=fp32[1000] mean=fp32[35] variance=fp32[35] mask=int8[4375] "
    "dst=fp32[5,1000,7] absmax=fp32[1] epsilon=1e-05 relu",
    "layer_norm/backward src=fp32[5,1000,7] scale=fp32[1000] mean=fp32[35] variance=fp32[35] mask=int8[4375] diff_dst=fp32[5,1000,7] "
    "diff_src=fp32[5,1000,7] diff_scale=fp32[1000] diff_shift=fp32[1000] absmax=fp32[1] epsilon=1e-05 relu",
    "l1_layer_norm/backward src=fp16[5,520,7] scale=fp32[520] mean=fp32[35] deviation=fp32[35] diff_dst=fp16[5,520,7] "
    "diff_src=fp16[5,520,7] diff_scale=fp32[520] diff_shift=fp32[520] epsilon=1e-05",
    "rms_norm/forward src=bf16[9,384,33] scale=fp32[384] dst=bf16[9,384,33] epsilon=1e-05",
    "rms_norm/backward src=bf16[64,16,333] scale=fp32[16] diff_dst=bf16[64,16,333] diff_src=bf16[64,16,333] diff_scale=fp32[16] "
    "absmax=fp32[1] epsilon=1e-05",
    "softmax/forward src=bf16[2,128,3,128] dst=bf16[2,128,3,128] scale=0.125 causal=1",
    "softmax/backward src=bf16[2,128,3,128] keep=fp32[2,128] diff_dst=bf16[2,128,3,128] diff_src=bf16[2,128,3,128] scale=0.125 causal=1 "
    "window=9",
    "softmax/backward src=fp16[2,520,3] keep=fp32[2,1560] diff_dst=fp16[2,520,3] diff_src=fp16[2,520,3] scale=0.5",
    "softmax/forward src=fp32[2,1000,5] dst=fp32[2,1000,5] scale=1",
    /* rows too long for one, of any format */
    "softmax/forward src=fp32[2,3001,5] dst=bf16[2,3001,5] scale=1",
    "layer_norm/forward src=fp(4,3,4)[5,37,7] scale=fp32[37] shift=fp32[37] mean=fp32[35] variance=fp32[35] mask=int8[162] "
    "dst=fp(3,2,0)[5,37,7] absmax=fp32[1] epsilon=1e-05 relu",
    "batch_norm/forward src=fp(3,2,0)[5,37,7] scale=fp32[37] shift=fp32[37] mean=fp32[37] variance=fp32[37] running_mean=fp32[37] "
    "running_variance=fp32[37] mask=int8[162] dst=fp(3,2,0)[5,37,7] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    /* more channels than a block of threads has side by side */
    "batch_norm/forward src=bf16[5,520,7,7] scale=fp32[520] shift=fp32[520] mean=fp32[520] variance=fp32[520] running_mean=fp32[520] "
    "running_variance=fp32[520] mask=int8[15925] dst=bf16[5,520,7,7] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/forward src=bf16[5,520,7,7] scale=fp32[520] shift=fp32[520] mean=fp32[520] variance=fp32[520] running_mean=fp32[520] "
    "running_variance=fp32[520] src2=bf16[5,520,7,7] mask=int8[15925] dst=bf16[5,520,7,7] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/forward src=fp(3,2,0)[5,37,7] scale=fp32[37] shift=fp32[37] mean=fp32[37] variance=fp32[37] running_mean=fp32[37] "
    "running_variance=fp32[37] src2=bf16[5,37,7] mask=int8[162] dst=fp(3,2,0)[5,37,7] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "batch_norm/backward src=bf16[5,520,7,7] scale=fp32[520] mean=fp32[520] variance=fp32[520] mask=int8[15925] diff_dst=bf16[5,520,7,7] "
    "diff_src=bf16[5,520,7,7] diff_scale=fp32[520] diff_shift=fp32[520] absmax=fp32[1] epsilon=1e-05 momentum=0.1 relu",
    "span_cross_entropy/forward src=fp32[40,2,384] labels=fp32[40,2] loss=fp32[2]",
    "positions/forward src=bf16[9,37,129] weights=fp32[512,37] dst=bf16[9,37,129] vocabulary=512",
    "positions/backward diff_dst=bf16[9,37,129] diff_src=bf16[9,37,129] diff_weights=fp32[512,37] vocabulary=512",
    "rotary/forward src=fp32[5,96,513] dst=bf16[5,96,513] heads=3 base=10000",
    "embedding/backward ids=fp32[8,129] diff_dst=bf16[8,72,129] diff_weights=fp32[3,72] vocabulary=3",
    "embedding/backward ids=fp32[8,129] diff_dst=fp32[8,37,129] diff_weights=fp32[3,37] vocabulary=3 accumulate",
    "embedding/backward ids=fp32[8,400] diff_dst=bf16[8,16,400] diff_weights=fp32[40,16] vocabulary=40",
    "embedding/backward ids=fp32[8,400] diff_dst=bf16[8,200,400] diff_weights=fp32[250,200] vocabulary=250 accumulate",
    "embedding/forward ids=fp32[8,40] weights=fp32[250,200] dst=bf16[8,200,40] vocabulary=250",
    "gather/backward ids=fp32[3,300] diff_dst=bf16[3,40,300] diff_src=bf16[3,40,9]",
    "cached_attention/forward src=bf16[1,600,3] src2=bf16[1,300,3] src3=bf16[1,301,3] place=fp32[1,1] key_cache=fp32[40,300] "
    "value_cache=fp32[40,301] dst=bf16[1,602,3] heads=2 key_heads=1 context=40",
    "position/backward diff_dst=bf16[5,300] diff_src=bf16[5,300,513] position=-1",
    "class_token/backward diff_dst=fp32[9,300,129] diff_src=fp32[9,300,128] diff_weights=fp32[1,300]",
    "gelu/forward src=fp32[9,300,129] dst=bf16[9,300,129] absmax=fp32[1] approximate=1",
    /* beyond a piece of a stream, in formats that have one */
    "gelu/forward src=bf16[9,37,129] dst=bf16[9,37,129] absmax=fp32[1]",
    "gelu/backward src=fp16[9,37,129] diff_dst=fp16[9,37,129] diff_src=fp16[9,37,129]",
    "silu/backward src=bf16[9,37,129] diff_dst=bf16[9,37,129] diff_src=bf16[9,37,129] absmax=fp32[1]",
    "dropout/forward src=bf16[9,37,129] dst=bf16[9,37,129] probability=0.1 batched",
    "dropout/backward diff_dst=fp16[9,37,129] diff_src=fp16[9,37,129] probability=0.5",
    "cast/forward src=bf16[9,37,129] dst=fp32[9,37,129]", "cast/forward src=fp16[9,37,129] dst=fp32[9,37,129]",
    "quantize/forward src=bf16[9,37,129] absmax=fp32[1] dst=int8[9,37,129] dst_step=fp32[1] rounding=stochastic",
    "quantize/forward src=bf16[9,40,129] absmax=fp32[1] dst=int8[9,40,129] dst_step=fp32[1] rounding=stochastic batched",
    "quantize/forward src=fp16[9,37,129] absmax=fp32[1] dst=int4[9,37,129] dst_step=fp32[1]",
    "dequantize/forward src=int8[9,37,129] src_step=fp32[1] dst=fp32[9,37,129]",
    "dequantize/forward src=int8[9,37,129] src_step=fp32[1] dst=bf16[9,37,129]",
    "dequantize/forward src=int4[9,37,129] src_step=fp32[1] dst=fp16[9,37,129]",
    "multiply/backward src=bf16[9,300,129] src2=bf16[9,300,129] diff_dst=bf16[9,300,129] diff_src=bf16[9,300,129] "
    "diff_src2=bf16[9,300,129]",
    "max_pool/forward src=fp32[3,37,9,9] mask=int8[3,37,5,5] dst=fp32[3,37,5,5] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[3,37,5,5] diff_dst=bf16[3,37,5,5] diff_src=bf16[3,37,9,9] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[2,20,5,5] diff_dst=fp32[2,20,5,5] diff_src=fp32[2,20,13,13] kernel=2x2 stride=3x3 padding=1x1",
    "max_pool/forward src=bf16[3,32,9,9] mask=int8[3,32,5,5] dst=bf16[3,32,5,5] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[3,64,5,5] diff_dst=bf16[3,64,5,5] diff_src=bf16[3,64,9,9] kernel=3x3 stride=2x2 padding=1x1",
    "average_pool/backward diff_dst=fp32[2,20,4,4] diff_src=fp32[2,20,11,11] kernel=2x2 stride=3x3",
    "global_average_pool/forward src=bf16[3,300,9,9] dst=bf16[3,300,1,1]",
    "global_average_pool/forward src=fp32[3,37,33,33] dst=fp32[3,37,1,1]",
    "relu/forward src=fp(3,2)[3,7,3,3] mask=int8[24] dst=fp(3,2)[3,7,3,3] absmax=fp32[1]",
    "relu/backward mask=int8[24] diff_dst=e4m3fn[3,7,3,3] diff_src=e5m2[3,7,3,3]",
    "add/forward src=tf32[5,19,7] src2=fp32[5,19,7] dst=tf32[5,19,7] absmax=fp32[1]", "cast/forward src=fp32[5,19,7] dst=tf32[5,19,7]",
    "average_pool/forward src=tf32[2,5,8,6] dst=tf32[2,5,5,4] kernel=2x2 stride=2x2 padding=1x1",
    "dropout/backward diff_dst=tf32[5,64] diff_src=tf32[5,64] probability=0.5",
    "conv2d/forward src=tf32[2,16,8,8] weights=tf32[24,16,3,3] bias=fp32[24] dst=tf32[2,24,8,8] kernel=3x3 padding=1x1",
    "conv2d/forward src=tf32[2,16,8,8] weights=tf32[24,16,3,3] dst=fp32[2,24,8,8] kernel=3x3 padding=1x1",
    "conv2d/input_gradient weights=tf32[24,16,3,3] diff_dst=tf32[2,24,8,8] diff_src=tf32[2,16,8,8] kernel=3x3 padding=1x1",
    "conv2d/weight_gradient src=tf32[2,16,8,8] diff_dst=tf32[2,24,8,8] diff_weights=fp32[24,16,3,3] diff_bias=fp32[24] kernel=3x3 "
    "padding=1x1",
    "add/forward src=e5m2[5,19,7] src2=fp(3,2)[5,19,7] dst=e4m3fn[5,19,7] absmax=fp32[1]",
    "dropout/forward src=e4m3fn[5,19,7] dst=fp(5,6)[5,19,7] probability=0.3 batched",
    "concat/forward src=e4m3fn[2,9,5] src2=e4m3fn[2,14,5] dst=e4m3fn[2,23,5]",
    "concat/forward src=fp(3,2)[2,8,5] src2=fp(3,2)[2,40,5] dst=fp(3,2)[2,48,5]",
    "slice/backward diff_dst=fp(4,6)[2,16,5] diff_src=fp(4,6)[2,40,5] offset=8",
    "channel_shuffle/forward src=e5m2[3,48,5] dst=e5m2[3,48,5] groups=3",
    "max_pool/forward src=fp(4,2)[2,16,8,8] mask=int8[2,16,4,4] dst=fp(4,2)[2,16,4,4] kernel=2x2 stride=2x2",
    "max_pool/forward src=e5m2[2,5,9,7] mask=int8[2,5,4,3] dst=e5m2[2,5,4,3] kernel=3x3 stride=2x2",
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
    /* gradients beside dropout: lengths of whole tiles and others */
    "attention/backward src=bf16[2,64,64] src2=bf16[2,64,64] src3=bf16[2,64,64] diff_dst=bf16[2,64,64] "
    "diff_src=bf16[2,64,64] diff_src2=bf16[2,64,64] diff_src3=bf16[2,64,64] heads=2 probability=0.25",
    "attention/backward src=bf16[2,64,128] src2=bf16[2,64,128] src3=bf16[2,64,128] diff_dst=bf16[2,64,128] "
    "diff_src=bf16[2,64,128] diff_src2=bf16[2,64,128] diff_src3=bf16[2,64,128] heads=2 probability=0.25",
    "attention/backward src=bf16[2,64,197] src2=bf16[2,64,197] src3=bf16[2,64,197] diff_dst=bf16[2,64,197] "
    "diff_src=bf16[2,64,197] diff_src2=bf16[2,64,197] diff_src3=bf16[2,64,197] heads=2 probability=0.25",
    "attention/backward src=fp16[2,64,128] src2=fp16[2,64,128] src3=fp16[2,64,128] diff_dst=fp16[2,64,128] "
    "diff_src=fp16[2,64,128] diff_src2=fp16[2,64,128] diff_src3=fp16[2,64,128] heads=2 probability=0.25",
    "attention/backward src=fp16[2,64,192] src2=fp16[2,64,192] src3=fp16[2,64,192] diff_dst=fp16[2,64,192] "
    "diff_src=fp16[2,64,192] diff_src2=fp16[2,64,192] diff_src3=fp16[2,64,192] heads=2 probability=0.25",
    "attention/backward src=bf16[2,64,128] src2=bf16[2,64,128] src3=bf16[2,64,128] diff_dst=bf16[2,64,128] "
    "diff_src=bf16[2,64,128] diff_src2=bf16[2,64,128] diff_src3=bf16[2,64,128] heads=2 causal=1 probability=0.25",
    "attention/backward src=bf16[2,64,197] src2=bf16[2,64,197] src3=bf16[2,64,197] diff_dst=bf16[2,64,197] "
    "diff_src=bf16[2,64,197] diff_src2=bf16[2,64,197] diff_src3=bf16[2,64,197] heads=2 causal=1 probability=0.25",
    "attention/backward src=bf16[2,64,128] src2=bf16[2,64,128] src3=bf16[2,64,128] keep=fp32[2,128] diff_dst=bf16[2,64,128] "
    "diff_src=bf16[2,64,128] diff_src2=bf16[2,64,128] diff_src3=bf16[2,64,128] heads=2 probability=0.25",
    "attention/backward src=bf16[2,64,128] src2=bf16[2,64,128] src3=bf16[2,64,128] keep=fp32[2,128] diff_dst=bf16[2,64,128] "
    "diff_src=bf16[2,64,128] diff_src2=bf16[2,64,128] diff_src3=bf16[2,64,128] heads=2",
    "attention/backward src=fp16[2,64,40] src2=fp16[2,64,40] src3=fp16[2,64,40] keep=fp32[2,40] diff_dst=fp16[2,64,40] "
    "diff_src=fp16[2,64,40] diff_src2=fp16[2,64,40] diff_src3=fp16[2,64,40] heads=2",
    "attention/backward src=fp16[2,64,197] src2=fp16[2,64,197] src3=fp16[2,64,197] keep=fp32[2,197] diff_dst=fp16[2,64,197] "
    "diff_src=fp16[2,64,197] diff_src2=fp16[2,64,197] diff_src3=fp16[2,64,197] heads=2 causal=1 probability=0.25",
    NULL};

#endif
