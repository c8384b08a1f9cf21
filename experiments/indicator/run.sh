#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How well do indicators rank the operators of a model? Spearman's correlation of each with the Monte-Carlo ground truth.
# Writes results.csv and picture.svg beside itself; truths stay under OUT. QSYNC: the program; QSYNC_DATA: folder with fashion-mnist and
# cifar10; SEEDS: runs per operator and recipe; OUT. No figure here depends on time, so two models are measured at once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
: "${QSYNC:=build/release/qsync}" "${SEEDS:=16}" "${OUT:=run/indicator}"
[ -n "${QSYNC_DATA:-}" ] || { [ -d ../shared/data/cifar10 ] && export QSYNC_DATA=../shared/data; } || export QSYNC_DATA=data
export OMP_NUM_THREADS=1
mkdir -p "$OUT"
rm -f "$OUT"/*.json "$OUT"/*.csv "$OUT"/*.rows

# measure MODEL DATASET BATCH SEED WARM-UP...: one profile with Hessian eigenvalues, one truth for each warm-up. SEED: of weights and samples.
measure() {
    model=$1 dataset=$2 batch=$3 seed=$4
    shift 4
    name=$OUT/$(echo "$model" | tr ':=' '--')-$seed
    "$QSYNC" profile --model "$model" --dataset "$dataset" --batch "$batch" --seed "$seed" --repetitions 2 --hessian \
        --out "$name.profile.json" > /dev/null
    for warm_up in "$@"; do
        "$QSYNC" indicator --ground-truth --profile "$name.profile.json" --dataset "$dataset" --seed "$seed" --seeds "$SEEDS" \
            --warm-up "$warm_up" --out "$name-$warm_up.csv" --json > "$name-$warm_up.json"
        jq -r --arg seed "$seed" --arg seeds "$SEEDS" '. as $all | .spearman[] as $one
            | ($one.recipes + {pooled: $one.pooled, steps: $one.steps} | to_entries[]) as $over
            | [$all.model, $all.dataset, $all.batch, $seed, $all.warm_up, $one.indicator, $one.convention // "", $over.key,
               ($over.value * 1000 | round / 1000), $seeds] | map(tostring) | join(",")' "$name-$warm_up.json" > "$name-$warm_up.rows"
    done
}

lane_one() {
    for seed in 1 2 3; do measure lenet5 fashion-mnist 64 $seed 20; done
    for seed in 1 2 3; do measure resnet8 cifar10 64 $seed 20 200; done
    measure resnet20 cifar10 64 1 20
}
lane_two() {
    measure vgg11_bn cifar10 64 1 20
    measure mobilenet_v2:width=0.25 cifar10 32 1 20
}
lane_one & one=$!
lane_two & two=$!
wait $one
wait $two

{
    echo "model,dataset,batch,seed,warm_up,indicator,convention,over,spearman,seeds"
    cat "$OUT"/*.rows
} > "$here/results.csv.new"
mv "$here/results.csv.new" "$here/results.csv"
sh "$here/picture.sh"
