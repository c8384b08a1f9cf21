#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gigabytes per second of rounding 64 MiB of fp32 values in place, per format and rounding (rounding.FORMAT.MODE), of rounding and packing
# in one pass (packing.FORMAT), of unpacking (unpacking.FORMAT) and of writing stochastic codes of int8 in one step a tensor from as many
# values (quantizing.SOURCE, fp32 or bf16): gb_per_s, and the fraction of what a copy moves in the same run. One thread, by its processor
# time, also under lower instruction-set ceilings (avx2.*, portable.*). Then what simulated formats cost a training step: simulation_ratio is
# the median step with every tensor rounded and saved in low formats over the median fp32 step, of runs in turn (simulation.pairs holds
# them), beside the bytes of both arenas.
# BENCH_ROUNDS (12), BENCH_MODEL (resnet18_cifar), BENCH_BATCH (128), BENCH_PAIRS (3), BENCH_STEPS (6).
set -eu
cd "$(dirname "$0")/.."
bench_name=formats
. bench/common.sh
: "${BENCH_ROUNDS:=12}" "${BENCH_MODEL:=resnet18_cifar}" "${BENCH_BATCH:=128}"
: "${BENCH_PAIRS:=3}" "${BENCH_STEPS:=6}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

measure() { # NAME ISA
    "$QSYNC_BENCH" formats --isa "$2" --rounds "$BENCH_ROUNDS" --json > "$work/$1"
    echo "bench: $1 done" >&2
}

measure widest all
measure avx2 avx2
measure portable portable

# Every output, gradient and parameter that the model has, low; gradients of parameters high, as assignments keep them.
low_plan() { # reads `qsync inspect --json`
    jq '{conv2d: ["weights"], linear: ["weights", "bias"], batch_norm: ["scale", "shift"]} as $parameters
        | [.nodes[] | select(.operator | IN("flatten", "softmax_cross_entropy") | not)
           | {key: .name, value: {value: "fp(4,3,4)", saved: "fp(4,3,4)", gradient: "fp(5,2,0):overflow=inf"}},
             (.name as $name | $parameters[.operator] // [] | .[]
              | {key: "\($name).\(.)", value: {value: "fp(4,3,4)", gradient: "fp(6,9,0):overflow=inf"}})]
        | {schema: "qsync/plan/2", classes: {single: {operators: {}, tensors: from_entries}}}'
}

train() { # OPTIONS: prints the median step and the arena
    OMP_NUM_THREADS=1 "$QSYNC" train --model "$BENCH_MODEL" --dataset shapes --batch "$BENCH_BATCH" --train-limit $((BENCH_BATCH * 4)) \
        --test-limit 16 --epochs 100 --max-steps "$BENCH_STEPS" --loss-scaling dynamic --json "$@" 2> "$work/log" |
        jq -c '{step_us: .iteration_us, arena_bytes: .ranks[0].reserved_bytes}'
}

"$QSYNC" inspect "$BENCH_MODEL" --json | low_plan > "$work/low.json"
for pair in $(seq "$BENCH_PAIRS"); do
    { train; train --plan "$work/low.json"; } | jq -s '{fp32: .[0], low: .[1], ratio: (.[1].step_us / .[0].step_us)}'
    echo "bench: simulation $pair of $BENCH_PAIRS done" >&2
done | jq -s --arg model "$BENCH_MODEL" --argjson batch "$BENCH_BATCH" \
    '{model: $model, batch: $batch, ratio: (map(.ratio) | sort | .[length / 2 | floor]), pairs: .}' > "$work/simulation"

jq -s '.[0] + {avx2: .[1], portable: .[2], simulation_ratio: .[3].ratio, simulation: .[3]}' "$work/widest" "$work/avx2" "$work/portable" \
    "$work/simulation" > "$work/figures.json"
bench_write "$work/figures.json"
jq '.figures | {copy_gb_per_s, simulation_ratio, rounding: (.rounding | map_values(map_values(.fraction))),
    quantizing: (.quantizing | map_values(.fraction))}' bench/results/formats.json
