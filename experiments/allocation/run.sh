#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Accuracy and throughput of planners on two unlike ranks: `big` trains in fp32, `weak` (0.8 of its speed) also in bf16 and int8. Twice: with
# memory enough for everything (ample), and with a limit on weak midway between what bf16 and int8 throughout need (tight).
# Writes results.csv, table.md and picture.svg. Accuracy and speed come from the same runs; planners take turns within a seed, so that a
# machine whose pace drifts is unfair to none. What is finished is not done again; results are written after every run.
#
# ALLOCATION_MODELS: MODEL/DATASET/BATCH/EPOCHS/RATE ..., BATCH of a rank; ALLOCATION_EPOCHS: instead of theirs; ALLOCATION_PLANNERS;
# ALLOCATION_LIMITS; ALLOCATION_SEEDS; ALLOCATION_OUT: runs (run/allocation), another one where options change;
# ALLOCATION_PROFILE_OPTIONS, ALLOCATION_TRAIN_OPTIONS: more for profile and train (--train-limit 1280).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${ALLOCATION_MODELS:=resnet20/fashion-mnist/128/3/0.1 resnet20/cifar10/64/12/0.1 vgg11_bn/cifar10/64/5/0.05 vgg11/cifar10/64/5/0.02}" \
    "${ALLOCATION_PLANNERS:=fp32 uniform dbs qsync}" "${ALLOCATION_LIMITS:=ample tight}" "${ALLOCATION_SEEDS:=1 2 3}" "${ALLOCATION_EPOCHS:=}" \
    "${ALLOCATION_OUT:=run/allocation}" "${ALLOCATION_PROFILE_OPTIONS:=}" "${ALLOCATION_TRAIN_OPTIONS:=}"

entry_set() { # MODEL/DATASET/BATCH/EPOCHS/RATE
    # shellcheck disable=SC2046
    set -- $(echo "$1" | tr / ' ')
    [ $# -eq 5 ] || { echo "allocation: ALLOCATION_MODELS: an entry is MODEL/DATASET/BATCH/EPOCHS/RATE" >&2; exit 2; }
    model=$1 dataset=$2 batch=$3 epochs=${ALLOCATION_EPOCHS:-$4} rate=$5
    folder=$ALLOCATION_OUT/$(echo "$model-$dataset-$batch-$rate" | tr ':=' '--')
}

# Planners that change batch shares need to know costs at other batches: under the tight limit fp32 fits at less than half a batch only.
batches() {
    case " $ALLOCATION_PLANNERS " in
    *" dbs "* | *" joint "*) echo --batches $((batch / 4)),$((batch / 2)),$((batch * 3 / 2)),$((batch * 7 / 4)) ;;
    esac
}

two_ranks() { # limit of weak
    cluster "$(class big training 1 1 100% '"fp32"'), $(class weak inference 1 0.8 "$1" "$all_formats")"
}
peak() { # recipe: predicted bytes of weak's arena when all its operators run in it
    hand_plan "$folder/cluster.json" "$model" "$dataset" "$batch" "\"$1\"" > "$folder/hand.json"
    "$QSYNC" simulate --json --cluster "$folder/cluster.json" --profile "$folder/profile.json" --plan "$folder/hand.json" > "$folder/hand.out"
    jq '.classes[] | select(.class == "weak") | .arena_bytes' "$folder/hand.out"
}

prepare() {
    mkdir -p "$folder"
    [ -f "$folder/cluster.json" ] || two_ranks 100% > "$folder/cluster.json"
    # shellcheck disable=SC2046,SC2086
    profile_once 2 "$folder" "$model" "$dataset" "$batch" $(batches) $ALLOCATION_PROFILE_OPTIONS
    cp "$folder/cluster.json" "$folder/ample.json"
    if [ ! -f "$folder/tight.json" ]; then
        half=$(peak bf16) low=$(peak int8/bf16)
        two_ranks $(((half + low) / 2))B > "$folder/tight.json"
    fi
}

# plan_make LIMIT PLANNER: fails where the planner has no plan that fits, and keeps what it says about it.
plan_make() {
    plan=$folder/$1-$2-e$epochs.json
    [ ! -f "$plan" ] || return 0
    "$QSYNC" plan --cluster "$folder/$1.json" --profile "$folder/profile.json" --planner "$2" --dataset "$dataset" --epochs "$epochs" \
        --rate "$rate" --out "$plan" > "$plan.log" 2>&1 && return 0
    code=$?
    [ $code -eq 3 ] || { cat "$plan.log" >&2; exit 1; }
    return 1
}

train_once() { # LIMIT PLANNER SEED
    run=$folder/$1-$2-e$epochs-seed$3
    [ ! -f "$run/result.json" ] || return 0
    plan_make "$1" "$2" || return 0
    echo "allocation: $model, $dataset, $1, $2, seed $3" >&2
    # shellcheck disable=SC2086
    must "$folder/log" launch 2 train --cluster "$folder/$1.json" --plan "$plan" --seed "$3" --out "$run" $ALLOCATION_TRAIN_OPTIONS
    collect
}

columns=model,dataset,batch,epochs,rate,limit,limit_bytes,planner,fits,seed,test_accuracy,images_per_second,iteration_us,predicted_iteration_us
columns=$columns,sum_omega,big_waiting_us,weak_waiting_us,big_batch,weak_batch,weak_operators,weak_arena_bytes,weak_rss_bytes
run_row() { # LIMIT PLANNER SEED
    run=$folder/$1-$2-e$epochs-seed$3 plan=$folder/$1-$2-e$epochs.json
    set -- --arg model "$model" --arg dataset "$dataset" --argjson batch "$batch" --argjson epochs "$epochs" --argjson rate "$rate" \
        --arg limit "$1" --arg planner "$2" --arg seed "$3" --slurpfile cluster "$folder/$1.json"
    if [ -f "$run/result.json" ]; then
        jq -nr -L experiments "$@" --arg columns "$columns" --slurpfile result "$run/result.json" --slurpfile audit "$run/audit.json" \
            --slurpfile plan "$plan" -f experiments/allocation/row.jq
    elif [ -f "$plan.log" ] && [ ! -f "$plan" ]; then
        jq -nr -L experiments "$@" --arg columns "$columns" --argjson result null --argjson audit null --argjson plan null \
            -f experiments/allocation/row.jq
    fi
}

collect() (
    {
        echo "$columns"
        for entry in $ALLOCATION_MODELS; do
            entry_set "$entry"
            for limit in $ALLOCATION_LIMITS; do
                for planner in $ALLOCATION_PLANNERS; do
                    for seed in $ALLOCATION_SEEDS; do
                        run_row "$limit" "$planner" "$seed"
                    done
                done
            done
        done
    } | publish results.csv
    jq -Rsr -L experiments -f experiments/allocation/table.jq "$EXPERIMENT_RESULTS/results.csv" | publish table.md
)

for seed in $ALLOCATION_SEEDS; do
    for entry in $ALLOCATION_MODELS; do
        entry_set "$entry"
        prepare
        for limit in $ALLOCATION_LIMITS; do
            for planner in $ALLOCATION_PLANNERS; do
                train_once "$limit" "$planner" "$seed"
            done
        done
    done
done
collect
sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
