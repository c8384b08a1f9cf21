#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job from end to end: profile two unlike devices, plan, train resnet8 across both with three plans, compare.
# QSYNC: the program; QSYNC_DATA: folder of data sets; DEMO_OUT: where runs go (run/demo); DEMO_EPOCHS (2, of the small generated set 6);
# DEMO_DATASET; DEMO_CLUSTER (examples/cluster.json): two ranks; DEMO_MODEL (resnet8), DEMO_BATCH (128); DEMO_PROFILE: more for profile,
# DEMO_OPTIONS: for train.
set -eu
cd "$(dirname "$0")/.."
: "${QSYNC:=build/release/qsync}" "${DEMO_OUT:=run/demo}" "${DEMO_CLUSTER:=examples/cluster.json}" "${DEMO_MODEL:=resnet8}" "${DEMO_BATCH:=128}"
cluster=$DEMO_CLUSTER
export OMP_NUM_THREADS=1

# Real images where there are some, else the generated set, so that the demo runs anywhere.
find_data() {
    for folder in "${QSYNC_DATA:-}" data ../shared/data; do
        if [ -n "$folder" ] && [ -d "$folder/fashion-mnist" ]; then
            echo "$folder"
            return
        fi
    done
}
data=$(find_data)
if [ -n "${DEMO_DATASET:-}" ]; then
    dataset=$DEMO_DATASET
elif [ -n "$data" ]; then
    dataset=fashion-mnist
else
    dataset=shapes
    echo "demo: no Fashion-MNIST at hand, training on generated images; tools/fetch-data.sh data fetches real ones" >&2
fi
[ -n "$data" ] && export QSYNC_DATA="$data"

[ "$dataset" = shapes ] && : "${DEMO_EPOCHS:=6}"
: "${DEMO_EPOCHS:=2}" "${DEMO_PROFILE:=}" "${DEMO_OPTIONS:=}"

launch() {
    mpirun --bind-to core -n 2 "$QSYNC" "$@"
}
# Machines with one core, and MPICH, take no binding or need oversubscription.
if mpirun --version 2> /dev/null | grep -q 'Open MPI'; then
    [ "$(getconf _NPROCESSORS_ONLN)" -lt 2 ] && launch() { mpirun --oversubscribe -n 2 "$QSYNC" "$@"; }
else
    launch() { mpirun -n 2 "$QSYNC" "$@"; }
fi

mkdir -p "$DEMO_OUT"
job="--model $DEMO_MODEL --dataset $dataset --batch $DEMO_BATCH --epochs $DEMO_EPOCHS --rate 0.2 --no-augmentation"
echo "== two unlike devices, see $cluster"
# shellcheck disable=SC2086
launch profile --cluster $cluster --model "$DEMO_MODEL" --dataset "$dataset" --batch "$DEMO_BATCH" $DEMO_PROFILE --accept-noise \
    --out "$DEMO_OUT/profile.json"
for planner in fp32 uniform qsync; do
    echo
    echo "== plan $planner"
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster $cluster --profile "$DEMO_OUT/profile.json" --planner $planner --out "$DEMO_OUT/$planner.json" $job
    # shellcheck disable=SC2086
    launch train --cluster $cluster --plan "$DEMO_OUT/$planner.json" --out "$DEMO_OUT/$planner" $job $DEMO_OPTIONS
done
echo
echo "== $DEMO_MODEL on $dataset, $DEMO_EPOCHS epochs, 2 ranks, batch $DEMO_BATCH each"
"$QSYNC" report "$DEMO_OUT/fp32" "$DEMO_OUT/uniform" "$DEMO_OUT/qsync"
"$QSYNC" simulate --cluster $cluster --profile "$DEMO_OUT/profile.json" --plan "$DEMO_OUT/qsync.json" --trace "$DEMO_OUT/trace.json" > /dev/null
echo
echo "timeline of the qsync plan: $DEMO_OUT/trace.json (open it in ui.perfetto.dev)"
