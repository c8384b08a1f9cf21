#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Products with four shift groups (shiftmm), operands quantized and packed before: of 4 and 6 bits by the faster of the kernel library's
# kernels and our own, of 8 bits (int8:shift4) by our own. Speed over that of int8 with one step, by the faster as well (ratio_to_int8), and
# over bf16: by the library's kernel, which forms all products of weights packed before (speedup_over_bf16), and by the faster of that and
# the kernel that the device takes, which packs or transforms its weights in every run (taken_speedup). speedup_end_to_end and
# taken_speedup_end_to_end have quantizing and packing inside, also of hadamard: 4 bits with one step for each factor behind a Hadamard
# transform of 16 channels (Xi et al.), which runs inside the search for the maximum and inside the quantization. Geometric means over
# linear layers of 256 to 4096 and convolutions of resnets and a vision transformer, and each shape: GOP/s of every kind, shares of grouping
# and shifting in the whole, fraction of the peak of 8-bit multiply-adds. gemm_over_shiftmm: time of the other method, which gathers the
# channels of each group, multiplies group by group and shifts and adds the sums, over the time of shiftmm by the same kernels of our own,
# in 4 bits (own) and in 8 (int8:shift4), and in 4 bits over that of the fastest (taken); share_gathering: what of the other method's time
# in 4 bits is the gathering.
set -eu
cd "$(dirname "$0")/.."
bench_name=shiftmm
. bench/common.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$QSYNC_BENCH" shiftmm --json > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | del(.shapes)' bench/results/shiftmm.json
