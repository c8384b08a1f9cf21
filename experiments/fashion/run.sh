#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fashion-MNIST, resnet8, two unlike ranks, 5 epochs: fp32 everywhere, uniform low precision, and the qsync plan; three seeds each.
# Writes results.csv and picture.svg beside itself. QSYNC: the program; QSYNC_DATA: folder with fashion-mnist; SEEDS, EPOCHS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
: "${QSYNC:=build/release/qsync}" "${EPOCHS:=5}" "${SEEDS:=1 2 3}" "${OUT:=run/fashion}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/fashion-mnist ] && export QSYNC_DATA=../shared/data; } || export QSYNC_DATA=data
export OMP_NUM_THREADS=1
cluster=examples/cluster.json
mkdir -p "$OUT"

job="--model resnet8 --dataset fashion-mnist --batch 128 --epochs $EPOCHS --rate 0.2 --no-augmentation"
# shellcheck disable=SC2086
mpirun -n 2 "$QSYNC" profile --cluster $cluster --model resnet8 --dataset fashion-mnist --batch 128 --out "$OUT/profile.json"
for planner in fp32 uniform qsync; do
    # shellcheck disable=SC2086
    "$QSYNC" plan --cluster $cluster --profile "$OUT/profile.json" --planner $planner --out "$OUT/$planner.json" $job
    for seed in $SEEDS; do
        # shellcheck disable=SC2086
        mpirun -n 2 "$QSYNC" train --cluster $cluster --plan "$OUT/$planner.json" --seed "$seed" --out "$OUT/$planner-$seed" $job
    done
done

{
    echo "plan,seed,epoch,training_loss,test_loss,test_accuracy"
    for planner in fp32 uniform qsync; do
        for seed in $SEEDS; do
            jq -r --arg plan $planner --arg seed "$seed" \
                'select(.type == "epoch") | [$plan, $seed, .epoch, .training_loss, .test_loss, .test_accuracy] | map(tostring) | join(",")' \
                "$OUT/$planner-$seed/metrics.jsonl"
        done
    done
} > "$here/results.csv.new"
mv "$here/results.csv.new" "$here/results.csv"
sh "$here/picture.sh"
