#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two unlike classes on one GPU: the whole of it, and one that is made as weak as a T4 beside it by `speed` and a memory limit
# (examples/cluster-gpu.json). Profiles of both, one after the other; plans fp32, uniform and qsync for the two together; then the rank of each
# class is trained by itself with what the plan gives it. What one process cannot show is the two at once: the all-reduce between them
# stands in the plans at its published pace (profile --estimate), and was not measured. With MPI and two GPUs, or two ranks on one,
# `mpirun -n 2 qsync train` takes the same cluster and plans.
# QSYNC: the program; QSYNC_DATA: folder of data sets; DEMO_OUT (run/demo-gpu), DEMO_CLUSTER (examples/cluster-gpu.json), DEMO_MODEL
# (resnet20), DEMO_BATCH (256), DEMO_EPOCHS (2), DEMO_PLANNERS (fp32 uniform qsync), DEMO_OPTIONS: more for train.
set -eu
cd "$(dirname "$0")/.."
: "${QSYNC:=build/release/qsync}" "${DEMO_OUT:=run/demo-gpu}" "${DEMO_CLUSTER:=examples/cluster-gpu.json}" "${DEMO_MODEL:=resnet20}" \
    "${DEMO_BATCH:=256}" "${DEMO_EPOCHS:=2}" "${DEMO_PLANNERS:=fp32 uniform qsync}" "${DEMO_OPTIONS:=}"
dataset=shapes
for folder in "${QSYNC_DATA:-}" data ../shared/data; do
    [ ! -d "$folder/cifar10" ] || { dataset=cifar10 && export QSYNC_DATA="$folder" && break; }
done
mkdir -p "$DEMO_OUT"
job="--model $DEMO_MODEL --dataset $dataset --batch $DEMO_BATCH"
whole=$DEMO_OUT/profile.json
classes=$(jq -r '.classes | keys_unsorted[]' "$DEMO_CLUSTER")

# A command whose messages are of interest only when it fails.
quietly() {
    "$@" 2> "$DEMO_OUT/log" || { code=$? && cat "$DEMO_OUT/log" >&2 && return $code; }
}

echo "== profiles of $DEMO_MODEL on $dataset, batch $DEMO_BATCH, class by class"
rm -f "$whole"
for class in $classes; do
    # shellcheck disable=SC2086
    quietly "$QSYNC" profile --cluster "$DEMO_CLUSTER" --class "$class" $job --repetitions 4 --conversion-seconds 3 --statistics-iterations 20 \
        --fresh --out "$whole" > "$DEMO_OUT/profile.txt"
done
cat "$DEMO_OUT/profile.txt"

# The link between them, as published: classes stand for any that have published figures, only the all-reduce is taken.
jq '.classes |= map_values(del(.[.backend]) + {backend: "cuda", device: "t4", formats: ["fp32"], storage: ["fp32"]})' "$DEMO_CLUSTER" \
    > "$DEMO_OUT/published.json"
# shellcheck disable=SC2086
quietly "$QSYNC" profile --estimate --cluster "$DEMO_OUT/published.json" $job --out "$DEMO_OUT/estimate.json" > "$DEMO_OUT/estimate.txt"
jq --slurpfile estimate "$DEMO_OUT/estimate.json" '.collectives = $estimate[0].collectives' "$whole" > "$whole.new"
mv "$whole.new" "$whole"

# One class alone: its cluster, its profile, and as pins what a plan says of it.
for class in $classes; do
    jq --arg class "$class" '.classes |= {($class): .[$class]} | .links = []' "$DEMO_CLUSTER" > "$DEMO_OUT/$class.cluster.json"
    jq --arg class "$class" '.classes |= {($class): .[$class]} | .collectives = []' "$whole" > "$DEMO_OUT/$class.profile.json"
done
runs=
for planner in $DEMO_PLANNERS; do
    echo
    echo "== plan $planner for both classes (all-reduce as published)"
    plan=$DEMO_OUT/$planner.json
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster "$DEMO_CLUSTER" --profile "$whole" --planner "$planner" --all-reduce ring --epochs "$DEMO_EPOCHS" --out "$plan" $job || continue
    for class in $classes; do
        name=$planner-$class
        jq --arg class "$class" '{schema, classes: {($class): {operators: (.classes[$class].operators
            | map_values((if type == "object" then . else {recipe: .} end) | {recipe, pin: true}))}}}' "$plan" > "$DEMO_OUT/$name.pins"
        # shellcheck disable=SC2086
        quietly "$QSYNC" plan --cluster "$DEMO_OUT/$class.cluster.json" --profile "$DEMO_OUT/$class.profile.json" --pins "$DEMO_OUT/$name.pins" \
            --epochs "$DEMO_EPOCHS" --out "$DEMO_OUT/$name.json" $job > "$DEMO_OUT/$name.txt"
        rm -rf "${DEMO_OUT:?}/$name"
        # shellcheck disable=SC2086
        quietly "$QSYNC" train --cluster "$DEMO_OUT/$class.cluster.json" --plan "$DEMO_OUT/$name.json" --out "$DEMO_OUT/$name" $DEMO_OPTIONS \
            >> "$DEMO_OUT/$name.txt"
        runs="$runs $DEMO_OUT/$name"
    done
done
echo
echo "== each class's rank by itself, $DEMO_EPOCHS epochs of batch $DEMO_BATCH"
# shellcheck disable=SC2086
"$QSYNC" report $runs > "$DEMO_OUT/report.txt"
head -n $((2 * $(echo "$runs" | wc -w) + 4)) "$DEMO_OUT/report.txt" # the tables; phases are in the file
# shellcheck disable=SC2086
"$QSYNC" report --json $runs > "$DEMO_OUT/report.json"
