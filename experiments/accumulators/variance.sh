#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The variance of every operator's weight gradient, in wide and in narrow accumulators, at the same weights and of the same samples: training
# runs in wide ones (run.sh's baseline) to each of VARIANCE_STEPS, from where one step is taken with every plan. Writes variances.csv and
# variance.svg. A few minutes; what variances.csv has is not done again.
#
# VARIANCE_MODEL, VARIANCE_DATASET, VARIANCE_BATCH, VARIANCE_RATE; VARIANCE_RUNS: as ACCUMULATORS_RUNS of run.sh; ACCUMULATORS_CHUNK,
# ACCUMULATORS_OUT: as there.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
. "$experiment/plans.sh"
all_runs=baseline
for adder in align-truncate nearest-even toward-zero stochastic; do all_runs="$all_runs formula:0:$adder formula:-2:$adder adder:0:$adder"; done
: "${VARIANCE_MODEL:=resnet20}" "${VARIANCE_DATASET:=cifar10}" "${VARIANCE_BATCH:=128}" "${VARIANCE_RATE:=0.1}" \
    "${VARIANCE_STEPS:=0 20 100}" "${VARIANCE_RUNS:=$all_runs}" "${ACCUMULATORS_CHUNK:=64}" "${ACCUMULATORS_OUT:=run/accumulators}"
columns=model,dataset,batch,rate,chunk,step,widths,bits_off,adder,operator,variance
model=$VARIANCE_MODEL batch=$VARIANCE_BATCH
results=$EXPERIMENT_RESULTS/variances.csv

train() { # OPTIONS...
    must "$folder/log" launch 1 train --cluster "$folder/cluster.json" --model "$model" --dataset "$VARIANCE_DATASET" --batch "$batch" \
        --plan "$plan" --schedule constant --rate "$VARIANCE_RATE" --warmup-epochs 0.1 --loss-scaling 1024 --test-limit 1 "$@"
}

# Weights behind so many steps of the baseline, by default names; plan: its plan.
weights_make() { # STEP
    folder=$ACCUMULATORS_OUT/variance-$1 plan=$ACCUMULATORS_OUT/variance-$1/plan.json
    [ ! -f "$folder/run/weights.safetensors" ] || return 0
    mkdir -p "$folder"
    cluster_make > "$folder/cluster.json"
    plan_make baseline 0 nearest-even
    if [ "$1" = 0 ]; then train --epochs 0 --out "$folder/run"; else train --epochs 1000 --max-steps "$1" --out "$folder/run"; fi
}

probe() { # STEP WIDTHS BITS_OFF ADDER
    key=$model,$VARIANCE_DATASET,$batch,$VARIANCE_RATE,$ACCUMULATORS_CHUNK,$1,$2,$3,$4
    [ ! -f "$results" ] || ! grep -qF "$key," "$results" || return 0
    weights_make "$1"
    folder=$ACCUMULATORS_OUT/variance-$1 plan=$ACCUMULATORS_OUT/variance-$1/probe.json
    plan_make "$2" "$3" "$4"
    train --weights "$folder/run/weights.safetensors" --max-steps 1 --gradient-variance 1 --out "$folder/probe"
    jq -r --arg key "$key" 'select(.type == "gradient") | "\($key),\(.operator),\(.variance)"' "$folder/probe/metrics.jsonl" |
        append "$results" "$columns" "$key"
}

mkdir -p "$ACCUMULATORS_OUT"
for step in $VARIANCE_STEPS; do
    echo "accumulators: variances of $model at step $step" >&2
    for run in $VARIANCE_RUNS; do
        # shellcheck disable=SC2046
        set -- $(echo "$run" | tr : ' ')
        probe "$step" "$1" "${2:-0}" "${3:-nearest-even}"
    done
done
sh "$experiment/variance_picture.sh"
