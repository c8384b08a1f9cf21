#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Accuracy of assignments of number formats to tensors against the share of elements that is in low precision and against bytes, counted and
# allocated: planner `demote` at many ratios, beside fp32, `uniform-fp`, `op` and `op-io`, these also with promotion; orders of demotion;
# narrow models. Writes results.csv, curves.csv, overflows.csv, table.md, picture.svg and overflow.svg. What is finished is not done again;
# results are written after every run. Two of them beside each other with unlike FP_MODELS, FP_NARROW_MODELS= in one, and one FP_OUT share
# their results.
#
# FP_MODELS; FP_WIDTH: of the full grid, at FP_RATIOS; FP_WIDE: width of the coarse grid, at FP_WIDE_RATIOS ("": none); FP_BASELINES, and
# FP_PROMOTED: those that are also run with promotion; FP_SEEDS, of which all but the first are for FP_SEED_MODELS only; FP_ORDER_MODELS,
# FP_ORDERS, FP_ORDER_RATIOS; FP_NARROW_MODELS, FP_NARROW, FP_NARROW_RATE: models of which fp32, uniform-fp with and without promotion and
# demote at FP_NARROW_RATIOS are run at this width and learning rate; FP_EPOCHS, FP_RATE, FP_BATCH; FP_PROFILE_OPTIONS, FP_TRAIN_OPTIONS
# (--train-limit 5120); FP_OUT: runs (run/fp-assignment), another one for other options.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${FP_MODELS=squeezenet shufflenet_v2 mobilenet_v2 resnet18_cifar}" "${FP_WIDTH:=0.25}" "${FP_WIDE=1}" \
    "${FP_RATIOS=0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1}" "${FP_WIDE_RATIOS=0.4 0.6 0.8 1}" "${FP_BASELINES=fp32 uniform-fp op op-io}" \
    "${FP_PROMOTED=uniform-fp op op-io}" "${FP_SEEDS:=1 2 3}" "${FP_SEED_MODELS=squeezenet resnet18_cifar}" \
    "${FP_ORDER_MODELS=squeezenet}" "${FP_ORDERS=increasing random}" "${FP_ORDER_RATIOS=0.2 0.4 0.6 0.8}" \
    "${FP_NARROW_MODELS=shufflenet_v2}" "${FP_NARROW:=0.1}" "${FP_NARROW_RATE:=0.8}" "${FP_NARROW_RATIOS=0.8 1}" \
    "${FP_EPOCHS:=30}" "${FP_RATE:=0.1}" "${FP_BATCH:=128}" \
    "${FP_PROFILE_OPTIONS=--repetitions 2 --statistics-iterations 2}" "${FP_TRAIN_OPTIONS:=}" "${FP_OUT:=run/fp-assignment}"
promote_at=0.01

has() { # LIST WORD
    case " $1 " in *" $2 "*) return 0 ;; esac
    return 1
}

prepare() { # MODEL WIDTH
    net=$1 width=$2 folder=$FP_OUT/$1-w$2 name=$1:width=$2
    [ "$width" != 1 ] || name=$net
    mkdir -p "$folder"
    [ -f "$folder/cluster.json" ] || cluster '"single": {"role": "training", "backend": "cpu", "count": 1, "speed": 1,
        "formats": ["fp32"], "storage": ["fp32", "fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"], "memory": {"capacity": "64GiB", "limit": "100%"}}' \
        > "$folder/cluster.json"
    # shellcheck disable=SC2086
    profile_once 1 "$folder" "$name" cifar10 "$FP_BATCH" --loss-scaling dynamic $FP_PROFILE_OPTIONS
    [ -f "$folder/groups.json" ] || "$QSYNC" inspect "$name" --groups --batch "$FP_BATCH" --json > "$folder/groups.json"
}

plan_make() { # PLANNER RATIO ORDER PROMOTE SEED
    plan=$folder/$1$rated${2:+-r$2}${3:+-$3}${4:+-p$4}
    [ "$3" != random ] || plan=$plan-seed$5
    plan=$plan.json
    [ ! -f "$plan" ] || return 0
    # shellcheck disable=SC2086
    must "$folder/log" "$QSYNC" plan --cluster "$folder/cluster.json" --profile "$folder/profile.json" --dataset cifar10 --planner "$1" \
        --loss-scaling dynamic --epochs "$FP_EPOCHS" --rate "$rate" --seed "$5" ${2:+--ratio $2} ${3:+--order $3} ${4:+--promote-at $4} \
        --out "$plan"
}

# Exit code 4 is a result: the loss was not finite.
train_once() { # PLANNER RATIO ORDER PROMOTE SEED
    [ "$rate" = "$FP_RATE" ] && rated='' || rated=-rate$rate
    run=$folder/$1$rated${2:+-r$2}${3:+-$3}${4:+-p$4}-seed$5
    [ ! -f "$run/done" ] || return 0
    plan_make "$@"
    echo "fp-assignment: $name, rate $rate: $* (planner, ratio, order, promotion, seed)" >&2
    code=0
    # shellcheck disable=SC2086
    "$QSYNC" train --cluster "$folder/cluster.json" --plan "$plan" --seed "$5" --out "$run" $FP_TRAIN_OPTIONS > "$run.log" 2>&1 || code=$?
    [ $code -eq 0 ] || [ $code -eq 4 ] || { cat "$run.log" >&2; exit 1; }
    cp "$plan" "$run/planned.json"
    jq -n --arg model "$net" --arg width "$width" --arg planner "$1" --arg ratio "$2" --arg order "$3" --arg promote "${4:-0}" \
        --arg seed "$5" --arg epochs "$FP_EPOCHS" --arg options "$FP_TRAIN_OPTIONS" '$ARGS.named' > "$run/cell.json"
    echo $code > "$run/done"
    collect
}

summarise() { # KIND WHAT [RUN]: the header of a kind of results, or a run's rows of it
    if [ "$2" = head ]; then
        jq -nr --arg code "" --argjson cell null --argjson planned null --argjson line null --argjson groups null \
            -f "experiments/fp-assignment/$1.jq" --args head
    else
        jq -nr --slurpfile cell "$3/cell.json" --slurpfile planned "$3/planned.json" --slurpfile line "$3/metrics.jsonl" \
            --slurpfile groups "$(dirname "$3")/groups.json" --rawfile code "$3/done" -f "experiments/fp-assignment/$1.jq" --args row
    fi
}

collect() {
    for kind in results curves overflows; do
        for done in "$FP_OUT"/*/*/done; do
            of=${done%/done}
            [ -f "$of/$kind.csv" ] || { summarise $kind row "$of" > "$of/$kind.csv.$$" && mv "$of/$kind.csv.$$" "$of/$kind.csv"; }
        done
        { summarise $kind head && cat "$FP_OUT"/*/*/"$kind.csv"; } | publish $kind.csv
    done
    jq -Rsr -L experiments -f experiments/fp-assignment/table.jq "$EXPERIMENT_RESULTS/results.csv" | publish table.md
}

grid() { # SEED MODEL WIDTH RATIOS
    seed=$1 ratios=$4 rate=$FP_RATE
    prepare "$2" "$3"
    for planner in $FP_BASELINES; do
        train_once "$planner" "" "" "" "$seed"
        ! has "$FP_PROMOTED" "$planner" || train_once "$planner" "" "" $promote_at "$seed"
    done
    for ratio in $ratios; do
        train_once demote "$ratio" decreasing $promote_at "$seed"
    done
}

narrow() { # SEED MODEL
    seed=$1 rate=$FP_NARROW_RATE
    prepare "$2" "$FP_NARROW"
    train_once fp32 "" "" "" "$seed"
    train_once uniform-fp "" "" "" "$seed"
    train_once uniform-fp "" "" $promote_at "$seed"
    for ratio in $FP_NARROW_RATIOS; do
        train_once demote "$ratio" decreasing $promote_at "$seed"
    done
}

first=${FP_SEEDS%% *}
for seed in $FP_SEEDS; do
    for one in $FP_MODELS; do
        [ "$seed" = "$first" ] || has "$FP_SEED_MODELS" "$one" || continue
        grid "$seed" "$one" "$FP_WIDTH" "$FP_RATIOS"
        if has "$FP_ORDER_MODELS" "$one"; then
            for order in $FP_ORDERS; do
                for ratio in $FP_ORDER_RATIOS; do
                    train_once demote "$ratio" "$order" $promote_at "$seed"
                done
            done
        fi
        [ -z "$FP_WIDE" ] || grid "$seed" "$one" "$FP_WIDE" "$FP_WIDE_RATIOS"
    done
    for one in $FP_NARROW_MODELS; do
        narrow "$seed" "$one"
    done
done
collect
sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
