#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which indicator chooses the better plan? Two equal ranks that may take a share of the memory that fp32 needs: planner qsync by its own
# indicator, by random ranks (others for each seed) and by Hessian eigenvalues; fp32 without a limit beside them. Throughput binds nothing
# here: memory alone decides how many operators are lowered, the indicator which.
# Writes results.csv, table.md and picture.svg. A run that results.csv has is not done again; remove its line to repeat it.
#
# SENSITIVITY_MODELS: MODEL/DATASET/BATCH/EPOCHS/RATE/SHARE ..., BATCH of a rank, SHARE: memory in per cent of fp32's; SENSITIVITY_EPOCHS,
# SENSITIVITY_SHARES: instead of theirs; SENSITIVITY_INDICATORS; SENSITIVITY_SEEDS; SENSITIVITY_OUT: profiles, plans and the last run (run/sensitivity);
# SENSITIVITY_PROFILE_OPTIONS, SENSITIVITY_TRAIN_OPTIONS: more for profile and train (--train-limit 1280).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${SENSITIVITY_MODELS:=resnet20/cifar10/64/6/0.1/60 vgg11_bn/cifar10/64/2/0.05/90}" "${SENSITIVITY_EPOCHS:=}" "${SENSITIVITY_SHARES:=}" \
    "${SENSITIVITY_INDICATORS:=qsync random hess}" "${SENSITIVITY_SEEDS:=1 2 3}" "${SENSITIVITY_OUT:=run/sensitivity}" \
    "${SENSITIVITY_PROFILE_OPTIONS:=}" "${SENSITIVITY_TRAIN_OPTIONS:=}"
results=$EXPERIMENT_RESULTS/results.csv

entry_set() { # MODEL/DATASET/BATCH/EPOCHS/RATE/SHARE
    # shellcheck disable=SC2046
    set -- $(echo "$1" | tr / ' ')
    [ $# -eq 6 ] || { echo "sensitivity: SENSITIVITY_MODELS: an entry is MODEL/DATASET/BATCH/EPOCHS/RATE/SHARE" >&2; exit 2; }
    model=$1 dataset=$2 batch=$3 epochs=${SENSITIVITY_EPOCHS:-$4} rate=$5 shares=${SENSITIVITY_SHARES:-$6}
    folder=$SENSITIVITY_OUT/$(echo "$model-$dataset-$batch-$rate" | tr ':=' '--')
}

hessian() {
    case " $SENSITIVITY_INDICATORS " in *" hess "*) echo --hessian ;; esac
}
equal_ranks() { # memory limit
    cluster "$(class lender inference 2 1 "$1" "$all_formats")"
}

prepare() {
    mkdir -p "$folder"
    [ -f "$folder/cluster.json" ] || equal_ranks 100% > "$folder/cluster.json"
    # shellcheck disable=SC2046,SC2086
    profile_once 2 "$folder" "$model" "$dataset" "$batch" $(hessian) $SENSITIVITY_PROFILE_OPTIONS
    [ -f "$folder/omega.json" ] || "$QSYNC" indicator --profile "$folder/profile.json" --json > "$folder/omega.json"
    [ -f "$folder/peak" ] || peak > "$folder/peak"
    for share in $shares; do
        [ -f "$folder/$share.json" ] || equal_ranks $(($(cat "$folder/peak") * share / 100))B > "$folder/$share.json"
    done
    equal_ranks 100% > "$folder/100.json"
}
peak() { # predicted bytes of the arena in fp32
    hand_plan "$folder/cluster.json" "$model" "$dataset" "$batch" '"fp32"' > "$folder/hand.json"
    "$QSYNC" simulate --json --cluster "$folder/cluster.json" --profile "$folder/profile.json" --plan "$folder/hand.json" | jq '.classes[0].arena_bytes'
}

# SHARE INDICATOR SEED: of a plan and of a run. fp32 is a planner that needs no indicator.
plan_make() {
    plan=$folder/$1-$2-e$epochs-seed$3.json
    [ ! -f "$plan" ] || return 0
    choice="--planner qsync --indicator $2 --tolerance 0.99"
    [ "$2" != fp32 ] || choice='--planner fp32'
    # shellcheck disable=SC2086
    must "$folder/log" "$QSYNC" plan --cluster "$folder/$1.json" --profile "$folder/profile.json" $choice --dataset "$dataset" --epochs "$epochs" \
        --rate "$rate" --seed "$3" --out "$plan"
}
key() {
    echo "$model,$dataset,$batch,$epochs,$rate,$1,$2,$3"
}
columns=model,dataset,batch,epochs,rate,share,indicator,seed,test_accuracy,sum_omega,operators,arena_bytes
train_once() {
    [ ! -f "$results" ] || ! grep -qF "$(key "$@")," "$results" || return 0
    prepare
    run=$folder/run
    plan_make "$1" "$2" "$3"
    echo "sensitivity: $model, $dataset, $1 %, $2, seed $3" >&2
    rm -rf "$run"
    # shellcheck disable=SC2086
    must "$folder/log" launch 2 train --cluster "$folder/$1.json" --plan "$plan" --out "$run" $SENSITIVITY_TRAIN_OPTIONS
    row=$(run_row)
    { if [ -f "$results" ]; then cat "$results"; else echo $columns; fi; echo "$(key "$@"),$row"; } | publish results.csv
    table_make
}
# Ω by the qsync indicator, whichever made the plan: summed over operators, the ranks being equal.
run_row() {
    jq -nr --slurpfile result "$run/result.json" --slurpfile plan "$run/plan.json" --slurpfile omega "$folder/omega.json" '
        ($plan[0].classes.lender.operators | map_values(if type == "object" then .recipe else . end)) as $recipes
        | [$result[0].test_accuracy, ([$omega[0].omega | to_entries[] | .value[$recipes[.key] // "fp32"]] | add),
           ($recipes | [.[]] | group_by(.) | map("\(length) \(.[0])") | join("; ")), $result[0].ranks[0].reserved_bytes] | map(tostring) | join(",")'
}
table_make() {
    jq -Rsr -L experiments -f experiments/sensitivity/table.jq "$results" | publish table.md
}

for seed in $SENSITIVITY_SEEDS; do
    for entry in $SENSITIVITY_MODELS; do
        entry_set "$entry"
        train_once 100 fp32 "$seed"
        for share in $shares; do
            for indicator in $SENSITIVITY_INDICATORS; do
                train_once "$share" "$indicator" "$seed"
            done
        done
    done
done
table_make
sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
