#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole training steps in integers beside bf16 and fp32: all three products of every convolution and linear operator in 4 or 6 bits with four
# shift groups, in 8 bits with one step, or in 4 bits with one step behind Hadamard transforms (Xi et al.); quantizing, packing, normalisations
# and the update are inside. Every round times all recipes one after the other, so that a machine that changes its pace hits all; a ratio is
# the median over rounds of what one round gave.
# BENCH_MODELS (resnet20 and resnet20:norm=l1bnq), BENCH_BATCH (128), BENCH_ROUNDS (7), BENCH_STEPS (6 of each recipe a round), BENCH_THREADS (1).
set -eu
cd "$(dirname "$0")/.."
bench_name=integers
. bench/common.sh
: "${BENCH_MODELS:=resnet20 resnet20:norm=l1bnq}" "${BENCH_BATCH:=128}" "${BENCH_ROUNDS:=7}"
: "${BENCH_STEPS:=6}" "${BENCH_THREADS:=1}"
export OMP_NUM_THREADS="$BENCH_THREADS" OMP_PROC_BIND=close OMP_PLACES=cores
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in $(seq "$BENCH_ROUNDS"); do
    for model in $BENCH_MODELS; do
        "$QSYNC" bench --models "$model" --recipes fp32,bf16,int8:tensor,int6:shift4,int4:shift4,int4:hadamard --batch "$BENCH_BATCH" \
            --steps "$BENCH_STEPS" --threads "$BENCH_THREADS" --json
    done
    echo "bench: round $round of $BENCH_ROUNDS done" >&2
done > "$work/rounds"

# For each model: medians by recipe.
jq -n --argjson batch "$BENCH_BATCH" --argjson threads "$BENCH_THREADS" '
    def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
    def medians(f): . as $rounds | $rounds[0] | keys_unsorted
        | map(. as $recipe | {key: ., value: ([$rounds[] | {all: ., us: .[$recipe].step_us} | f] | median)}) | from_entries;
    [inputs.models | to_entries[]] | group_by(.key) | map({key: .[0].key, value: (map(.value) | {
        step_us: medians(.us), speedup_over_fp32: medians(.all.fp32.step_us / .us), speedup_over_bf16: medians(.all.bf16.step_us / .us)})})
    | from_entries
    | {batch: $batch, threads: $threads, models: .}' "$work/rounds" > "$work/figures.json"
bench_write "$work/figures.json"
jq .figures bench/results/integers.json
