#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What an operator costs in each precision: its kernels, forward and backward (cpt), conversions in the forward pass (cvt) and further ones in
# the backward pass (bp). From a profile, in two ways: the operator alone in that precision and all others in fp32 (alone), and all operators
# in it (uniform), where neighbours share formats and casts.
# Writes results.csv and picture.svg. A profile that is there is not made again.
#
# COMPOSITION_MODELS: MODEL/DATASET/BATCH ...; COMPOSITION_RECIPES; COMPOSITION_OUT: profiles (run/composition);
# COMPOSITION_PROFILE_OPTIONS: more for profile.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${COMPOSITION_MODELS:=vgg11_bn/cifar10/64 mlp/fashion-mnist/64}" "${COMPOSITION_RECIPES:=fp32 bf16 int8/bf16}" "${COMPOSITION_OUT:=run/composition}" \
    "${COMPOSITION_PROFILE_OPTIONS:=}"

# priced RECIPE-OF-A-NAME (jq): the predicted timeline of a step, as a list of kernels {operator, cast, phase, us}.
priced() {
    hand_plan "$folder/cluster.json" "$model" "$dataset" "$batch" "$1" > "$folder/hand.json"
    must "$folder/log" "$QSYNC" simulate --cluster "$folder/cluster.json" --profile "$folder/profile.json" --plan "$folder/hand.json" \
        --trace "$folder/trace.json"
    jq '[.traceEvents[] | select(.ph == "X" and .args.operator) | {operator: .args.operator, cast: (.tid == 2), phase: .args.phase, us: .dur}]' \
        "$folder/trace.json" > "$folder/kernels.json"
}

# row CONTEXT OPERATOR RECIPE: with the operator alone in its recipe every conversion of the step is its doing, in the uniform plan its own are.
# neighbours_us: what kernels of others take more than with fp32 everywhere.
row() {
    jq -nr --arg model "$model" --arg dataset "$dataset" --arg batch "$batch" --arg context "$1" --arg operator "$2" --arg recipe "$3" \
        --slurpfile now "$folder/kernels.json" --slurpfile before "$folder/fp32.json" '
        def sum(f): map(select(f).us) | add // 0;
        def mine: $context == "alone" or .operator == $operator;
        def others: sum(.cast == false and .operator != $operator);
        $now[0] | [$model, $dataset, $batch, $context, $operator, $recipe, sum(.cast and .phase == "forward" and mine),
            sum(.cast == false and .operator == $operator), sum(.cast and .phase == "backward" and mine),
            (if $context == "alone" then others - ($before[0] | others) else "" end)]
        | map(if type == "number" then . * 1000 | round / 1000 else . end | tostring) | join(",")'
}

rows() {
    priced '"fp32"'
    cp "$folder/kernels.json" "$folder/fp32.json"
    operators=$(jq -r '.classes.one.operators | keys_unsorted[]' "$folder/hand.json")
    for recipe in $COMPOSITION_RECIPES; do
        for operator in $operators; do
            priced "if . == \"$operator\" then \"$recipe\" else \"fp32\" end"
            row alone "$operator" "$recipe"
        done
        priced "\"$recipe\""
        for operator in $operators; do
            row uniform "$operator" "$recipe"
        done
    done
}

mkdir -p "$COMPOSITION_OUT"
{
    echo "model,dataset,batch,context,operator,recipe,cvt_us,cpt_us,bp_us,neighbours_us"
    for entry in $COMPOSITION_MODELS; do
        model=${entry%%/*} batch=${entry##*/} dataset=${entry#*/}
        dataset=${dataset%/*} folder=$COMPOSITION_OUT/$(echo "$entry" | tr '/:=' '---')
        mkdir -p "$folder"
        cluster "$(class one inference 1 1 100% "$all_formats")" > "$folder/cluster.json"
        # shellcheck disable=SC2086
        profile_once 1 "$folder" "$model" "$dataset" "$batch" --statistics-iterations 2 $COMPOSITION_PROFILE_OPTIONS
        rows
    done
} > "$COMPOSITION_OUT/rows.csv"
publish results.csv < "$COMPOSITION_OUT/rows.csv"
sh "$experiment/picture.sh"
