#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How near the roof attention in blocks is, forward and backward, in fp32 and bf16, and how fast beside attention in three steps; what
# scratch both take. All kernels of a shape run in turn and of each the least time counts.
# BENCH_ROUNDS (40), BENCH_THREADS (1).
set -eu
cd "$(dirname "$0")/.."
bench_name=attention
. bench/common.sh
: "${BENCH_ROUNDS:=40}" "${BENCH_THREADS:=1}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export OMP_NUM_THREADS="$BENCH_THREADS"
"$QSYNC_BENCH" attention --rounds "$BENCH_ROUNDS" --threads "$BENCH_THREADS" --json > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures.shapes[] |= {fraction_of_peak, fused_over_unfused} | .figures' bench/results/attention.json
