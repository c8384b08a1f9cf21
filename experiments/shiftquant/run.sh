#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training in 4-bit integers, one device: fp32, ShiftQuant with 1 to 6 groups, per-tensor 8 bits, normalisations. Writes results.csv and
# picture.svg beside itself; a run that is finished is not run again (OUT keeps them), so the experiment goes on where it was stopped.
# QSYNC: the program; QSYNC_DATA: folder with cifar10; MODEL, EPOCHS, RATE, BATCH, LIMIT (training samples; 0: all), SEEDS, VARIANTS, OUT,
# FIRST_LAST (recipe of the model's first and last operator; default: that of all others).
# A variant is NAME=NORM/RECIPE; w8 is plain 8 bits, one step for each of activations, weights and gradients.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${MODEL:=resnet20}" "${EPOCHS:=160}" "${RATE:=0.1}" "${BATCH:=128}" "${LIMIT:=0}" "${SEEDS:=1}" "${OUT:=run/shiftquant}" "${FIRST_LAST:=}"
: "${VARIANTS:=fp32=l2bn/fp32 g1=l1bnq/int4:shift1 g2=l1bnq/int4:shift2 g3=l1bnq/int4:shift3 g4=l1bnq/int4:shift4 g5=l1bnq/int4:shift5
    g6=l1bnq/int4:shift6 g4-l2bn=l2bn/int4:shift4 g4-l1bn=l1bn/int4:shift4 g4-l2bnq=l2bnq/int4:shift4 g4-l2bnq-std=l2bnq-std/int4:shift4
    int8=l2bn/w8}"
mkdir -p "$OUT"

model_with() { # NORM
    [ "$1" = l2bn ] && echo "$MODEL" && return
    case $MODEL in *:*) echo "$MODEL,norm=$1" ;; *) echo "$MODEL:norm=$1" ;; esac
}

# w8 is a recipe of the plan's own: what a file can say that no built-in name does.
own_recipes='{"w8": {"forward": {"src": "int8:tensor:stochastic", "weights": "int8:tensor:stochastic"},
    "input_gradient": {"diff_dst": "int8:tensor:stochastic", "weights": "int8:tensor:stochastic"},
    "weight_gradient": {"src": "int8:tensor:stochastic<saved", "diff_dst": "int8:tensor:stochastic"}}}'

plan_for() { # MODEL RECIPE
    "$QSYNC" inspect --json "$1" | jq --arg recipe "$2" --arg ends "${FIRST_LAST:-$2}" --argjson own "$own_recipes" '
        [.nodes[] | select(.class == "adjustable") | .name] as $names | ([$names | first, last]) as $outer
        | {schema: "qsync/plan/1", recipes: (if $recipe == "w8" then $own else {} end),
           classes: {single: {operators: ($names | map({key: ., value: (if IN($outer[]) then $ends else $recipe end)}) | from_entries)}}}
        | if .recipes == {} then del(.recipes) else . end'
}

train_one() { # NAME NORM RECIPE SEED
    folder=$OUT/$1-$4 model=$(model_with "$2")
    [ ! -f "$folder/result.json" ] || return 0
    echo "shiftquant: $1, seed $4" >&2
    rm -rf "$folder"
    plan_for "$model" "$3" > "$OUT/$1.json"
    set -- --model "$model" --dataset cifar10 --batch "$BATCH" --epochs "$EPOCHS" --rate "$RATE" --seed "$4" --plan "$OUT/$1.json"
    [ "$LIMIT" -eq 0 ] || set -- "$@" --train-limit "$LIMIT"
    "$QSYNC" train "$@" --out "$folder" > "$folder.log" 2>&1 ||
        { tail -n 1 "$folder.log" >&2; [ -d "$folder" ] && echo '{"failed": true}' > "$folder/result.json"; }
}

rows() {
    echo "variant,norm,recipe,seed,epoch,training_loss,test_loss,test_accuracy,iteration_us"
    for variant in $VARIANTS; do
        name=${variant%%=*} rest=${variant#*=}
        for seed in $SEEDS; do
            folder=$OUT/$name-$seed
            if [ ! -f "$folder/result.json" ] || [ ! -f "$folder/metrics.jsonl" ]; then continue; fi
            us=$(jq -r '.iteration_us // ""' "$folder/result.json")
            jq -r --arg v "$name" --arg n "${rest%%/*}" --arg r "${rest#*/}" --arg s "$seed" --arg us "$us" 'select(.type == "epoch")
                | [$v, $n, $r, $s, .epoch, .training_loss, .test_loss, .test_accuracy, $us] | map(tostring) | join(",")' "$folder/metrics.jsonl"
        done
    done
}

for seed in $SEEDS; do
    for variant in $VARIANTS; do
        name=${variant%%=*} rest=${variant#*=}
        train_one "$name" "${rest%%/*}" "${rest#*/}" "$seed"
        rows | publish results.csv
    done
done
sh "$experiment/picture.sh"
