#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Accuracy and throughput of planners on two unlike ranks: `big` trains in fp32, `weak` (0.8 of its speed) also in bf16 and int8. Twice: with
# memory enough for everything (ample), and with a limit on weak midway between what bf16 and int8 throughout need (tight).
# Three parts, each of which leaves out what it finds done (remove a file or a line to have it again):
#   plans      plans/: a profile of each model on this machine, and each planner's plan, without kernels so that it holds on others
#   accuracy   accuracy.csv: full runs of these plans; how fast the machine is, and what else it does, changes nothing
#   speed      speed.csv: short runs of the same plans, planners taking turns within a round; nothing else may run
# Then table.md and picture.svg.
#
# ALLOCATION_MODELS: MODEL/DATASET/BATCH/EPOCHS/RATE ..., BATCH of a rank; ALLOCATION_EPOCHS: instead of theirs; ALLOCATION_PLANNERS;
# ALLOCATION_LIMITS; ALLOCATION_SEEDS; ALLOCATION_ROUNDS, ALLOCATION_STEPS: of speed; ALLOCATION_PARTS; ALLOCATION_OUT: profiles and the last run
# (run/allocation); ALLOCATION_JOB_OPTIONS: how the job is trained, for profile and plan (--optimizer adam); ALLOCATION_PROFILE_OPTIONS,
# ALLOCATION_TRAIN_OPTIONS: more for profile and train (--train-limit 1280); ALLOCATION_EIGHTHS: other batches that a profile measures;
# ALLOCATION_BACKEND (cpu): on which accuracy trains: what the formats of a plan do to a model can be seen on another device than the plan is for.
# Seeds may train side by side: a process each, with other ALLOCATION_SEEDS.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${ALLOCATION_MODELS:=resnet20/fashion-mnist/128/1/0.1 resnet20/cifar10/64/6/0.1 vgg11_bn/cifar10/64/2/0.05 vgg11/cifar10/64/2/0.02}" \
    "${ALLOCATION_PLANNERS:=fp32 uniform dbs qsync}" "${ALLOCATION_LIMITS:=ample tight}" "${ALLOCATION_SEEDS:=1 2 3}" "${ALLOCATION_EPOCHS:=}" \
    "${ALLOCATION_ROUNDS:=5}" "${ALLOCATION_STEPS:=60}" "${ALLOCATION_PARTS:=plans accuracy speed}" "${ALLOCATION_OUT:=run/allocation}" \
    "${ALLOCATION_JOB_OPTIONS:=}" "${ALLOCATION_PROFILE_OPTIONS:=}" "${ALLOCATION_TRAIN_OPTIONS:=}" "${ALLOCATION_EIGHTHS:=2 4 12 14}" \
    "${ALLOCATION_BACKEND:=cpu}"
plans=$EXPERIMENT_RESULTS/plans
mkdir -p "$plans" "$ALLOCATION_OUT"

entry_set() { # MODEL/DATASET/BATCH/EPOCHS/RATE
    # shellcheck disable=SC2046
    set -- $(echo "$1" | tr / ' ')
    [ $# -eq 5 ] || { echo "allocation: ALLOCATION_MODELS: an entry is MODEL/DATASET/BATCH/EPOCHS/RATE" >&2; exit 2; }
    model=$1 dataset=$2 batch=$3 epochs=${ALLOCATION_EPOCHS:-$4} rate=$5
    name=$(echo "$model-$dataset-$batch" | tr ':=,' '---') folder=$ALLOCATION_OUT/$name
}
every() { # FUNCTION ARGUMENTS...: for every model, limit and planner
    for entry in $ALLOCATION_MODELS; do
        entry_set "$entry"
        for limit in $ALLOCATION_LIMITS; do
            for planner in $ALLOCATION_PLANNERS; do
                plan=$plans/$name-$limit-$planner.json
                "$@"
            done
        done
    done
}

# ---- Plans

# Planners that change batch shares need to know costs at other batches: under the tight limit fp32 fits at less than half a batch only.
batches() {
    case " $ALLOCATION_PLANNERS " in
    *" dbs "* | *" joint "*) echo --batches "$(for eighths in $ALLOCATION_EIGHTHS; do echo $((batch * eighths / 8)); done | paste -sd, -)" ;;
    esac
}
two_ranks() { # limit of weak
    cluster "$(class big training 1 1 100% '"fp32"'), $(class weak inference 1 0.8 "$1" "$all_formats")"
}
plan_by() { # CLUSTER PLANNER: its plan in $folder/plan.json; the program's exit code
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster "$1" --profile "$folder/profile.json" --planner "$2" --dataset "$dataset" $ALLOCATION_JOB_OPTIONS \
        --out "$folder/plan.json" > "$folder/log" 2>&1
}
peak() { # recipe: predicted bytes of weak's arena when all operators of the fp32 plan run in it
    jq --arg recipe "$1" '{schema, job, classes: (.classes | map_values({operators}) | .weak.operators |= map_values($recipe))}' \
        "$folder/plan.json" > "$folder/hand.json"
    "$QSYNC" simulate --json --cluster "$folder/cluster.json" --profile "$folder/profile.json" --plan "$folder/hand.json" > "$folder/hand.out"
    jq '.classes[] | select(.class == "weak") | .arena_bytes' "$folder/hand.out"
}
prepare() {
    mkdir -p "$folder"
    [ -f "$folder/cluster.json" ] || two_ranks 100% > "$folder/cluster.json"
    # shellcheck disable=SC2046,SC2086
    profile_once 2 "$folder" "$model" "$dataset" "$batch" $(batches) $ALLOCATION_JOB_OPTIONS $ALLOCATION_PROFILE_OPTIONS
    [ -f "$plans/$name-ample.cluster" ] || cp "$folder/cluster.json" "$plans/$name-ample.cluster"
    if [ ! -f "$plans/$name-tight.cluster" ]; then
        plan_by "$folder/cluster.json" fp32 || { cat "$folder/log" >&2; exit 1; }
        half=$(peak bf16) low=$(peak int8/bf16)
        two_ranks $(((half + low) / 2))B > "$plans/$name-tight.cluster"
    fi
}
# A planner that has no plan within the memory leaves an empty file.
plan_make() {
    [ ! -f "$plan" ] || return 0
    prepare
    code=0
    plan_by "$plans/$name-$limit.cluster" "$planner" || code=$?
    case $code in
    0) jq -c 'del(.signature, .job.epochs, .job.rate, .job.seed) | .classes |= map_values(del(.kernels, .schedule, .why))' "$folder/plan.json" > "$plan.new"
        mv "$plan.new" "$plan" ;;
    3) : > "$plan" ;;
    *) cat "$folder/log" >&2; exit 1 ;;
    esac
}

# ---- Runs

key() {
    echo "$model,$dataset,$batch,$epochs,$rate,$limit,$planner,$1"
}
# done_before TABLE SEED-OR-ROUND, add TABLE COLUMNS SEED-OR-ROUND FIGURES
done_before() {
    [ -f "$EXPERIMENT_RESULTS/$1" ] && grep -qF "$(key "$2")," "$EXPERIMENT_RESULTS/$1"
}
add() (
    flock 9 # of two seeds neither loses the other's line
    {
        if [ -s "$EXPERIMENT_RESULTS/$1" ]; then cat "$EXPERIMENT_RESULTS/$1"; else echo "model,dataset,batch,epochs,rate,limit,planner,$2"; fi
        echo "$(key "$3"),$4"
    } | publish "$1"
) 9> "$ALLOCATION_OUT/lock"
train() { # SEED BACKEND OPTIONS...: into $run
    seed=$1 backend=$2 run=$folder/run-$1
    shift 2
    rm -rf "$run"
    # What a device reserves beside the values of a model is its own matter: limits are of the one that the plan is for.
    jq --arg backend "$backend" '.classes |= map_values(if .backend == $backend then . else .backend = $backend | .memory.limit = "100%" end)' \
        "$plans/$name-$limit.cluster" > "$run.cluster"
    # shellcheck disable=SC2086
    must "$run.log" launch 2 train --cluster "$run.cluster" --plan "$plan" --epochs "$epochs" --rate "$rate" --seed "$seed" \
        --out "$run" $ALLOCATION_TRAIN_OPTIONS "$@"
}
from_run() { # PROGRAM (jq) over the run's result, audit and plan
    jq -nr --argjson batch "$batch" --slurpfile result "$run/result.json" --slurpfile audit "$run/audit.json" --slurpfile plan "$plan" \
        --slurpfile lines "$run/metrics.jsonl" '
        ($lines | map(select(.type == "epoch"))) as $epochs |
        def class($name): $plan[0].classes[$name];
        def rank($name): $audit[0].ranks[] | select(.class == $name);
        def counts: class("weak").operators | [.[] | if type == "object" then .recipe else . end] | group_by(.) | map("\(length) \(.[0])") | join("; ");
        '"$1"' | map(tostring) | join(",")'
}

# What of a plan decides about every bit of a run: memory limits do not.
trained() { # PLAN
    jq -cS '[.job, .recipes, (.classes | map_values({operators, batch, tensors}))]' "$1"
}
twin() { # SEED: figures of a run of an equal plan, by another planner or under the other limit
    wanted=$(trained "$plan")
    for other_limit in $ALLOCATION_LIMITS; do
        for other in $ALLOCATION_PLANNERS; do
            file=$plans/$name-$other_limit-$other.json line="$model,$dataset,$batch,$epochs,$rate,$other_limit,$other,$1,"
            if [ ! -s "$file" ] || [ "$(trained "$file")" != "$wanted" ]; then continue; fi
            grep -F "$line" "$EXPERIMENT_RESULTS/accuracy.csv" 2> /dev/null | cut -c $((${#line} + 1))- | grep . && return 0
        done
    done
    return 1
}
accuracy_once() { # SEED
    columns=seed,test_accuracy,sum_omega,big_batch,weak_batch,weak_operators,weak_arena_bytes,test_f1,test_exact_match
    mkdir -p "$folder"
    done_before accuracy.csv "$1" && return 0
    [ -s "$plan" ] || return 0
    if figures=$(twin "$1"); then
        add accuracy.csv $columns "$1" "$figures"
        return 0
    fi
    echo "allocation: accuracy of $model, $dataset, $limit, $planner, seed $1" >&2
    train "$1" "$ALLOCATION_BACKEND"
    # shellcheck disable=SC2016
    add accuracy.csv $columns "$1" "$(from_run '
        [$result[0].test_accuracy, ([$plan[0].classes[].predicted.sum_omega] | add), (class("big").batch // $batch), (class("weak").batch // $batch),
         (class("weak") | counts), rank("weak").memory.arena.reserved, ($epochs | last | .test_f1 // "", .test_exact_match // "")]' | sed 's/^,//')"
    table_make
}
speed_once() { # ROUND
    mkdir -p "$folder"
    done_before speed.csv "$1" && return 0
    [ -s "$plan" ] || return 0
    echo "allocation: speed of $model, $dataset, $limit, $planner, round $1" >&2
    train "$1" cpu --max-steps "$ALLOCATION_STEPS" --test-limit 64
    # shellcheck disable=SC2016
    add speed.csv round,samples_per_second,iteration_us,predicted_iteration_us,big_waiting_us,weak_waiting_us,weak_rss_bytes "$1" "$(from_run '
        [2 * $batch / $result[0].iteration_us * 1e6, $result[0].iteration_us, $result[0].predicted_iteration_us,
         rank("big").phases.waiting_us.measured, rank("weak").phases.waiting_us.measured, rank("weak").memory.rss.measured]')"
    table_make
}

# ---- Tables

table_make() ( # in the middle of a loop over the same variables
    flock 9
    {
        echo "model,dataset,batch,limit,planner,limit_bytes,fits"
        every plan_row
    } > "$ALLOCATION_OUT/plans.csv"
    for table in accuracy speed; do
        cat "$EXPERIMENT_RESULTS/$table.csv" > "$ALLOCATION_OUT/$table.csv" 2> /dev/null || true
    done
    jq -nr -L experiments --rawfile plans "$ALLOCATION_OUT/plans.csv" --rawfile accuracy "$ALLOCATION_OUT/accuracy.csv" \
        --rawfile speed "$ALLOCATION_OUT/speed.csv" -f experiments/allocation/table.jq | publish table.md
) 9> "$ALLOCATION_OUT/lock"
plan_row() {
    [ -f "$plan" ] || return 0
    fits=false
    [ ! -s "$plan" ] || fits=true
    echo "$model,$dataset,$batch,$limit,$planner,$(jq -r .classes.weak.memory.limit "$plans/$name-$limit.cluster"),$fits"
}

for part in $ALLOCATION_PARTS; do
    case $part in
    plans) every plan_make ;;
    accuracy) for seed in $ALLOCATION_SEEDS; do every accuracy_once "$seed"; done ;;
    tables) ;;
    speed) for round in $(seq "$ALLOCATION_ROUNDS"); do every speed_once "$round"; done ;;
    *) echo "allocation: no part $part; parts: plans accuracy speed tables" >&2; exit 2 ;;
    esac
done
table_make
[ ! -s "$EXPERIMENT_RESULTS/speed.csv" ] || sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
