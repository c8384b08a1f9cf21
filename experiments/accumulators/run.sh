#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training with narrow accumulators: FP8 products (1-5-2, 5 mantissa bits) everywhere, summed in FP(8,23) by nearest-even (the baseline), by
# the widths of the formula of variance retention (PP = 0), one and two bits fewer, by what is derived for the adder, and by one flat width.
# Writes results.csv, curves.csv (losses every 10 steps), losses.md and picture.svg. A run that results.csv has is not done again; remove its
# line. One whose numbers did not stay finite (exit code 4) has no losses and no accuracy there.
#
# ACCUMULATORS_MODELS: MODEL/DATASET/BATCH/STEPS/RATE ...; ACCUMULATORS_RUNS: WIDTHS:BITS_OFF:ADDER ..., WIDTHS formula, adder or a number of
# bits, or `baseline`; ACCUMULATORS_CHUNK: products in a chunk, 0 for none; ACCUMULATORS_SEEDS; ACCUMULATORS_OUT: plans and the last run
# (run/accumulators); ACCUMULATORS_TRAIN_OPTIONS: more for train (--train-limit 1280). Two of these may run at a time, with different runs.
# As it stands about 65 hours on one core (a step of 64 images of resnet20 takes some 0.35 s); README.md says what was run for the committed
# results; variance.sh and table.sh are the other parts.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
adders="align-truncate nearest-even toward-zero stochastic"
all_runs=baseline
for adder in $adders; do all_runs="$all_runs formula:0:$adder formula:-1:$adder formula:-2:$adder adder:0:$adder 8:0:$adder"; done
: "${ACCUMULATORS_MODELS:=resnet20/cifar10/128/3120/0.1 resnet20:width=2/cifar10/128/3120/0.1}" "${ACCUMULATORS_RUNS:=$all_runs}" \
    "${ACCUMULATORS_CHUNK:=64}" "${ACCUMULATORS_SEEDS:=1}" "${ACCUMULATORS_OUT:=run/accumulators}" "${ACCUMULATORS_TRAIN_OPTIONS:=}"
results=$EXPERIMENT_RESULTS/results.csv
curves=$EXPERIMENT_RESULTS/curves.csv
columns=model,dataset,batch,steps,rate,chunk,widths,bits_off,adder,seed,training_loss,test_accuracy,test_loss
curve_columns=model,dataset,batch,steps,rate,chunk,widths,bits_off,adder,seed,step,loss

. "$experiment/plans.sh"

train_once() { # WIDTHS BITS_OFF ADDER SEED
    key=$model,$dataset,$batch,$steps,$rate,$ACCUMULATORS_CHUNK,$1,$2,$3,$4
    [ ! -f "$results" ] || ! grep -qF "$key," "$results" || return 0
    folder=$ACCUMULATORS_OUT/$(echo "$key" | tr ':=,' '---') plan=$ACCUMULATORS_OUT/$(echo "$key" | tr ':=,' '---')/plan.json
    mkdir -p "$folder"
    plan_make "$1" "$2" "$3"
    cluster_make > "$folder/cluster.json"
    echo "accumulators: $model, $1 $2 $3, seed $4" >&2
    rm -rf "$folder/run"
    code=0
    # shellcheck disable=SC2086
    launch 1 train --cluster "$folder/cluster.json" --model "$model" --dataset "$dataset" --batch "$batch" \
        --plan "$plan" --max-steps "$steps" --epochs 1000 --schedule constant --rate "$rate" --warmup-epochs 0.1 --loss-scaling 1024 \
        --seed "$4" --out "$folder/run" $ACCUMULATORS_TRAIN_OPTIONS > "$folder/log" 2>&1 || code=$?
    [ $code -eq 0 ] || [ $code -eq 4 ] || { cat "$folder/log" >&2; exit 1; }
    jq -r --arg key "$key" 'select(.type == "step") | "\($key),\(.step),\(.loss)"' "$folder/run/metrics.jsonl" | append "$curves" "$curve_columns" "$key"
    if [ $code -eq 4 ]; then echo "$key,,,"; else
        jq -r --arg key "$key" '"\($key),\(.training_loss),\(.test_accuracy),\(.test_loss)"' "$folder/run/result.json"
    fi | append "$results" "$columns" "$key"
}

mkdir -p "$ACCUMULATORS_OUT"
for seed in $ACCUMULATORS_SEEDS; do
    for entry in $ACCUMULATORS_MODELS; do
        # shellcheck disable=SC2046
        set -- $(echo "$entry" | tr / ' ')
        [ $# -eq 5 ] || { echo "accumulators: ACCUMULATORS_MODELS: an entry is MODEL/DATASET/BATCH/STEPS/RATE" >&2; exit 2; }
        model=$1 dataset=$2 batch=$3 steps=$4 rate=$5
        for run in $ACCUMULATORS_RUNS; do
            # shellcheck disable=SC2046
            set -- $(echo "$run" | tr : ' ')
            train_once "$1" "${2:-0}" "${3:-nearest-even}" "$seed"
        done
    done
done
jq -nr -L experiments --rawfile results "$results" --rawfile curves "$curves" -f experiments/accumulators/losses.jq | publish losses.md
sh "$experiment/picture.sh"
