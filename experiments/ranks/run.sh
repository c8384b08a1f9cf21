#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Do operators keep their places while training goes on? Omega of every operator in int8/bf16 at each of the first 50 iterations, their ranks,
# and Spearman's correlation of each iteration with the mean over all, by which plans are made.
# Writes results.csv, table.md and picture.svg. A profile that is there is not made again. No figure depends on time.
#
# RANKS_MODELS: MODEL/DATASET/BATCH ...; RANKS_ITERATIONS (50); RANKS_RECIPE (int8/bf16); RANKS_OUT: profiles (run/ranks).
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
. "$experiment/../common.sh"
: "${RANKS_MODELS:=resnet20/cifar10/64 vgg11_bn/cifar10/64}" "${RANKS_ITERATIONS:=50}" "${RANKS_RECIPE:=int8/bf16}" "${RANKS_OUT:=run/ranks}"

entry_set() { # MODEL/DATASET/BATCH
    model=${1%%/*} batch=${1##*/} dataset=${1#*/}
    dataset=${dataset%/*} folder=$RANKS_OUT/$(echo "$1" | tr '/:=' '---')-$RANKS_ITERATIONS
}

for entry in $RANKS_MODELS; do
    entry_set "$entry"
    mkdir -p "$folder"
    cluster "$(class one inference 1 1 100% "$all_formats")" > "$folder/cluster.json"
    profile_once 1 "$folder" "$model" "$dataset" "$batch" --repetitions 4 --conversion-seconds 1 --statistics-iterations "$RANKS_ITERATIONS"
    "$QSYNC" indicator --json --profile "$folder/profile.json" --recipes "fp32,$RANKS_RECIPE" > "$folder/indicator.json"
done
{
    echo "model,dataset,batch,recipe,operator,iteration,omega,rank"
    for entry in $RANKS_MODELS; do
        entry_set "$entry"
        # Rank 1: the most sensitive operator of the iteration.
        jq -r --arg model "$model" --arg dataset "$dataset" --arg batch "$batch" '.trace as $trace | ($trace.omega | keys_unsorted) as $names
            | range($trace.omega[$names[0]] | length) as $i | ([$trace.omega[][$i]] | sort | reverse) as $order
            | $names[] as $name | $trace.omega[$name][$i] as $omega
            | [$model, $dataset, $batch, $trace.recipe, $name, $i + 1, $omega, ($order | index($omega)) + 1] | map(tostring) | join(",")' \
            "$folder/indicator.json"
    done
} | publish results.csv
{
    printf 'Spearman of the ranks in single iterations with those of the mean. Written by run.sh.\n\n'
    echo "| model | operators | mean | lowest | iteration of the lowest | lowest behind iteration 10 |"
    echo "| --- | --- | --- | --- | --- | --- |"
    for entry in $RANKS_MODELS; do
        entry_set "$entry"
        jq -r -L experiments --arg model "$model, $dataset, batch $batch" 'include "csv"; .rank_stability as $all
            | [$model, (.omega | length), ($all | mean | fixed(3)), ($all | min | fixed(3)), ($all | index(min)) + 1, ($all[10:] | min | fixed(3))]
            | map(tostring) | row' "$folder/indicator.json"
    done
} | publish table.md
sh "$experiment/picture.sh"
cat "$EXPERIMENT_RESULTS/table.md"
