# SPDX-License-Identifier: Apache-2.0
# What the scripts of this experiment share: variants and how one is trained. A variant is NAME=NORM/RECIPE; w8 is plain 8 bits, one step for
# each of activations, weights and gradients. Sourced behind common.sh, with OUT set.
# shellcheck shell=sh disable=SC2154
: "${MODEL:=resnet20}" "${EPOCHS:=160}" "${RATE:=0.1}" "${BATCH:=128}" "${LIMIT:=0}" "${SEEDS:=1}" "${FIRST_LAST:=}"
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
        | {schema: "qsync/plan/2", recipes: (if $recipe == "w8" then $own else {} end),
           classes: {single: {operators: ($names | map({key: ., value: (if IN($outer[]) then $ends else $recipe end)}) | from_entries)}}}
        | if .recipes == {} then del(.recipes) else . end'
}

# Leaves in `folder` where the run is, made now or before.
train_one() { # NAME NORM RECIPE SEED OPTIONS...
    folder=$OUT/$1-$4 plan=$OUT/$1.json seed=$4 model=$(model_with "$2")
    [ ! -f "$folder/result.json" ] || return 0
    echo "shiftquant: $1, seed $4" >&2
    rm -rf "$folder"
    plan_for "$model" "$3" > "$plan"
    shift 4
    set -- --model "$model" --dataset cifar10 --batch "$BATCH" --epochs "$EPOCHS" --rate "$RATE" --seed "$seed" --plan "$plan" "$@"
    [ "$LIMIT" -eq 0 ] || set -- "$@" --train-limit "$LIMIT"
    "$QSYNC" train "$@" --out "$folder" > "$folder.log" 2>&1 ||
        { tail -n 1 "$folder.log" >&2; [ -d "$folder" ] && echo '{"failed": true}' > "$folder/result.json"; }
}
