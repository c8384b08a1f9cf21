#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Products of 4 and 6 bits with four shift groups (shiftmm), operands quantized and packed before: speed over that of int8 with one step
# (ratio_to_int8) and over bf16 (speedup_over_bf16), each by the faster of the kernel library's kernels and our own; speedup_end_to_end has
# quantizing and packing inside, of int4, int6 and hadamard: 4 bits with one step for each factor behind a Hadamard transform of 16 channels
# (Xi et al.), which runs inside the search for the maximum and inside the quantization. Geometric means over linear layers of 256 to 4096 and convolutions of resnets and a vision transformer, and each shape:
# GOP/s of every kind, shares of grouping and shifting in the whole, fraction of the peak of 8-bit multiply-adds. gemm_over_shiftmm: time of
# the other method, which gathers the channels of each group, multiplies group by group and shifts and adds the sums, over the time of
# shiftmm by the same kernels of our own (own), and over that of the fastest (taken); share_gathering: what of the other
# method's time is the gathering.
set -eu
cd "$(dirname "$0")/.."
bench_name=shiftmm
. bench/common.sh
: "${QSYNC:=build/release/qsync}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$QSYNC" bench --shiftmm --json > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | del(.shapes)' bench/results/shiftmm.json
