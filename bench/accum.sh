#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Milliseconds of the formula of variance retention for a sum of 10^9 products: one evaluation at the slowest width (vrr_ms), and the search
# for the width that is enough (bits_ms). Several runs, the median of each figure is kept. Then how fast the device's kernels with narrow
# accumulators are: the time of the fp32 kernel that forms the same products over theirs (kernel_ratio.MODE, and by shape), and that of the
# kernel that the device takes, which may form fewer (taken_ratio.MODE), over convolutions; beside the one that it takes over linear layers
# (linear_ratio.MODE). avx2: all of that below the instruction sets that add in fused fp32 lanes. One thread, the least of KERNEL_ROUNDS.
# BENCH_ROUNDS (5), KERNEL_ROUNDS (12).
set -eu
cd "$(dirname "$0")/.."
bench_name=accum
. bench/common.sh
: "${BENCH_ROUNDS:=5}" "${KERNEL_ROUNDS:=12}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in $(seq "$BENCH_ROUNDS"); do
    "$QSYNC_BENCH" accum --json >> "$work/rows"
    echo "bench: round $round of $BENCH_ROUNDS done" >&2
done

jq -s 'def median: sort | .[length / 2 | floor];
    . as $runs | .[0] | with_entries(.key as $key | .value = ([$runs[][$key]] | median))' "$work/rows" > "$work/formula"
"$QSYNC_BENCH" narrow --rounds "$KERNEL_ROUNDS" --json > "$work/kernels"
"$QSYNC_BENCH" narrow --isa avx2 --rounds "$KERNEL_ROUNDS" --json > "$work/avx2"
jq -s '.[0] + .[1] + {avx2: .[2]}' "$work/formula" "$work/kernels" "$work/avx2" > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | del(.shapes, .avx2.shapes)' bench/results/accum.json
